"""Simulate federated learning with clients that differ in data, speed and availability.

>>> import rayfed
>>> result = rayfed.run("quickstart")  # doctest: +SKIP
>>> result.figure("convergence", x="time_s")  # doctest: +SKIP
>>> rayfed.load("results/quickstart").summary()  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rayfed import aggregators as aggregators
    from rayfed import algorithms as algorithms
    from rayfed import availability as availability
    from rayfed import datasets as datasets
    from rayfed import delays as delays
    from rayfed import drifts as drifts
    from rayfed import faults as faults
    from rayfed import measures as measures
    from rayfed import memories as memories
    from rayfed import mixers as mixers
    from rayfed import mobilities as mobilities
    from rayfed import partitions as partitions
    from rayfed import problems as problems
    from rayfed import schedules as schedules
    from rayfed import selections as selections
    from rayfed import solvers as solvers
    from rayfed import stages as stages
    from rayfed import staleness as staleness
    from rayfed import step_counts as step_counts
    from rayfed import study as study
    from rayfed import topologies as topologies
    from rayfed import walks as walks
    from rayfed.api import Result, extend, load, resume, run, stop, sweep
    from rayfed.iteration import Iteration, Row, iterate
    from rayfed.study import Study

__all__ = [
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


def __dir__() -> list[str]:
    """Return the names of the interface, for completion in notebooks."""
    from rayfed.core.plugins import KINDS

    return [*__all__, "study", *KINDS]


def __getattr__(name: str) -> Any:
    """Import the interface on first use: client actors import the package without it."""
    if name == "__version__":
        from importlib.metadata import version

        return version("rayfed")
    from importlib import import_module

    if name not in __all__:
        from rayfed.core.plugins import KINDS

        if name not in (*KINDS, "study"):
            raise AttributeError(f"module 'rayfed' has no attribute '{name}'")
        return import_module(f"rayfed.{name}")
    home = "study" if name == "Study" else "api"
    if name in ("Iteration", "Row", "iterate"):
        home = "iteration"
    return getattr(import_module(f"rayfed.{home}"), name)
