"""Modules that scenarios name as ``module:Name``: which are imported, and from where.

A scenario is data. The modules that it names are judged before they are imported, and what is found
in them before it is called; see docs/concepts/trust.md.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from rayfed.core.errors import ScenarioError, clipped
from rayfed.core.extras import DISTRIBUTION

LIBRARIES = ("torch.nn", "torchvision.models")
"""Parts of installed libraries that scenarios may name: what they make are models."""
_INSTALLED = {"site-packages", "dist-packages"}
_OTHERS = {
    place
    for home in (Path(__file__).parents[1], Path(sysconfig.get_path("stdlib")))
    for place in (home.absolute(), home.resolve())
}
_LONGEST = 2000  # characters of a message that is to be read as a whole
_settled: dict[str, str] = {}
"""Folders that modules at the top are imported from, whatever comes first on Python's path."""


class Untrusted(ScenarioError):
    """A result folder names modules, and somebody else may have made that folder.

    Parameters
    ----------
    place : str
        The folder.
    problem : str
        What would run; as it is to be read, it is not cut as other messages are.
    """

    def __init__(self, place: str, problem: str) -> None:
        Exception.__init__(self, clipped(f"{place}: {problem}", _LONGEST))
        self.place, self.problem = place, problem


@dataclass(frozen=True)
class Names:
    """Where names of modules stand, and where these modules lie.

    Parameters
    ----------
    scenario_folder : str, optional
        Folder of the scenario file that they stand in.
    results : str, optional
        The result folder that they stand in, as it is shown.
    every : tuple of str
        All modules that may be named there.
    noted : mapping of str to str
        Modules of that study, each with the folder from which it was imported.
    made_here : bool
        Whether this user noted these modules.
    trusted : bool
        Whether any module may be imported.
    """

    scenario_folder: str | None = None
    results: str | None = None
    every: tuple[str, ...] = ()
    noted: Mapping[str, str] = field(default_factory=dict)
    made_here: bool = False
    trusted: bool = False

    def find(self, top: str) -> ModuleSpec | None:
        """Find a module of the user's.

        The folder where it was noted comes first, then the scenario's folder, Python's path and
        the current folder.
        """
        noted = [home for name, home in self.noted.items() if name.partition(".")[0] == top]
        homes = [*noted, *([] if self.scenario_folder is None else [self.scenario_folder])]
        found = [PathFinder.find_spec(top, [home]) for home in homes]
        found += [_found(top), PathFinder.find_spec(top, [str(Path.cwd())])]
        specs = [spec for spec in found if spec is not None]
        return next((spec for spec in specs if spec.loader), specs[0] if specs else None)

    def check(self, module: str, home: str | None) -> None:
        """Refuse a module of the user's that is not known to be theirs."""
        known = self.made_here and self.noted.get(module) == home
        if self.results is None or self.trusted or known:
            return
        files = [self._file(name) for name in self.every if self._runs(name)]
        code = ", ".join(files) or f"the module '{module}'"
        text = f"not made by you here, and would run {code}; read that, then give --trust"
        raise Untrusted(self.results, f"{text} (trust=True)")

    def _runs(self, module: str) -> bool:
        spec = self.find(module.partition(".")[0])
        return spec is not None and _is_own(spec)

    def _file(self, module: str) -> str:
        """Return the file of a module that `find` finds, as far as it is there."""
        spec = self.find(module.partition(".")[0])
        path = Path((spec and _above(spec)) or "", *module.split("."))
        files = (path.with_suffix(".py"), path / "__init__.py")
        return str(next((file for file in files if file.is_file()), path))


_names: ContextVar[Names] = ContextVar("names", default=Names())  # noqa: B039 -- it is frozen


@contextmanager
def resolving(names: Names) -> Iterator[None]:
    """Resolve names that stand somewhere; a file in a result folder has no modules next to it."""
    token = _names.set(_names.get() if names.results is None and _names.get().results else names)
    try:
        yield
    finally:
        _names.reset(token)


class _Finder(MetaPathFinder):
    """Finds modules where they are settled."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the specification of a module that is settled, None of the others."""
        return PathFinder.find_spec(name, [_settled[name]]) if name in _settled else None


def settled() -> dict[str, str]:
    """Return from which folders modules at the top are imported, for `settle` in a process."""
    return dict(_settled)


