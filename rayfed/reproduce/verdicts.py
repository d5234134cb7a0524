"""Verdicts on claims, over all seeds and for each, and drifts of marks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Floats
from rayfed.core.errors import RayfedError
from rayfed.core.files import read_arrays, reading
from rayfed.engine.loop import NOT_FINITE
from rayfed.report.panels.answers import verdict_text
from rayfed.report.read.results import RunRecord
from rayfed.report.verdicts import Verdict as Paired
from rayfed.report.verdicts import verdict as paired
from rayfed.reproduce.claims import Check, Claim, Claims, Close, Mark, RecordedValue, Where, runs_of

NEVER = math.inf
"""The rounds to a target that is not reached: later than any round."""
Ends: TypeAlias = tuple[float, float]
"""The ends of an interval."""
SHOWN = 8
"""The most numbers of a list that are shown."""
_SLACK = 1e-12  # 1.1 is within 0.1 of 1, though 1.1 - 1 > 0.1 in floating point


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim.

    Parameters
    ----------
    claim : Claim
        The claim of the source.
    holds : bool or None
        Whether the means are as claimed; None if they could not be checked.
    measured : str
        The measured numbers in words, or the reason why there are none.
    values : tuple of float
        The compared numbers, means over seeds; infinite for "never".
    each : mapping of int to (bool, tuple of float)
        Of each seed whether the claim holds for it alone, and its numbers.
    ran : bool
        False for a claim about runs of the other length.
    rests_on : tuple of str
        Differences of the runs from the source, and notes on the data.
    """

    claim: Claim
    holds: bool | None
    measured: str
    values: tuple[float, ...] = ()
    each: Mapping[int, tuple[bool, tuple[float, ...]]] = field(default_factory=dict)
    ran: bool = True
    rests_on: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """The state of the claim.

        It is ``holds``, ``undecided``, ``not reproduced``, ``fails``, ``not checked``, ``not run``.
        An order of different runs is undecided if it holds for the means, but not every pair of
        neighbours is decided by the paired differences over seeds (`rayfed.report.verdicts`).
        """
        if self.holds is None:
            return "not checked" if self.ran else "not run"
        if self.claim.measured is None and self.holds:
            return "holds" if self._closest is None else "undecided"
        if self.claim.measured is None:
            return "fails"
        stands = not self.holds and agrees(self.claim.measured, self)
        return "not reproduced" if stands else "fails"

    @property
    def expected(self) -> bool:
        """Whether the claim is not contradicted, fails as marked, or is of the other length."""
        return self.status in ("holds", "undecided", "not reproduced", "not run")

    @cached_property
    def _closest(self) -> Paired | None:
        """The verdict on the two runs of an order that are the least certain to differ.

        None if all are certain, or the claim orders no different runs. The claim needs every pair,
        so that p-values are not corrected for their number.
        """
        found = [_paired(*pair, ratio=self._by_ratio) for pair in self._pairs]
        unclear = [one for one in found if one is not None and not one.clear]
        return max(unclear, key=lambda one: one.comparisons[0].p, default=None)

    @property
    def _by_ratio(self) -> bool:
        """Whether ratios are compared: the claim has a factor."""
        return self.claim.check.by is not None

    @property
    def excluded(self) -> bool:
        """Whether the claim does not hold, and the seeds exclude it.

        They do if no number in the 95 % interval of a value, or of the difference or ratio of a
        pair, is as claimed; without an interval if the claim holds with no seed.
        """
        if self.holds is not False:
            return False
        found = [*self._intervals()]
        if not found or any(math.isnan(low) for (low, _), _ in found):
            return len(self.each) > 1 and not any(holds for holds, _ in self.each.values())
        return any(high < least or low > most for (low, high), (least, most) in found)

    def _intervals(self) -> Iterator[tuple[Ends, Ends]]:
        """Yield the interval of each value or pair, with the bounds of the claim."""
        check = self.claim.check
        each = {s: own for s, (_, own) in self.each.items() if len(own) == len(self.values)}
        if check.value is not None:
            for k, bounds in enumerate(_bounds(check, len(self.values))):
                own = {seed: numbers[k] for seed, numbers in each.items()}
                yield _ends(dict.fromkeys(own, 0.0), own), bounds
            return
        for low, high in self._pairs:
            yield _ends(low, high), (check.apart or 0.0, math.inf)
            if check.by is not None and _positive(low, high):
                yield _ends(low, high, ratio=True), (math.log(check.by), math.inf)

    @cached_property
    def _pairs(self) -> list[tuple[dict[int, float], dict[int, float]]]:
        """The two numbers of each seed for each pair of an order of different runs.

        The first is claimed to be less than the second.
        """
        check, places = self.claim.check, [where for _, where in runs_of(self.claim.check)]
        if len({(where.part, where.of, where.setting) for where in places}) < 2:
            return []
        each = {s: own for s, (_, own) in self.each.items() if len(own) == len(self.values)}
        if any(where.seed is not None for where in places):  # then all seeds have one number
            each = dict([*each.items()][:1])
        pairs = {seed: ordered(check, own) for seed, own in each.items()}
        return [
            (
                {seed: of_seed[k][0] for seed, of_seed in pairs.items()},
                {seed: of_seed[k][1] for seed, of_seed in pairs.items()},
            )
            for k in range(len(ordered(check, self.values)))
        ]

    @property
    def result(self) -> str:
        """The measured numbers, with 95 % intervals of the pairs of an order.

        They are t-intervals of paired differences over the seeds; under `by` of differences of
        logarithms, whose mean is the geometric mean of the ratios.
        """
        check = self.claim.check
        pairs = [] if check.value is not None else self._pairs
        found = [_interval(*pair, ratio=self._by_ratio) for pair in pairs]
        if not found or not all(found):
            return self.measured
        kind = "difference" if check.by is None else "ratio"
        plural = "s" if len(found) > 1 else ""
        listed = ", ".join(found if check.ascending else found[::-1])  # as the values are
        return f"{self.measured}; {kind}{plural} and 95 % interval{plural}: {listed}"

    @property
    def remark(self) -> str:
        """A remark for the reader; empty if there is none."""
        if self.status == "undecided" and self._closest is not None:
            return verdict_text(self._closest)
        because, mark = self.claim.reason(self.values), self.claim.measured
        if because is None or mark is None or self.holds is None:
            return ""
        if self.holds:
            return f"holds now; take its mark away ({because})"
        drifted = f"the mark drifted from {marked(mark)}; measure again: "
        return because if self.status == "not reproduced" else drifted + because

    @property
    def _named_seeds(self) -> list[int]:
        """The seeds of a claim that names them all, ascending; empty otherwise."""
        seeds = [where.seed for _, where in runs_of(self.claim.check)]
        return sorted({s for s in seeds if s is not None}) if None not in seeds else []

    @property
    def seeds(self) -> str:
        """The number of seeds, and of those for which the claim holds alone."""
        count, named = len(self.each), self._named_seeds
        if named:
            return f"seed{'s' if len(named) > 1 else ''} {', '.join(map(str, named))}"
        if count < 2:
            return "one seed" if count else ""
        held = sum(holds for holds, _ in self.each.values())
        if self.values and len({values for _, values in self.each.values()}) == 1:
            return f"{count} seeds, all alike"
        return f"{count} seeds" if held in (0, count) else f"{count} seeds, holds in {held}"

    def as_plain(self) -> dict[str, Any]:
        """Return the verdict as plain values; "never", infinite numbers and NaN are texts."""
        return {
            "says": self.claim.says, "where": self.claim.where, "part": self.claim.part,
            "status": self.status, "holds": self.holds, "excluded": self.excluded,
            "measured": self.result,
            "seeds": len(self.each), "over": self.seeds, "rests_on": list(self.rests_on),
            "values": _plain(self.values),
            "each": {str(seed): _plain(values) for seed, (_, values) in self.each.items()},
            "because": self.claim.reason(self.values), "remark": self.remark,
            "check": given(self.claim.check.model_dump()),
        }  # fmt: skip


