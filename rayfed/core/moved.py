"""Import paths of version 0.1: they lead to the new ones with a warning until 0.3 removes them."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MODULES: Mapping[str, str] = {
    "rayfed.aggregators": "rayfed.channel",
    "rayfed.availability": "rayfed.population",
    "rayfed.delays": "rayfed.population",
    "rayfed.drifts": "rayfed.datasets",
    "rayfed.faults": "rayfed.channel",
    "rayfed.memories": "rayfed.channel",
    "rayfed.mixers": "rayfed.channel",
    "rayfed.mobilities": "rayfed.topology",
    "rayfed.partitions": "rayfed.datasets",
    "rayfed.schedules": "rayfed.solvers",
    "rayfed.selections": "rayfed.selection",
    "rayfed.stages": "rayfed.channel",
    "rayfed.staleness": "rayfed.algorithms",
    "rayfed.step_counts": "rayfed.solvers",
    "rayfed.topologies": "rayfed.topology",
    "rayfed.walks": "rayfed.topology",
    "rayfed.clients.sampling": "rayfed.solvers.sampling",
    "rayfed.clients.schedules": "rayfed.solvers.schedules",
    "rayfed.clients.solvers": "rayfed.solvers",
    "rayfed.clients.solvers.adaptive": "rayfed.solvers.adaptive",
    "rayfed.clients.solvers.base": "rayfed.solvers.base",
    "rayfed.clients.solvers.descent": "rayfed.solvers.descent",
    "rayfed.clients.solvers.sgd": "rayfed.solvers.sgd",
    "rayfed.clients.step_counts": "rayfed.solvers.step_counts",
    "rayfed.problems.linear": "rayfed.problems.logistic_regression",
    "rayfed.topology.rounds": "rayfed.topology.shapes",
    "rayfed.topology.walks.base": "rayfed.topology.walks.metropolis",
}
RENAMED: Mapping[tuple[str, str], str] = {
    ("rayfed.availability", "Trace"): "AvailabilityTrace",
    ("rayfed.clients.schedules", "Constant"): "ConstantRate",
    ("rayfed.delays", "Constant"): "ConstantDelay",
    ("rayfed.delays", "Trace"): "DelayTrace",
    ("rayfed.delays", "Uniform"): "UniformDelay",
    ("rayfed.partitions", "Column"): "ByColumn",
    ("rayfed.schedules", "Constant"): "ConstantRate",
    ("rayfed.selections", "Uniform"): "UniformSelection",
    ("rayfed.staleness", "Constant"): "ConstantStaleness",
    ("rayfed.topologies", "Trace"): "TopologyTrace",
    ("rayfed.topology.walks.base", "Uniform"): "UniformWalk",
    ("rayfed.walks", "Uniform"): "UniformWalk",
}
"""New names of classes, by old module and name."""


class _OldModules(MetaPathFinder, Loader):
    """Finder and loader of the old modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname in MODULES else None

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__

        def get(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            new = RENAMED.get((old, name), name)
            found = getattr(importlib.import_module(MODULES[old]), new)
            text = f"{old}.{name} is now {MODULES[old]}.{new}; version 0.3 removes the old path"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return found

        module.__dict__["__getattr__"] = get


def install() -> None:
    """Let the old paths be imported; further calls change nothing."""
    if not any(isinstance(each, _OldModules) for each in sys.meta_path):
        sys.meta_path.append(_OldModules())
