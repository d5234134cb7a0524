"""What `executor: auto` chooses against the best placement: ``python -m benchmarks.auto``.

The studies of W1, W2, W3, W5 and W7 are run whole, from the scenario to the last record, in this
process, by workers, on actors and by auto, in turn; the round that auto measures counts, too. Each
study is in a process of its own. ``sweep`` is 200 runs of W1's size in one process and by workers.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.workloads import Size, w1, w2, w3, w5, w7

PLACEMENTS = ("serial", "workers", "ray", "auto")
STUDIES = {"W1": (w1, 2000), "W2": (w2, 200), "W3": (w3, 100), "W5": (w5, 200), "W7": (w7, 3000)}
"""Workloads, and rounds of a run: enough for seconds, as studies have."""
MOST = 1.1
"""Times the best placement that auto may take."""
SWEEP = 1.8
"""Times as fast as one process that two workers should be."""


def scenario(name: str, placement: str, seeds: int) -> Mapping[str, Any]:
    """Return a workload as a study of some seeds in a placement."""
    make, rounds = STUDIES[name]
    given = make(Size()).scenario
    cases = {k: v[:1] for k, v in given.get("grid", {}).items()}  # one population
    ends = {"rounds": rounds, "evaluate": {"every": rounds}, "seeds": list(range(seeds))}
    return {**given, **ends, "grid": cases, "executor": {"name": placement}}


def sweep(placement: str) -> Mapping[str, Any]:
    """Return 200 runs of W1's size of 200 rounds each."""
    ends = {"rounds": 200, "evaluate": {"every": 200}, "seeds": list(range(200))}
    return {**w1(Size()).scenario, **ends, "executor": {"name": placement}}


def seconds(study: str, placement: str, seeds: int) -> float:
    """Return how long a study takes in a process of its own, which has imported nothing.

    Raises
    ------
    subprocess.CalledProcessError
        If it fails.
    """
    command = [sys.executable, "-m", "benchmarks.auto", "--one", study, placement, str(seeds)]
    began = perf_counter()
    subprocess.run(command, check=True)
    return perf_counter() - began


def one(study: str, placement: str, seeds: int) -> None:
    """Run a study up to its last record; its page is the same in all placements and left out."""
    from rayfed import api
    from rayfed.runs.backend import ProgressDisplay

    given = sweep(placement) if study == "sweep" else scenario(study, placement, seeds)
    plan = api.prepare(api.read(given)).placed(api.cpus())
    with tempfile.TemporaryDirectory() as folder:
        out = api.begin(plan, Path(folder) / "out")
        with api._started(plan, out, ProgressDisplay(), False) as backend:
            outcome = backend.execute(plan.runs, plan.tables, False, lambda *_: None)
    if set(outcome.values()) != {"finished"}:
        raise SystemExit(f"{study}: a run failed")
    print(f"  {study} {placement}: {plan.executor.name}", file=sys.stderr, flush=True)


def compare(names: Sequence[str], seeds: int, repeats: int) -> bool:
    """Print the seconds of each placement, and return whether auto is nowhere slower than MOST.

    Beside the ratio of the medians there are that of the fastest, which other programs distort
    less, and the slowest study over the fastest of the best placement: the machine's noise.
    """
    shown = Table(title=f"seconds of a study of {seeds} seeds, medians of {repeats} in turn")
    for column in ("study", *PLACEMENTS, "auto / best", "of the fastest", "noise"):
        shown.add_column(column, justify="right")
    holds = True
    for name in names:
        taken = np.array(
            [[seconds(name, each, seeds) for each in PLACEMENTS] for _ in range(repeats)]
        )
        median, fastest = np.median(taken, axis=0), taken.min(axis=0)
        best = int(median[:3].argmin())
        ratio = float(np.median(taken[:, 3] / taken[:, best]))
        holds &= ratio <= MOST
        least, noise = fastest[3] / fastest[:3].min(), taken[:, best].max() / fastest[best]
        numbers = (*median, ratio, least, noise)
        shown.add_row(name, *(f"{number:.2f}" for number in numbers))
    Console().print(shown)
    return holds


def compare_sweep(repeats: int) -> bool:
    """Print how much faster workers are than one process, and return whether that is 1.8 times."""
    pairs = [
        (seconds("sweep", "serial", 0), seconds("sweep", "workers", 0)) for _ in range(repeats)
    ]
    ratio = float(np.median([serial / workers for serial, workers in pairs]))
    each = ", ".join(f"{serial:.1f} and {workers:.1f} s" for serial, workers in pairs)
    print(f"sweep of 200 runs: {each}; workers {ratio:.2f} times as fast (at least {SWEEP})")
    return ratio >= SWEEP


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 where a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.auto", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(STUDIES)} or sweep")
    parser.add_argument("--seeds", type=int, default=2, help="runs of a study (2)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args(given)
    if asked.one:
        one(asked.one[0], asked.one[1], int(asked.one[2]))
        return 0
    names = asked.names or [*STUDIES, "sweep"]
    studies = [name for name in names if name != "sweep"]
    holds = compare(studies, asked.seeds, asked.repeats) if studies else True
    if "sweep" in names:
        holds &= compare_sweep(asked.repeats)
    return 0 if holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
