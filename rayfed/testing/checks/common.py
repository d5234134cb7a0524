"""The search for checks, and checks of plug-ins of every kind."""

from __future__ import annotations

import importlib
import inspect
import pickle
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, get_type_hints

import numpy as np
import numpy.typing as npt

from rayfed.engine.state import RunState
from rayfed.study.plan.plan import Plan
from rayfed.testing.examples import examples
from rayfed.testing.studies import loops

Check: TypeAlias = Callable[[type[Any], Path], None]

_FORBIDDEN = {
    r"^\s*(import|from) ray\b": "imports Ray; only executors know where clients live",
    r"^\s*(import|from) (time|secrets|uuid)\b": "imports the wall clock or a source of randomness; "
    "take virtual seconds, and draw from `rayfed.core.rng.Key`",
    r"(default_rng|RandomState|\bRandom)\(\s*\)": "draws without a seed; draw from "
    "`rayfed.core.rng.Key`",
    r"np\.random\.(seed|rand|randn|normal|uniform|choice|permutation|shuffle)\(": "draws from "
    "NumPy's global generator; draw from `rayfed.core.rng.Key`",
    r"^\s*(import|from) rayfed\.(engine|executors|runs)\b": "imports the engine, which knows "
    "plug-ins by their interface alone",
}


class Skipped(Exception):
    """A check that cannot be made here, and why."""


def require(condition: Any, message: str) -> None:
    """Raise an AssertionError with a message unless a condition, of all its elements, holds."""
    if not np.all(condition):
        raise AssertionError(message)


def require_equal(actual: npt.ArrayLike | None, expected: npt.ArrayLike, message: str) -> None:
    """Raise an AssertionError unless two arrays have the same shape, type and bytes."""
    left, right = np.asarray(actual), np.asarray(expected)
    same = left.shape == right.shape and left.dtype == right.dtype
    if not same or not np.array_equal(left, right, equal_nan=left.dtype.kind == "f"):
        raise AssertionError(f"{message}: {left} and {right}")


def frozen_copies(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies of arrays, and make the arrays themselves refuse to be written to."""
    for array in state.values():
        if isinstance(array, np.ndarray):  # NumPy's scalars cannot be written to anyway
            array.flags.writeable = False
    return {name: np.copy(array) for name, array in state.items()}


def require_unchanged(
    plan: Plan, owner: str, states: Callable[[RunState], Sequence[Mapping[str, Any]]]
) -> None:
    """Raise an AssertionError if a round changes states in place that it was begun with.

    Parameters
    ----------
    plan : Plan
        Of a single run.
    owner : str
        Whose mistake it would be.
    states : callable
        Returns the states, as named arrays, of what a run is between two rounds.
    """
    ((_, loop),) = loops(plan)
    now, _ = loop.start()
    for _ in range(4):
        before = [frozen_copies(state) for state in states(now)]
        after, *_ = loop.step(now)
        for state, copies in zip(states(now), before, strict=True):
            for name, array in copies.items():
                require_equal(state[name], array, f"{owner} changed '{name}' in place")
        now = after


def checks(kind: str) -> dict[str, Check]:
    """Return the checks of a kind by name, those of every kind first.

    Examples
    --------
    >>> list(checks("delays"))[:2]
    ['check_documented', 'check_frozen']
    """
    own = importlib.import_module(f"rayfed.testing.checks.{kind}")
    common = importlib.import_module(__name__)
    exempt, variants = getattr(own, "EXEMPT", ()), getattr(own, "variants", examples)
    every = {name: _of_class(check, examples) for name, check in _found(common).items()}
    every |= {name: _of_class(check, variants) for name, check in _found(own).items()}
    return {name: check for name, check in every.items() if name not in exempt}


def _of_class(check: Callable[..., None], variants: Callable[..., Iterable[Any]]) -> Check:
    """Return a check of a class; one of values is made of all examples that are of their type."""
    (argument, wanted), *_ = get_type_hints(check).items()
    if argument == "cls":
        return check

    @wraps(check)
    def of_examples(cls: type[Any], folder: Path) -> None:
        values = [value for value in variants(cls, folder) if isinstance(value, wanted)]
        if not values:
            raise Skipped(f"it is no {wanted.__name__}")
        for value in values:
            check(value)

    return of_examples


def _found(module: ModuleType) -> dict[str, Callable[..., None]]:
    return {
        name: value
        for name, value in sorted(vars(module).items())
        if name.startswith("check_") and value.__module__ == module.__name__
    }


def check_frozen(cls: type[Any], folder: Path) -> None:
    """Check that it is a frozen dataclass with values that survive pickling."""
    require(is_dataclass(cls), f"{cls.__qualname__} is no dataclass; add @dataclass(frozen=True)")
    frozen = getattr(cls, "__dataclass_params__").frozen  # noqa: B009
    require(frozen, f"{cls.__qualname__} can be changed; write @dataclass(frozen=True)")
    for value in examples(cls, folder):
        copy = pickle.loads(pickle.dumps(value))
        require(copy == value, f"a pickled copy of {value} differs from it")


def check_documented(cls: type[Any], folder: Path) -> None:
    """Check that its docstring has a summary, for lists and the page."""
    text = inspect.getdoc(cls) if cls.__doc__ else None
    require(text and text.splitlines()[0].strip(), f"{cls.__qualname__} has no docstring")
    made = f"{cls.__name__}{inspect.signature(cls)}".replace(" -> None", "")
    require(text != made, f"{cls.__qualname__} has no docstring but that of its dataclass")


def check_source(cls: type[Any], folder: Path) -> None:
    """Check that its module uses no Ray, engine, wall clock or unseeded randomness."""
    module = inspect.getmodule(cls)
    source = inspect.getsource(module) if module else ""
    for pattern, why in _FORBIDDEN.items():
        require(re.search(pattern, source, re.M) is None, f"{cls.__module__} {why}")
