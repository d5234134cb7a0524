"""A step of gossip and a round of FedAvg with the same clients: ``python -m benchmarks.gossip``.

D-PSGD on a random 10-regular graph, softmax regression of the size of MNIST, one minibatch of 32
rows a client; FedAvg takes the same local step with all clients. A time is that of a run of several
rounds less that of a run of one, records included. Runs take turns; ratios are medians. Memory is
that of a process of its own at its largest, the rows of its clients included.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.data import Noise
from benchmarks.measure import _backend
from rayfed import api
from rayfed.core.threads import one_thread
from rayfed.runs.backend import Backend
from rayfed.study.plan.plan import Plan
from rayfed.testing import loop

CASES = (("fedavg", 1), ("d-psgd", 1), ("d-psgd", 2))
"""Methods and the processes that host their clients."""
MOST_RATIO, LEAST_SPEEDUP, MOST_GB = 1.5, 1.5, 2.0
LARGE, FEW_ROWS = 10_000, 10  # nodes of the measurement of memory, and the rows of each


def scenario(
    method: str, processes: int, nodes: int, rounds: int, samples: int = 60
) -> dict[str, Any]:
    """Return a study with a run of one round and a run of that many more."""
    problem = {
        "name": "softmax-regression", "intercept": False, "test": 0.0,
        "dataset": Noise(clients=nodes, samples=samples, features=784, classes=10),
    }  # fmt: skip
    placement = {"name": "ray", "clients_per_actor": -(-nodes // processes), "driver_hosts": True}
    graph = {} if method == "fedavg" else {"topology": {"name": "regular", "degree": 10}}
    local = {"steps": 1, "batch": min(32, samples), "lr": 0.01}
    return graph | {
        "name": "gossip",
        "rounds": 1,
        "grid": {"rounds": [1, 1 + rounds]},
        "evaluate": {"every": 1 + rounds},
        "dtype": "float32",
        "problem": problem,
        "clients": {"count": nodes},
        "algorithms": [{"name": method, "local": local}],
        "executor": placement if processes > 1 else {"name": "serial"},
    }


def measured(nodes: int, rounds: int, repeats: int) -> np.ndarray:
    """Return the seconds (repeats, 3) of a round or step of each case."""
    plans = [api.prepare(api.read(scenario(*case, nodes, rounds))) for case in CASES]
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in plans]
        backends = [
            stack.enter_context(_backend(*each)) for each in zip(plans, folders, strict=True)
        ]
        turns = [
            [round_s(*each, rounds) for each in zip(plans, backends, strict=True)]
            for _ in range(repeats)
        ]
    return np.array(turns)


def round_s(plan: Plan, backend: Backend, rounds: int) -> float:
    """Return the seconds of a round: those by which the second run is longer, for each."""
    taken = []
    for run in plan.runs:
        began = perf_counter()
        backend.execute([run], plan.tables, False, lambda *_: None)
        taken.append(perf_counter() - began)
    return (taken[1] - taken[0]) / rounds


def memory_gb(nodes: int) -> float:
    """Return the largest resident memory of a process that runs three steps, in 10^9 bytes.

    Raises
    ------
    subprocess.CalledProcessError
        If it fails.
    """
    command = [sys.executable, "-m", "benchmarks.gossip", "--steps-of", str(nodes)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout) / 1e9


def steps_of(nodes: int) -> int:
    """Run three steps, and return the largest resident bytes of this process."""
    engine = loop(scenario("d-psgd", 1, nodes, rounds=3, samples=FEW_ROWS))
    with one_thread():
        now, _ = engine.start()
        for _ in range(3):
            now, _, _ = engine.step(now)
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 where a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gossip", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20, help="that are timed in a turn")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps-of", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args(given)
    if asked.steps_of:
        print(steps_of(asked.steps_of))
        return 0
    taken, gigabytes = measured(asked.nodes, asked.rounds, asked.repeats), memory_gb(LARGE)
    shown = Table(title=f"{asked.nodes:,} nodes, medians of {asked.repeats} turns")
    for column in ("method", "processes", "ms a round", "times FedAvg's round"):
        shown.add_column(column, justify="left" if column == "method" else "right")
    ratios = np.median(taken / taken[:, :1], axis=0)
    for case, seconds, ratio in zip(CASES, np.median(taken, axis=0), ratios, strict=True):
        shown.add_row(case[0], str(case[1]), f"{1e3 * seconds:.1f}", f"{ratio:.2f}")
    speedup = float(np.median(taken[:, 1] / taken[:, 2]))
    console = Console()
    console.print(shown)
    console.print(
        f"two processes are {speedup:.2f} times as fast as one (at least {LEAST_SPEEDUP})"
    )
    text = f"{LARGE:,} nodes with {FEW_ROWS} rows each: {gigabytes:.2f} GB (at most {MOST_GB})"
    console.print(text, highlight=False)
    holds = ratios[1] <= MOST_RATIO and speedup >= LEAST_SPEEDUP and gigabytes <= MOST_GB
    return 0 if holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
