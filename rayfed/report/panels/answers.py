"""The answer in a sentence: which algorithm won, by how much, on which clock, or in which case."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from rayfed.core.columns import Column
from rayfed.core.errors import many
from rayfed.report.panels.phrases import ALIKE, MOST_NAMED, goal, joined, listed, quoted
from rayfed.report.pivot import SIGNIFICANCE, Ranks, Standing, standings
from rayfed.report.read import units
from rayfed.report.read.curves import leaders, points
from rayfed.report.read.results import Results
from rayfed.report.read.settings import planned

_MOST_TOLD = 4  # cases beyond which they are counted


def headline(results: Results, frame: pd.DataFrame) -> str:
    """Return who reached the target first and kept it, in rounds and in simulated time.

    Where clients have models of their own, it is how good these are in the end; where a study has
    cases, who ends best in which. Where many settings were swept, it is told of the best of each
    algorithm.

    Parameters
    ----------
    results : Results
        A result folder.
    frame : DataFrame
        Its `tables.summary`.
    """
    target, column = float(frame["target"].iloc[0]), str(frame["target_column"].iloc[0])
    if results.cases:
        return f"{verdict(results, column)}{_progress(results)}."
    leading = set(leaders(results, column)) & set(results.rivals)
    rivals = frame[frame["name"].isin(leading or results.rivals)]
    if column.startswith("personal_") and _final_values(rivals, results.column(column)):
        return f"{_personal(results, frame, rivals, column)}{_progress(results)}."
    if not math.isfinite(target):
        return f"{_without_target(rivals)}{_progress(results)}."
    aim = goal(results.column(column), target)
    order = rivals.sort_values(["rounds_to_keep", "time_to_keep_s"], kind="stable")
    kept = order[order["rounds_to_keep"].notna()]
    others = order[order["rounds_to_keep"].isna()]
    if not len(kept):
        return f"{_nobody(results, others, aim, column)}{_progress(results)}."
    shown = _after_time(kept, aim) if results.asynchronous else _in_rounds(kept, aim)
    texts = [shown, *_of_others(results, others, column)]
    texts += _in_time(results, kept)
    return f"{'; '.join(texts)}{_progress(results)}."


def _nobody(results: Results, others: pd.DataFrame, aim: str, column: str) -> str:
    """Return that no algorithm kept the target, and what became of those that reached it."""
    if (others["rounds_to_target"].notna()).any():
        return "; ".join([f"No algorithm kept {aim}", *_of_others(results, others, column)])
    if len(_running(results, others)) == len(others):
        return f"No algorithm has reached {aim} yet"
    return "; ".join([f"No algorithm reached {aim}{_not_every_seed(others)}",
                      *_worse(results, others["name"], column)])  # fmt: skip


def _of_others(results: Results, others: pd.DataFrame, column: str) -> list[str]:
    """Return what became of algorithms that have not kept the target, a clause each kind."""
    still = _running(results, others)
    ended = others[~others["name"].isin(still)]
    lost = ended[ended["rounds_to_target"].notna()]
    worse = _ended_worse(results, ended["name"], column)
    never = ended[~ended["name"].isin([*lost["name"], *worse])]
    texts = [
        f"{quoted(row['name'])} reached it {_when(results, row)} but did not keep it"
        + (" with every seed" if row["kept"] else "")
        for _, row in lost.iterrows()
    ][:MOST_NAMED]
    if len(never):
        names = joined([quoted(name) for name in never["name"]])
        texts.append(f"{names} did not reach it{_not_every_seed(never)}")
    texts += _worse(results, ended["name"], column)
    return texts + ([f"{joined([quoted(name) for name in still])} still runs"] if still else [])


def _when(results: Results, row: pd.Series) -> str:
    """Return when the target was first reached."""
    if results.asynchronous:
        return f"after {units.duration(float(row['time_to_target_s']))}"
    count = float(row["rounds_to_target"])
    return f"in {units.count(count)} round{'' if count == 1 else 's'}"


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


def _in_rounds(kept: pd.DataFrame, aim: str) -> str:
    """Return who needed how many rounds; those who share the first place come together."""
    shown = kept.iloc[:MOST_NAMED]
    lost = (shown["rounds_to_keep"] > shown["rounds_to_target"]).any()
    within = kept["rounds_to_target_within"].max()
    texts = _kept_from(shown, aim) if lost else _reached_in(kept, aim)
    return _within(", ".join(texts), f"{units.count(within)} rounds", within > 1)


def _reached_in(kept: pd.DataFrame, aim: str) -> list[str]:
    least = float(kept["rounds_to_keep"].iloc[0])
    tied = kept[kept["rounds_to_keep"] == least]
    rounds = f"{units.count(least)} round{'' if least == 1 else 's'}"
    names = joined([quoted(name) for name in tied["name"]])
    text = f"{names} reached {aim} in {rounds}{' each' if len(tied) > 1 else ''}"
    rest = kept.iloc[len(tied) : MOST_NAMED].iterrows()
    counts = [(quoted(row["name"]), units.count(float(row["rounds_to_keep"]))) for _, row in rest]
    return [text, *(f"{name} in {count}" for name, count in counts)]


def _kept_from(shown: pd.DataFrame, aim: str) -> list[str]:
    """Return from which round on the target was kept, where some had lost it again."""
    texts: list[str] = []
    for _, row in shown.iterrows():
        verb, on = (" from", "") if texts else (f" kept {aim} from round", " on")
        count = units.count(float(row["rounds_to_keep"]))
        texts.append(f"{quoted(row['name'])}{verb} {count}{on}{_first(row)}")
    return texts


def _within(text: str, distance: str, known: bool) -> str:
    """Return a clause with how exactly it is known, where that is not to the round."""
    if not known:
        return text
    return (
        f"{text}, to within {distance}" if text.endswith(")") else f"{text} (to within {distance})"
    )


def _first(row: pd.Series) -> str:
    """Return when the target was reached, if it was lost again."""
    if not row["rounds_to_keep"] > row["rounds_to_target"]:
        return ""
    return f" (first there in {units.count(float(row['rounds_to_target']))})"


def _after_time(kept: pd.DataFrame, aim: str) -> str:
    """Return who needed how much simulated time: updates of a model are no rounds."""
    order = kept.sort_values("time_to_keep_s", kind="stable").iloc[:MOST_NAMED]
    names = [quoted(name) for name in order["name"]]
    ends = [units.duration(float(seconds)) for seconds in order["time_to_keep_s"]]
    lost = order["time_to_keep_s"] > order["time_to_target_s"]
    first = [
        f" (first there after {units.duration(float(seconds))})" if again else ""
        for seconds, again in zip(order["time_to_target_s"], lost, strict=True)
    ]
    verb = "reached and kept" if lost.any() else "reached"
    text = f"{names[0]} {verb} {aim} after {ends[0]} of simulated time{first[0]}"
    rest = zip(names[1:], ends[1:], first[1:], strict=True)
    text = ", ".join([text, *(f"{name} after {end}{before}" for name, end, before in rest)])
    distance = units.duration(kept["time_to_target_within_s"].max())
    return _within(text, distance, kept["rounds_to_target_within"].max() > 1)


def _not_every_seed(missing: pd.DataFrame) -> str:
    """Return that only some seeds reached the target, if that is so."""
    return " with every seed" if (missing["reached"] > 0).any() else ""


def _in_time(results: Results, kept: pd.DataFrame) -> list[str]:
    """Compare the two fastest in simulated time, or give the time where there is one alone.

    Where an algorithm has no rounds their times are told already, so it is by how much they differ.
    """
    order = kept.sort_values("time_to_keep_s", kind="stable")
    times = order["time_to_keep_s"].to_numpy(float)
    alone = len(order) == 1 or times[0] <= 0
    level = not alone and times[1] / times[0] < ALIKE
    if alone or level:
        taken = f"it took {units.duration(float(kept['time_to_keep_s'].iloc[0]))} of simulated time"
        told = taken if alone else "in simulated time they are level"
        return [] if results.asynchronous else [told]
    first, second = (quoted(name) for name in order["name"].iloc[:2])
    sooner, noise = f"{units.number(times[1] / times[0], 2)} times sooner", _noise(order)
    if results.asynchronous:
        return [f"{first} was {sooner} than {second}{noise}"]
    ahead = kept["rounds_to_keep"].iloc[0] < kept["rounds_to_keep"].iloc[1]
    same = ahead and order["name"].iloc[0] == kept["name"].iloc[0]
    who, than = "" if same else f"{first} was ", f" than {second}" if len(order) > 2 else ""
    return [f"in simulated time {who}{sooner}{than}{noise}"]


def _noise(order: pd.DataFrame) -> str:
    """Return whether the first two are further apart in time than noise; empty for one seed.

    Noise is the sum of their deviations, or what lies between two evaluations if that is more.
    """
    times, deviations, within = (
        order[name].iloc[:2].to_numpy(float)
        for name in ("time_to_keep_s", "time_to_keep_s_sd", "time_to_target_within_s")
    )
    if not np.isfinite(deviations).all():
        return ""
    apart = within[order["rounds_to_target_within"].iloc[:2].to_numpy(float) > 1].max(initial=0.0)
    beyond = times[1] - times[0] > max(deviations.sum(), apart)
    return f", {'beyond' if beyond else 'within'} noise"


def _without_target(rivals: pd.DataFrame) -> str:
    known = rivals[rivals["loss_mean"].notna()] if "loss_mean" in rivals else rivals.iloc[:0]
    if not len(known):
        return "No loss is recorded yet"
    best = known.sort_values("loss_mean").iloc[0]
    end = units.number(float(best["loss_mean"]))
    return f"{quoted(best['name'])} ended at loss {end}; no algorithm did better than at its start"


def _progress(results: Results) -> str:
    ended = sum(run.status != "running" for run in results.runs_found)
    total = max(planned(results.scenario), len(results.runs_found))
    return f" (so far: {ended} of {many(total, 'run')} ended)" if ended < total else ""


def verdict(results: Results, column: str) -> str:
    """Return which algorithm ends best in which case beyond noise, and where none does.

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
    best: dict[tuple[str, ...], list[str]] = {}
    for case, one in found.items():
        best.setdefault(one.level, []).append(case)
    text = (_told if len(found) <= _MOST_TOLD else _counted)(title, found, best)
    seeds = max(len(results.usable(name)) for name in results.names)
    return text if seeds > 1 else f"{text}; with one seed it is not known what is noise"


