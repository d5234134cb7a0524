"""Scenario files: read with those that they build on, wrong at their lines, several as one study.

A file with ``base: other.yaml`` builds on another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rayfed.core.dotted import Overrides, apply_overrides, matches, pairs, replaced, resolved
from rayfed.core.errors import ScenarioError, clipped, listed, under
from rayfed.core.older import renewed
from rayfed.core.yamlfile import lines_of, read_yaml
from rayfed.study.scenario.fields import filled
from rayfed.study.scenario.invalid import MISSING, Mistakes, errors_of
from rayfed.study.scenario.names import canonical
from rayfed.study.scenario.schema import BASE
from rayfed.study.scenario.study import Study

_ABOUT = ("name", "description")  # a study does not inherit these from its base
_DEEPEST = 20
_OWN = (*_ABOUT, "sweep")
"""Keys that may differ without making a run another one."""
_ATOMIC = ("grid", "algorithms", "seeds")
"""Keys with values that are replaced as a whole, not merged."""


def load(path: Path | str, overrides: Overrides = (), *, recorded: bool = False) -> Study:
    """Read a scenario file.

    Parameters
    ----------
    path : Path
        A YAML file. Paths in it, and in the files that it builds on, are relative to its folder.
    overrides : mapping, or iterable of str
        Values for dotted keys, or texts ``dotted.key=value``.
    recorded : bool
        Whether it is that of a result folder, which may be in the spelling of an older version.

    Raises
    ------
    ScenarioError
        If it cannot be read or is wrong, in one line.
    """
    path = Path(path)
    raw, sources = read(path)
    if not isinstance(raw, Mapping):
        raise ScenarioError(str(path), "holds no mapping; write keys such as problem: ...")
    raw = renewed(raw) if recorded else raw
    changes = pairs(overrides)
    try:
        changed = apply_overrides(raw, changes)
        _check_effect(changed, [key for key, _ in changes])
        return Study.parse({"name": path.stem} | changed, path.parent)
    except ScenarioError as error:
        keys = [resolved(raw, key) for key, _ in changes]
        raise located(error, sources, keys) from None


def _check_effect(changed: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Refuse overrides of keys that a grid or a search sets."""
    cases = changed.get("cases")
    own = [key for values in cases.values() for key in values] if isinstance(cases, Mapping) else []
    for part in ("grid", "search"):
        held = changed.get(part)
        if any(str(key).partition(".")[0] == part for key in own):
            continue  # of each case another one
        swept = [str(key) for key in held] if isinstance(held, Mapping) else []
        for key in (key for key in keys if key.partition(".")[0] != part):
            for earlier, later in replaced(changed, [key, *swept]):
                if earlier == key:
                    text = f"'{part}.{later}' replaces it; change that, or give {part}={{}} as well"
                    raise ScenarioError(key, text)


def located(
    error: ScenarioError, sources: Sources, overridden: Iterable[str] = ()
) -> ScenarioError:
    """Return an error with the lines of the scenario files on which it stands.

    Parameters
    ----------
    sources : Sources
        The file, and those that it builds on.
    overridden : iterable of str
        Dotted keys whose values come from elsewhere.
    """
    keys, placed = list(overridden), []
    for each in errors_of(error):
        elsewhere = any(matches(key, each.place) for key in keys)
        path, line = sources.find(each.place)
        placed.append((str(path), None if elsewhere else line, each))
    placed.sort(key=lambda found: (found[1] is None, found[0], found[1] or 0))
    where = [_where(*found) for found in placed]
    return Mistakes([each for *_, each in placed], where) if any(where) else error


def _where(path: str, line: int | None, error: ScenarioError) -> str:
    """Return the file and the line of an error; what is missing is on no line of its file."""
    if line is None:
        return clipped(path, 100) if error.problem == MISSING else ""
    return f"{clipped(path, 100)}:{line}"


def with_lines(error: ScenarioError, path: Path | str, overrides: Overrides = ()) -> ScenarioError:
    """Return an error that was found after a scenario file was read, with its lines in the file.

    The error is returned as it is where the file cannot be read any more.
    """
    try:
        raw, sources = read(Path(path))
        keys = [resolved(raw, key) for key, _ in pairs(overrides)]
    except ScenarioError:
        return error
    known = isinstance(error, Mistakes) and any(error.lines)
    return error if known else located(error, sources, keys)


@dataclass(frozen=True)
class Sources:
    """The files that a scenario comes from, the last first.

    Parameters
    ----------
    files : sequence of (path, yaml.Node or None)
    """

    files: Sequence[tuple[Path, yaml.Node | None]]

    def find(self, place: str) -> tuple[Path, int | None]:
        """Return the file in which a dotted key stands, and its line.

        It is the one that has most of the key's parts; of several, the last. The line is that of
        what the key would stand in where it is in none, and None where nothing of it is.
        """
        found = [(path, lines_of(node, place)) for path, node in self.files]
        path, lines = max(found, key=lambda each: len(each[1]))
        return path, lines[-1] if lines else None


