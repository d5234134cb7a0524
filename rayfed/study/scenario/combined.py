"""Several scenarios as one study, whose runs are those of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rayfed.core.errors import ScenarioError, listed
from rayfed.study.scenario.names import canonical
from rayfed.study.scenario.study import Study

_OWN = ("name", "description", "sweep")
"""Keys that may differ without making a run another one."""
_WHOLE = ("grid", "algorithms", "seeds")
"""Keys whose values stay in one piece."""


def combined(paths: Sequence[Path], studies: Sequence[Study]) -> Study:
    """Return one study whose runs are those of several scenario files.

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
    """Return what the files are called: their stems, or their whole paths if stems clash."""
    whole = [path.resolve() for path in paths]
    for index, path in enumerate(paths):
        if whole.index(whole[index]) != index:
            raise ScenarioError(str(path), "is given twice; give it once")
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path.with_suffix("")) for path in paths]


def _differing(values: Sequence[Any], place: str = "") -> Iterator[str]:
    """Yield the dotted keys of values that differ; plug-ins of different names differ as wholes."""
    if len(set(map(canonical, values))) == 1:
        return
    mappings = all(isinstance(value, Mapping) for value in values)
    if not mappings or place in _WHOLE:
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
