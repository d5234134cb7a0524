"""The answer: which algorithm won, by how much, on which clock; and whether runs failed."""

from __future__ import annotations

import math
from typing import ClassVar

import pandas as pd

from rayfed.core.columns import Column
from rayfed.report.panels.base import Panel, Section
from rayfed.report.panels.phrases import MOST_NAMED, goal, joined, quoted
from rayfed.report.read import units
from rayfed.report.read.results import Results
from rayfed.report.read.series import leaders


def headline(results: Results, frame: pd.DataFrame) -> str:
    """Return who reached the target first, in rounds and in simulated time.

    Where clients have models of their own, it is how good these are in the end. Where many settings
    were swept, it is told of the best of each algorithm.

    Parameters
    ----------
    results : Results
        A result folder.
    frame : DataFrame
        Its `tables.summary`.
    """
    target, column = float(frame["target"].iloc[0]), str(frame["target_column"].iloc[0])
    leading = set(leaders(results, column)) & set(results.rivals)
    rivals = frame[frame["name"].isin(leading or results.rivals)]
    if column.startswith("personal_") and _final_values(rivals, results.column(column)):
        return f"{_personal(results, frame, rivals, column)}{_progress(results)}."
    if not math.isfinite(target):
        return _without_target(rivals)
    aim = goal(results.column(column), target)
    reached = rivals[rivals["rounds_to_target"].notna()].sort_values(
        ["rounds_to_target", "time_to_target_s"], kind="stable"
    )
    if not len(reached):
        return f"No algorithm reached {aim}{_not_every_seed(rivals)}{_progress(results)}."
    text = _after_time(reached, aim) if results.asynchronous else _in_rounds(reached, aim)
    missing = rivals[rivals["rounds_to_target"].isna()]
    if len(missing):
        text += f"; {joined([quoted(name) for name in missing['name']])} did not reach it"
        text += _not_every_seed(missing)
    if results.asynchronous:
        return f"{text}{_progress(results)}."
    return f"{text}; {_in_time(reached)}{_progress(results)}."


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


def _in_rounds(reached: pd.DataFrame, aim: str) -> str:
    """Return who needed how many rounds; those who share the first place come together."""
    least = float(reached["rounds_to_target"].iloc[0])
    tied = [quoted(name) for name in reached["name"][reached["rounds_to_target"] == least]]
    rounds = f"{units.count(least)} round{'' if least == 1 else 's'}"
    text = f"{joined(tied)} reached {aim} in {rounds}"
    if len(tied) > 1:
        text += " each"
    rest = reached.iloc[len(tied) : MOST_NAMED]
    for _, row in rest.iterrows():
        text += f", {quoted(row['name'])} in {units.count(float(row['rounds_to_target']))}"
    within = reached["rounds_to_target_within"].max()
    return f"{text} (to within {units.count(within)} rounds)" if within > 1 else text


def _after_time(reached: pd.DataFrame, aim: str) -> str:
    """Return who needed how much simulated time: updates of a model are no rounds."""
    order = reached.sort_values("time_to_target_s", kind="stable").iloc[:MOST_NAMED]
    names = [quoted(name) for name in order["name"]]
    times = [units.duration(float(t)) for t in order["time_to_target_s"]]
    text = f"{names[0]} reached {aim} after {times[0]} of simulated time"
    rest = [f"{name} after {time}" for name, time in zip(names[1:], times[1:], strict=True)]
    text = ", ".join([text, *rest])
    if reached["rounds_to_target_within"].max() <= 1:
        return text
    return f"{text} (to within {units.duration(reached['time_to_target_within_s'].max())})"


def _not_every_seed(missing: pd.DataFrame) -> str:
    """Return that only some seeds reached the target, if that is so."""
    return " with every seed" if (missing["reached"] > 0).any() else ""


def _in_time(reached: pd.DataFrame) -> str:
    """Compare the two fastest in simulated time, or give the time where there is one alone."""
    order = reached.sort_values("time_to_target_s", kind="stable")
    times = order["time_to_target_s"].to_numpy(float)
    if len(order) == 1 or times[0] <= 0:
        taken = float(reached["time_to_target_s"].iloc[0])
        return f"it took {units.duration(taken)} of simulated time"
    ratio, winner = times[1] / times[0], str(order["name"].iloc[0])
    second = quoted(order["name"].iloc[1])
    if ratio < 1.05:
        return "in simulated time they are level"
    sooner = f"{units.number(ratio, 2)} times sooner"
    alone = reached["rounds_to_target"].iloc[0] < reached["rounds_to_target"].iloc[1]
    same = alone and winner == str(reached["name"].iloc[0])
    than = f" than {second}" if len(order) > 2 else ""
    return (
        f"in simulated time {sooner}{than}"
        if same
        else f"in simulated time {quoted(winner)} was {sooner}{than}"
    )


def _without_target(rivals: pd.DataFrame) -> str:
    known = rivals[rivals["loss_mean"].notna()] if "loss_mean" in rivals else rivals.iloc[:0]
    if not len(known):
        return "No loss is recorded yet."
    best = known.sort_values("loss_mean").iloc[0]
    end = units.number(float(best["loss_mean"]))
    return f"{quoted(best['name'])} ended at loss {end}; no algorithm did better than at its start."


def _progress(results: Results) -> str:
    running = sum(run.status == "running" for run in results.runs_found)
    total = len(results.runs_found)
    return f" (so far: {total - running} of {total} runs have ended)" if running else ""


class HeadlinePanel(Panel):
    """One sentence at the top of the page."""

    name: ClassVar[str] = "headline"
    section = Section.ANSWER
    rank = 0

    @property
    def answer(self) -> str:
        """The sentence."""
        if self.results.unlike:
            return "These folders solve different problems, so no algorithm is the best of all."
        return headline(self.results, self.source.summary)

    @property
    def failures(self) -> str:
        """How many runs failed, empty if none did."""
        runs = self.results.runs_found
        failed = sum(run.status == "failed" for run in runs)
        return f"{failed} of {len(runs)} runs failed" if failed else ""
