"""Tables: what it took to reach a target, and what was reached in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from rayfed.core import columns
from rayfed.report.read import units
from rayfed.report.read.curves import (
    before,
    crossing,
    ends_by_seed,
    final,
    first_column,
    history,
    keeping,
    targets,
)
from rayfed.report.read.personal import without_global
from rayfed.report.read.results import Results
from rayfed.report.verdicts import verdict

NEVER = units.MISSING
_FINALS = ("loss", "test_loss", "loss_gap", "accuracy", "personal_loss", "personal_accuracy")
COSTS = {
    "rounds_to_target": "round",
    "time_to_target_s": "time_s",
    "bytes_to_target": "bytes",
    "bytes_up_to_target": "bytes_up",
    "updates_to_target": "updates",
}
"""What a run took to reach the target, and the clock of `curves.history` that it is read from."""
WITHIN = {"rounds_to_target_within": "round", "time_to_target_within_s": "time_s"}
"""How exactly that is known: the distance to the evaluated row before."""
TO_KEEP = {"rounds_to_keep": "round", "time_to_keep_s": "time_s"}
"""What it took until the target was not lost any more."""
_TO_TARGET = (*COSTS, *TO_KEEP)
KEPT = "kept"
"""Stands for a clock where a column shows from which round on the target is kept."""


def summary(results: Results, y: str | None = None, target: float | None = None) -> pd.DataFrame:
    """Return a row an algorithm with all numbers at full precision.

    Parameters
    ----------
    results : Results
        A result folder.
    y : str, optional
        The column that the target is set for. If None: `curves.first_column`.
    target : float, optional
        If None: `curves.targets`.

    Returns
    -------
    DataFrame
        ``..._to_target`` are means over seeds of the totals at the first evaluated round that is
        as good as the target (rounds, simulated seconds, bytes, replies used), NaN unless every
        seed reached it; ``reached`` says how many did. ``..._to_target_sd`` are their deviations;
        ``..._within`` the largest distance to the evaluated row before, after which the target was
        reached; ``..._to_keep`` means of the first evaluated row from which on all are as good, and
        ``kept`` the number of seeds that have one. ``<column>_mean`` and ``<column>_sd`` are of the
        last evaluated value, over the seeds that did not fail. Deviations are the sample's, NaN for
        one seed. The measures of `usage.Usage.totals` are means over the seeds that recorded them,
        and left out if no run did.
    """
    y = first_column(results) if y is None else y
    goals = targets(results, y) if target is None else dict.fromkeys(results.names, target)
    frame = pd.DataFrame([_row(results, name, y, goals[name]) for name in results.names])
    finals = [f"{column}_{part}" for column in _FINALS for part in ("mean", "sd")]
    return frame.drop(columns=[name for name in finals if frame[name].isna().all()])


def _row(results: Results, name: str, y: str, target: float | None) -> dict[str, Any]:
    runs, all_runs = results.usable(name), results.of(name)
    histories = [history(run) for run in runs]
    states = [run.status for run in all_runs]
    info = all_runs[0].info
    row: dict[str, Any] = {
        "name": name,
        "algorithm": info.get("algorithm", name),
        "baseline": all_runs[0].baseline,
        "seeds": len(all_runs),
        "finished": states.count("finished"),
        "failed": states.count("failed"),
        "target_column": y,
        "target": np.nan if target is None else target,
    }
    row |= _to_target(histories, results.column(y), target)
    for column in _FINALS:
        row[f"{column}_mean"], row[f"{column}_sd"] = final(histories, column)
    for column, source in (("rounds", "round"), ("time_s", "time_s"), ("bytes_up", "bytes_up")):
        ends = [float(frame[source].iloc[-1]) for frame in histories]
        row[column] = float(np.mean(ends)) if ends else np.nan
    measured = pd.DataFrame([run.usage.totals for run in runs])
    return row | {str(name): float(value) for name, value in measured.mean().items()}


def _to_target(
    histories: Sequence[pd.DataFrame], y: columns.Column, target: float | None
) -> dict[str, Any]:
    names = (*COSTS, *TO_KEEP, *WITHIN)
    each = pd.DataFrame([costs_of(frame, y, target) for frame in histories], columns=names)
    reached, kept = each["rounds_to_target"].count(), each["rounds_to_keep"].count()
    each = each.loc[:, each.notna().all()].reindex(columns=names)  # what every seed reached
    measured = each[[*COSTS, *TO_KEEP]]
    return {
        "reached": int(reached),
        "counted": len(histories),
        "kept": int(kept),
        **measured.mean(),
        **measured.std().add_suffix("_sd"),
        **each[[*WITHIN]].max(),
    }


def costs_of(frame: pd.DataFrame, y: columns.Column, target: float | None) -> dict[str, float]:
    """Return `COSTS`, `WITHIN` and `TO_KEEP` of one run's `curves.history`, NaN if not reached."""
    at, since = crossing(frame, y, target), keeping(frame, y, target)
    found = _clocks(COSTS, at) | _clocks(WITHIN, at) | _clocks(TO_KEEP, since)
    if at is not None:
        earlier = _clocks(WITHIN, before(frame, y, at))
        found |= {name: found[name] - earlier[name] for name in WITHIN}
    return found


