"""Random values of settings, from their annotated types."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, GroupedMetadata, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel

from rayfed.core import plugins
from rayfed.study.scenario.settings import plain
from rayfed.testing.examples import example

Item = TypeVar("Item")

_EDGE = 0.06  # of numbers that lie on a bound which belongs to the range
_WILD = 0.01  # of numbers from anywhere in the range
_SMALLEST = 1e-9
_DIGITS = 3
_LONGEST = 3  # entries of a drawn list


class Undrawn(Exception):
    """A setting has a type of which no value can be drawn."""


class Dice:
    """Draws everything that a case consists of.

    Parameters
    ----------
    seed : int
        Equal seeds give equal draws.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def share(self) -> float:
        """Return a number in [0, 1)."""
        return self._random.random()

    def chance(self, p: float) -> bool:
        """Return True with probability p."""
        return self.share() < p

    def one_of(self, items: Iterable[Item], weights: Mapping[Any, float] | None = None) -> Item:
        """Return one of some items, of equal weight 1 unless `weights` says otherwise."""
        listed = list(items)
        each = [(weights or {}).get(item, 1.0) for item in listed] if weights else None
        return self._random.choices(listed, each)[0]

    def some_of(self, items: Sequence[Item], count: int) -> list[Item]:
        """Return so many different items, in a random order."""
        return self._random.sample(list(items), count)

    def whole(self, low: int, high: int) -> int:
        """Return a whole number from low to high, both included."""
        return low + int(self.share() * (high - low + 1))

    def number(self, low: float, high: float) -> float:
        """Return a number of a few digits; log-uniform if both bounds are positive."""
        if low > 0:
            drawn = math.exp(math.log(low) + self.share() * (math.log(high) - math.log(low)))
        else:
            drawn = low + self.share() * (high - low)
        return min(max(float(f"{drawn:.{_DIGITS}g}"), low), high)


