"""Claims of a published study, as data: parts to run, and checks of their records.

A ``<name>.claims.yaml`` belongs to ``<name>.yaml`` in the same folder. There is no language of
expressions in it: a check is one of a few comparisons of values, a value is a column of
``rounds.parquet`` at a place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from annotated_types import Ge, Gt, Len
from pydantic import Field, ValidationError, model_validator

from rayfed.core.errors import ScenarioError, unknown
from rayfed.core.yamlfile import read_yaml
from rayfed.study.scenario.invalid import complaint, errors_of, together
from rayfed.study.scenario.settings import Settings, fail

SUFFIX = ".claims.yaml"
Length = Literal["short", "full"]
Round = Annotated[int, Ge(0)]
Text = Annotated[str, Len(1)]
Counted = float | Literal["never"]


class StudyPart(Settings):
    """One study with a result folder of its own.

    Parameters
    ----------
    about : str
        One sentence.
    scenario : str, optional
        A file in the folder of the claims; that of the same name if not given.
    set : mapping
        Values for dotted keys of the scenario.
    full : mapping
        More of them, for the length of the paper (``--full``).
    algorithms : list of str, optional
        Labels of the algorithms that run; all if not given.
    only : "short" or "full", optional
        Runs in that length alone.
    """

    about: Text
    scenario: Text | None = None
    set: dict[str, Any] = Field(default_factory=dict)
    full: dict[str, Any] = Field(default_factory=dict)
    algorithms: Annotated[tuple[str, ...], Len(1)] | None = None
    only: Length | None = None


class Where(Settings):
    """A choice of runs: all seeds of one algorithm under one setting.

    Parameters
    ----------
    part : str, optional
        Default: the part of the claim.
    of : str, optional
        Label; not needed where the part runs one algorithm.
    setting : str, optional
        Of a grid, as ``rayfed check`` names it; not needed without a grid.
    seed : int, optional
        The only seed; the mean over all if not given.
    """

    part: str | None = None
    of: str | None = None
    setting: str | None = None
    seed: Annotated[int, Ge(0)] | None = None


CLOCKS = {
    "rounds_to": "round", "time_to": "time_s", "bytes_to": "bytes", "energy_to": "energy_j",
}  # fmt: skip
"""The column of a run's history for each value that is a clock to a target."""


class RecordedValue(Where):
    """A number, or a list of numbers, from the records of the runs.

    Parameters
    ----------
    column : str
        Of ``rounds.parquet``.
    at : int, list of int or "last"
        The rounds; "last" is the last one that was evaluated.
    reduce : "mean", "min", "max", "sum" or "sd"
        Instead of `at`: over the rounds that have a value.
    over : (int, int), optional
        The first and last round that `reduce` takes.
    rounds_to : mapping
        One column and a number: the first evaluated round that is as good, "never" if none is.
        Where higher is better it is as good from the number upwards, else from it downwards.
    time_to : mapping
        The simulated seconds of that round.
    bytes_to : mapping
        The bytes, down and up, of all rounds up to that round.
    energy_to : mapping
        The joules of all rounds up to that round.
    parameters : list of int
        Coordinates of the final model.
    ratio, difference : (Value, Value)
        The first over the second; the first minus the second.
    """

    column: str | None = None
    at: Round | Annotated[tuple[Round, ...], Len(1)] | Literal["last"] | None = None
    reduce: Literal["mean", "min", "max", "sum", "sd"] | None = None
    over: tuple[Round, Round] | None = None
    rounds_to: Annotated[dict[str, float], Len(1, 1)] | None = None
    time_to: Annotated[dict[str, float], Len(1, 1)] | None = None
    bytes_to: Annotated[dict[str, float], Len(1, 1)] | None = None
    energy_to: Annotated[dict[str, float], Len(1, 1)] | None = None
    parameters: Annotated[tuple[Annotated[int, Ge(0)], ...], Len(1)] | None = None
    ratio: tuple[RecordedValue, RecordedValue] | None = None
    difference: tuple[RecordedValue, RecordedValue] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        form = _only_key(self, "column", *CLOCKS, "parameters", "ratio", "difference")
        if form == "column" and (self.at is None) == (self.reduce is None):
            fail("give at (a round, a list of rounds, last) or reduce", self.at, "at")
        left_out = () if form == "column" else ("at", "reduce", "over")
        if form in ("ratio", "difference"):  # which name their runs themselves
            left_out = (*left_out, *Where.model_fields)
        _without(self, left_out, f"does not go with {form}; leave it out")
        if self.over is not None and (self.reduce is None or self.over[0] > self.over[1]):
            fail("goes with reduce: [first round, last round]", list(self.over), "over")
        return self

    @property
    def rounds(self) -> tuple[int, ...]:
        """The rounds that `at` names by number."""
        if isinstance(self.at, tuple):
            return self.at
        return (self.at,) if isinstance(self.at, int) else ()

    @property
    def count(self) -> int:
        """How many numbers it has."""
        both = self.ratio or self.difference
        return both[0].count if both else len(self.parameters or self.rounds or (0,))

    @property
    def name(self) -> str:
        """The column that it reads; empty where it reads none."""
        return self.column or next(iter(self.target or {}), "")

    @property
    def target(self) -> dict[str, float] | None:
        """The column and the number that it is a clock to; None for other values."""
        return self.rounds_to or self.time_to or self.bytes_to or self.energy_to

    @property
    def clock(self) -> str:
        """The column of a run's history that is read at the target."""
        return next(clock for key, clock in CLOCKS.items() if getattr(self, key) is not None)