def _interval(low: Mapping[int, float], high: Mapping[int, float], *, ratio: bool) -> str:
    """Return the mean of paired differences or ratios, with its interval; empty without one."""
    one = _paired(low, high, ratio=ratio)
    logs = ratio and _positive(low, high)
    if one is None or ratio != logs or not math.isfinite(one.comparisons[0].low):
        return ""
    gap = one.comparisons[0]
    if gap.low == gap.high:  # all seeds are alike
        return ""
    ends = [math.exp(x) if ratio else x for x in (gap.difference, gap.low, gap.high)]
    return "{:.3g} ({:.3g} to {:.3g})".format(*ends)


def _paired(low: Mapping[int, float], high: Mapping[int, float], *, ratio: bool) -> Paired | None:
    """Return the verdict on two runs by seed, on the logarithms of positive numbers for a ratio."""
    scale = None
    if ratio and _positive(low, high):
        low, high = ({seed: math.log(v) for seed, v in of.items()} for of in (low, high))
        scale = 1.0
    return paired({"low": low, "high": high}, best="low", scale=scale)


def _ends(low: Mapping[int, float], high: Mapping[int, float], *, ratio: bool = False) -> Ends:
    """Return the 95 % interval of paired differences, or of logarithms; NaN without one."""
    one = _paired(low, high, ratio=ratio)
    return (
        (math.nan, math.nan) if one is None else (one.comparisons[0].low, one.comparisons[0].high)
    )


