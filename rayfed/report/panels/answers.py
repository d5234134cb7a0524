"""The answer in a sentence: which algorithm won, by how much, on which clock, or in which case."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import pandas as pd

from rayfed.core.columns import Column
from rayfed.core.errors import many
from rayfed.report.panels.phrases import MOST_NAMED, goal, joined, listed, quoted
from rayfed.report.pivot import SIGNIFICANCE, Ranks, standings
from rayfed.report.ranking import COSTS, Ranking
from rayfed.report.read import units
from rayfed.report.read.curves import leaders, points, stopped_at
from rayfed.report.read.results import Results
from rayfed.report.read.settings import planned
from rayfed.report.verdicts import Comparison, Verdict

_MOST_TOLD = 4  # cases beyond which they are counted


def headline(results: Results, frame: pd.DataFrame, clock: str | None = None) -> str:
    """Return which algorithm reached the target first on a clock, and whether it is better.

    Where clients have models of their own, it is their final quality; where a study has cases, the
    best final values by case. Where many settings were swept, the best setting of each algorithm
    counts.

    Parameters
    ----------
    results : Results
        A result folder.
    frame : DataFrame
        Its `tables.summary`.
    clock : str, optional
        One of the clocks of `tables.COSTS`: rounds if None, or simulated time where an algorithm
        is asynchronous.
    """
    target, column = float(frame["target"].iloc[0]), str(frame["target_column"].iloc[0])
    if results.cases:
        return f"{by_case(results, column)}{_progress(results)}."
    leading = set(leaders(results, column)) & set(results.rivals)
    rivals = frame[frame["name"].isin(leading or results.rivals)]
    if column.startswith("personal_") and _final_values(rivals, results.column(column)):
        return f"{_personal(results, frame, rivals, column)}{_progress(results)}."
    if not math.isfinite(target):
        return f"{_without_target(rivals)}{_progress(results)}."
    aim = goal(results.column(column), target)
    cost = _CLOCKS[clock or ("time_s" if results.asynchronous else "round")]
    reached = rivals[rivals[cost].notna()].sort_values(cost, kind="stable")
    others = rivals[rivals[cost].isna()]
    if not len(reached):
        return f"{_nobody(results, others, aim, column)}{_progress(results)}."
    texts = [_reached(reached, aim, cost), *_compared(results, rivals, cost)]
    texts += _lost(reached) + _of_others(results, others, column)
    return f"{'; '.join(texts)}{_progress(results)}."


_CLOCKS = {clock: cost for cost, clock in COSTS.items()}


def of_target(results: Results, frame: pd.DataFrame) -> str:
    """Return how many runs reach the target of a `tables.summary`; empty if there is none.

    Where a study has cases, it has a target for each of them.
    """
    column, target = str(frame["target_column"].iloc[0]), float(frame["target"].iloc[0])
    if results.cases or not math.isfinite(target):
        return ""
    rivals = frame[frame["name"].isin(set(leaders(results, column)) & set(results.rivals))]
    of = f"{rivals['reached'].sum()} of {many(int(rivals['counted'].sum()), 'run')}"
    stops = ", where runs stop" if stopped_at(results, column) == target else ""
    return f"Target: {goal(results.column(column), target)}{stops}, reached by {of}."


def _amount(cost: str, value: float) -> tuple[str, str]:
    """Return a cost for a sentence, and its unit."""
    if cost == "rounds_to_target":
        return f"in {units.count(value)}", f" round{'' if value == 1 else 's'}"
    if cost == "time_to_target_s":
        return f"after {units.duration(value)}", " of simulated time"
    if cost == "updates_to_target":
        return f"after {units.count(value)}", " client updates"
    uploads = " of uploads" if cost == "bytes_up_to_target" else ""
    return f"after {units.size(value)}", uploads


def _reached(reached: pd.DataFrame, aim: str, cost: str) -> str:
    """Return what each algorithm took to the target; those that share the first place together."""
    least = float(reached[cost].iloc[0])
    tied = reached[reached[cost] == least]
    names = joined([quoted(name) for name in tied["name"]])
    text = f"{names} reached {aim} {''.join(_amount(cost, least))}"
    text += " each" if len(tied) > 1 else ""
    rest = reached.iloc[len(tied) : MOST_NAMED]
    parts = [f"{quoted(row['name'])} {_amount(cost, float(row[cost]))[0]}"
             for _, row in rest.iterrows()]  # fmt: skip
    more = len(reached) - len(tied) - len(rest)
    return ", ".join([text, *parts, *([f"{more} more later"] if more > 0 else [])])


def _compared(results: Results, rivals: pd.DataFrame, cost: str) -> list[str]:
    """Return the verdict on what algorithms took to the target; nothing where one is alone."""
    found = Ranking.of_costs(results, rivals)[cost].verdict
    return [] if found is None else [said(found)]


def said(found: Verdict) -> str:
    """Return a verdict on the best algorithm of some in a few words."""
    seeds = min(c.seeds for c in found.comparisons)
    if seeds < 2:
        return "undecided with one seed"
    over = f"over {many(seeds, 'seed')}"
    words = {word: [c for c in found.comparisons if c.word == word] for word in _WORDS}
    words = {word: those for word, those in words.items() if those}
    if len(words) == 1:
        ((word, those),) = words.items()
        all_of = " than all others" if word == "better" and len(those) > 1 else ""
        return f"{word}{all_of} {over}{_needed(those)}"
    parts = [
        f"{word} {_WORDS[word]} {joined([quoted(c.other) for c in those])}{_needed(those)}"
        for word, those in words.items()
    ]
    return f"{over} {listed(parts)}"


_WORDS = {
    "better": "than",
    "better with every seed": "than",
    "undecided": "against",
    "equivalent": "to",
}
"""The verdicts, and the preposition of the other algorithm."""


def _needed(compared: Sequence[Comparison]) -> str:
    """Return about how many seeds would separate the closest pair; empty if none would."""
    needed = [one.needed for one in compared]
    known = [count for count in needed if count is not None]
    if not known or len(known) < len(needed):
        return ""
    return f" (about {many(max(known), 'seed')} would separate them)"


def _lost(reached: pd.DataFrame) -> list[str]:
    """Return which algorithms reached the target and lost it again until the end."""
    names = [quoted(name) for name in reached.loc[reached["rounds_to_keep"].isna(), "name"]]
    return [f"{joined(names)} did not keep it"] if names else []


def _nobody(results: Results, others: pd.DataFrame, aim: str, column: str) -> str:
    """Return that no algorithm reached the target with every seed."""
    if len(_running(results, others)) == len(others):
        return f"No algorithm has reached {aim} yet"
    return "; ".join([f"No algorithm reached {aim}{_not_every_seed(others)}",
                      *_worse(results, others["name"], column)])  # fmt: skip


def _of_others(results: Results, others: pd.DataFrame, column: str) -> list[str]:
    """Return a clause for each kind of algorithm that did not reach the target."""
    still = _running(results, others)
    ended = others[~others["name"].isin(still)]
    worse = _ended_worse(results, ended["name"], column)
    never = ended[~ended["name"].isin(worse)]
    texts = []
    if len(never):
        names = joined([quoted(name) for name in never["name"]])
        texts.append(f"{names} did not reach it{_not_every_seed(never)}")
    texts += _worse(results, ended["name"], column)
    return texts + ([f"{joined([quoted(name) for name in still])} still runs"] if still else [])


def _running(results: Results, rows: pd.DataFrame) -> list[str]:
    """Return the algorithms of which a run goes on: what they have not reached, they may yet."""
    states = {name: [run.status for run in results.of(name)] for name in rows["name"]}
    return [name for name, found in states.items() if "running" in found]


def _ended_worse(results: Results, names: Iterable[str], column: str) -> list[str]:
    """Return the algorithms whose last value is worse than their first, means over seeds."""
    sign = -1.0 if results.column(column).better == "higher" else 1.0
    found = []
    for name in names:
        values = [points(run.rounds, "round", column)[1] for run in results.usable(name)]
        steps = [sign * float(known[-1] - known[0]) for known in values if len(known)]
        if sum(steps) > 0:
            found.append(name)
    return found


def _worse(results: Results, names: Iterable[str], column: str) -> list[str]:
    """Return a clause on algorithms that ended worse than they began, if there are any."""
    found = [quoted(name) for name in _ended_worse(results, names, column)]
    if not found:
        return []
    return [f"{joined(found)} ended worse than {'it' if len(found) == 1 else 'they'} began"]


def _personal(results: Results, frame: pd.DataFrame, rivals: pd.DataFrame, name: str) -> str:
    """Return how good clients' own models are in the end, beside a baseline's and a shared one."""
    column, shared = results.column(name), results.column(name.removeprefix("personal_"))
    ends = [f"{value} with {name}" for name, value in _final_values(rivals, column)[:MOST_NAMED]]
    text = f"Clients' own models end at {column.title} {joined(ends)}"
    for name, value in _final_values(frame[frame["baseline"]], column)[:1]:
        text += f", the baseline {name} at {value}"
    for name, value in _final_values(rivals, shared)[:1]:
        text += f"; of models for everybody the best, {name}'s, has {shared.title} {value}"
    return text


def _final_values(rows: pd.DataFrame, column: Column) -> list[tuple[str, str]]:
    """Return names with their last values, the best first; without those that have none."""
    mean = f"{column.name}_mean"
    if mean not in rows:
        return []
    known = rows.dropna(subset=[mean])
    known = known.sort_values(mean, ascending=column.better != "higher", kind="stable")
    ends = zip(known["name"], known[mean], strict=True)
    return [(quoted(name), units.number(float(value))) for name, value in ends]


def _not_every_seed(missing: pd.DataFrame) -> str:
    """Return that only some seeds reached the target, if that is so."""
    return " with every seed" if (missing["reached"] > 0).any() else ""


def _without_target(rivals: pd.DataFrame) -> str:
    known = rivals[rivals["loss_mean"].notna()] if "loss_mean" in rivals else rivals.iloc[:0]
    if not len(known):
        return "No loss is recorded yet"
    if not (rivals["rounds"] > 0).any():
        return "No round is recorded yet"
    best = known.sort_values("loss_mean").iloc[0]
    end = units.number(float(best["loss_mean"]))
    return f"{quoted(best['name'])} ended at loss {end}; no algorithm did better than at its start"


def _progress(results: Results) -> str:
    ended = sum(run.status != "running" for run in results.runs_found)
    total = max(planned(results.scenario), len(results.runs_found))
    return f" (so far: {ended} of {many(total, 'run')} ended)" if ended < total else ""


def by_case(results: Results, column: str) -> str:
    """Return which algorithm ends best in which case, and where that is undecided.

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
    kinds: dict[str, dict[tuple[str, ...], list[str]]] = {kind: {} for kind in _KINDS}
    for case, one in found.items():
        kind, names = _kind(one)
        kinds[kind].setdefault(names, []).append(case)
    text = (_each if len(found) <= _MOST_TOLD else _counted)(title, found, kinds)
    seeds = max(len(results.usable(name)) for name in results.names)
    return text if seeds > 1 else f"{text}; undecided with one seed"


