"""The headline: the order of the algorithms, and the verdict on the best one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from rayfed.core.columns import Column
from rayfed.core.errors import many
from rayfed.report.panels.phrases import MOST_NAMED, goal, joined, listed, named, quoted
from rayfed.report.pivot import SIGNIFICANCE, Ranks, standings
from rayfed.report.ranking import COSTS, Ranking, unfinished
from rayfed.report.read import units
from rayfed.report.read.curves import history, leaders, points, stopped_at
from rayfed.report.read.results import Results
from rayfed.report.read.settings import planned
from rayfed.report.tables import mean_text, mean_texts
from rayfed.report.verdicts import Comparison, Verdict

_FEW = 4  # cases up to which values are shown


def headline(results: Results, frame: pd.DataFrame, clock: str | None = None) -> str:
    """Return the costs of the algorithms to the target on a clock, and the verdict on them.

    Where clients have models of their own, these are their final values; where a study has cases,
    the verdicts on final values by case. Where many settings were swept, the best setting of each
    algorithm counts.

    Parameters
    ----------
    results : Results
        A result folder.
    frame : DataFrame
        Its `tables.summary`.
    clock : str, optional
        One of the clocks of `ranking.COSTS`: rounds if None, or simulated time where an algorithm
        is asynchronous.
    """
    target, column = float(frame["target"].iloc[0]), str(frame["target_column"].iloc[0])
    if len(results.failed) == len(results.names):
        return f"All runs failed{_progress(results)}."
    if results.cases:
        return f"{by_case(results, column)}{_progress(results)}."
    leading = set(leaders(results, column)) & set(results.rivals)
    rivals = frame[frame["name"].isin(leading or results.rivals)]
    if column.startswith("personal_") and _final_values(rivals, results.column(column)):
        return f"{_personal(results, frame, rivals, column)}{_progress(results)}."
    if not math.isfinite(target):
        return f"{_without_target(rivals, results.column(column))}{_progress(results)}."
    aim = goal(results.column(column), target)
    cost = _CLOCKS[clock or ("time_s" if results.asynchronous else "round")]
    reached = rivals.dropna(subset=cost).sort_values(cost, kind="stable")
    others = rivals[rivals[cost].isna()]
    running = [name for name in others["name"] if unfinished(results, name)]
    texts = [f"No algorithm has reached {aim} yet"]
    if len(running) < len(others):
        texts = [f"No algorithm reached {aim}{_not_every_seed(others)}"]
    if len(reached):
        found = Ranking.of_costs(results, rivals)[cost].verdict
        lost = reached.loc[reached["rounds_to_keep"].isna(), "name"]
        texts = [_reached(reached, aim, cost)]
        texts += [] if found is None else [verdict_text(found)]
        texts += [f"{named(lost)} did not keep it"] if len(lost) else []
    ended = others[~others["name"].isin(running)]
    texts += _of_ended(results, ended, column, bool(len(reached)))
    texts += [f"{named(running)} still runs"] if running and len(reached) else []
    return f"{'; '.join(texts)}{_progress(results)}."


_CLOCKS = {clock: cost for cost, clock in COSTS.items()}
_AMOUNTS: Mapping[str, tuple[str, Callable[[float], str], str]] = {
    "rounds_to_target": ("in", units.count, " rounds"),
    "time_to_target_s": ("after", units.duration, " of simulated time"),
    "bytes_to_target": ("after", units.size, ""),
    "bytes_up_to_target": ("after", units.size, " of uploads"),
    "updates_to_target": ("after", units.count, " client updates"),
    "energy_to_target_j": ("after", units.energy, ""),
}
"""Of each cost the word before it, its text, and its unit."""


def of_target(results: Results, frame: pd.DataFrame) -> str:
    """Return the number of runs that reach the target of a `tables.summary`.

    Empty if there is none, or the study has cases, each with a target of its own.
    """
    column, target = str(frame["target_column"].iloc[0]), float(frame["target"].iloc[0])
    if results.cases or not math.isfinite(target):
        return ""
    rivals = frame[frame["name"].isin(set(leaders(results, column)) & set(results.rivals))]
    of = f"{rivals['reached'].sum()} of {many(int(rivals['counted'].sum()), 'run')}"
    stops = ", where runs stop" if stopped_at(results, column) == target else ""
    return f"Target: {goal(results.column(column), target)}{stops}, reached by {of}."


def _reached(reached: pd.DataFrame, aim: str, cost: str) -> str:
    """Return the cost of each algorithm, the lowest first; equal first places are joined."""
    word, text, unit = _AMOUNTS[cost]
    amounts = [f"{word} {text(float(value))}" for value in reached[cost]]
    tied = int((reached[cost] == reached[cost].iloc[0]).sum())
    unit = unit.removesuffix("s") if amounts[0].endswith(" 1") else unit
    first = f"{named(reached['name'][:tied])} reached {aim} {amounts[0]}{unit}"
    rest = zip(reached["name"][tied:MOST_NAMED], amounts[tied:], strict=False)
    parts = [f"{quoted(name)} {amount}" for name, amount in rest]
    more = len(reached) - tied - len(parts)
    each = " each" if tied > 1 else ""
    return ", ".join([first + each, *parts, *([f"{more} more later"] if more else [])])


def verdict_text(found: Verdict) -> str:
    """Return a verdict in a few words."""
    seeds = min(c.seeds for c in found.comparisons)
    if seeds < 2:
        return f"undecided with {'one seed' if seeds else 'no seed in common'}"
    over = f"over {many(seeds, 'seed')}"
    words = {word: [c for c in found.comparisons if c.word == word] for word in _WORDS}
    words = {word: those for word, those in words.items() if those}
    if len(words) == 1:
        ((word, those),) = words.items()
        all_of = " than all others" if word == "better" and len(those) > 1 else ""
        return f"{word}{all_of} {over}{_needed(those)}"
    parts = [
        f"{word} {_WORDS[word]} {named(c.other for c in those)}{_needed(those)}"
        for word, those in words.items()
    ]
    return f"{over} {listed(parts)}"


_WORDS = {
    "better": "than",
    "better with every seed": "than",
    "undecided": "against",
    "equivalent": "to",
}
"""The words of verdicts, with the preposition of the other algorithm."""


def _needed(compared: Sequence[Comparison]) -> str:
    """Return the number of seeds that would separate the closest pair; empty if unknown."""
    needed = [one.needed for one in compared]
    known = [count for count in needed if count is not None]
    if not known or len(known) < len(needed):
        return ""
    return f" (about {many(max(known), 'seed')} would separate them)"


def _of_ended(results: Results, ended: pd.DataFrame, column: str, reached: bool) -> list[str]:
    """Return clauses on algorithms that ended without reaching the target.

    Only those that ended worse than they began are named if no algorithm reached it.
    """
    worse = [name for name in ended["name"] if _change(results, name, column) < 0]
    never = ended[~ended["name"].isin(worse)]
    texts = []
    if reached and len(never):
        texts.append(f"{named(never['name'])} did not reach it{_not_every_seed(never)}")
    if worse:
        they = "it" if len(worse) == 1 else "they"
        texts.append(f"{named(worse)} ended worse than {they} began")
    return texts


def _change(results: Results, name: str, column: str) -> float:
    """Return the improvement of runs from their first to their last value, added up."""
    values = [points(history(run), "round", column)[1] for run in results.usable(name)]
    change = sum(float(known[-1] - known[0]) for known in values if len(known))
    return change if results.column(column).better == "higher" else -change


def _personal(results: Results, frame: pd.DataFrame, rivals: pd.DataFrame, name: str) -> str:
    """Return the final values of clients' own models, of a baseline and of a global model."""
    column, shared = results.column(name), results.column(name.removeprefix("personal_"))
    ends = [f"{value} with {name}" for name, value in _final_values(rivals, column)]
    text = f"Clients' own models end at {column.title} {joined(ends)}"
    for name, value in _final_values(frame[frame["baseline"]], column)[:1]:
        text += f", the baseline {name} at {value}"
    for name, value in _final_values(rivals, shared)[:1]:
        text += f"; the best global model, {name}'s, has {shared.title} {value}"
    return text