def _bounds(check: Check, count: int) -> list[Ends]:
    """Return the least and the largest claimed number for each of some values."""
    if check.between is not None:
        return [check.between] * count
    if check.equals is None:
        below, above = check.below, check.above
        ends = (-math.inf if above is None else above, math.inf if below is None else below)
        return [ends] * count
    if check.factor is not None:
        scaled = [(n / check.factor, n * check.factor) for n in _numbers(check, count)]
        return [(min(ends), max(ends)) for ends in scaled]
    relative, absolute = check.within or 0.0, check.absolute or 0.0
    slacks = [(n, relative * abs(n) + absolute) for n in _numbers(check, count)]
    return [(n - slack, n + slack) for n, slack in slacks]


def _positive(low: Mapping[int, float], high: Mapping[int, float]) -> bool:
    return min([*low.values(), *high.values()], default=0) > 0


def _plain(values: Sequence[float]) -> list[float | str]:
    return [v if math.isfinite(v) else number(v) for v in values]


def judge(claims: Claims, claim: Claim, recorded: Mapping[str, Sequence[RunRecord]]) -> Verdict:
    """Judge a claim on the records of the parts.

    Parameters
    ----------
    claims : Claims
        All claims of the study.
    claim : Claim
        The claim that is judged.
    recorded : mapping of str to sequence of RunRecord
        The runs of each part that the claim reads.
    """

    def source(where: Where, seed: int | None = None) -> Sequence[RunRecord]:
        return chosen(recorded[claims.part_of(claim, where)], where, seed)

    overall = _judged(claim, source)
    alone = {seed: _judged(claim, source, seed) for seed in _seeds(claim.check, source)}
    return replace(overall, each={s: (v.holds is True, v.values) for s, v in alone.items()})


def _judged(claim: Claim, source: Source, seed: int | None = None) -> Verdict:
    """Judge means over seeds, or one seed alone."""
    check = claim.check
    try:
        if check.diverges is not None:
            return _diverges(claim, source, seed)
        values = [measure(value, source, seed) for value in check.values]
    except Unmeasured as error:
        return Verdict(claim, False, str(error))
    flat = tuple(float(v) for v in np.concatenate(values))
    return Verdict(claim, compare(check, flat), text(flat) + claimed(check), flat)


def _seeds(check: Check, source: Source) -> list[int]:
    """Return the seeds that all places of a check share, or those that they name."""
    runs_at = [where for _, where in runs_of(check)]
    if all(where.seed is not None for where in runs_at):  # one number, of these seeds
        return [where.seed for where in runs_at if where.seed is not None][:1]
    try:
        runs = [source(where, None) for where in runs_at if where.seed is None]
    except Unmeasured:
        return []
    return sorted(set.intersection(*({run.seed for run in each} for each in runs)))


def agrees(mark: Mark, verdict: Verdict) -> bool:
    """Return whether the measured numbers agree with a mark."""
    if mark.equals == "diverges":
        return not verdict.values and NOT_FINITE in verdict.measured
    return is_close(mark, mark.numbers, verdict.values)


def marked(mark: Mark) -> str:
    """Return a mark in words."""
    if mark.equals == "diverges":
        return "a run that diverges"
    (slack,) = mark.slacks()
    return f"{text(mark.numbers)} ({slack} {number(getattr(mark, slack))})"


def is_close(close: Close, wanted: Sequence[float], values: Sequence[float]) -> bool:
    """Return whether numbers agree with others within a tolerance; infinite ones do."""
    if len(wanted) != len(values):
        return False
    measured, numbers = np.asarray(values, dtype=float), np.asarray(wanted, dtype=float)
    return bool(((measured == numbers) | _close(close, measured, numbers)).all())