def _clocks(names: Mapping[str, str], row: pd.Series | None) -> dict[str, float]:
    return {
        name: float(row[clock]) if row is not None and clock in row else np.nan
        for name, clock in names.items()
    }


def costs_by_seed(results: Results, row: pd.Series, cost: str) -> dict[int, float]:
    """Return what each seed of an algorithm took to the target; infinite if it was not reached.

    Parameters
    ----------
    results : Results
        A result folder.
    row : Series
        Of its `summary`.
    cost : str
        One of `COSTS` or `TO_KEEP`.
    """
    y, target = results.column(str(row["target_column"])), float(row["target"])
    costs = {
        run.seed: costs_of(history(run), y, target)[cost] for run in results.usable(row["name"])
    }
    return {seed: value if np.isfinite(value) else np.inf for seed, value in costs.items()}


def resolution(frame: pd.DataFrame, cost: str) -> float:
    """Return the distance of two evaluations, by which a cost to the target is known.

    Parameters
    ----------
    frame : DataFrame
        Rows of a `summary`.
    cost : str
        One of `COSTS` or `TO_KEEP`.
    """
    share = frame["rounds_to_target_within"] / frame["rounds_to_target"]
    return float(np.nan_to_num((share * frame[cost]).max()))


@dataclass(frozen=True)
class TextColumn:
    """One column of a table, ready to be shown.

    Parameters
    ----------
    title : str
        Its heading.
    texts : tuple of str
        A text a row.
    values : tuple of float
        What rows are sorted by; NaN sorts last.
    best : tuple of bool
        Which row holds the best value, if it is better than all others (`verdicts`); no baseline
        ever does, nor the only competitor.
    clock : str
        The clock whose reading at the target it shows, or `KEPT`; empty for other columns.
    """

    title: str
    texts: tuple[str, ...]
    values: tuple[float, ...]
    best: tuple[bool, ...]
    clock: str = ""


def text_columns(results: Results, frame: pd.DataFrame) -> list[TextColumn]:
    """Return the `summary` of results as columns of text, the algorithms' names first.

    Where a study has cases, the rows of each stand together, and the best is the best of its case.
    Of folders that solve different problems nothing is the best.
    """
    frame = _by_case(results, _global_only(results, frame))
    nobody = (False,) * len(frame)
    names = tuple(map(str, frame["name"]))
    made = [TextColumn("algorithm", names, tuple(map(float, frame.index)), nobody)]
    if frame["target"].notna().any():
        made += [_cost(results, frame, *cost) for cost in _cost_titles(results, frame)]
    # What only a baseline has compares nothing, unless it has nothing else.
    own = frame["name"].isin(without_global(results))
    compared = frame[~frame["baseline"] | own] if (~frame["baseline"]).any() else frame
    for name in _FINALS:
        if f"{name}_mean" in frame and compared[f"{name}_mean"].notna().any():
            made.append(_final(results, frame, results.column(name)))
    return [replace(column, best=nobody) for column in made] if results.unlike else made


