"""Simulate federated learning with clients that differ in data, speed and availability.

>>> import rayfed
>>> result = rayfed.run("quickstart")  # doctest: +SKIP
>>> result.figure("convergence", x="time_s")  # doctest: +SKIP
>>> rayfed.load("results/quickstart").summary()  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rayfed.core import moved

if TYPE_CHECKING:
    from rayfed import algorithms as algorithms
    from rayfed import channel as channel
    from rayfed import datasets as datasets
    from rayfed import measures as measures
    from rayfed import population as population
    from rayfed import problems as problems
    from rayfed import selection as selection
    from rayfed import solvers as solvers
    from rayfed import study as study
    from rayfed import topology as topology
    from rayfed.api import Result, extend, load, resume, run, stop, sweep
    from rayfed.iteration import Iteration, Row, iterate
    from rayfed.problems.own_code.functions import ClientCode
    from rayfed.study import Study

__all__ = [
    "ClientCode",
    "Iteration",
    "Result",
    "Row",
    "Study",
    "extend",
    "iterate",
    "load",
    "resume",
    "run",
    "stop",
    "sweep",
]


_PACKAGES = (
    "algorithms", "channel", "datasets", "measures", "population", "problems", "selection",
    "solvers", "study", "topology",
)  # fmt: skip
"""Packages of the interface, whose classes studies are made of."""
_HOMES = {
    "ClientCode": "problems.own_code.functions", "Iteration": "iteration", "Row": "iteration",
    "Study": "study", "iterate": "iteration",
}  # fmt: skip
"""Modules of names that are not in `rayfed.api`."""

moved.install()


def __dir__() -> list[str]:
    """Return the names of the interface, for completion in notebooks."""
    return [*__all__, *_PACKAGES]


def __getattr__(name: str) -> Any:
    """Import the interface on first use: client actors import the package without it."""
    from importlib import import_module

    if name == "__version__":
        from importlib.metadata import version

        from rayfed.core.extras import DISTRIBUTION

        return version(DISTRIBUTION)
    if name in _PACKAGES or f"rayfed.{name}" in moved.MODULES:
        return import_module(f"rayfed.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'rayfed' has no attribute '{name}'")
    return getattr(import_module(f"rayfed.{_HOMES.get(name, 'api')}"), name)