def _numbers(check: Check, count: int = 1) -> Sequence[float]:
    """Return the numbers of a check with `equals`; a single one for each of some values."""
    given = check.equals
    return given if isinstance(given, tuple) else () if given is None else (given,) * count


def claimed(check: Check) -> str:
    """Return the claimed numbers of a check in brackets; empty if there are none."""
    if check.equals is not None:
        numbers = text(_numbers(check))
    elif check.between is not None:
        numbers = f"{number(check.between[0])} to {number(check.between[1])}"
    elif check.form in ("below", "above"):
        numbers = f"{check.form} {number(getattr(check, check.form))}"
    else:
        numbers = f"{number(check.by)} times" if check.by is not None else ""
        if check.apart is not None:
            numbers += f"{numbers and ', '}{number(check.apart)} apart"
    return f" (claimed: {numbers})" if numbers else ""


def compare(check: Check, values: Sequence[float]) -> bool:
    """Return whether values satisfy a check; NaN never does.

    Parameters
    ----------
    check : Check
        Any but ``diverges``.
    values : sequence of float
        Infinite for "never", which is later than any round, but by no known factor.
    """
    measured = np.asarray(values, dtype=float)
    if np.isnan(measured).any():
        return False
    if check.form in ("descending", "ascending"):
        ordered = measured if check.form == "ascending" else measured[::-1]
        return _ascends(ordered, check.by, check.apart)
    if check.below is not None:
        return bool((measured < check.below).all())
    if check.above is not None:
        return bool((measured > check.above).all())
    if check.between is not None:
        low, high = check.between
        return bool(((low <= measured) & (measured <= high)).all())
    return is_close(check, _numbers(check, len(values)), values)


def ordered(check: Check, values: Sequence[float]) -> list[tuple[float, float]]:
    """Return the pairs of numbers of a check, with the first claimed to be less than the second.

    They are the neighbours of an order; of a ratio or difference the number itself and that of
    equal runs, if the bounds exclude equal runs.
    """
    value = check.value
    if value is None:
        return list(pairwise(values if check.ascending else values[::-1]))
    equal = 1.0 if value.ratio else 0.0
    if not (value.ratio or value.difference) or check.equals is not None or compare(check, [equal]):
        return []
    least = check.between[0] if check.between else check.above
    more = least is not None and least >= equal
    return [(equal, number) if more else (number, equal) for number in values]


def _ascends(values: Floats, by: float | None, apart: float | None) -> bool:
    if not (values[1:] > values[:-1]).all():
        return False
    if by is None and apart is None:
        return True
    if not np.isfinite(values).all():
        return False
    least = np.maximum((by or 1.0) * values[:-1], values[:-1] + (apart or 0.0) * (1 - _SLACK))
    return bool((values[1:] >= least).all())


def _close(close: Close, measured: Floats, wanted: Floats) -> npt.NDArray[np.bool_]:
    with np.errstate(divide="ignore", invalid="ignore"):
        if close.factor is not None:
            times = measured / wanted
            return (1 / close.factor <= times) & (times <= close.factor)
        relative, absolute = close.within or 0.0, close.absolute or 0.0
        allowed = (relative * np.abs(wanted) + absolute) * (1 + _SLACK)
        return np.isfinite(wanted) & (np.abs(measured - wanted) <= allowed)


def _diverges(claim: Claim, source: Source, seed: int | None) -> Verdict:
    runs_at = claim.check.diverges or ()
    reasons = [why_failed(run) for where in runs_at for run in source(where, seed)]
    finite = [why for why in reasons if why is None or NOT_FINITE not in why]
    if not finite:
        return Verdict(claim, True, "; ".join(str(why).partition(";")[0] for why in reasons))
    return Verdict(claim, False, finite[0] or "ends with finite numbers")


def given(settings: Any) -> Any:
    """Return plain settings without keys that are None."""
    if isinstance(settings, dict):
        return {key: given(value) for key, value in settings.items() if value is not None}
    return [given(one) for one in settings] if isinstance(settings, list) else settings


class Unmeasured(RayfedError):
    """A value cannot be read from the records."""


Source: TypeAlias = Callable[[Where, int | None], Sequence[RunRecord]]
"""Returns the runs that a place of a claim names, of one seed if it names none."""


