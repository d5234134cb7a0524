"""Names of run folders: short, safe on every file system, and different for different runs."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from rayfed.core.errors import ScenarioError
from rayfed.study.scenario.settings import plain

LONGEST_PART = 100
"""Characters of a label or a setting in the name of a folder, at most."""
LONGEST_PART_BYTES = 200
LONGEST_FOLDER_BYTES = 235
"""Bytes of the name of a run folder; file systems take 255, and suffixes need some of them."""


def slug(label: str) -> str:
    """Return a label as a name for files and folders.

    A label that is too long is cut and ends in a digest of the whole, so that labels which differ
    only behind the cut have different names.

    Examples
    --------
    >>> slug("FedExP eps=1e-3")
    'FedExP-eps=1e-3'
    >>> slug("a" * 99 + "bc") == slug("a" * 99 + "bd")
    False
    """
    safe = re.sub(r"[^\w.=+]+", "-", label).strip("-.")
    if len(safe) > LONGEST_PART or _size(safe) > LONGEST_PART_BYTES:
        safe = _cut(safe, label, LONGEST_PART, LONGEST_PART_BYTES)
    return safe or "unnamed"


def run_folder(label: str, setting: str, seed: int) -> str:
    """Return the name of a run's folder.

    Parameters
    ----------
    label : str
        Of the algorithm.
    setting : str
        Name of the setting of the grid; empty without a grid.
    seed : int

    Examples
    --------
    >>> run_folder("fedavg", "lr=0.1, cohort=5", 0)
    'fedavg-lr=0.1-cohort=5-seed0'
    """
    stem = "-".join([slug(label), *([slug(setting)] if setting else [])])
    end = f"-seed{seed}"
    room = LONGEST_FOLDER_BYTES - _size(end)
    if _size(stem) > room:
        stem = _cut(stem, json.dumps([label, setting]), LONGEST_FOLDER_BYTES, room)
    return stem + end


def digest(text: str) -> str:
    """Return a digest of a text in eight hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:8]


def check_runs(runs: Iterable[tuple[str, str, int, str]]) -> None:
    """Refuse runs that would share a folder.

    Parameters
    ----------
    runs : iterable of (label, setting, seed, folder)

    Raises
    ------
    ScenarioError
        If two runs have the same label, setting and seed, or the same folder on a file system
        that ignores case.
    """
    owners: dict[str, tuple[str, str, int]] = {}
    for label, setting, seed, folder in runs:
        run = (label, setting, seed)
        first = owners.setdefault(comparable(folder), run)
        if first is not run:
            text = f"{_title(first)} and {_title(run)} would share the folder '{folder}'"
            raise ScenarioError("algorithms", f"{text}; set label to tell them apart")


def distinct_settings(settings: Iterable[tuple[str, Mapping[str, Any], Any]]) -> list[str]:
    """Return a name for each setting of a grid, all different, also as names of folders.

    Parameters
    ----------
    settings : iterable of (name, values, resolved)
        What a setting is called, its values by dotted key, and the scenario that results.

    Raises
    ------
    ScenarioError
        If two settings result in the same scenario.
    """
    listed = list(settings)
    first: dict[str, int] = {}
    for index, (name, values, resolved) in enumerate(listed):
        same = first.setdefault(canonical(resolved), index)
        if same != index:
            place = f"grid.{next(iter(values))}" if len(values) == 1 else "grid"
            text = f"the settings '{listed[same][0]}' and '{name}' are the same"
            raise ScenarioError(place, f"{text}; give each value once")
    taken: dict[str, int] = {}
    for name, _, _ in listed:
        taken[comparable(slug(name))] = taken.get(comparable(slug(name)), 0) + 1
    return [
        name if taken[comparable(slug(name))] == 1 else f"{name} {digest(canonical(values))}"
        for name, values, _ in listed
    ]


def comparable(name: str) -> str:
    """Return the common form of two names that a file system takes for the same."""
    return unicodedata.normalize("NFC", name).casefold()


def _cut(safe: str, full: str, characters: int, size: int) -> str:
    """Return the beginning of a name and a digest of its full form."""
    end = f"-{digest(full)}"
    head = (
        safe[: characters - len(end)]
        .encode("utf-8", "ignore")[: size - len(end)]
        .decode(errors="ignore")
    )
    return head.rstrip("-.") + end


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def canonical(value: Any) -> str:
    """Return a text that is equal for two values only if they mean the same."""
    return json.dumps(plain(value), sort_keys=True, default=str)


def _title(run: tuple[str, str, int]) -> str:
    label, setting, seed = run
    return f"'{label}'" + (f" with {setting}" if setting else "") + f", seed {seed}"
