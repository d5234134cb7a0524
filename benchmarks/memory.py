"""The memory of many clients that keep the state of a large model: ``python -m benchmarks.memory``.

SCAFFOLD on a model that is only carried about: everyone takes part in every round and keeps a
control variate of the size of the model. The state of all clients does not fit the memory that it
may take, so it is in a scratch file, and checkpoints are written piece by piece. The run is ended
after its first round and resumed, so that a restored state counts too. With 100 clients and
11 million parameters the disk must have room for 13 GB.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.data import Noise
from benchmarks.large import Parabola
from benchmarks.measure import resident_memory
from rayfed import api
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.driver import Driver
from rayfed.study.forecast.cost import Cost
from rayfed.study.plan.plan import Plan


def plan(clients: int, parameters: int, memory_gb: float) -> Plan:
    """Return the plan of two rounds of everyone."""
    data = Noise(clients=clients, samples=1, features=1)
    problem = {"name": Parabola, "parameters": parameters, "dataset": data, "test": 0.0}
    return api.prepare(
        api.read(
            {
                "name": "memory",
                "rounds": 2,
                "evaluate": {"every": 2, "clients": 2},
                "dtype": "float32",
                "problem": problem,
                "clients": {"count": clients},
                "participation": {"select": "all"},
                "algorithms": [{"name": "scaffold", "local": {"steps": 1, "lr": 0.1}}],
                "checkpoint": {"every_s": 1e6},
                "executor": {"name": "serial", "memory_gb": memory_gb},
            }
        )
    )


def run(made: Plan, folder: Path) -> tuple[int, int]:
    """Run the plan with a stop after its first round.

    Returns
    -------
    first, resumed : int
        Bytes of resident memory at most, until the stop and after it.
    """
    (run,) = made.runs
    memory_gb = made.study.executor.memory_gb

    def part(resume: bool) -> int:
        driver = Driver(run, folder, SerialExecutor(made.tables, memory_gb))
        with resident_memory() as seen, threadpool_limits(1):
            driver.execute(resume, lambda now: None if resume else driver.stop())
        return max(seen)

    return part(resume=False), part(resume=True)


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print the table, and return 1 where the memory exceeds the forecast."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--parameters", type=int, default=11_000_000)
    parser.add_argument("--memory-gb", type=float, default=0.5)
    parser.add_argument(
        "--folder", type=Path, help="on a disk with room; the system's if not given"
    )
    asked = parser.parse_args(given)
    made = plan(asked.clients, asked.parameters, asked.memory_gb)
    cost: Cost = made.cost(1)
    began = perf_counter()
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        cost.check_disk(Path(folder))
        first, resumed = run(made, Path(folder))
        on_disk = sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())
    shown = Table(title=f"{asked.clients} clients, {asked.parameters:,} parameters, SCAFFOLD")
    shown.add_column("GB")
    shown.add_column("forecast", justify="right")
    shown.add_column("measured", justify="right")
    shown.add_row("client state", f"{cost.scratch / 1e9:.2f}", "")
    shown.add_row("memory until the stop", f"{cost.memory / 1e9:.2f}", f"{first / 1e9:.2f}")
    shown.add_row("memory after the resume", f"{cost.memory / 1e9:.2f}", f"{resumed / 1e9:.2f}")
    disk = cost.results + cost.checkpoints
    shown.add_row("results and checkpoints", f"{disk / 1e9:.2f}", f"{on_disk / 1e9:.2f}")
    Console().print(shown)
    Console().print(f"{perf_counter() - began:.0f} s", highlight=False)
    return 0 if max(first, resumed) <= cost.memory and on_disk <= disk else 1


if __name__ == "__main__":
    raise SystemExit(main())