_KINDS = {"best": "ends best", "every seed": "is ahead with every seed",
          "undecided": "undecided between", "equivalent": "equivalent"}  # fmt: skip
_Kinds: TypeAlias = Mapping[str, Mapping[tuple[str, ...], list[str]]]


def _kind(standing: Ranking) -> tuple[str, tuple[str, ...]]:
    """Return how a case ended, one of `_KINDS`, and the algorithms that share the first place."""
    found = standing.verdict
    if found is None:
        return "undecided", standing.ranking
    if found.clear:
        return "best", (found.best,)
    level = found.level
    if len(level) == 1:
        return "every seed", level
    words = {one.word for one in found.comparisons if one.other in level}
    return "equivalent" if words == {"equivalent"} else "undecided", level


def _each(title: str, found: Mapping[str, Ranking], kinds: _Kinds) -> str:
    """Return the algorithm that is ahead in each case, and the margin."""
    texts: list[str] = []
    head = f"{title} "
    for kind in ("best", "every seed"):
        parts: list[str] = []
        for (name,), cases in kinds[kind].items():
            where = []
            for case in cases:
                where.append(f"{at([case])} ({head}{_margin(found[case])})")
                head = ""
            verb = quoted(name) if parts else f"{quoted(name)} {_KINDS[kind]}"
            parts.append(f"{verb} {listed(where)}")
        texts += [", ".join(parts)] if parts else []
    for names, cases in kinds["undecided"].items():
        several = [one for case in cases if (one := found[case].verdict) is not None]
        needed = _needed([c for one in several for c in one.comparisons if c.word == "undecided"])
        texts.append(f"{at(cases)} {_between(names)}{needed}")
    for names, cases in kinds["equivalent"].items():
        texts.append(f"{at(cases)} {listed([quoted(name) for name in names])} are equivalent")
    text = "; ".join(texts)
    return text if kinds["best"] or kinds["every seed"] else f"By the final {title} {text}"


