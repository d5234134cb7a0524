"""Identity of a run: its scenario, its seed, the data, the user's modules decide its results.

``run.json`` holds it, so that a resume can tell what has changed since the run began.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rayfed.core.entries import Entry, digest_of

_NO_SETTINGS = (
    "name", "description", "seeds", "rounds", "stop", "checkpoint", "clock", "executor", "grid",
    "cases", "search", "sweep", "algorithms",
)  # fmt: skip
"""Keys that change no row of a run: those of the whole study, and when a run ends."""
DATASET = "problem.dataset"


def digests_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the digests under which a run may have written: that of now, and accepted ones."""
    identity = record.get("identity") or {}
    return tuple(filter(None, (identity.get("digest"), *identity.get("before", ()))))


def decisive(scenario: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return what of a resolved scenario decides the rows of a run, by dotted key.

    Parameters
    ----------
    scenario : mapping
        Plain values, as ``run.json`` holds them.
    label : str
        Of the run's algorithm; of the others nothing is kept.

    Examples
    --------
    >>> scenario = {"rounds": 9, "dtype": "float32", "algorithms": [{"name": "fedavg", "lr": 1}]}
    >>> decisive(scenario, "fedavg")
    {'dtype': 'float32', 'algorithms.fedavg.name': 'fedavg', 'algorithms.fedavg.lr': 1}
    """
    kept = {key: value for key, value in scenario.items() if key not in _NO_SETTINGS}
    device = (scenario.get("executor") or {}).get("device", "cpu")
    if device != "cpu":
        kept["executor"] = {"device": device}
    for algorithm in scenario.get("algorithms") or ():
        if (algorithm.get("label") or algorithm.get("name")) == label:
            own = {key: value for key, value in algorithm.items() if key not in ("grid", "label")}
            kept[f"algorithms.{label}"] = own
    return dict(_flat(kept))


def ending(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return when a run ends, by dotted key: its rounds, and the rules under ``stop``."""
    rules = {key: value for key, value in (scenario.get("stop") or {}).items() if value is not None}
    return dict(_flat({"rounds": scenario.get("rounds"), "stop": rules}))


def _flat(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested settings by dotted key; lists of plain values stay whole."""
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        inner = value.items()
    elif isinstance(value, (list, tuple)) and any(isinstance(v, (Mapping, list)) for v in value):
        inner = enumerate(value)
    elif place:
        yield place, value
    for key, item in inner:
        yield from _flat(item, f"{place}.{key}" if place else str(key))


class Identities:
    """Makes the identities of runs; each file is read once.

    Parameters
    ----------
    files : dict
        What is known of files already, by their paths; it is added to.
    modules : mapping of str to str
        Digests of the user's modules, by name.
    """

    def __init__(self, files: dict[str, dict[str, Any] | None], modules: Mapping[str, str]) -> None:
        self.files, self.modules = files, dict(modules)
        self.known: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}

    def of(
        self, scenario: Mapping[str, Any], label: str, setting: str, seed: int,
        rows: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the identity of a run.

        Parameters
        ----------
        scenario : mapping
            The resolved scenario of its setting.
        label, setting : str
        seed : int
        rows : mapping, optional
            What is known of the rows of its data set, where that is no file of the user's.

        Returns
        -------
        dict
            ``data`` and ``modules`` with digests, and the ``digest`` of all.
        """
        if (label, setting) not in self.known:
            self.known[label, setting] = self._settings(scenario, label)
        text, data = self.known[label, setting]
        data = data if rows is None else {**data, DATASET: dict(rows)}
        digests = {key: entry["digest"] for key, entry in data.items()}
        whole = json.dumps([text, label, seed, digests, self.modules], sort_keys=True)
        return {"digest": digest_of(whole.encode()), "data": data, "modules": self.modules}

    def _settings(self, scenario: Mapping[str, Any], label: str) -> tuple[str, dict[str, Any]]:
        """Return the settings of a run as a text, without the files that they name, and these."""
        settings = decisive(scenario, label)
        found = {key: self._file(key, value) for key, value in settings.items()}
        data = {key: entry for key, entry in found.items() if entry is not None}
        rest = {key: value for key, value in settings.items() if key not in data}
        return json.dumps(rest, sort_keys=True, default=str), data

    def _file(self, key: str, value: Any) -> dict[str, Any] | None:
        """Return what is known of a file or folder that a setting names; None if it names none.

        The files in the folder of a data set are known by their rows.
        """
        if not isinstance(value, str) or not Path(value).is_absolute():
            return None
        if key.startswith(f"{DATASET}.") and Path(value).is_dir():
            return None
        if value not in self.files:
            self.files[value] = _described(Path(value))
        return self.files[value]


def _described(path: Path) -> dict[str, Any] | None:
    try:
        if path.is_file():
            entry = Entry.of(path)
            return {"path": str(path), "bytes": entry.bytes, "digest": entry.digest}
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file())
            held = [(str(file.relative_to(path)), Entry.of(file)) for file in files]
            whole = json.dumps([(name, entry.digest) for name, entry in held])
            size = sum(entry.bytes for _, entry in held)
            return {"path": str(path), "bytes": size, "digest": digest_of(whole.encode())}
    except (OSError, ValueError):  # who reads it says what is wrong
        pass
    return None