def chosen(runs: Sequence[RunRecord], where: Where, seed: int | None = None) -> list[RunRecord]:
    """Return the runs of a part that a place names.

    Raises
    ------
    Unmeasured
        If there is none.
    """
    wanted = (where.of, where.setting, seed if where.seed is None else where.seed)
    named = [
        run
        for run in runs
        if all(want in (None, has) for want, has in zip(wanted, key(run), strict=True))
    ]
    if not named:
        raise Unmeasured(f"nothing is recorded of {where.of or 'its runs'}")
    return named


def key(run: RunRecord) -> tuple[str, str, int]:
    """Return the label, setting and seed of a run."""
    return run.label, run.setting, run.seed


def why_failed(run: RunRecord) -> str | None:
    """Return the reason why a run failed; None if it did not."""
    return str(run.info["reason"]) if run.status == "failed" else None


def _name(run: RunRecord) -> str:
    label, setting, seed = key(run)
    return f"{label} ({setting}), seed {seed}" if setting else f"{label}, seed {seed}"


def measure(value: RecordedValue, source: Source, seed: int | None = None) -> Floats:
    """Return the numbers (k,) of a value, means over seeds or those of one seed.

    Raises
    ------
    Unmeasured
        If a number was not recorded.
    """
    both = value.ratio or value.difference
    if both is not None:
        first, second = (measure(one, source, seed) for one in both)
        if len(first) != len(second):
            raise Unmeasured(f"{len(first)} and {len(second)} values cannot be compared")
        if np.isinf([*first, *second]).any():
            raise Unmeasured(f"{text(first)} and {text(second)} give no number")
        if value.ratio and not second.all():
            raise Unmeasured(f"{text(first)} over {text(second)} is no number")
        return first / second if value.ratio else first - second
    each = []
    for run in source(value, seed):
        why = why_failed(run)
        if why is not None:
            raise Unmeasured(f"{_name(run)} failed: {why}")
        if value.parameters is not None:
            each.append(_coordinates(value.parameters, _name(run), run.folder / "model.npz"))
        else:
            each.append(_read(value, run))
    return np.asarray(np.mean(each, axis=0))


def _read(value: RecordedValue, run: RunRecord) -> Floats:
    """Return the numbers (k,) of one run."""
    missing = f"{_name(run)} has no value of {value.name}"
    if value.name not in run.rounds:
        raise Unmeasured(f"{_name(run)} has no column {value.name}")
    series = run.rounds.set_index("round", drop=False)[value.name].astype(float).dropna()
    if not len(series):
        raise Unmeasured(missing)
    if value.target is not None:
        return _reached(value, run, series)
    if value.reduce is not None:
        first, last = value.over or (series.index[0], series.index[-1])
        window = series.loc[first:last]
        if not len(window):
            raise Unmeasured(f"{missing} from round {first} to {last}")
        return np.array([float(window.agg("std" if value.reduce == "sd" else value.reduce))])
    if value.at == "last":
        return np.array([series.iloc[-1]])
    for round in value.rounds:
        if round not in series.index:
            raise Unmeasured(f"{missing} at round {round}")
    return np.asarray(series.loc[list(value.rounds)])


def _reached(value: RecordedValue, run: RunRecord, series: Any) -> Floats:
    """Return a clock (1,) of one run at its target."""
    assert value.target is not None
    [(column, number)] = value.target.items()
    good = series >= number if run.better(column) == "higher" else series <= number
    if not good.any():
        return np.array([NEVER])
    if value.clock not in run.history:
        raise Unmeasured(f"{_name(run)} has no column {value.clock}")
    first = series.index[int(np.argmax(good))]
    return np.asarray(run.history[value.clock][run.rounds["round"] == first], dtype=float)


def _coordinates(places: Sequence[int], name: str, path: Path) -> Floats:
    """Return coordinates (k,) of the final model of one run."""
    with reading(path, "a model"):
        x = read_arrays(path)["x"]
    if max(places) >= len(x):
        raise Unmeasured(f"{name} has {len(x)} parameters, counted from 0")
    return np.asarray(x[list(places)], dtype=float)


def number(value: float) -> str:
    """Return a number with six digits.

    Examples
    --------
    >>> number(250.0), number(2.06e-9), number(float("inf"))
    ('250', '2.06e-09', 'never')
    """
    return "never" if math.isinf(value) else f"{value:.6g}"


def text(values: Sequence[float] | Floats) -> str:
    """Return numbers on one line, without the middle of a long list."""
    shown = [number(v) for v in values]
    if len(shown) > SHOWN:
        shown = [*shown[: SHOWN - 1], "...", shown[-1]]
    return ", ".join(shown)
