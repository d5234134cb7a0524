"""Trial scenarios: whether parts that are drawn one after the other fit together."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from rayfed import api
from rayfed.core.errors import ScenarioError
from tests.chaos.dice import Dice, Settings, Undrawn
from tests.chaos.tables import ALWAYS, EXCLUSIVE, SKIPPED, table

Scenario: TypeAlias = dict[str, Any]

_CLIENTS = 4


def settings(dice: Dice, clients: int, folder: Path, changed: float = 0.3) -> Settings:
    """Return what draws settings of plug-ins; `changed` is the probability of optional ones."""
    return Settings(
        dice, table(clients, folder), folder,
        skipped=SKIPPED, always=ALWAYS, one_of=EXCLUSIVE, changed=changed,
    )  # fmt: skip


@cache
def fits(
    problem: str = "least-squares",
    dataset: str = "linear",
    partition: str | None = None,
    algorithm: str = "fedavg",
    selection: str = "uniform",
    topology: str | None = None,
    solver: str | None = None,
    flag: str | None = None,
    drift: str | None = None,
) -> bool:
    """Return whether plug-ins of these names, with their defaults, make a scenario."""
    with tempfile.TemporaryDirectory() as folder:
        drawn = settings(Dice(0), _CLIENTS, Path(folder), changed=0.0)
        try:
            data = drawn.plugin("datasets", dataset)
            scenario: Scenario = {
                "rounds": 1,
                "problem": {**drawn.plugin("problems", problem), "dataset": data},
                "clients": {"count": _CLIENTS},
                "participation": {"select": drawn.plugin("selections", selection)},
                "algorithms": [drawn.plugin("algorithms", algorithm)],
                "evaluate": {} if flag is None else {flag: True},
                "executor": "serial",
            }
            if solver is not None:
                scenario["algorithms"][0]["local"] = drawn.plugin("solvers", solver)
            for key, kind, name in (
                ("partition", "partitions", partition), ("topology", "topologies", topology),
                ("drift", "drifts", drift),
            ):  # fmt: skip
                if name is not None:
                    scenario[key] = drawn.plugin(kind, name)
            api.prepare(api.read(scenario))
        except (ScenarioError, Undrawn):
            return False
        except Exception:  # a finding, which the case itself will make
            return True
    return True
