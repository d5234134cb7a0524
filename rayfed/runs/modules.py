"""The user's own modules: which actors on other machines need, and where a study found them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from rayfed.core.plugins import is_users
from rayfed.engine.run import Run
from rayfed.runs.store import publish_text

MODULES = "modules.json"
"""File of a result folder with the folders of the user's modules, where a study names any."""
_NAMED = re.compile(r"([A-Za-z_][\w.]*):[A-Za-z_][\w.]*")  # module:Class


def own_modules(runs: Iterable[Run]) -> list[ModuleType]:
    """Return the user's modules that define plug-ins of the runs, and the modules beside them.

    They are sent to the actors by value, so that the nodes of a cluster need no copy.
    """
    names = {_home(plugin) for run in runs for plugin in _plugins(run)}
    folders = {Path(sys.modules[n].__file__ or "").parent for n in names if _is_users(n)}
    return [
        module
        for name, module in sorted(sys.modules.items())
        if _is_users(name) and Path(str(module.__file__)).parent in folders
    ]


def found_by_name(runs: Iterable[Run]) -> bool:
    """Return whether another process finds the plug-ins of runs by the names of their modules.

    It does not find classes of a notebook or a script that is executed, or those of a function.
    """
    return all(
        named.__module__ != "__main__" and "<locals>" not in named.__qualname__
        for run in runs
        for named in map(_named, _plugins(run))
    )


def note_folders(folder: Path, scenario: Mapping[str, Any]) -> None:
    """Write down where the user's modules lie that a scenario names, for `find_folders`.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    names = {match[1] for text in _texts(scenario) if (match := _NAMED.fullmatch(text))}
    found = {str(_above(name)) for name in names if _is_users(name)}
    if found:
        text = json.dumps({"folders": sorted(found)}, indent=1)
        publish_text(folder / MODULES, text + "\n", durable=True)


def find_folders(folder: Path) -> None:
    """Put the folders that a result folder names last on Python's path, if they are there."""
    held: Any = {}
    with suppress(OSError, ValueError):
        held = json.loads((folder / MODULES).read_text(encoding="utf-8"))
    named = held.get("folders") if isinstance(held, dict) else None
    for home in named if isinstance(named, list) else []:
        if isinstance(home, str) and home not in sys.path and _is_place(home):
            sys.path.append(home)


def _is_place(home: str) -> bool:
    return Path(home).is_absolute() and Path(home).is_dir()


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts that nested settings hold."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def _above(name: str) -> Path:
    """Return the folder from which a module is imported by its whole name."""
    path = Path(str(sys.modules[name].__file__)).resolve()
    package = path.stem == "__init__"
    return path.parents[name.count(".") + package]


def _is_users(name: str) -> bool:
    path = getattr(sys.modules.get(name), "__file__", None)
    return name != "__main__" and bool(path) and is_users(str(path))


def _plugins(run: Run) -> list[Any]:
    """Return the plug-ins of a run and the values they hold."""
    training, population = run.training, run.federation.population
    selection = run.participation.selection
    plugins = (training.algorithm, training.problem, selection, *training.solvers, population)
    held = [
        getattr(plugin, field.name)
        for plugin in plugins
        if is_dataclass(plugin)
        for field in fields(plugin)
    ]
    inner = [item for value in held if isinstance(value, Mapping) for item in value.values()]
    return [*plugins, *held, *inner]


def _home(plugin: Any) -> str:
    """Return the module of a plug-in's class, or of a class or function that a plug-in holds."""
    return str(_named(plugin).__module__)


def _named(plugin: Any) -> type | FunctionType:
    """Return a class or a function, or the class of a value."""
    return plugin if isinstance(plugin, (type, FunctionType)) else type(plugin)
