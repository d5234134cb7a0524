"""Scenarios that build on others: ``base: other.yaml``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rayfed.core.errors import ScenarioError
from rayfed.study.scenario.paths import filled
from rayfed.study.scenario.yamlfile import KeyLines, read_with_lines

BASE = "base"
_OWN = ("name", "description")  # what a study says of itself is not that of its base
_DEEPEST = 20


@dataclass(frozen=True)
class Sources:
    """The files that a scenario comes from, the last first.

    Parameters
    ----------
    files : sequence of (path, lines)
    """

    files: Sequence[tuple[Path, KeyLines]]

    def find(self, place: str) -> tuple[Path, int | None]:
        """Return the file in which a dotted key stands, and its line; see `KeyLines.of`.

        It is the one that has most of the key's parts; of several, the last.
        """
        path, lines = max(self.files, key=lambda file: file[1].depth(place))
        return path, lines.of(place)


def read(path: Path) -> tuple[Any, Sources]:
    """Return what a scenario file holds, merged with its bases, and where each of it stands.

    Mappings are merged key by key, anything else replaces what the base has, and so does a mapping
    with another ``name``: it is another plug-in. Of several bases the later ones come first. Names
    and descriptions stay with their files.

    Raises
    ------
    ScenarioError
        If a file cannot be read, is no mapping, or builds on itself.
    """
    return _read(path, ())


def _read(path: Path, above: tuple[Path, ...]) -> tuple[Any, Sources]:
    raw, lines = read_with_lines(path)
    if not isinstance(raw, Mapping) or BASE not in raw:
        return raw, Sources([(path, lines)])
    place = f"{path}:{lines.of(BASE)}: {BASE}"
    given = raw[BASE] if isinstance(raw[BASE], list) else [raw[BASE]]
    merged: dict[str, Any] = {}
    files: list[tuple[Path, KeyLines]] = [(path, lines)]
    for name in given:
        if not isinstance(name, str) or not name:
            raise ScenarioError(place, f"found {name!r}; give the path of a scenario file")
        try:
            base = path.parent / Path(filled(name)).expanduser()
        except ScenarioError as error:
            raise error.under(place) from None
        if base.resolve() in (path.resolve(), *above) or len(above) > _DEEPEST:
            raise ScenarioError(place, f"'{name}' builds on this file itself; leave it out")
        held, sources = _read(base, (*above, path.resolve()))
        if not isinstance(held, Mapping):
            raise ScenarioError(str(base), "holds no mapping; write keys such as problem: ...")
        merged = merge(merged, {key: value for key, value in held.items() if key not in _OWN})
        files[1:1] = sources.files
    own = {key: value for key, value in raw.items() if key != BASE}
    return merge(merged, own), Sources(files)


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with changes, merged key by key; neither is changed.

    Examples
    --------
    >>> merge({"clients": {"count": 4, "delay": "constant"}}, {"clients": {"count": 5}})
    {'clients': {'count': 5, 'delay': 'constant'}}
    >>> merge({"delay": {"name": "gamma", "shape": 2}}, {"delay": {"name": "constant"}})
    {'delay': {'name': 'constant'}}
    """
    merged = dict(base)
    for key, value in changes.items():
        before = merged.get(key)
        merged[key] = value
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            name = before.get("name")
            if value.get("name", name) == name:
                merged[key] = merge(before, value)
    return merged