def _told(title: str, found: dict[str, Standing], best: Mapping[tuple[str, ...], list[str]]) -> str:
    """Return who is best in each case, by how much; `best` has the cases of those that are."""
    parts: list[str] = []
    equal: list[str] = []
    head = f"{title} "
    for names, cases in best.items():
        if len(names) != 1:
            equal.append(_level(names, at(cases), len(found[cases[0]].ranking)))
            continue
        verb = f"{quoted(names[0])} ends best" if not parts else quoted(names[0])
        where = []
        for case in cases:
            where.append(f"{at([case])} ({head}{_margin(found[case])})")
            head = ""
        parts.append(f"{verb} {listed(where)}")
    if not parts:
        return f"By the final {title} no algorithm is best beyond noise: {'; '.join(equal)}"
    return "; ".join([", ".join(parts), *equal])


def _margin(standing: Standing) -> str:
    """Return the best value and the next one, with whose it is."""
    first, second = standing.ranking[:2]
    ends = units.telling([standing.ends[name].mean for name in (first, second)], least=3)
    return f"{ends[0]}, {quoted(second)} {ends[1]}"


def _level(names: tuple[str, ...], where: str, rivals: int) -> str:
    if not names:
        return f"{where} nothing is to be compared"
    who = "all" if len(names) == rivals > 2 else joined([quoted(name) for name in names])
    return f"{where} {who} are level, within noise"


