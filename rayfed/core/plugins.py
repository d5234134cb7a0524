"""The plug-in search: what exists is what is found in the folders, no list is kept by hand.

A plug-in is a frozen dataclass of settings that extends the base class of its kind and has a
``name``. Dropping a file into the folder of its kind is enough for it to exist. A user's own
class is named ``package.module:Class``.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, TypeAlias

from rayfed.core.errors import ScenarioError, clipped, unknown


@dataclass(frozen=True)
class Kind:
    """Where one kind of plug-in lives: a module or package, and its base class.

    Settings without a name are for the one that is named `unnamed`, if any is.
    """

    home: str
    base: str
    unnamed: str | None = None


@dataclass(frozen=True)
class BesideScenario:
    """Annotation of a setting that is a path, relative to the folder of the scenario file."""


FilePath: TypeAlias = Annotated[str, BesideScenario()]

KINDS = {
    "algorithms": Kind("rayfed.algorithms", "rayfed.algorithms.base:Algorithm"),
    "problems": Kind("rayfed.problems", "rayfed.problems.base:Problem"),
    "solvers": Kind("rayfed.clients.solvers", "rayfed.clients.solvers.base:Solver"),
    "schedules": Kind("rayfed.clients.schedules", "rayfed.clients.schedules:Schedule"),
    "lengths": Kind("rayfed.clients.lengths", "rayfed.clients.lengths:Length", unnamed="uniform"),
    "datasets": Kind("rayfed.datasets", "rayfed.datasets.base:Dataset"),
    "partitions": Kind("rayfed.datasets.partitions", "rayfed.datasets.partitions.base:Partition"),
    "delays": Kind("rayfed.population.delay", "rayfed.population.delay.base:Delay"),
    "availability": Kind(
        "rayfed.population.availability", "rayfed.population.availability.base:Availability"
    ),
    "selections": Kind("rayfed.selection", "rayfed.selection.base:Selection"),
    "topologies": Kind("rayfed.topology", "rayfed.topology.base:Topology"),
    "mobilities": Kind("rayfed.topology.mobility", "rayfed.topology.mobility.base:Mobility"),
    "walks": Kind("rayfed.topology.walks", "rayfed.topology.walks.base:Walk"),
}

_SINGULAR = {"availability": "availability", "topologies": "topology", "mobilities": "mobility"}


def load(path: str) -> Any:
    """Return the object that ``package.module:Name`` names.

    Raises
    ------
    ScenarioError
        If the module or the name cannot be found, or the module raises an error on import; the
        message names the user's own files and lines.
    """
    module, _, name = path.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise ScenarioError(clipped(path, 60), "is not a name; write package.module:Class")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise ScenarioError(path, f"no module '{error.name}'; is it on the path?") from error
    except AttributeError as error:
        if module in sys.modules:  # it was imported, and the name is what lacks
            raise ScenarioError(path, f"module '{module}' has no '{name}'") from error
        raise ScenarioError(path, f"cannot be imported: {raised(error)}") from error
    except (Exception, SystemExit) as error:  # whatever the user's module does
        raise ScenarioError(path, f"cannot be imported: {raised(error)}") from error


def raised(error: BaseException) -> str:
    """Return what a user's code raised, and where in the user's own files, on one line."""
    line = clipped(f"{type(error).__name__}: {error}".rstrip(": "), 140)
    hint = "; add frozen=True to its @dataclass" if "non-frozen dataclass" in str(error) else ""
    if isinstance(error, SyntaxError) and error.filename:
        line = clipped(f"SyntaxError: {error.msg}", 140)
        return f"{line} ({_at(error.filename, error.lineno)})"
    where = " <- ".join(_at(f.filename, f.lineno) for f in reversed(users_frames(error)[-3:]))
    return f"{line}{hint}" + (f" ({where})" if where else "")


def users_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of an error's trace that lie in the user's own files."""
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if _is_users(frame.filename)]


def _is_users(filename: str) -> bool:
    """Return whether a file is neither ours, nor installed, nor Python's own."""
    ours = str(Path(__file__).resolve().parent.parent)
    others = (ours, sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), "<")
    return not filename.startswith(others)


def _at(filename: str, line: int | None) -> str:
    return clipped(f"{Path(filename).name}:{line}", 60)


def base(kind: str) -> type[Any]:
    """Return the base class of a kind."""
    found: type[Any] = load(KINDS[kind].base)
    return found


@cache
def find(kind: str) -> dict[str, type[Any]]:
    """Return every plug-in of a kind by name, sorted.

    Examples
    --------
    >>> list(find("availability"))[:2]
    ['always', 'bernoulli']
    """
    parent = base(kind)
    found = {}
    for module in _modules(KINDS[kind].home):
        for item in vars(module).values():
            named = isinstance(item, type) and issubclass(item, parent) and "name" in vars(item)
            if named and item.__module__ == module.__name__:
                found[str(item.name)] = item
    return dict(sorted(found.items()))


def _modules(home: str) -> Iterator[ModuleType]:
    """Yield a module, or a package with all modules in it and in its sub-packages.

    Folders that are homes of other kinds are left out.
    """
    package = importlib.import_module(home)
    yield package
    others = {kind.home for kind in KINDS.values()} - {home}
    for entry in pkgutil.iter_modules(getattr(package, "__path__", [])):
        inner = f"{home}.{entry.name}"
        if inner not in others:
            yield from _modules(inner)


def resolve(kind: str, name: str) -> type[Any]:
    """Return the plug-in class for a name or for ``package.module:Class``.

    Raises
    ------
    ScenarioError
        If there is none; the message names the nearest known one.
    """
    if ":" in name:
        item = load(name)
        if not (isinstance(item, type) and issubclass(item, base(kind))):
            raise ScenarioError(name, f"is not a subclass of {base(kind).__name__}")
        return item
    known = find(kind)
    if name not in known:
        singular = _SINGULAR.get(kind, kind[:-1])
        raise ScenarioError("", unknown(singular, name, known))
    return known[name]


def name_of(plugin: Any) -> str:
    """Return the name under which `resolve` finds a plug-in, a class or a value, again."""
    cls: Any = plugin if isinstance(plugin, type) else type(plugin)
    builtin = cls.__module__.startswith("rayfed.")
    return str(cls.name) if builtin else f"{cls.__module__}:{cls.__qualname__}"