def _between(names: tuple[str, ...]) -> str:
    if len(names) < 2:
        return "nothing is to be compared"
    return f"it is undecided between {joined([quoted(name) for name in names])}"


def _margin(standing: Ranking) -> str:
    """Return the best value and the next one, with its algorithm."""
    first, second = standing.ranking[:2]
    ends = units.telling([standing.ends[name].mean for name in (first, second)], least=3)
    return f"{ends[0]}, {quoted(second)} {ends[1]}"


def _counted(title: str, found: Mapping[str, Ranking], kinds: _Kinds) -> str:
    """Return in how many cases each algorithm is ahead."""
    texts: list[str] = []
    for kind in ("best", "every seed"):
        won = {names[0]: cases for names, cases in kinds[kind].items()}
        parts: list[str] = []
        for name in sorted(won, key=lambda name: -len(won[name]))[:MOST_NAMED]:
            head = quoted(name) if parts else f"{quoted(name)} {_KINDS[kind]} by {title}"
            of = "" if texts or parts else f" of {len(found)} cases"
            named = f" ({'; '.join(won[name])})" if len(won[name]) <= MOST_NAMED else ""
            parts.append(f"{head} in {len(won[name])}{of}{named}")
        texts += [", ".join(parts)] if parts else []
    for kind in ("undecided", "equivalent"):
        count = sum(map(len, kinds[kind].values()))
        if count:
            texts.append(f"{kind} in {count}{'' if texts else f' of {len(found)} cases'}")
    return "; ".join(texts)


def at(cases: Sequence[str]) -> str:
    """Return where something is so: at numbers, or in cases with names.

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
    """Return the algorithm with the best mean rank, and those that are significantly worse."""
    best, *others = ranks.means
    least = ranks.means[best]
    text = f"Over {ranks.cases} cases {quoted(best)} has the best mean rank, {units.number(least)}"
    if ranks.p >= SIGNIFICANCE:
        return f"{text}, but chance alone may make such ranks (Friedman's test, p = {ranks.p:.2g})"
    worse = [name for name in others if ranks.means[name] - least >= ranks.critical]
    if not worse:
        return f"{text}, but no algorithm is worse beyond the critical difference"
    told = joined([quoted(name) for name in worse])
    verb = "is" if len(worse) == 1 else "are"
    return f"{text}; {told} {verb} worse by more than the critical difference"