def _final_values(rows: pd.DataFrame, column: Column) -> list[tuple[str, str]]:
    """Return the names with a last value, the best first."""
    mean = f"{column.name}_mean"
    if mean not in rows:
        return []
    known = rows.dropna(subset=[mean])
    known = known.sort_values(mean, ascending=column.better != "higher", kind="stable")
    return [*zip(map(quoted, known["name"]), mean_texts(known, column.name), strict=True)]


def _not_every_seed(missing: pd.DataFrame) -> str:
    """Return a limit to "reached" if some seeds reached the target."""
    return " with every seed" if (missing["reached"] > 0).any() else ""


def _without_target(rivals: pd.DataFrame, column: Column) -> str:
    """Return how the best algorithm ended, by the loss if one end of the column is no better."""
    judged = column.better is not None and f"{column.name}_mean" in rivals
    name, title = (column.name, column.title) if judged else ("loss", "loss")
    mean = f"{name}_mean"
    known = rivals[rivals[mean].notna()] if mean in rivals else rivals.iloc[:0]
    if not len(known):
        return f"No {title} is recorded yet"
    if not (rivals["rounds"] > 0).any():
        return "No round is recorded yet"
    best = known.sort_values(mean, ascending=not judged or column.better != "higher").iloc[:1]
    (first,), (end,) = best["name"], mean_texts(best, name)
    text = f"{quoted(first)} ended at {title} {end}"
    return f"{text}; no algorithm did better than at its start" if judged else text


