"""Tables of results: costs to a target and final values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pandas as pd

from rayfed.report.ranking import COSTS, TO_KEEP, WITHIN, Ranking, costs
from rayfed.report.read import units
from rayfed.report.read.curves import ENERGY, final, first_column, history, targets
from rayfed.report.read.personal import without_global
from rayfed.report.read.results import Results, per_results

_T = TypeVar("_T")
NEVER = units.MISSING
_FINALS = ("loss", "test_loss", "loss_gap", "accuracy", "personal_loss", "personal_accuracy")
KEPT = "kept"
"""The clock of a column that shows the round from which the target is kept."""


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
        ``..._to_target`` are means over seeds of the totals at the first evaluated round that
        reaches the target (rounds, simulated seconds, bytes, replies used, joules), NaN unless
        every seed reached it; ``..._to_target_sd`` are their deviations, ``..._within`` the
        largest distance to the evaluated row before, and ``reached`` the number of seeds.
        ``..._to_keep`` are means of the first evaluated row from which the target is kept, by
        ``kept`` seeds.
        ``<column>_mean`` and ``<column>_sd`` are of the last evaluated value, over the seeds that
        did not fail. Deviations are the sample's, NaN for one seed. The measures of
        `usage.Usage.totals` are means over the seeds that recorded them, and left out if no run
        did.
    """
    frame = outcomes(results, y, target)
    measured = [
        pd.DataFrame([run.usage.totals for run in results.usable(name)]).mean()
        for name in frame["name"]
    ]
    return pd.concat([frame, pd.DataFrame(measured, dtype=float).reset_index(drop=True)], axis=1)


def outcomes(results: Results, y: str | None = None, target: float | None = None) -> pd.DataFrame:
    """Return the `summary` without the measures of the use of clients."""
    y = first_column(results) if y is None else y
    goals = targets(results, y) if target is None else dict.fromkeys(results.names, target)
    rows = []
    for name in results.names:
        part = results.cases.get(results.case_of.get(name, ""), results)
        within = results.within[name]
        rows.append({**_row(part, within, y, goals[name]), "name": name})
    frame = pd.DataFrame(rows)
    finals = [f"{column}_{part}" for column in _FINALS for part in ("mean", "sd")]
    empty = [name for name in finals if frame[name].isna().all()]
    if ENERGY not in results.recorded:
        empty += ["energy_to_target_j", "energy_to_target_j_sd"]
    return frame.drop(columns=empty)


@per_results
def _row(results: Results, name: str, y: str, target: float | None) -> dict[str, Any]:
    every, histories = results.of(name), [history(run) for run in results.usable(name)]
    states = [run.status for run in every]
    row: dict[str, Any] = {
        "name": name,
        "algorithm": every[0].info.get("algorithm", name),
        "baseline": every[0].baseline,
        "seeds": len(every),
        "finished": states.count("finished"),
        "failed": states.count("failed"),
        "target_column": y,
        "target": np.nan if target is None else target,
    }
    row |= _to_target(costs(results, name, y, target))
    for column in _FINALS:
        row[f"{column}_mean"], row[f"{column}_sd"] = final(histories, column)
    for column, source in (("rounds", "round"), ("time_s", "time_s"), ("bytes_up", "bytes_up")):
        ends = [float(frame[source][-1]) for frame in histories]
        row[column] = float(np.mean(ends)) if ends else np.nan
    return row