def _by_case(results: Results, frame: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the place of their ``case``, those of each together."""
    places = {case: place for place, case in enumerate(results.cases)}
    case = [places.get(results.case_of.get(name, ""), 0) for name in frame["name"]]
    return frame.assign(case=case).sort_values("case", kind="stable")


def _global_only(results: Results, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a `summary` without values of own models in columns of a global one.

    They are those of algorithms that have no global model, such as local-only.
    """
    own = frame["name"].isin(without_global(results))
    emptied = [
        f"{name}_{part}"
        for name in _FINALS
        for part in ("mean", "sd")
        if not name.startswith("personal_")
    ]
    kept = frame.copy()
    if not str(frame["target_column"].iloc[0]).startswith("personal_"):
        emptied += [column for column in map(str, frame) if column.startswith(_TO_TARGET)]
        kept.loc[own, "counted"] = 0
    kept.loc[own, [column for column in emptied if column in kept]] = np.nan
    return kept


def _cost_titles(
    results: Results, frame: pd.DataFrame
) -> list[tuple[str, str, Callable[[float], str]]]:
    title = results.column(frame["target_column"].iloc[0]).title
    several = results.cases  # which have targets of their own
    goal = "the target" if several else f"{title} {units.target(frame['target'].iloc[0])}"
    return [
        ("rounds_to_target", f"rounds to {goal}", units.count),
        ("rounds_to_keep", "kept from round", units.count),
        ("time_to_target_s", "simulated time", units.duration),
        ("bytes_up_to_target", "uploaded", units.size),
        ("updates_to_target", "client updates", units.count),
    ]


_COUNTED = {"rounds_to_target": "reached", "rounds_to_keep": "kept"}
"""Which column counts the seeds that a cost is of."""


def _cost(
    results: Results, frame: pd.DataFrame, name: str, title: str, text: Callable[[float], str]
) -> TextColumn:
    # A baseline that exchanges nothing, or nothing that is recorded, has no cost to compare.
    none = frame["baseline"] & (frame[name] == 0)
    values = tuple(frame[name].where(~none).astype(float))
    spreads = tuple(frame.get(f"{name}_sd", np.full(len(frame), np.nan)))
    told = name in COSTS  # there is no room for all deviations
    shown = [
        text(value) + (f" ± {text(spread)}" if told and np.isfinite(spread) else "")
        if np.isfinite(value)
        else NEVER
        for value, spread in zip(values, spreads, strict=True)
    ]
    if name in _COUNTED:
        counts = zip(frame[_COUNTED[name]], frame["counted"], strict=True)
        shown = [
            words if np.isfinite(value) or of < 2 else f"{NEVER} ({hit} of {of} seeds)"
            for words, value, (hit, of) in zip(shown, values, counts, strict=True)
        ]
    seeds = [costs_by_seed(results, row, name) for _, row in frame.iterrows()]
    best = _best(frame, values, seeds, "lower", shown, name)
    return TextColumn(title, tuple(shown), values, best, COSTS.get(name, KEPT))


def _final(results: Results, frame: pd.DataFrame, column: columns.Column) -> TextColumn:
    means = tuple(frame[f"{column.name}_mean"].astype(float))
    none = np.full(len(frame), np.nan)
    spreads = tuple(frame.get(f"{column.name}_sd", none))
    texts = _finals(frame, means, spreads)
    seeds = [ends_by_seed(results.usable(name), column.name) for name in frame["name"]]
    best = _best(frame, means, seeds, column.better, texts)
    return TextColumn(f"final {column.title}", texts, means, best)


def _finals(
    frame: pd.DataFrame, means: Sequence[float], spreads: Sequence[float]
) -> tuple[str, ...]:
    """Return final values as text; what an algorithm had when every run failed is none."""
    failed = frame["failed"] == frame["seeds"]
    every = zip(failed, means, spreads, strict=True)
    return tuple("failed" if lost else with_spread(mean, sd) for lost, mean, sd in every)


def with_spread(mean: float, spread: float) -> str:
    """Return mean and deviation with the digits that the deviation allows.

    Examples
    --------
    >>> with_spread(0.041234, 0.00123), with_spread(0.5, float("nan"))
    ('0.0412 ± 0.0012', '0.5')
    """
    if not np.isfinite(mean):
        return NEVER
    if not np.isfinite(spread):
        return units.number(mean)
    if spread == 0 or not 1e-3 <= abs(mean) < 1e6:
        return f"{units.number(mean)} ± {units.number(spread, 2)}"
    places = int(np.clip(1 - np.floor(np.log10(spread)), 0, 6))
    # No more digits than the page shows elsewhere, however small the deviation is.
    places = min(places, max(0, int(3 - np.floor(np.log10(abs(mean))))))
    least = 10.0**-places
    shown = f"{spread:.{places}f}" if spread >= least / 2 else f"<{least:.{places}f}"
    return f"{mean:,.{places}f} ± {shown}"


def _best(
    frame: pd.DataFrame,
    values: Sequence[float],
    seeds: Sequence[Mapping[int, float]],
    better: columns.Better | None,
    texts: Sequence[str],
    cost: str | None = None,
) -> tuple[bool, ...]:
    """Return which value of a case is better than those of all its other rivals.

    It must show it: of two values that read alike neither is. Nobody wins by a cost that somebody
    does not have, as where the target is there at the start; nor by a final value that is alone.

    Parameters
    ----------
    values : sequence of float
        Means over seeds, of each row.
    seeds : sequence of mapping of int to float
        The value of each seed, of each row.
    texts : sequence of str
        What is shown of each row.
    cost : str, optional
        Which of the costs the values are, if they are.
    """
    shown = pd.DataFrame({"value": values, "text": texts}, index=frame.index)
    shown["rival"], shown["best"] = ~frame["baseline"].astype(bool), False
    of = {name: found for name, found in zip(frame["name"], seeds, strict=True) if found}
    for _, case in shown.groupby(frame["case"]):
        rivals = case[case["rival"] & frame["name"].loc[case.index].isin(of)]
        free = cost is not None and (case["value"] == 0).any()
        if free or (cost is None and np.isfinite(rivals["value"]).sum() < 2):
            continue
        names = frame["name"].loc[rivals.index]
        found = None
        if better is not None:
            seen = {name: of[name] for name in names}
            exact = 0.0 if cost is None else resolution(frame.loc[rivals.index], cost)
            found = verdict(seen, better == "higher", resolution=exact)
        if found is not None and found.clear:
            first = rivals.index[names == found.best][0]
            alike = (rivals["text"] == rivals["text"].loc[first]).sum() > 1
            shown.loc[first, "best"] = not alike
    return tuple(shown["best"])


def comparison(
    results: Results, y: str | None = None, target: float | None = None, width: int | None = 80
) -> pd.DataFrame:
    """Return the results at a glance as text, for a terminal or a notebook.

    The page and `summary` hold more columns.

    Parameters
    ----------
    results : Results
        A result folder.
    y : str, optional
        The column that the target is set for. If None: `curves.first_column`.
    target : float, optional
        If None: `curves.targets`.
    width : int, optional
        Characters of a line, with two between columns. Where that is too few, first the deviations
        are left out, then the bytes; then names are cut in their middle, and the time is left out.
        What an algorithm reached in the end always stays. If None, all are given.
    """
    frame = summary(results, y, target)
    for spreads, left_out, letters in _NARROWER:
        shown = _glance(results, frame, spreads)
        shown = shown.drop(columns=[*_least(frame)[:left_out]], errors="ignore")
        shown["algorithm"] = _cut(shown["algorithm"], letters)
        if width is None or text_width(shown) <= width:
            break
    return shown


_NARROWER = (
    (4, 0, None), (2, 0, None), (1, 0, None), (0, 0, None),
    (0, 1, None), (0, 1, 20), (0, 2, 20), (0, 3, 12),
)  # fmt: skip
"""What is tried in turn: columns with deviations, columns left out, letters of a name."""


def _least(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return the columns that go first where there is little room."""
    least = ("bytes up", "simulated time")
    # Where clients' own models are compared, one model for everybody is the lesser answer.
    return (*least, "accuracy") if _compared(frame).startswith("personal_") else least


def _compared(frame: pd.DataFrame) -> str:
    return str(frame["target_column"].iloc[0])


def _cut(names: pd.Series, letters: int | None) -> pd.Series:
    """Return names of at most so many letters; as they are if they would not differ any more."""
    if letters is None:
        return names
    head = letters // 2
    cut = [n if len(n) <= letters else f"{n[: head - 1]}…{n[head - letters :]}" for n in names]
    return names if len(set(cut)) < len(cut) else pd.Series(cut)


def _glance(results: Results, frame: pd.DataFrame, spreads: int) -> pd.DataFrame:
    """Return the few columns that answer who won; those that hold nothing are left out."""
    frame = _global_only(results, frame)
    shown = {"algorithm": [str(name) for name in frame["name"]]}
    costs = {column.clock: column for column in text_columns(results, frame) if column.clock}
    if costs:
        goal = costs["round"].title.removeprefix("rounds ")
        shown[goal] = [_rounds(row) for _, row in frame.iterrows()]
        for title, clock in (("simulated time", "time_s"), ("bytes up", "bytes_up")):
            shown[title] = [text.partition(" ± ")[0] for text in costs[clock].texts]
    for place, (name, title) in enumerate(_final_titles(results, frame).items()):
        if f"{name}_mean" in frame:
            none = np.full(len(frame), np.nan)
            deviations = frame.get(f"{name}_sd", none) if place < spreads else none
            shown[title] = list(_finals(frame, list(frame[f"{name}_mean"]), list(deviations)))
    kept = {title: texts for title, texts in shown.items() if set(texts) != {NEVER}}
    return pd.DataFrame(kept)


def _final_titles(results: Results, frame: pd.DataFrame) -> dict[str, str]:
    """Return which final values are shown: loss, accuracy, clients' own models, what is compared.

    Of clients' own models it is what an algorithm that is ranked has, or one that has no model
    but these, first their accuracy.
    """
    titles = {"loss": "final loss", "accuracy": "accuracy"}
    own = frame["name"].isin(without_global(results))
    shown = frame[~frame["baseline"] | own] if (~frame["baseline"]).any() else frame
    personal = ("personal_accuracy", "personal_loss")
    found = [n for n in personal if f"{n}_mean" in frame and shown[f"{n}_mean"].notna().any()]
    compared = _compared(frame)
    for name in dict.fromkeys([*found[:1], compared]):
        if name.startswith("personal_"):
            titles[name] = name.replace("_", " ")
        elif name not in titles:
            titles[name] = f"final {results.column(name).title}"
    return titles


def _rounds(row: pd.Series) -> str:
    """Return the rounds to the target, or how many seeds got there."""
    if np.isfinite(row["rounds_to_target"]):
        value = float(row["rounds_to_target"])
        return f"{units.count(value)} round{'' if value == 1 else 's'}"
    several = row["counted"] > 1 and row["reached"] > 0
    return f"{row['reached']} of {row['counted']} seeds" if several else NEVER


def text_width(shown: pd.DataFrame) -> int:
    """Return how many characters a line of a table takes, with two between columns."""
    cells = [[str(title), *map(str, shown[title])] for title in shown]
    return sum(max(map(len, column)) for column in cells) + 2 * (len(cells) - 1)
