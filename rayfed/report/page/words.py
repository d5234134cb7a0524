"""What one sees, in one sentence each, computed from the data."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from rayfed.core.columns import Column
from rayfed.report.figures.fairness import fairness_column, worst_tenth
from rayfed.report.figures.participation import client_shares, fifth
from rayfed.report.read import units
from rayfed.report.read.results import Results, Run
from rayfed.report.read.series import stopped_at
from rayfed.report.read.sweeps import Sweep
from rayfed.report.read.walked import misplaced, positions, visits

_NAMED = 3  # most algorithms that a sentence names
_NOTABLE = 0.005  # least share of waiting that is worth a word
_SINGLE = 60  # most clients of whom a sentence names one


def headline(results: Results, frame: pd.DataFrame) -> str:
    """Return the answer: who reached the target first, in rounds and in simulated time.

    Of models of the clients' own, some of which are made anew whenever they are scored, it is how
    good they are in the end.

    Parameters
    ----------
    results : Results
        A result folder.
    frame : DataFrame
        Its `tables.summary`.
    """
    rivals = frame[frame["name"].isin(results.rivals)]
    target, column = float(frame["target"].iloc[0]), str(frame["target_column"].iloc[0])
    if column.startswith("personal_") and _ends(rivals, results.column(column)):
        return f"{_served(results, frame, rivals, column)}{_so_far(results)}."
    if not math.isfinite(target):
        return _without_target(rivals)
    goal = goal_text(results.column(column), target)
    there = rivals[rivals["rounds_to_target"].notna()].sort_values(
        ["rounds_to_target", "time_to_target_s"], kind="stable"
    )
    if not len(there):
        return f"No algorithm reached {goal}{_every(rivals)}{_so_far(results)}."
    said = _reached(there, goal)
    missing = rivals[rivals["rounds_to_target"].isna()]
    if len(missing):
        said += f"; {listed([named(name) for name in missing['name']])} did not reach it"
        said += _every(missing)
    return f"{said}; {_in_time(there)}{_so_far(results)}."


def goal_text(column: Column, value: float) -> str:
    """Return a target for a sentence.

    Examples
    --------
    >>> gap = Column("loss_gap", "gap to the optimum")
    >>> goal_text(Column("loss"), 0.05), goal_text(gap, 2.06e-9)
    ('loss 0.05', 'a gap to the optimum of 2.06e-9')
    """
    title, number = column.title, units.number(value)
    return f"a {title} of {number}" if " to " in title else f"{title} {number}"


def _served(results: Results, frame: pd.DataFrame, rivals: pd.DataFrame, name: str) -> str:
    """Return how good clients' own models are in the end, beside a baseline's and a shared one."""
    column, shared = results.column(name), results.column(name.removeprefix("personal_"))
    own = [f"{end} with {name}" for name, end in _ends(rivals, column)[:_NAMED]]
    said = f"Clients' own models end at {column.title} {listed(own)}"
    for name, end in _ends(frame[frame["baseline"]], column)[:1]:
        said += f", the baseline {name} at {end}"
    for name, end in _ends(rivals, shared)[:1]:
        said += f"; of models for everybody the best, {name}'s, has {shared.title} {end}"
    return said


def _ends(rows: pd.DataFrame, column: Column) -> list[tuple[str, str]]:
    """Return names with their last values, the best first; without those that have none."""
    mean = f"{column.name}_mean"
    if mean not in rows:
        return []
    known = rows.dropna(subset=[mean])
    known = known.sort_values(mean, ascending=column.better != "higher", kind="stable")
    ends = zip(known["name"], known[mean], strict=True)
    return [(named(name), units.number(float(value))) for name, value in ends]


def _reached(there: pd.DataFrame, goal: str) -> str:
    """Return who was there in how many rounds; those who share the first place come together."""
    least = float(there["rounds_to_target"].iloc[0])
    tied = [named(name) for name in there["name"][there["rounds_to_target"] == least]]
    said = f"{listed(tied)} reached {goal} in {clock_text('round', least)}"
    if len(tied) > 1:
        said += " each"
    rest = there.iloc[len(tied) : _NAMED]
    return said + "".join(f", {named(row['name'])} in {_n(row)}" for _, row in rest.iterrows())


def _every(missing: pd.DataFrame) -> str:
    """Say that some seeds were there, if that is so."""
    return " with every seed" if (missing["reached"] > 0).any() else ""


def named(name: object) -> str:
    """Return an algorithm's name for a sentence: one with a comma would fall apart in a list.

    Examples
    --------
    >>> named("FedExP"), named("FedAvg, server step 10")
    ('FedExP', '“FedAvg, server step 10”')
    """
    return f"“{name}”" if "," in str(name) else str(name)


def _n(row: pd.Series) -> str:
    return units.count(float(row["rounds_to_target"]))


def _in_time(there: pd.DataFrame) -> str:
    """Compare the two fastest in simulated time, or give the time where there is one alone."""
    order = there.sort_values("time_to_target_s", kind="stable")
    times = order["time_to_target_s"].to_numpy(float)
    if len(order) == 1 or times[0] <= 0:
        taken = float(there["time_to_target_s"].iloc[0])
        return f"it took {units.duration(taken)} of simulated time"
    ratio, winner = times[1] / times[0], str(order["name"].iloc[0])
    second = named(order["name"].iloc[1])
    if ratio < 1.05:
        return "in simulated time they are level"
    sooner = f"{units.number(ratio, 2)} times sooner"
    alone = there["rounds_to_target"].iloc[0] < there["rounds_to_target"].iloc[1]
    same = alone and winner == str(there["name"].iloc[0])
    than = f" than {second}" if len(order) > 2 else ""
    return (
        f"in simulated time {sooner}{than}"
        if same
        else f"in simulated time {named(winner)} was {sooner}{than}"
    )


def _without_target(rivals: pd.DataFrame) -> str:
    known = rivals[rivals["loss_mean"].notna()] if "loss_mean" in rivals else rivals.iloc[:0]
    if not len(known):
        return "No loss is recorded yet."
    best = known.sort_values("loss_mean").iloc[0]
    end = units.number(float(best["loss_mean"]))
    return f"{named(best['name'])} ended at loss {end}; no algorithm did better than at its start."


def _so_far(results: Results) -> str:
    running = sum(run.status == "running" for run in results.runs_found)
    total = len(results.runs_found)
    return f" (so far: {total - running} of {total} runs have ended)" if running else ""


def listed(names: Sequence[str]) -> str:
    """Return names, or what is said of each, as they stand in a sentence; of many the first.

    Examples
    --------
    >>> listed(["A", "B", "C"]), listed(["A", "B", "C", "D", "E"])
    ('A, B and C', 'A, B, C and 2 others')
    """
    shown = list(names[:_NAMED])
    if rest := len(names[_NAMED:]):
        shown.append("1 other" if rest == 1 else f"{rest} others")
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]


def clock_text(x: str, value: float) -> str:
    """Return a reading of a clock with its unit."""
    if x == "time_s":
        return units.duration(value)
    if x == "bytes_up":
        return units.size(value)
    name = {"round": "round", "updates": "update", "communications": "communication"}[x]
    return f"{units.count(value)} {name}{'' if value == 1 else 's'}"


def timeline_title(run: Run) -> str:
    """Return how long a round took and how much of it clients waited for the slowest."""
    if not len(run.events) or len(run.rounds) < 2:
        return "What the clients did was not recorded for this run"
    ends = run.rounds["time_s"].to_numpy(float)
    length = float(np.diff(ends).mean())
    said = f"A round of {named(run.name)} took {units.duration(length)} on average"
    waited = waiting_share(run)
    if waited >= _NOTABLE:
        said += f"; its clients spent {units.share(waited)} of it waiting for the slowest"
    status = run.events["status"].astype(str)
    late, lost = (float((status == what).mean()) for what in ("late", "dropped"))
    parts = [f"{units.share(late)} of the replies came late"] if late else []
    if lost:
        parts.append(f"{units.share(lost)} {'' if late else 'of the replies '}were lost on the way")
    return said + (f"; {' and '.join(parts)}" if parts else "")


def waiting_share(run: Run) -> float:
    """Return the share of a round that those who answered spent waiting for its end, 0 to 1."""
    used = run.events[run.events["status"].astype(str) == "used"]
    last = used.groupby(["round", "client"], as_index=False)["end_s"].max()
    rounds = run.rounds.set_index("round")["time_s"].astype(float)
    end = rounds.reindex(last["round"]).to_numpy()
    start = rounds.shift(1).reindex(last["round"]).to_numpy()
    whole = float(np.nansum(end - start))
    return float(np.nansum(end - last["end_s"].to_numpy(float))) / whole if whole > 0 else math.nan


def participation_title(run: Run) -> str:
    """Return what the slowest fifth of the clients gave against what they hold."""
    shares = client_shares(run)
    if not len(shares) or shares["used"].sum() == 0:
        return "Who took part was not recorded for this run"
    if shares["speed_s"].isna().all() or len(shares) < 2:
        return f"{len(shares):,} clients took part with {named(run.name)}"
    slow = shares.iloc[len(shares) - fifth(len(shares)) :]
    given, held = float(slow["updates"].sum()), float(slow["data"].sum())
    return (
        f"With {named(run.name)} the slowest fifth of the clients gave {units.share(given)} of the "
        f"updates and hold {units.share(held)} of the data"
    )


def rounds_title(run: Run) -> str:
    """Return how often the clients took part, from the one that did least to the one that did most.

    Only clients that are known of are counted.
    """
    times = client_shares(run)["used"]
    rounds = int(run.rounds["round"].max()) if len(run.rounds) else 0
    if not len(times) or not rounds:
        return "Who took part in which rounds"
    low, high = int(times.min()), int(times.max())
    if low == high:
        return f"Every client took part {_times(low)} in {rounds:,} rounds"
    if len(times) > _SINGLE:
        return f"Clients took part {low} to {high} times in {rounds:,} rounds, on average " + (
            f"{units.number(float(times.mean()), 2)} times"
        )
    seldom = f"took part least, {_times(low)}" if low else "never took part"
    return (
        f"Client {times.idxmin()} {seldom} in {rounds:,} rounds, "
        f"client {times.idxmax()} {'most' if low else 'most often'}, {_times(high)}"
    )


def fit_title(run: Run) -> str:
    """Return what the final model of a run makes of rows that it is scored on."""
    found, name = run.fit, named(run.name)
    if found is None:
        return "This run has no picture of its model"
    if found.kind == "curve":
        return f"{name} found {found.text}"
    if found.kind == "numbers":
        error = float(np.sqrt(np.mean((found.points[:, 1] - found.points[:, 0]) ** 2)))
        return (
            f"The predictions of {name} are off by {units.number(error)} (root mean square) on "
            f"{_rows(run, len(found.points))}"
        )
    right, total = int(np.trace(found.counts)), int(found.counts.sum())
    return f"{name} puts {right:,} of {_rows(run, total)} into their class"


def _rows(run: Run, count: int) -> str:
    return f"{count:,} {run.info.get('scored') or 'drawn'} rows".replace("server", "test")


def fairness_title(results: Results) -> str:
    """Return how the worst-served tenth of clients fares under each algorithm."""
    column = fairness_column(results)
    values = {name: worst_tenth(results, name, column) for name in results.rivals}
    known = {name: value for name, value in values.items() if math.isfinite(value)}
    if not known:
        return "No values per client are recorded"
    order = sorted(known, key=lambda name: known[name], reverse=column == "accuracy")
    texts = [f"{units.number(known[name])} with {named(name)}" for name in order[:_NAMED]]
    return f"The worst-served tenth of the clients has {column} {listed(texts)}"


def walk_title(run: Run) -> str:
    """Return how many clients the server of a run visited, and how many it asked at a time."""
    way, name = positions(run), named(run.name)
    total = int(run.info.get("clients") or len(run.clients))
    number = way.nunique()
    whom = f"all {total:,}" if number == total else f"{number:,} of {total:,}"
    asked = float(run.rounds.loc[run.rounds["round"] > 0, "participants"].mean())
    return (
        f"In {len(way):,} rounds the server of {name} visited {whom} clients, and "
        f"{units.number(asked, 2)} took part in a round on average"
    )


def walk_note(run: Run, steps: int) -> str:
    """Return which rounds and clients of a walk are not drawn, empty if all are."""
    assert run.walk is not None
    rounds, total = len(positions(run)), int(run.info.get("clients") or 0)
    parts = [f"{steps:,} evenly spaced of {rounds:,} rounds"] if steps < rounds else []
    if (drawn := len(run.walk.clients)) < total:
        parts.append(f"the {drawn:,} most visited of {total:,} clients")
    return f"Drawn: {' and '.join(parts)}." if parts else ""


def visits_title(run: Run) -> str:
    """Return who was visited most and least, and how far that is from the long run."""
    found = visits(run)["visits"]
    often, seldom = int(found.max()), int(found.min())
    never = int((found == 0).sum())
    least = f"client {found.idxmin()} {f'least, {_times(seldom)}' if seldom else 'never'}"
    least = f"{never:,} clients never" if never > 1 else least
    said = f"Client {found.idxmax()} was visited most, {_times(often)}, {least}"
    if often == seldom:
        said = f"Every client was visited {_times(often)}"
    wrong = misplaced(run)
    if math.isnan(wrong):
        return said
    return f"{said}; {units.share(wrong)} of the visits would lie elsewhere in the long run"


def eigenvalues_title(run: Run) -> str:
    """Return in how many moves the walk forgets where it began."""
    assert run.walk is not None
    known = run.walk.lambda_2[run.walk.graph]
    low, high, middle = (float(v) for v in (known.min(), known.max(), np.median(known)))
    if math.isnan(middle):
        return "The second eigenvalue of walks on so large a graph is not known"
    value = units.number(middle)
    if low != high:
        value = f"between {units.number(low)} and {units.number(high)}, mostly near {value}"
    forgets = _forgets(middle)
    return f"{forgets}: its second eigenvalue is {value}"


def _forgets(eigenvalue: float) -> str:
    """Return after how many moves a tenth is left of what the start still tells."""
    if eigenvalue >= 1 - 1e-12:
        return "The walk never forgets where it began"
    moves = math.ceil(math.log(0.1) / math.log(eigenvalue)) if eigenvalue > 0 else 1
    return f"The walk forgets nine tenths of where it was in {moves:,} move{'s' * (moves != 1)}"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def sweep_title(results: Results, found: Sweep, column: str) -> str:
    """Return at which point of a sweep the last value was best, or came soonest."""
    ends = found.values(results, column)
    rows = ends.dropna(subset=["value"]).sort_values("value", kind="stable")
    title, better = results.column(column).title, results.column(column).better
    goal = stopped_at(results, column)
    if goal is not None:
        return _soonest(found, rows, goal_text(results.column(column), goal), len(ends))
    if not len(rows):
        return f"No point of the sweep ended with a {title}"
    if better == "higher":
        rows = rows[::-1]
    first, last = rows.iloc[0], rows.iloc[-1]
    best, worst = ("smallest", "largest") if better is None else ("best", "worst")
    said = f"The {best} final {title}, {units.number(first['value'])}, is "
    said += f"{named(first['series'])}'s with {_place(found, first)}; "
    said += f"the {worst}, {units.number(last['value'])}, "
    said += f"{named(last['series'])}'s with " if len(found.series) > 1 else "comes with "
    said += _place(found, last)
    failed = int(ends["failed"].sum())
    return said + (f"; {failed} of {len(ends)} points failed" if failed else "")


def _soonest(found: Sweep, rows: pd.DataFrame, goal: str, count: int) -> str:
    """Return where a goal took the fewest rounds, and where the most; rows are in that order."""
    if not len(rows):
        return f"No point of the sweep reached {goal}"
    ends = [
        f"{units.count(row['value'])} "
        + f"by {named(row['series'])} " * (len(found.series) > 1)
        + f"with {_place(found, row)}"
        for _, row in rows.iloc[[0, -1]].iterrows()
    ]
    said = f"The fewest rounds to {goal} are {ends[0]}, the most {ends[1]}"
    missed = count - len(rows)
    return said + (f"; {missed} of {count} points did not reach it" if missed else "")


def _place(found: Sweep, row: pd.Series) -> str:
    pairs = zip(found.titles, found.keys, strict=True)
    return " and ".join(f"{title} {units.number(row[key])}" for title, key in pairs)