def _to_target(each: pd.DataFrame) -> dict[str, Any]:
    """Return counts, means and deviations of the costs of each seed, (seeds, costs)."""
    values, seeds = each.to_numpy(), len(each)
    known = dict(zip(each, (~np.isnan(values)).sum(axis=0).tolist(), strict=True))
    nothing = np.full(values.shape[1], np.nan)
    # A seed that did not reach the target has NaN, which spreads to these.
    found = (
        np.mean(values, axis=0) if seeds else nothing,
        np.std(values, axis=0, ddof=1) if seeds > 1 else nothing,
        np.max(values, axis=0) if seeds else nothing,
    )
    mean, deviation, largest = (dict(zip(each, part.tolist(), strict=True)) for part in found)
    measured = (*COSTS, *TO_KEEP)
    return {
        "reached": known["rounds_to_target"],
        "counted": seeds,
        "kept": known["rounds_to_keep"],
        **{name: mean[name] for name in measured},
        **{f"{name}_sd": deviation[name] for name in measured},
        **{name: largest[name] for name in WITHIN},
    }


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
        The sort keys of rows; NaN sorts last.
    best : tuple of bool
        Whether a row holds the best value, if it is better than all others (`verdicts`); no
        baseline does, nor the only competitor.
    clock : str
        The clock of a cost to the target, or `KEPT`; empty for other columns.
    spreads : tuple of float
        The deviations of `values`, NaN where there is none; empty for a column of names.
    """

    title: str
    texts: tuple[str, ...]
    values: tuple[float, ...]
    best: tuple[bool, ...]
    clock: str = ""
    spreads: tuple[float, ...] = ()


def text_columns(results: Results, frame: pd.DataFrame) -> list[TextColumn]:
    """Return the `summary` of results as columns of text, the algorithms' names first.

    Where a study has cases, the rows of each are adjacent, and the best is the best of its case. No
    value is the best where folders solve different problems.
    """
    frame = _by_case(results, _global_only(results, frame))
    names = tuple(map(str, frame["name"]))
    made = [TextColumn("algorithm", names, tuple(map(float, frame.index)), (False,) * len(names))]
    cases = [case for _, case in frame.groupby("case")]
    if frame["target"].notna().any():
        ranked = [_ranked(results, case, "costs", Ranking.of_costs) for case in cases]
        for cost, title, text in _cost_titles(results, frame):
            texts, values, spreads = _costs(frame, cost, text)
            best = _best(results, frame, texts, [found[cost] for found in ranked])
            made.append(TextColumn(title, texts, values, best, COSTS.get(cost, KEPT), spreads))
    # A column that only baselines have is left out, unless they have no other model.
    own = frame["name"].isin(without_global(results))
    compared = frame[~frame["baseline"] | own] if (~frame["baseline"]).any() else frame
    for name in _FINALS:
        mean = f"{name}_mean"
        if mean in frame and compared[mean].notna().any():
            finals = [
                _ranked(results, case[case[mean].notna()], name, partial(_of_finals, column=name))
                for case in cases
            ]
            texts = _finals(frame, name)
            title = f"final {results.column(name).title}"
            values = tuple(frame[mean].astype(float))
            best, sds = _best(results, frame, texts, finals), tuple(_spreads(frame, f"{name}_sd"))
            made.append(TextColumn(title, texts, values, best, spreads=sds))
    return made


def _of_finals(results: Results, rows: pd.DataFrame, column: str) -> Ranking:
    return Ranking.of_finals(results, column, rows["name"])


def _ranked(
    results: Results, rows: pd.DataFrame, what: str, make: Callable[[Results, pd.DataFrame], _T]
) -> _T:
    """Return rankings of the rows of one case, cached with its results, whose runs alone count."""
    names = tuple(rows["name"])
    part = results.cases.get(results.case_of.get(names[0], ""), results) if names else results
    aims = tuple(map(str, rows[["target_column", "target", "counted"]].to_numpy().ravel()))
    return part.cached(("ranked", what, names, aims), lambda: make(results, rows))


def _by_case(results: Results, frame: pd.DataFrame) -> pd.DataFrame:
    """Return rows grouped by the place of their ``case``."""
    places = {case: place for place, case in enumerate(results.cases)}
    case = [places.get(results.case_of.get(name, ""), 0) for name in frame["name"]]
    return frame.assign(case=case).sort_values("case", kind="stable")


def _global_only(results: Results, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a `summary` without values of clients' own models in columns of a global model.

    They are those of algorithms that have no global model, such as local-only.
    """
    own = frame["name"].isin(without_global(results))
    emptied = [f"{n}_{part}" for n in _FINALS[:4] for part in ("mean", "sd")]
    copied = frame.copy()
    if not _compared(frame).startswith("personal_"):
        emptied += [column for column in map(str, frame) if column.startswith((*COSTS, *TO_KEEP))]
        copied.loc[own, "counted"] = 0
    copied.loc[own, [column for column in emptied if column in copied]] = np.nan
    return copied


