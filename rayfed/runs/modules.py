"""The user's own modules: which actors on other machines need, and where a study found them.

Who opens a result folder did not always make it. The note of where modules lie is sealed, and
without this user's seal nothing is imported for it unless that is asked for.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import is_zipfile

from rayfed.core.entries import digest_of
from rayfed.core.errors import ScenarioError
from rayfed.core.files import read_json
from rayfed.core.inside import opened
from rayfed.core.own import Names, Untrusted, admit, is_users, resolving
from rayfed.core.plugins import NAMED
from rayfed.core.seals import is_sealed, seal
from rayfed.engine.run import Run
from rayfed.problems.own_code.problem import OwnCode
from rayfed.runs.files.place import shown
from rayfed.runs.files.store import publish_text

MODULES = "modules.json"
"""File of a result folder that names any: where these modules lay, and which runs there are."""
_NAMED = re.compile(r"\b([A-Za-z_][\w.]*):[A-Za-z_][\w.]*")  # module:Class


def own_modules(runs: Iterable[Run]) -> list[ModuleType]:
    """Return the user's modules that define plug-ins of the runs, and the modules beside them."""
    runs = list(runs)
    names = {_home(plugin) for run in runs for plugin in _plugins(run)}
    problems = [run.training.problem for run in runs]
    names.update(*(each.code.modules for each in problems if isinstance(each, OwnCode)))
    folders = {_file(name).parent for name in names if _is_users(name)}
    if not folders:  # most often; a process has imported thousands of modules
        return []
    return [
        module
        for name, module in sorted(sys.modules.items())
        if _file(name).parent in folders and _is_users(name)
    ]


def sent_modules(runs: Sequence[Run]) -> list[ModuleType]:
    """Return `own_modules`, and all other modules of the user's in the folders below.

    Their sources are sent to actors, so that the nodes of a cluster need no copy.
    """
    homes = {_above(module.__name__) for module in own_modules(runs)}
    return [
        module
        for name, module in sorted(sys.modules.items())
        if homes and _is_users(name) and not homes.isdisjoint(_file(name).parents)
    ]


def source_digests(runs: Iterable[Run]) -> dict[str, str]:
    """Return digests of the sources of `own_modules`, by name; none of modules without source."""
    found = {}
    for module in own_modules(runs):
        spec = module.__spec__
        with suppress(OSError, AttributeError):
            content = spec.loader.get_data(spec.origin)  # type: ignore[union-attr]
            found[module.__name__] = digest_of(content)
    return found


def found_by_name(runs: Iterable[Run]) -> bool:
    """Return whether another process finds the plug-ins of runs by the names of their modules.

    It does not find classes of a notebook or a script that is executed, or those of a function.
    """
    return all(
        named.__module__ != "__main__" and "<" not in named.__qualname__
        for run in runs
        for named in map(_named, _plugins(run))
    )


def note_modules(folder: Path, scenario: Mapping[str, Any], runs: Sequence[str]) -> None:
    """Write down where the user's modules lie that a scenario names, for `of_study`.

    Parameters
    ----------
    folder : Path
        The result folder.
    scenario : mapping
        The resolved scenario, whose modules were imported.
    runs : sequence of str
        The folders of its runs, which nobody can tell later without these modules.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    found = {name: str(_above(name)) for name in sorted(_modules_in(scenario)) if _is_users(name)}
    if found:
        note = {"modules": found, "runs": list(runs), "seal": seal(_sealed(found))}
        publish_text(folder / MODULES, json.dumps(note, indent=1) + "\n", durable=True)


def of_study(folder: Path, trust: bool = False) -> AbstractContextManager[None]:
    """Let the modules that a result folder names be imported if this user noted them there.

    Parameters
    ----------
    folder : Path
        The result folder.
    trust : bool
        Whether others may be imported, too.
    """
    held = _note(folder)
    noted = held.get("modules")
    noted = noted if isinstance(noted, dict) else {}
    made_here = is_sealed(_sealed(noted), held.get("seal"))
    homes = {name: home for name, home in noted.items() if _is_place(home)}
    every = tuple(dict.fromkeys(match[1] for match in _NAMED.finditer(_scenario_of(folder))))
    return resolving(Names(None, shown(folder), every, homes, made_here, trust))


def names_modules(folder: Path) -> bool:
    """Return whether the scenario of a result folder names any module of its user."""
    return _NAMED.search(_scenario_of(folder)) is not None


def untrusted(folder: Path) -> str:
    """Return why a scenario from a result folder should be read before it is run, or "".

    Nothing is imported. It names modules of a folder that this user did not make on this machine.
    """
    with of_study(folder):
        for name in dict.fromkeys(match[0] for match in _NAMED.finditer(_scenario_of(folder))):
            try:
                admit(name)
            except Untrusted as error:
                return str(error)
            except ScenarioError:  # of a library, say: refused when it is run
                continue
    return ""


def _scenario_of(folder: Path) -> str:
    """Return the text of a result folder's scenario, none if it cannot be read."""
    with suppress(OSError, ValueError), opened(folder / "scenario.yaml") as file:
        return str(file.read(), "utf-8")
    return ""


def noted_runs(folder: Path, scenario: Any) -> list[str] | None:
    """Return the run folders of a study that names a user's modules, None of other studies.

    Nothing is imported. Runs that have not begun are known where `note_modules` listed them.

    Parameters
    ----------
    folder : Path
        The result folder.
    scenario : object
        What its scenario holds.
    """
    if all(name.partition(".")[0] in ("rayfed", "__main__") for name in _modules_in(scenario)):
        return None
    note = _note(folder).get("runs")
    listed = {name for name in note if isinstance(name, str)} if isinstance(note, list) else set()
    begun = {path.parent.name for path in folder.glob("*/run.json")}
    return sorted(begun | {name for name in listed if name == Path(name).name and name.strip(".")})


def _note(folder: Path) -> dict[str, Any]:
    """Return the note on modules of a result folder; empty if it cannot be read."""
    held: Any = {}
    with suppress(OSError, ValueError):
        held = read_json(folder / MODULES, results=True)
    return held if isinstance(held, dict) else {}


def _sealed(noted: Mapping[str, Any]) -> str:
    """Return the text that is sealed: which modules are imported, and from where."""
    return json.dumps(["modules", noted], sort_keys=True)


def _is_place(home: Any) -> bool:
    if not (isinstance(home, str) and os.path.isabs(home)):
        return False
    return os.path.isdir(home) or is_zipfile(home)


def _modules_in(scenario: Any) -> set[str]:
    """Return the modules that texts of a scenario may name."""
    return {match[1] for text in _texts(scenario) if (match := _NAMED.fullmatch(text))}


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
    selection = run.participation.select
    measures = run.measuring.measures.values()
    plugins = (
        training.algorithm, training.problem, selection, *training.solvers, population, *measures,
        *run.channel.uplink, *run.channel.downlink,
    )  # fmt: skip
    held = [
        getattr(plugin, field.name)
        for plugin in plugins
        if is_dataclass(plugin)
        for field in fields(plugin)
    ]
    inner = [item for value in held if isinstance(value, Mapping) for item in value.values()]
    if isinstance(training.problem, OwnCode):
        inner += vars(training.problem.code).values()
    return [*plugins, *held, *inner]


def _home(plugin: Any) -> str:
    """Return the module of a plug-in's class, or of a class or function that a plug-in holds."""
    return str(_named(plugin).__module__)


def _named(plugin: Any) -> Any:
    """Return a class or a function, or the class of a value."""
    return plugin if isinstance(plugin, NAMED) else type(plugin)
