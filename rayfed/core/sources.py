"""The user's modules on other machines: imported by name from sources that are sent there.

A module that is imported has one copy of each class, cache and lock in a process, as it has where
the study was planned.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.abc import SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

from rayfed.core.own import settle, settled


@dataclass(frozen=True)
class Sources:
    """Sources of modules, for another process.

    Parameters
    ----------
    files : mapping of str to (str, bytes)
        The file and the source of each module.
    homes : mapping of str to str
        Folders of modules at the top, where the other process may find further ones.
    """

    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, modules: Iterable[ModuleType]) -> Sources:
        """Return the sources of modules that were imported, and of the packages they are in.

        What has no source is left to the other process to find.
        """
        files: dict[str, tuple[str, bytes]] = {}
        for module in modules:
            parts = module.__name__.split(".")
            for name in (".".join(parts[:end]) for end in range(1, len(parts) + 1)):
                spec = getattr(sys.modules.get(name), "__spec__", None)
                loader, origin = getattr(spec, "loader", None), getattr(spec, "origin", None)
                if origin and loader is not None and hasattr(loader, "get_data"):
                    files[name] = origin, loader.get_data(origin)
        return cls(files, settled())

    def install(self) -> None:
        """Let modules be imported by name from these sources, in this process."""
        settle({top: home for top, home in self.homes.items() if os.path.isdir(home)})
        if self.files:
            sys.meta_path.insert(0, _Finder(self.files))


NO_SOURCES = Sources()


class _Finder(SourceLoader):
    """Imports modules from sources in memory."""

    def __init__(self, files: dict[str, tuple[str, bytes]]) -> None:
        self.files = files
        self.held = dict(files.values())

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the specification of a module, or of a package without a file of its own."""
        if name in self.files:
            origin, _ = self.files[name]
            package = os.path.basename(origin) == "__init__.py"
            spec = spec_from_loader(name, self, origin=origin, is_package=package)
            if spec is not None:
                spec.has_location = True
                if package:
                    spec.submodule_search_locations = [os.path.dirname(origin)]
            return spec
        if any(known.startswith(f"{name}.") for known in self.files):
            return ModuleSpec(name, None, is_package=True)
        return None

    def get_filename(self, name: str) -> str:
        """Return the file of a module where it was planned."""
        return self.files[name][0]

    def get_data(self, path: str | bytes) -> bytes:
        """Return a source."""
        if path not in self.held:
            raise OSError(f"no source of {path!r} was sent")
        return self.held[str(path)]
