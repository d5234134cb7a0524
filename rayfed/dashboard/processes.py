"""Processes of running studies on this machine: activity, memory and processor time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import psutil

from rayfed.core.leases import LOCK
from rayfed.report.read import units

HEADS = ("process", "what", "memory", "processor time")
_GONE = (psutil.Error, OSError)


def table_of(folders: Sequence[Path]) -> tuple[str, list[list[str]]]:
    """Return a sentence on the processes of the studies in some folders, and a row for each.

    Memory is what is resident, so that pages which processes share count in each of them.
    """
    rows, memory = [], 0
    for process, what in _processes({folder.resolve() for folder in folders}):
        try:
            with process.oneshot():
                resident, times = process.memory_info().rss, process.cpu_times()
        except _GONE:
            continue
        memory += resident
        spent = units.duration(times.user + times.system)
        rows.append([str(process.pid), what, units.size(resident), spent])
    many = f"{len(rows)} process{'es' if len(rows) != 1 else ''}"
    when = f"{datetime.now():%Y-%m-%d at %H:%M}"
    return f"{many} on this machine on {when}, {units.size(memory)} of memory", rows


def _processes(folders: set[Path]) -> Iterator[tuple[psutil.Process, str]]:
    """Yield the processes that hold locks of folders, and their children, each once."""
    yielded: set[int] = set()
    for process in psutil.process_iter():
        for what in _written(process, folders):
            family = [(process, what), *((child, _named(child)) for child in _children(process))]
            for each, name in family:
                if each.pid not in yielded:
                    yielded.add(each.pid)
                    yield each, name


def _written(process: psutil.Process, folders: set[Path]) -> list[str]:
    """Return the study or run that a process writes in some folders."""
    try:
        paths = [Path(file.path) for file in process.open_files()]
    except _GONE:
        return []
    locks = [path.parent for path in paths if path.name == LOCK]
    studies = [f"study {folder.name}" for folder in locks if folder in folders]
    return studies or [f"run {run.name}" for run in locks if run.parent in folders]


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = process.children(recursive=True)
    except _GONE:
        return []
    return found


def _named(process: psutil.Process) -> str:
    """Return the role of a child process; Ray's actors name themselves."""
    try:
        words = process.cmdline()
    except _GONE:
        return ""
    if words and words[0].startswith("ray::"):
        return str(words[0]).split()[0].removeprefix("ray::")
    return "worker" if "rayfed.runs.workers" in words else str(process.name())