def _counted(
    title: str, found: dict[str, Standing], best: Mapping[tuple[str, ...], list[str]]
) -> str:
    """Return in how many cases each algorithm is best."""
    won = {names[0]: cases for names, cases in best.items() if len(names) == 1}
    order = sorted(won, key=lambda name: -len(won[name]))[:MOST_NAMED]
    parts: list[str] = []
    for name in order:
        verb, of = ("", "") if parts else (f" ends at the best {title}", f" of {len(found)} cases")
        named = f" ({'; '.join(won[name])})" if len(won[name]) <= MOST_NAMED else ""
        parts.append(f"{quoted(name)}{verb} in {len(won[name])}{of}{named}")
    rest = len(found) - sum(map(len, won.values()))
    equal = f"in {rest} of {len(found)} the best are level, within noise" if rest else ""
    beyond = f"Beyond noise {', '.join(parts)}" if parts else ""
    return "; ".join(filter(None, [beyond, equal]))


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
    """Return who has the best mean rank, and who is worse beyond the critical difference."""
    best, *others = ranks.means
    least = ranks.means[best]
    text = f"Over {ranks.cases} cases {quoted(best)} has the best mean rank, {units.number(least)}"
    if ranks.p >= SIGNIFICANCE:
        return f"{text}, but chance alone may make such ranks (Friedman's test, p = {ranks.p:.2g})"
    worse = [name for name in others if ranks.means[name] - least >= ranks.critical]
    if not worse:
        return f"{text}, but no algorithm is worse beyond the critical difference"
    told = joined([quoted(name) for name in worse])
    return f"{text}; {told} {'is' if len(worse) == 1 else 'are'} worse beyond noise"
