"""State of a run by its folder: the record ``run.json``, damage, and the lock of its writer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rayfed.core import leases
from rayfed.core.entries import Damaged, check, check_format, entries, intact, is_record
from rayfed.core.files import read_json
from rayfed.core.inside import NotRegular

STATUSES = ("running", "finished", "failed")
"""Status of a run in its record."""
UNREADABLE = "run.json is not what was written"


def read_record(run: Path) -> dict[str, Any]:
    """Return the content of ``run.json`` of a run folder; empty if the run has not begun.

    A damaged record is replaced by that of a failed run that a resume tries again.

    Raises
    ------
    ScenarioError
        If it is of another format, or too large for the memory.
    """
    why = UNREADABLE
    try:
        held = read_json(run / "run.json", results=True)
    except (FileNotFoundError, NotADirectoryError):
        if not (run / "checkpoint" / "manifest.json").is_file():
            return {}
        held = None
    except NotRegular as error:
        held, why = None, str(error)
    except (OSError, ValueError):
        held = None
    if isinstance(held, dict):
        check_format(held, run / "run.json")
        if held.get("status") in STATUSES and is_record(held) and intact(held):
            return held
    return {"status": "failed", "reason": why, "damaged": True, "retry": True}


def damage(run: Path, record: Mapping[str, Any]) -> str | None:
    """Return the damage of a run's files in one line; None if there is none.

    Parameters
    ----------
    run : Path
        Its folder.
    record : mapping
        Of `read_record`; that of a run that ended lists the other files.
    """
    if record.get("damaged"):
        return str(record["reason"])
    try:
        check(run, entries(record.get("files") or {}))
    except Damaged as error:
        return str(error)
    except (TypeError, AttributeError):
        return UNREADABLE
    return None


def state(run: Path, status: str) -> str:
    """Return the status of a run, refined to three states where it is ``running``.

    ``running`` is a run that a process still writes, ``stopped`` one that was asked to stop, and
    ``interrupted`` any other.
    """
    if status != "running" or not leases.is_orphaned(run):
        return status
    return "stopped" if leases.is_stop_requested(run) else "interrupted"