_Text: TypeAlias = Callable[[float], str]


def _cost_titles(results: Results, frame: pd.DataFrame) -> list[tuple[str, str, _Text]]:
    title = results.column(_compared(frame)).title
    several = results.cases  # which have targets of their own
    goal = "the target" if several else f"{title} {units.target(frame['target'].iloc[0])}"
    return [
        ("rounds_to_target", f"rounds to {goal}", units.count),
        ("rounds_to_keep", "kept from round", units.count),
        ("time_to_target_s", "simulated time", units.duration),
        ("bytes_up_to_target", "uploaded", units.size),
        ("updates_to_target", "client updates", units.count),
        *([("energy_to_target_j", "energy", units.energy)] if ENERGY in results.recorded else ()),
    ]


_COUNTED = {"rounds_to_target": "reached", "rounds_to_keep": "kept"}
"""The columns that count the seeds with a cost."""


def _costs(
    frame: pd.DataFrame, cost: str, text: _Text
) -> tuple[tuple[str, ...], tuple[float, ...], tuple[float, ...]]:
    """Return a cost of each row as text and number, and its deviation."""
    # A baseline that exchanges nothing, or nothing that is recorded, has no cost to compare.
    values = frame[cost].where(~(frame["baseline"] & (frame[cost] == 0))).astype(float)
    # There is no room for the deviations of `TO_KEEP`.
    texts, spreads = [], _spreads(frame, f"{cost}_sd" if cost in COSTS else "")
    seeds = zip(frame[_COUNTED.get(cost, "counted")], frame["counted"], strict=True)
    for value, spread, (reached, every) in zip(values, spreads, seeds, strict=True):
        if not np.isfinite(value):
            several = cost in _COUNTED and every > 1
            texts.append(f"{NEVER} ({reached} of {every} seeds)" if several else NEVER)
        elif np.isfinite(spread):
            texts.append(f"{text(value)} ± {text(spread)}")
        else:
            texts.append(text(value))
    return tuple(texts), tuple(values), tuple(spreads)


def _finals(frame: pd.DataFrame, name: str) -> tuple[str, ...]:
    """Return final values as text; an algorithm of which every run failed has none."""
    failed = frame["failed"] == frame["seeds"]
    every = zip(failed, frame[f"{name}_mean"], _spreads(frame, f"{name}_sd"), strict=True)
    return tuple("failed" if lost else with_spread(mean, sd) for lost, mean, sd in every)


def _spreads(frame: pd.DataFrame, column: str) -> pd.Series:
    """Return a column of deviations, NaN throughout if there is none."""
    return frame.get(column, pd.Series(np.nan, frame.index)).astype(float)


def _best(
    results: Results, frame: pd.DataFrame, texts: Sequence[str], ranked: Sequence[Ranking]
) -> tuple[bool, ...]:
    """Return which value is the best of its case; of two that read alike neither is.

    Parameters
    ----------
    texts : sequence of str
        The text of each row.
    ranked : sequence of Ranking
        The ranking of each case.
    """
    best = dict.fromkeys(() if results.unlike else (one.best for one in ranked))
    competing = {name for one in ranked for name in one.ranking}
    shown = list(zip(frame["case"], frame["name"], texts, strict=True))
    seen = Counter((case, text) for case, name, text in shown if name in competing)
    return tuple(name in best and seen[case, text] == 1 for case, name, text in shown)


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


def mean_text(mean: float, spread: float) -> str:
    """Return a mean as `with_spread` has it, without the deviation.

    Examples
    --------
    >>> mean_text(0.79, 0.012), mean_text(0.79, float("nan"))
    ('0.790', '0.79')
    """
    return with_spread(mean, spread).partition(" ± ")[0]


