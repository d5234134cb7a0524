"""Brings a remote folder to this machine: what differs from the local copy."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rayfed.core.announced import every_part
from rayfed.core.errors import ScenarioError
from rayfed.core.files import read_json
from rayfed.runs.files import store
from rayfed.runs.files.folder import LOCK
from rayfed.runs.remote.names import LEADING, MANIFESTS, RUN, file_of, is_passing
from rayfed.runs.remote.objects import Gone, Objects, batches
from rayfed.runs.remote.staging import Staging

_TRIES = 5  # of a folder that somebody writes meanwhile


def fetch(staging: Staging, objects: Objects) -> None:
    """Make the local copy what is remote.

    Raises
    ------
    ScenarioError
        If nothing is there.
    StoreError
        If it cannot be read.
    """
    for last in (*[False] * (_TRIES - 1), True):
        try:
            return _fetch(staging, objects)
        except Gone:
            if last:
                raise
    return None


def _fetch(staging: Staging, objects: Objects) -> None:
    versions = {k: v for k, v in objects.list().items() if not is_passing(k)}
    if not versions:
        raise ScenarioError(staging.url, "is no result folder; nothing is there")
    staging.write_note(session="", mine=False, sent=True)  # until it is whole
    records = [
        name for name in versions if name.endswith(tuple(f"/{leading}" for leading in LEADING))
    ]
    _bring(staging, objects, {name: name for name in records}, versions)
    chosen = _chosen(versions, staging.folder)
    _bring(staging, objects, chosen, versions)
    staging.write_note(versions={file: versions[name] for file, name in chosen.items()})
    for home, _, names in os.walk(staging.folder):
        for path in (Path(home) / name for name in names):
            if path.relative_to(staging.folder).as_posix() not in chosen and path.name != LOCK:
                store.remove(path)
    store.append_text(staging.folder / LOCK, "")


def _bring(
    staging: Staging, objects: Objects, chosen: Mapping[str, str], versions: Mapping[str, str]
) -> None:
    """Bring files, given with the objects that hold them, where these have other versions."""
    held = dict(staging.note().versions)
    needed = {
        file: name
        for file, name in chosen.items()
        if held.get(file) != versions[name] or not (staging.folder / file).is_file()
    }
    shutil.rmtree(staging.passing, ignore_errors=True)
    staging.passing.mkdir(parents=True)
    try:
        for files in batches(needed):
            places = {needed[file]: staging.passing / str(k) for k, file in enumerate(files)}
            objects.get(places)
            for file in files:
                target = staging.folder / file
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(places[needed[file]], target)
                held[file] = versions[needed[file]]
    finally:  # what has come need not come again
        staging.write_note(versions=held)


def _chosen(versions: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return which object holds each file.

    A stand-in is chosen where a record of its run lists its digest: the object that has the file's
    name is of before then.
    """
    chosen = {name: name for name in versions if file_of(name)[1] is None}
    standing = [name for name in versions if name not in chosen]
    runs = {name.partition("/")[0] for name in standing}
    listed = {run: Listed(folder / run) for run in runs}
    whole: dict[str, str] = {}  # the part that is the whole of a table
    for name in standing:
        file, digest = file_of(name)
        records = listed[name.partition("/")[0]]
        if digest in records.digests or file not in chosen:
            chosen[file] = name
        if digest in records.compacted:
            whole[file.rpartition("/")[0]] = file
    return {
        file: name
        for file, name in chosen.items()
        if whole.get(file.rpartition("/")[0], file) == file
    }


class Listed:
    """What the records of a run list.

    Parameters
    ----------
    run : Path
        Its folder, with ``run.json`` and manifests.

    Attributes
    ----------
    digests : set of str
        Those of all files.
    compacted : set of str
        Those of parts that hold the whole of their table.
    """

    def __init__(self, run: Path) -> None:
        self.digests: set[str] = set()
        self.compacted: set[str] = set()
        for name in (RUN, *MANIFESTS):
            record = _read(run / name)
            compacted = (record.get("compacted") or {}).values()
            tables = (record.get("tables") or {}).values()
            self.compacted |= _digests(compacted)
            self.digests |= _digests([record.get("files") or {}, *tables, *compacted])
        with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
            self.digests |= _digests(every_part(run))


def _digests(groups: Iterable[Mapping[str, Any]]) -> set[str]:
    return {entry["digest"] for entries in groups for entry in entries.values()}


def _read(path: Path) -> dict[str, Any]:
    try:
        record = read_json(path)
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
