"""The constants of `rayfed.study.forecast.placing`, by which `executor: auto` chooses.

``python -m benchmarks.placing`` prints the fastest of some measurements each: other programs on
the machine only ever add.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.data import Noise
from benchmarks.large import Carried, Parabola
from rayfed import api
from rayfed.runs.backend import ProgressDisplay

SMALL, LARGE = 1_000, 100_000
"""Parameters of models of 4 bytes each, which two clients send back as they get them."""
SERIAL = {"name": "serial"}
SHARED = {"name": "ray", "clients_per_actor": 1, "driver_hosts": True}
"""A client at the driver, each other one in an actor."""


def scenario(parameters: int, rounds: int, clients: int, executor: Any) -> Mapping[str, Any]:
    """Return a study in which clients compute nothing."""
    data = Noise(clients=clients, samples=1, features=1)
    problem = {"name": Parabola, "parameters": parameters, "dataset": data, "test": 0.0}
    return {
        "name": "placing",
        "rounds": rounds,
        "evaluate": {"every": rounds},
        "dtype": "float32",
        "problem": problem,
        "participation": {"select": "all"},
        "clients": {"count": clients},
        "algorithms": [Carried()],
        "executor": executor,
    }


def spent(given: Mapping[str, Any]) -> tuple[float, float]:
    """Return the seconds of a study until its first Ask, and of a round.

    A tenth of the rounds are faster: the others may have had company.
    """
    began = perf_counter()
    plan = api.prepare(api.read(given))
    with tempfile.TemporaryDirectory() as folder:
        out = api.begin(plan, Path(folder) / "out")
        with api._started(plan, out, ProgressDisplay(), False) as backend:
            backend.execute(plan.runs, plan.tables, False, lambda *_: None)
        asked = api.load(out).rounds.asked_s.dropna().to_numpy()
    return float(asked[0]) - began, float(np.quantile(np.diff(asked), 0.1))


def fastest(repeats: int, *given: Any) -> tuple[float, float]:
    """Return the fewest seconds until the first Ask and of a round; see `scenario`."""
    starts, rounds = zip(*(spent(scenario(*given)) for _ in range(repeats)), strict=True)
    return min(starts), min(rounds)


def main(given: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.placing", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=300, help="of an exchange (300)")
    asked = parser.parse_args(given)
    n, rounds = asked.repeats, asked.rounds

    def longer(parameters: int) -> float:
        """Return how much longer a round takes with an actor than in this process."""
        here, there = (fastest(n, parameters, rounds, 2, each)[1] for each in (SERIAL, SHARED))
        return there - here

    small, large = longer(SMALL), longer(LARGE)
    byte_s = (large - small) / (4 * (LARGE - SMALL))
    print(f"ASK_S {small - byte_s * 4 * SMALL:.2g}, BYTE_S {byte_s:.2g}")
    here, there = (fastest(n, SMALL, 3, 2, each)[0] for each in (SERIAL, SHARED))
    workers = fastest(n, SMALL, 3, 2, {"name": "workers"})[0]
    print(f"WORKERS_S {workers - here:.2g}, RAY_S {there - here:.2g}")


if __name__ == "__main__":
    main()
