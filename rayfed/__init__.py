"""rayfed simulates federated learning with clients that differ.

>>> import rayfed
>>> result = rayfed.run("scenarios/quickstart.yaml")  # doctest: +SKIP
>>> result.report()  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rayfed.api import Result, resume, run
    from rayfed.study import Study

__all__ = ["Result", "Study", "resume", "run"]


def __getattr__(name: str) -> Any:
    """Import the interface when it is asked for: a client actor needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module 'rayfed' has no attribute '{name}'")
    from importlib import import_module

    home = "rayfed.study" if name == "Study" else "rayfed.api"
    return getattr(import_module(home), name)