class Settings:
    """Draws settings of plug-ins.

    Parameters
    ----------
    dice : Dice
    table : mapping
        What is drawn in place of what a type allows, by ``plugin.setting`` or by ``setting``: a
        range (low, high), a list of choices, or a function of the dice.
    folder : Path
        Where files may be written that settings name.
    skipped, always : container of str
        Settings that are never drawn, and that always are.
    one_of : iterable of sequence of str
        Settings of which a plug-in takes one at most.
    changed : float
        Probability of the other optional settings to be drawn.
    """

    def __init__(
        self,
        dice: Dice,
        table: Mapping[str, Any],
        folder: Path,
        *,
        skipped: Container[str] = (),
        always: Container[str] = (),
        one_of: Iterable[Sequence[str]] = (),
        changed: float,
    ) -> None:
        self.dice, self.table, self.folder = dice, table, folder
        self.skipped, self.always, self.changed = skipped, always, changed
        self.exclusive = [frozenset(names) for names in one_of]

    def plugin(self, kind: str, name: str) -> dict[str, Any]:
        """Return a plug-in as a scenario gives it: its name, and some settings."""
        return {"name": name, **self.of(plugins.find(kind)[name])}

    def of(self, cls: type[Any]) -> dict[str, Any]:
        """Return settings of a dataclass: all that are required, and some of the others."""
        hints = get_type_hints(cls, include_extras=True)
        drawn = {}
        for field in plugins.settings(cls):
            if field.name in self.skipped:
                continue
            default = _default(field)
            required = default is dataclasses.MISSING
            wanted = required or field.name in self.always or self.dice.chance(self.changed)
            if not wanted:
                continue
            try:
                drawn[field.name] = self.value(cls, field.name, hints[field.name], default)
            except Undrawn:
                if required:  # it is a file, or must fit something: the class says what
                    drawn[field.name] = plain(getattr(example(cls, self.folder), field.name))
        for names in self.exclusive:
            rivals = [name for name in drawn if name in names]
            for name in self.dice.some_of(rivals, max(0, len(rivals) - 1)):
                del drawn[name]
        return drawn

    def rest(self, part: type[BaseModel], known: Container[str]) -> dict[str, Any]:
        """Return some settings of a part of a scenario, of those that are not known by name."""
        drawn = {}
        for name, field in part.model_fields.items():
            if name in known or not self.dice.chance(self.changed):
                continue
            hint = Annotated[(field.annotation, *field.metadata)] if field.metadata else None
            with suppress(Undrawn):
                drawn[name] = self.value(part, name, hint or field.annotation, field.default)
        return drawn

    def value(self, cls: type[Any], name: str, hint: Any, default: Any = None) -> Any:
        """Return a value of a setting."""
        for key in (f"{getattr(cls, 'name', cls.__name__)}.{name}", name):
            if key in self.table:
                return self.from_table(self.table[key])
        return self._typed(hint, (), default)

    def from_table(self, entry: Any) -> Any:
        """Return a value for an entry of the table."""
        if callable(entry):
            return entry(self.dice)
        if isinstance(entry, list):
            return self.dice.one_of(entry)
        low, high = entry
        if isinstance(low, int) and isinstance(high, int):
            return self.dice.whole(low, high)
        return self.dice.number(low, high)

    def _typed(self, hint: Any, marks: tuple[Any, ...], default: Any) -> Any:
        """Return a value of a type with bounds; `default` says what size is usual."""
        origin, parts = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._typed(parts[0], (*marks, *_flat(parts[1:])), default)
        if origin in (Union, UnionType):
            return self._one_type([part for part in parts if part is not NoneType], marks, default)
        if origin is Literal:
            return self.dice.one_of(parts)
        if origin is tuple:
            return self._tuple(parts, marks)
        if hint is bool:
            return self.dice.chance(0.5)
        if hint is int:
            return self._whole(_Bounds.of(marks, whole=True), default)
        if hint is float:
            return self._number(_Bounds.of(marks), default)
        return self._object(hint)

    def _one_type(self, parts: Sequence[Any], marks: tuple[Any, ...], default: Any) -> Any:
        for part in self.dice.some_of(parts, len(parts)):
            try:
                return self._typed(part, marks, default)
            except Undrawn:
                continue
        raise Undrawn

    def _tuple(self, parts: Sequence[Any], marks: tuple[Any, ...]) -> list[Any]:
        if parts[-1] is not ...:
            return [self._typed(part, (), None) for part in parts]
        least = max([mark.min_length for mark in marks if isinstance(mark, MinLen)], default=0)
        most = min([m.max_length for m in marks if isinstance(m, MaxLen)], default=_LONGEST)
        count = self.dice.whole(least, max(least, most))
        return [self._typed(parts[0], (), None) for _ in range(count)]

    def _object(self, hint: Any) -> Any:
        """Return a plug-in that extends a class, or the settings of another dataclass."""
        if not isinstance(hint, type):
            raise Undrawn
        for kind in plugins.KINDS:
            if issubclass(hint, plugins.base(kind)):
                fitting = [n for n, cls in plugins.find(kind).items() if issubclass(cls, hint)]
                return self.plugin(kind, self.dice.one_of(fitting))
        if dataclasses.is_dataclass(hint):
            return self.of(hint)
        raise Undrawn

    def _whole(self, bounds: _Bounds, default: Any) -> int:
        usual = default if isinstance(default, int) and not isinstance(default, bool) else 3
        low = max(bounds.low, -1) if math.isinf(bounds.low) else bounds.low
        high = min(bounds.high, max(low, min(2 * usual, 9)))
        if self.dice.chance(_EDGE):
            return int(self.dice.one_of([low, high]))
        return self.dice.whole(int(low), int(high))

    def _number(self, bounds: _Bounds, default: Any) -> float:
        low, high = bounds.low, bounds.high
        if self.dice.chance(_EDGE) and bounds.closed:
            return float(self.dice.one_of(bounds.closed))
        if self.dice.chance(_WILD):
            return self.dice.number(max(low, _SMALLEST), min(high, 1e9))
        usual = abs(default) if isinstance(default, (int, float)) and default else 0.5
        near = self.dice.number(
            max(low, usual / 20) if low >= 0 else -3 * usual, min(high, 3 * usual)
        )
        if not bounds.holds(near):  # on a bound that does not belong to the range
            return low + (min(high, low + 1) - low) / 2
        return near


@dataclasses.dataclass(frozen=True)
class _Bounds:
    """The range of a number, and those of its ends that belong to it."""

    low: float
    high: float
    closed: tuple[float, ...]

    @classmethod
    def of(cls, marks: Iterable[Any], *, whole: bool = False) -> _Bounds:
        low, high, closed = -math.inf, math.inf, []
        for mark in marks:
            if isinstance(mark, Ge):
                low = float(mark.ge)  # type: ignore[arg-type]
                closed.append(low)
            elif isinstance(mark, Gt):
                low = float(mark.gt) + whole  # type: ignore[arg-type]
            elif isinstance(mark, Le):
                high = float(mark.le)  # type: ignore[arg-type]
                closed.append(high)
            elif isinstance(mark, Lt):
                high = float(mark.lt) - whole  # type: ignore[arg-type]
        return cls(low, high, tuple(closed))

    def holds(self, value: float) -> bool:
        return self.low < value < self.high or value in self.closed


def _flat(marks: Iterable[Any]) -> Iterator[Any]:
    """Yield single constraints; an interval or a length is a group of them."""
    for mark in marks:
        if isinstance(mark, GroupedMetadata):
            yield from mark
        else:
            yield mark


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return dataclasses.MISSING