def read(path: Path) -> tuple[Any, Sources]:
    """Return the content of a scenario file, merged with its bases, and the place of each key.

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
    raw, node = read_yaml(path)
    files = [(path, node)]
    if not isinstance(raw, Mapping) or BASE not in raw:
        return raw, Sources(files)
    place = f"{path}:{lines_of(node, BASE)[-1]}: {BASE}"
    given = raw[BASE] if isinstance(raw[BASE], list) else [raw[BASE]]
    merged: dict[str, Any] = {}
    for name in given:
        if not isinstance(name, str) or not name:
            raise ScenarioError(place, f"found {name!r}; give the path of a scenario file")
        with under(place):
            base = path.parent / Path(filled(name)).expanduser()
        if base.resolve() in (path.resolve(), *above) or len(above) > _DEEPEST:
            raise ScenarioError(place, f"'{name}' builds on this file itself; leave it out")
        held, sources = _read(base, (*above, path.resolve()))
        if not isinstance(held, Mapping):
            raise ScenarioError(str(base), "holds no mapping; write keys such as problem: ...")
        merged = merge(merged, {key: value for key, value in held.items() if key not in _ABOUT})
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

    A distribution of a search is replaced, and an empty search, grid or cases leave nothing:

    >>> merge({"search": {"lr": {"log": [0.1, 1]}}}, {"search": {"lr": {"choice": [1]}}})
    {'search': {'lr': {'choice': [1]}}}
    >>> merge({"grid": {"rounds": [1, 2]}}, {"grid": {}})
    {'grid': {}}
    """
    merged = dict(base)
    for key, value in changes.items():
        before = merged.get(key)
        merged[key] = value
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            name = before.get("name")
            if key in ("search", "grid", "cases") and not value:
                continue
            if key == "search":
                merged[key] = {**before, **value}
            elif value.get("name", name) == name:
                merged[key] = merge(before, value)
    return merged


def combined(paths: Sequence[Path], studies: Sequence[Study]) -> Study:
    """Return one study with the runs of several scenario files.

    Where the files differ in their algorithms alone, these are put into one list, each once. Else
    the study has a case for each file, of its name, with the values of the keys that differ.

    Parameters
    ----------
    paths : sequence of Path
        The files.
    studies : sequence of Study
        What they hold.

    Raises
    ------
    ScenarioError
        If a file is given twice or holds the same as another one; if the files have different
        executors, or one of them has cases or a search; if algorithms with the same label differ
        where nothing else does.
    """
    if not paths:
        raise ScenarioError("", "found no scenario file; give one or several")
    names = _names(paths)
    for path, study in zip(paths, studies, strict=True):
        for key in ("cases", "search"):
            if getattr(study, key):
                text = f"stands in {path}; such a file cannot be run together with others"
                raise ScenarioError(key, text)
    raws = [{k: v for k, v in study.to_dict().items() if k not in _OWN} for study in studies]
    different = list(_differing(raws))
    if not any(key.partition(".")[0] == "grid" for key in different):  # what all sweep alike
        swept = [*(raws[0].get("grid") or {})]
        gone = {a for key in different for a, _ in replaced(raws[0], [key, *swept]) if a == key}
        different = [key for key in different if key not in gone]
    if any(key.startswith("executor") for key in different):
        text = f"differs between {listed(map(str, paths))}"
        raise ScenarioError("executor", f"{text}; give one to all, such as --set executor=serial")
    called = {study.name for study in studies}
    raw = raws[0] | {"name": called.pop() if len(called) == 1 else "+".join(names)}
    values = [{key: _at(one, key) for key in different} for one in raws]
    _check_different(paths, values)
    if _algorithms_alone(different, raw):
        return Study.parse(raw | {"algorithms": _joined(paths, studies, raws)})
    return Study.parse(raw | {"cases": dict(zip(names, values, strict=True))})


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the names of the files: their stems, or their whole paths if stems clash."""
    full_paths = [path.resolve() for path in paths]
    for index, path in enumerate(paths):
        if full_paths.index(full_paths[index]) != index:
            raise ScenarioError(str(path), "is given twice; give it once")
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path.with_suffix("")) for path in paths]


def _differing(values: Sequence[Any], place: str = "") -> Iterator[str]:
    """Yield the dotted keys of values that differ; plug-ins of different names differ as wholes."""
    if len(set(map(canonical, values))) == 1:
        return
    mappings = all(isinstance(value, Mapping) for value in values)
    if not mappings or place in _ATOMIC:
        yield place
        return
    named = {canonical(value.get("name")) for value in values}
    if len(named) > 1 or len({frozenset(value) for value in values}) > 1:
        yield place
        return
    for key in values[0]:
        yield from _differing([value[key] for value in values], f"{place}.{key}".lstrip("."))


def _at(raw: Any, place: str) -> Any:
    for part in place.split("."):
        raw = raw[part]
    return raw


def _check_different(paths: Sequence[Path], values: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a file that holds the same study as another one."""
    first: dict[str, Path] = {}
    for path, held in zip(paths, values, strict=True):
        before = first.setdefault(canonical(held), path)
        if before != path:
            raise ScenarioError(str(path), f"holds the same study as {before}; leave one out")


def _algorithms_alone(different: Sequence[str], raw: Mapping[str, Any]) -> bool:
    """Return whether files that differ in these keys can be one list of algorithms.

    A grid that changes some algorithms of one file would change others in a longer list.
    """
    keys = (key for key in raw["grid"] if key.startswith("algorithms."))
    return list(different) == ["algorithms"] and all(k.startswith("algorithms.*") for k in keys)


def _joined(
    paths: Sequence[Path], studies: Sequence[Study], raws: Sequence[Mapping[str, Any]]
) -> list[Any]:
    """Return the algorithms of all files, those that stand in several of them once."""
    first: dict[str, tuple[Path, Any]] = {}
    for path, study, raw in zip(paths, studies, raws, strict=True):
        for label, algorithm in zip(study.labels, raw["algorithms"], strict=True):
            before, same = first.setdefault(label, (path, algorithm))
            keys = [key or "name" for key in _differing([same, algorithm])]
            if keys:
                text = f"'{label}' differs in {before} and {path} ({listed(keys)})"
                raise ScenarioError("algorithms", f"{text}; set label to tell them apart")
    return [algorithm for _, algorithm in first.values()]