def settle(homes: Mapping[str, str]) -> None:
    """Import modules at the top from given folders, which come last on Python's path."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _settled.update(homes)
    sys.path += [home for home in dict.fromkeys(homes.values()) if home not in sys.path]


def admit(path: str) -> None:
    """Judge the module of ``module:Name`` before it is imported, and settle where it lies.

    Raises
    ------
    ScenarioError
        If no scenario may name it, or that of a result folder may not; or if a module of that name
        was imported from elsewhere.
    """
    if "<" in path:  # nothing is imported for it
        return
    module, _, name = path.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise ScenarioError(clipped(path, 60), "is not a name; write package.module:Class")
    top, _, below = module.partition(".")
    if below.endswith("__main__"):
        raise ScenarioError(clipped(path, 60), "is a program; name a module")
    if top in ("__main__", "rayfed"):
        return
    if top in sys.stdlib_module_names:
        _refuse(path, f"'{top}' is of Python's own library")
    spec = _found(top)
    if spec is None or _is_own(spec):
        _settle(path, top, spec)
    elif not (_entry(module) or _requires_rayfed(top)):
        _refuse(path, f"'{top}' is an installed library")


def _refuse(path: str, why: str) -> None:
    """Refuse a library; a module of the user's that has its name would never be imported."""
    top = path.partition(":")[0].partition(".")[0]
    what = f"name a module of yours, {' or '.join(LIBRARIES)}, or a package that requires rayfed"
    for home in filter(None, (_names.get().scenario_folder, str(Path.cwd()))):
        spec = PathFinder.find_spec(top, [home])
        if spec is not None and _is_own(spec):
            what = f"{_origin(spec)} is not taken for it, give it another name"
            break
    raise ScenarioError(clipped(path, 60), f"{why}; {what}")


def _settle(path: str, top: str, on_path: ModuleSpec | None) -> None:
    """Settle from where a module of the user's is imported."""
    names = _names.get()
    spec = names.find(top)
    home = None if spec is None else _above(spec)
    names.check(path.partition(":")[0], home)
    if home is None:
        return
    before = None if on_path is None else _above(on_path)
    if before and (top in sys.modules or top in _settled) and not _same(before, home):
        text = f"'{top}' was imported from {before}, and this study has it from {home}"
        raise ScenarioError(clipped(path, 60), f"{text}; go on with it in another process")
    settle({top: home})


def _found(top: str) -> ModuleSpec | None:
    """Return the specification of a module as Python finds it; nothing is imported."""
    module = sys.modules.get(top)
    if module is None:
        return importlib.util.find_spec(top)
    file = getattr(module, "__file__", None)
    return getattr(module, "__spec__", None) or ModuleSpec(top, None, origin=file)


def _is_own(spec: ModuleSpec) -> bool:
    """Return whether a module at the top is the user's; Python's own may have no file."""
    return spec.name not in sys.stdlib_module_names and is_users(_origin(spec))


def _origin(spec: ModuleSpec) -> str:
    """Return the file of a module, or the folder of a package without one; "" if in memory."""
    if spec.origin is not None:
        return spec.origin
    return next(iter(spec.submodule_search_locations or ()), "")


def _above(spec: ModuleSpec) -> str | None:
    """Return the folder, or the zip file, that holds a module or a package."""
    origin = _origin(spec)
    path = Path(origin).absolute()
    return str(path.parents[path.stem == "__init__"]) if origin else None


def _same(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()


def _entry(module: str) -> str:
    """Return which of `LIBRARIES` a module belongs to; "" if to none."""
    return next((each for each in LIBRARIES if f"{module}.".startswith(f"{each}.")), "")


@cache
def _requires_rayfed(top: str) -> bool:
    """Return whether a module at the top is of a distribution that requires rayfed."""
    names = metadata.packages_distributions().get(top, ())
    required = [text for name in names for text in metadata.requires(name) or ()]
    return any(re.match(rf"{DISTRIBUTION}\b(?![-_.])", text) for text in required)


def is_installed(path: str) -> bool:
    """Return whether a module that was imported is of a library, or of rayfed."""
    spec = _found(path.partition(":")[0].partition(".")[0])
    return spec is not None and not _is_own(spec)


def is_defined(path: str, item: Any) -> bool:
    """Return whether a class or a function belongs to the module that names it.

    Then it was defined in that module, in another one of the user's, or in the same part of a
    library. What a module of the user's has only imported from a library is not of it.
    """
    module = path.partition(":")[0]
    return "<" in path or item.__module__ == module or _part(item.__module__) == _part(module)


def _part(module: str) -> str:
    """Return the library of a module; "" for the user's modules."""
    top = module.partition(".")[0]
    spec = _found(top)
    return "" if spec is not None and _is_own(spec) else _entry(module) or top


def is_users(filename: str) -> bool:
    """Return whether a file is outside rayfed, installed packages and the standard library."""
    path = Path(filename)
    if filename.startswith("<") or not _INSTALLED.isdisjoint(path.parts):
        return False
    return not any(each.is_relative_to(home) for each in (path, path.resolve()) for home in _OTHERS)