def _progress(results: Results) -> str:
    ended = sum(run.status != "running" for run in results.runs_found)
    total = max(planned(results.scenario), len(results.runs_found))
    return f" (so far: {ended} of {many(total, 'run')} ended)" if ended < total else ""


def by_case(results: Results, column: str) -> str:
    """Return the verdict on the last values in each case, equal verdicts together.

    Parameters
    ----------
    results : Results
        A result folder with `Results.cases`.
    column : str
        A column of the rounds.
    """
    title, found = results.column(column).title, standings(results, column)
    if results.column(column).better is None or not found:
        return f"The final {title} of each algorithm, by case"
    few = len(found) <= _FEW
    groups: dict[tuple[int, str], list[str]] = {}
    for case, one in found.items():
        groups.setdefault(_outcome(one, few), []).append(case)
    texts = []
    for (kind, text), cases in sorted(groups.items(), key=lambda of: (of[0][0], -len(of[1]))):
        where = at(cases) if len(cases) <= MOST_NAMED else f"in {len(cases)} of {len(found)} cases"
        if kind < _UNDECIDED and few:
            where = listed([f"{at([case])} ({_margin(found[case])})" for case in cases])
        verdicts = [v for case in cases if (v := found[case].verdict) is not None]
        open_ = [c for v in verdicts for c in v.comparisons if c.word == "undecided"]
        texts.append(f"{text} {where}{_needed(open_) if kind == _UNDECIDED else ''}")
    return f"Final {title}: {'; '.join(texts)}"


_UNDECIDED = 2


def _outcome(ranking: Ranking, few: bool) -> tuple[int, str]:
    """Return the place of a verdict on a case in the sentence, and its words.

    Undecided algorithms are named where there are few cases.
    """
    found = ranking.verdict
    if found is None:
        return 4, "nothing to compare"
    best, level = quoted(found.best), found.level
    if len(level) == 1:
        return (0, f"{best} is best") if found.clear else (1, f"{best} is ahead with every seed")
    if min(c.seeds for c in found.comparisons) < 2:
        return 3, "undecided with one seed"
    words = {one.word for one in found.comparisons if one.other in level}
    if words == {"equivalent"}:
        return 3, f"{named(level) if few else 'the best'} are equivalent"
    return _UNDECIDED, f"undecided between {named(level)}" if few else "undecided"


def _margin(ranking: Ranking) -> str:
    """Return the best value and the next one, with its algorithm."""
    first, second = ranking.ranking[:2]
    ends = [ranking.ends[name] for name in (first, second)]
    texts = [mean_text(end.mean, end.sd) for end in ends]
    if texts[0] == texts[1]:
        texts = units.telling([end.mean for end in ends], least=3)
    return f"{texts[0]}, {quoted(second)} {texts[1]}"


def at(cases: Sequence[str]) -> str:
    """Return cases as a sentence names them: numbers, or names.

    Examples
    --------
    >>> at(["alpha = 1", "alpha = 10"]), at(["skewed"])
    ('at alpha = 1 and 10', 'in skewed')
    """
    keys = {case.partition(" = ")[0] for case in cases}
    if len(keys) == 1 and all(case.count(" = ") == 1 for case in cases):
        return f"at {keys.pop()} = {listed([case.partition(' = ')[2] for case in cases])}"
    return f"in {listed([quoted(case) for case in cases])}"


def of_ranks(ranks: Ranks) -> str:
    """Return the algorithm with the best mean rank, and the significantly worse ones."""
    best, *others = ranks.means
    least = ranks.means[best]
    text = f"Over {ranks.cases} cases {quoted(best)} has the best mean rank, {units.number(least)}"
    if ranks.p >= SIGNIFICANCE:
        return f"{text}, but chance alone may make such ranks (Friedman's test, p = {ranks.p:.2g})"
    worse = [name for name in others if ranks.means[name] - least >= ranks.critical]
    if not worse:
        return f"{text}, but no algorithm is worse beyond the critical difference"
    verb = "is" if len(worse) == 1 else "are"
    return f"{text}; {named(worse)} {verb} worse by more than the critical difference"
