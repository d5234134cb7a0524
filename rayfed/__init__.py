"""Simulate federated learning with clients that differ in data, speed and availability.

>>> import rayfed
>>> result = rayfed.run("quickstart")  # doctest: +SKIP
>>> result.figure("convergence", x="time_s")  # doctest: +SKIP
>>> rayfed.load("results/quickstart").summary()  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rayfed.api import Result, load, resume, run, sweep
    from rayfed.study import Study

__all__ = ["Result", "Study", "load", "resume", "run", "sweep"]


def __dir__() -> list[str]:
    """Return the names of the interface, for completion in notebooks."""
    return __all__


def __getattr__(name: str) -> Any:
    """Import the interface on first use: client actors import the package without it."""
    if name == "__version__":
        from importlib.metadata import version

        return version("rayfed")
    if name not in __all__:
        raise AttributeError(f"module 'rayfed' has no attribute '{name}'")
    from importlib import import_module

    home = "rayfed.study" if name == "Study" else "rayfed.api"
    return getattr(import_module(home), name)
