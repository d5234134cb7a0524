"""Scenarios without the keys that are as by default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from rayfed.core.errors import ScenarioError
from rayfed.study.scenario.study import OF_CHANNEL, Study


def shortened(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return the smallest part of a scenario that resolves to the same study.

    Keys are left out one by one, so that a default need not be known, only its effect.

    Raises
    ------
    ScenarioError
        If the scenario is wrong.

    Examples
    --------
    >>> problem = {"name": "logistic-regression", "dataset": "mushroom", "l2": 0.0}
    >>> algorithms = [{"name": "fedavg", "local": {"steps": 5, "lr": 0.1}, "server_lr": 1.0}]
    >>> made = shortened({"name": "a", "problem": problem, "algorithms": algorithms, "rounds": 9})
    >>> made["problem"]
    {'name': 'logistic-regression', 'dataset': 'mushroom'}
    >>> made["algorithms"]
    [{'name': 'fedavg', 'local': {'steps': 5}}]
    """
    full = _resolved(scenario)
    made = deepcopy(dict(scenario))

    def is_same() -> bool:
        try:
            return _resolved(made) == full
        except ScenarioError:
            return False

    _prune(made, is_same)
    return made


def _resolved(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario with its defaults, and channels of the study in those of algorithms."""
    made = Study.parse(scenario).to_dict()
    for algorithm in made["algorithms"]:
        for key in OF_CHANNEL:
            own = algorithm[key]
            algorithm[key] = (made[key] if own == "study" else own) or None
    return made


def _prune(node: Any, is_same: Callable[[], bool]) -> None:
    """Delete the keys below a mapping or list after which the scenario is the same."""
    if isinstance(node, dict):
        for key in [*node]:
            before = dict(node)
            del node[key]
            if not is_same():
                node.clear()
                node.update(before)
    for part in node.values() if isinstance(node, dict) else node:
        if isinstance(part, dict | list):
            _prune(part, is_same)