def mean_texts(frame: pd.DataFrame, name: str) -> list[str]:
    """Return the `mean_text` of a column's last values in each row of a `summary`."""
    pairs = zip(frame[f"{name}_mean"], _spreads(frame, f"{name}_sd"), strict=True)
    return [mean_text(mean, spread) for mean, spread in pairs]


def comparison(
    results: Results, y: str | None = None, target: float | None = None, width: int | None = 80
) -> pd.DataFrame:
    """Return the main columns of the results as text, for a terminal or a notebook.

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
        Final values always stay. If None, all are given.
    """
    frame = summary(results, y, target)
    full, means = _overview(results, frame)
    for spreads, left_out, letters in _NARROWER:
        shown = full.assign(**dict([*means.items()][spreads:]))
        shown = shown.drop(columns=[*_least(frame)[:left_out]], errors="ignore")
        shown["algorithm"] = _cut(full["algorithm"], letters)
        if width is None or text_width(shown) <= width:
            break
    return shown


_NARROWER = (
    (4, 0, None), (2, 0, None), (1, 0, None), (0, 0, None),
    (0, 1, None), (0, 1, 20), (0, 2, 20), (0, 3, 12),
)  # fmt: skip
"""Ever narrower tables: columns with deviations, columns left out, letters of a name."""


def _least(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return the columns that are left out first where there is little room."""
    least = ("bytes up", "simulated time")
    # Where clients' own models are compared, the global model matters less.
    return (*least, "accuracy") if _compared(frame).startswith("personal_") else least


def _compared(frame: pd.DataFrame) -> str:
    return str(frame["target_column"].iloc[0])


def _cut(names: pd.Series, letters: int | None) -> pd.Series:
    """Return names cut to a number of letters; uncut if two would be equal."""
    if letters is None:
        return names
    head = letters // 2
    cut = [n if len(n) <= letters else f"{n[: head - 1]}…{n[head - letters :]}" for n in names]
    return names if len(set(cut)) < len(cut) else pd.Series(cut)


def _overview(results: Results, frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Return the columns of `comparison`, and its final values without deviations."""
    columns, shown, means = text_columns(results, frame), {}, {}
    for column in columns:
        if column.clock == "round":
            shown[column.title.removeprefix("rounds ")] = [*map(_rounds, column.texts)]
        elif column.clock in ("time_s", "bytes_up"):
            title = "bytes up" if column.clock == "bytes_up" else column.title
            shown[title] = [text.partition(" ± ")[0] for text in column.texts]
    finals = {column.title: column for column in columns if not column.clock}
    titles = {name: f"final {results.column(name).title}" for name in _FINALS}
    personal = [n for n in ("personal_accuracy", "personal_loss") if titles[n] in finals][:1]
    for name in dict.fromkeys(("loss", "accuracy", *personal, _compared(frame))):
        if (title := titles.get(name, "")) in finals:
            short = title.removeprefix("final ") if title.endswith("accuracy") else title
            column = finals[title]
            shown[short] = [*column.texts]
            means[short] = [text.partition(" ± ")[0] for text in column.texts]
    reached = {title: texts for title, texts in shown.items() if set(texts) != {NEVER}}
    return pd.DataFrame({"algorithm": columns[0].texts} | reached), means


def _rounds(text: str) -> str:
    """Return the rounds to the target, or the number of seeds that reached it."""
    if text.startswith(NEVER):
        seeds = text.partition("(")[2].rstrip(")")
        return NEVER if seeds.startswith("0 ") else seeds or NEVER
    count = text.partition(" ± ")[0]
    return f"{count} round{'' if count == '1' else 's'}"


def text_width(shown: pd.DataFrame) -> int:
    """Return the characters of a line of a table, with two between columns."""
    cells = [[str(title), *map(str, shown[title])] for title in shown]
    return sum(max(map(len, column)) for column in cells) + 2 * (len(cells) - 1)
