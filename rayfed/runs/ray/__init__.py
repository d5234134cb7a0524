"""Studies on Ray: its servers on this machine, client actors, drivers."""

from __future__ import annotations

import os
import warnings
from typing import Any

_ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
"""Variables that Ray reads when it is imported.

It takes the loopback address for its node and starts no clusters, as on macOS; and its workers are
started as this process was, under `uv run`, too.
"""


def imported(address: str | None) -> Any:
    """Import Ray, and return `rayfed.runs.ray.backend`.

    Ray imports tqdm's bars, which warn in a notebook without ipywidgets; rayfed draws none of them.

    Parameters
    ----------
    address : str, optional
        Of a cluster; None if Ray is for this machine alone.
    """
    before = {name: os.environ.get(name) for name in _ALONE}
    if address is None:
        os.environ |= _ALONE
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "IProgress not found")
            from rayfed.runs.ray import backend
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
    return backend


def expected(address: str | None) -> str:
    """Return the addresses that will listen during a run, in one line.

    Parameters
    ----------
    address : str, optional
        Of a cluster; None for Ray on this machine alone.
    """
    if address is None:
        return "Ray will listen on the loopback address of this machine only, behind a token"
    return f"the Ray cluster at {address} listens on the network of its nodes, as it was started"
