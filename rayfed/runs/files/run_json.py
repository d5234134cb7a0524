"""The record of a run, ``run.json``: its settings, machine and end; and its log."""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rayfed.clients.store import ScratchError
from rayfed.core.entries import FORMAT, sealed
from rayfed.core.errors import RayfedError, clipped
from rayfed.core.extras import DISTRIBUTION
from rayfed.engine.run import Run
from rayfed.executors.base import HostLost
from rayfed.runs.files import store
from rayfed.runs.logger import logger

VERSIONS = ("numpy", "scipy", "pandas", "pyarrow", "ray")
MACHINE_ERRORS = (OSError, MemoryError, HostLost, ScratchError)
"""Errors of this machine, not of the run: a resume tries again."""


def run_record(run: Run, started: float, status: str, **more: Any) -> dict[str, Any]:
    """Return the content of ``run.json``.

    Parameters
    ----------
    run : Run
    started : float
        Seconds since the epoch.
    status : "running", "finished" or "failed"
    **more : object
        Further entries: the rule that stopped the run, warnings, the reason of a failure.
    """
    ended = None if status == "running" else time.time()
    algorithm = run.training.algorithm
    return {
        "format": FORMAT, "label": run.label, "algorithm": algorithm.name, "setting": run.setting,
        "baseline": algorithm.baseline, "seed": run.seed, "status": status,
        "stopped_by": None, "reason": None, "warnings": [], "rounds": run.ending.rounds,
        "started": _timestamp(started), "ended": None if ended is None else _timestamp(ended),
        "wall_s": None if ended is None else round(ended - started, 3),
        "host": platform.node(), "machine": platform.machine(),
        "versions": versions(run.training.problem.libraries),
        "exact": run.training.problem.exact, **run.record, **more,
    }  # fmt: skip


def log(folder: Path, line: str) -> None:
    """Add a line to the log of a run's folder, and to rayfed's own."""
    logger.info("%s: %s", folder.name, line)
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    store.append_text(folder / "log.txt", f"{stamp} {line}\n")


def status(folder: Path, record: Mapping[str, Any]) -> None:
    """Replace ``run.json`` in a run's folder."""
    text = json.dumps(sealed(record), indent=1) + "\n"
    durable = record["status"] == "finished" or bool(record.get("changes"))
    store.publish_text(folder / "run.json", text, durable=durable)


def record_failure(run: Run, out: Path, error: Exception, trace: str) -> str:
    """Record the failure of a run with no driver, or a dead one; returns "failed"."""
    folder, reason = out / run.folder, f"its driver failed: {one_line(error)}"
    with suppress(OSError):  # where the disk is the reason, nothing can be written
        store.make_folder(folder)
        log(folder, f"failed: {trace}")
        retry = isinstance(error, MACHINE_ERRORS)
        status(folder, run_record(run, time.time(), "failed", reason=reason, retry=retry))
    return "failed"


def one_line(error: BaseException) -> str:
    """Return an error as one line; of one that came with a trace from elsewhere, its last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 or (lines and isinstance(error, RayfedError)):
        return clipped(lines[-1])
    return clipped(": ".join([type(error).__name__, *lines]))


@cache
def versions(libraries: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the versions that a run's bits depend on, those of a problem's libraries too."""
    names = (*VERSIONS, *libraries)
    own = {"python": sys.version.split()[0], "rayfed": version(DISTRIBUTION)}
    return own | {name: version(name) for name in names}


def _timestamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
