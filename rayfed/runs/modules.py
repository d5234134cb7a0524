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
from zipfile import is_zipfile

from rayfed.core.errors import ScenarioError
from rayfed.core.plugins import is_users
from rayfed.engine.run import Run
from rayfed.runs.remote.place import shown
from rayfed.runs.store import publish_text

MODULES = "modules.json"
"""File of a result folder that says where the user's modules lay, where a study names any."""
_NAMED = re.compile(r"([A-Za-z_][\w.]*):[A-Za-z_][\w.]*")  # module:Class


def own_modules(runs: Iterable[Run]) -> list[ModuleType]:
    """Return the user's modules that define plug-ins of the runs, and the modules beside them.

    They are sent to the actors by value, so that the nodes of a cluster need no copy.
    """
    names = {_home(plugin) for run in runs for plugin in _plugins(run)}
    folders = {_file(name).parent for name in names if _is_users(name)}
    return [
        module
        for name, module in sorted(sys.modules.items())
        if _file(name).parent in folders and _is_users(name)
    ]


def found_by_name(runs: Iterable[Run]) -> bool:
    """Return whether another process finds the plug-ins of runs by the names of their modules.

    It does not find classes of a notebook or a script that is executed, or those of a function.
    """
    return all(
        named.__module__ != "__main__" and "<" not in named.__qualname__
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
    found = {name: str(_above(name)) for name in sorted(names) if _is_users(name)}
    if found:
        text = json.dumps({"modules": found}, indent=1)
        publish_text(folder / MODULES, text + "\n", durable=True)


def find_folders(folder: Path) -> None:
    """Put the folders of the modules that a result folder names first on Python's path.

    Raises
    ------
    ScenarioError
        If this process has imported a module of the same name from elsewhere.
    """
    noted = _noted(folder)
    here = str(Path.cwd())
    if noted and here not in sys.path:  # else who reads the scenario would put it first
        sys.path.insert(0, here)
    for name, home in noted:
        if name in sys.modules and _above(name).resolve() != Path(home).resolve():
            text = f"'{name}' was imported from {_above(name)}, and this study has it from {home}"
            raise ScenarioError(shown(folder), f"{text}; go on with it in another process")
        if home in sys.path:
            sys.path.remove(home)
        sys.path.insert(0, home)


def _noted(folder: Path) -> list[tuple[str, str]]:
    """Return the modules that a result folder names with their folders, as far as these exist."""
    held: Any = {}
    with suppress(OSError, ValueError):
        held = json.loads((folder / MODULES).read_text(encoding="utf-8"))
    noted = held.get("modules") if isinstance(held, dict) else None
    return [
        (name, home)
        for name, home in (noted.items() if isinstance(noted, dict) else ())
        if isinstance(home, str) and _is_place(Path(home))
    ]


def _is_place(home: Path) -> bool:
    return home.is_absolute() and (home.is_dir() or is_zipfile(home))


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
    """Return the folder, or the zip file, from which a module is imported by its whole name."""
    path = _file(name)
    return path.parents[name.count(".") + (path.stem == "__init__")]


def _file(name: str) -> Path:
    """Return the file of a module that was imported: a link as it is, since it has the name."""
    return Path(getattr(sys.modules.get(name), "__file__", None) or "").absolute()


def _is_users(name: str) -> bool:
    if name == "__main__" or name.partition(".")[0] == "rayfed":
        return False
    path = getattr(sys.modules.get(name), "__file__", None)
    return bool(path) and is_users(str(path))


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