class Close(Settings):
    """A tolerance between numbers; they are equal if none is given.

    Parameters
    ----------
    within, absolute, factor : float
        The largest relative or absolute deviation, or the largest factor between them.
    """

    within: Annotated[float, Gt(0)] | None = None
    absolute: Annotated[float, Gt(0)] | None = None
    factor: Annotated[float, Gt(1)] | None = None

    def slacks(self) -> list[str]:
        """Return the names of the tolerances that are given.

        Raises
        ------
        ValueError
            If there are several.
        """
        given = [k for k in ("within", "absolute", "factor") if getattr(self, k) is not None]
        if len(given) > 1:
            fail("give one of within, absolute, factor", None, given[0])
        return given


class Mark(Close):
    """The measured numbers of a claim that does not hold; if they drift, the claim fails.

    Parameters
    ----------
    equals : float, "never", list of them, or "diverges"
        The numbers, with one of `within`, `absolute`, `factor`; or "diverges" without a tolerance,
        if a run of the claim ends with numbers that are not finite.
    """

    equals: Literal["diverges"] | Counted | Annotated[tuple[Counted, ...], Len(1)]

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if len(self.slacks()) != (self.equals != "diverges"):
            fail("numbers go with one of within, absolute, factor", None, "equals")
        return self

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers; infinite for "never"."""
        given = self.equals if isinstance(self.equals, tuple) else (self.equals,)
        return tuple(math.inf if one == "never" else float(one) for one in given)


class Check(Close):
    """One comparison; a list of values holds if each of them does.

    Parameters
    ----------
    value : RecordedValue
        The compared value.
    equals : float or list of float
        Exactly, or within the tolerance; one number for all values, or one for each.
    below, above : float
        The value is smaller, or larger.
    between : (float, float)
        Bounds of the value, included.
    descending, ascending : list of RecordedValue
        Each is larger, or smaller, than the next.
    by : float
        The least factor between neighbours.
    apart : float
        The least difference of neighbours.
    diverges : list of Where
        The runs ended with a loss or a model that is not finite.
    """

    value: RecordedValue | None = None
    equals: float | Annotated[tuple[float, ...], Len(1)] | None = None
    below: float | None = None
    above: float | None = None
    between: tuple[float, float] | None = None
    descending: Annotated[tuple[RecordedValue, ...], Len(1)] | None = None
    ascending: Annotated[tuple[RecordedValue, ...], Len(1)] | None = None
    by: Annotated[float, Gt(1)] | None = None
    apart: Annotated[float, Gt(0)] | None = None
    diverges: Annotated[tuple[Where, ...], Len(1)] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        form = _only_key(self, "value", "descending", "ascending", "diverges")
        bounds = ("equals", "below", "above", "between")
        slacks = ("within", "absolute", "factor")
        if form == "value":
            bound = _only_key(self, *bounds)
            left_out = ("by", "apart", *([] if bound == "equals" else slacks))
            self.slacks()
            count = self.value.count if self.value is not None else 1
            if isinstance(self.equals, tuple) and len(self.equals) != count:
                several = f", or {count} as the value has" if count > 1 else ""
                fail(f"give one number{several}", list(self.equals), "equals")
        else:
            left_out = (*bounds, *slacks, *(["by", "apart"] if form == "diverges" else []))
            if form != "diverges" and sum(value.count for value in self.values) < 2:
                fail("give two values or more", 1, form)
        _without(self, left_out, "has no effect here; leave it out")
        return self

    @property
    def form(self) -> str:
        """The key of the comparison."""
        forms = ("equals", "below", "above", "between", "descending", "ascending", "diverges")
        return next(form for form in forms if getattr(self, form) is not None)

    @property
    def values(self) -> tuple[RecordedValue, ...]:
        """The compared values in their order."""
        if self.value is not None:
            return (self.value,)
        return self.descending or self.ascending or ()


class Claim(Settings):
    """One claim of the source.

    Parameters
    ----------
    says : str
        The claim in a sentence.
    where : str
        The place in the source: a table, a figure, a section.
    part : str, optional
        Default: the first part.
    only : "short" or "full", optional
        The only length of runs that it is about.
    check : mapping
        The condition under which it holds.
    because : str, optional
        The reason why it does not hold here. ``{0}``, ``{1:.3f}`` are replaced by the measured
        numbers, in the order of the check.
    measured : Mark, optional
        The measured numbers, goes with `because`.
    """

    says: Text
    where: Text
    part: str | None = None
    only: Length | None = None
    check: Check
    because: Text | None = None
    measured: Mark | None = None

    @model_validator(mode="after")
    def _marked(self) -> Self:
        if (self.because is None) != (self.measured is None):
            fail("because and measured go together", None, "because")
        try:
            self.reason()
        except (AttributeError, LookupError, TypeError, ValueError):
            fail(
                "write measured numbers as {0}, {1:.3f}, one of each that is compared",
                None,
                "because",
            )
        return self

    def reason(self, values: Sequence[float] = ()) -> str | None:
        """Return `because` with the measured numbers, or those of the mark if there are none."""
        if self.because is None or self.measured is None or self.measured.equals == "diverges":
            return self.because
        return self.because.format(*(values or self.measured.numbers))


class Claims(Settings):
    """The contents of a ``<name>.claims.yaml``.

    Parameters
    ----------
    source : str
        Authors, title, venue, year, link.
    own : bool
        Whether the claims are expectations of this project, not of the source.
    stands_in : str, optional
        Replacements in runs of both lengths: "LeNet-5 for VGG-11".
    parts : mapping of str to Part
        The studies that are run.
    claims : list of Claim
        The claims that are checked.
    """

    source: Text
    own: bool = False
    stands_in: Text | None = None
    parts: Annotated[dict[Annotated[str, Field(pattern=r"^[\w.-]+$")], StudyPart], Len(1)]
    claims: Annotated[tuple[Claim, ...], Len(1)]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        said = [claim.says for claim in self.claims]  # which tables of all studies know them by
        for index, claim in enumerate(self.claims):
            if claim.says in said[:index]:
                fail("an earlier claim says the same", claim.says, "claims", index, "says")
            named = [("part", claim.part)]
            named += [(f"check.{at}.part", where.part) for at, where in runs_of(claim.check)]
            for place, part in named:
                if part is not None and part not in self.parts:
                    at = (int(key) if key.isdecimal() else key for key in place.split("."))
                    fail(unknown("part", part, self.parts), part, "claims", index, *at)
            if not (self.counts(claim, "short") or self.counts(claim, "full")):
                fail("reads parts that never run together", claim.only, "claims", index, "only")
        return self

    def of_length(self, length: Length) -> Claims:
        """Return the parts and claims about runs of a length."""
        parts = {name: part for name, part in self.parts.items() if part.only in (None, length)}
        selected = [
            claim.model_copy(update={"part": self.part_of(claim)})
            for claim in self.claims
            if self.counts(claim, length)
        ]
        return self.model_copy(update={"parts": parts, "claims": tuple(selected)})

    def counts(self, claim: Claim, length: Length) -> bool:
        """Return whether a claim is about runs of a length, with all of its parts."""
        alone = (claim.only, *(self.parts[part].only for part in self.needs(claim)))
        return all(only in (None, length) for only in alone)

    def part_of(self, claim: Claim, where: Where | None = None) -> str:
        """Return the part of a claim, or that of a value in it."""
        named = where.part if where is not None else None
        return named or claim.part or next(iter(self.parts))

    def needs(self, claim: Claim) -> set[str]:
        """Return the parts that a claim reads."""
        return {self.part_of(claim, where) for _, where in runs_of(claim.check)}


def runs_of(check: Check) -> list[tuple[str, Where]]:
    """Return the places of a check that name runs, with their dotted keys."""
    places: list[tuple[str, Where]] = []
    if check.value is not None:
        places += _leaves("value", check.value)
    for form in ("descending", "ascending"):
        for index, value in enumerate(getattr(check, form) or ()):
            places += _leaves(f"{form}.{index}", value)
    return places + [(f"diverges.{k}", where) for k, where in enumerate(check.diverges or ())]


def load_claims(path: Path | str) -> Claims:
    """Read a ``<name>.claims.yaml``.

    Raises
    ------
    ScenarioError
        If it cannot be read or is wrong, with a line for every mistake: file and place.
    """
    path = Path(path)
    raw, _ = read_yaml(path)
    if not isinstance(raw, Mapping):
        raise ScenarioError(str(path), "holds no mapping; write source, parts and claims")
    try:
        return Claims.model_validate(dict(raw))
    except ValidationError as error:
        raise together(
            ScenarioError(f"{path}: {wrong.place}", wrong.problem)
            for wrong in errors_of(complaint(error, raw))
        ) from None


def _leaves(place: str, value: RecordedValue) -> list[tuple[str, Where]]:
    """Return the values that read a table: a value itself, or both of a ratio."""
    for form in ("ratio", "difference"):
        both = getattr(value, form)
        if both is not None:
            return [
                leaf for k, part in enumerate(both) for leaf in _leaves(f"{place}.{form}.{k}", part)
            ]
    return [(place, value)]


def _without(given: Settings, keys: Iterable[str], problem: str) -> None:
    """Refuse the first key that is given."""
    for key in keys:
        if getattr(given, key) is not None:
            fail(problem, getattr(given, key), key)


def _only_key(given: Settings, *keys: str) -> str:
    """Return the one key that is given."""
    chosen = [key for key in keys if getattr(given, key) is not None]
    if len(chosen) != 1:
        text = f"found {', '.join(chosen) or 'none'}; give one of {', '.join(keys)}"
        fail(text, None, *chosen[1:2])
    return chosen[0]
