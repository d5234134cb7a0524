"""Time and memory by population and by cohort: ``python -m benchmarks.population``.

The study ``million_clients`` in one process, in a fresh one for each case: processor time of a
round (median), processor time until the first row, and the highest resident memory. Evaluations,
of a fixed sample of clients, are outside the rounds that count.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import rayfed
from benchmarks.plot import lines

SCENARIO = Path(__file__).parents[1] / "scenarios" / "million_clients.yaml"
POPULATIONS = (10**3, 10**4, 10**5, 10**6, 10**7, 10**9)
COHORTS = (10, 100, 1_000, 10_000)
COHORT, POPULATION = 100, 10**7
"""The cohort of all populations, and the population of all cohorts."""
UNIT = 1024 if sys.platform != "darwin" else 1
"""Bytes of a unit of ``ru_maxrss``."""


@dataclass(frozen=True)
class Cost:
    """Measured costs of one case.

    Parameters
    ----------
    population, cohort : int
    start_s, round_s : float
        Processor seconds until the first row, and of a round.
    memory : int
        Highest resident memory in bytes.
    """

    population: int
    cohort: int
    start_s: float
    round_s: float
    memory: int


def measure(population: int, cohort: int, rounds: int) -> Cost:
    """Run a case in this process, whose memory counts from its start, and return its costs."""
    sizes: dict[str, Any] = {"clients.count": population, "participation.cohort": cohort}
    ends: dict[str, Any] = {
        "rounds": rounds,
        "evaluate.every": rounds,
        "seeds": [0],
        "executor": "serial",
    }
    began = process_time()
    with tempfile.TemporaryDirectory() as folder:
        rows = rayfed.iterate(
            SCENARIO, out=Path(folder) / "out", overrides=sizes | ends, page=False
        )
        taken = [process_time() for _ in rows]
    spent = np.diff(taken)[:-1]  # the last round is evaluated
    memory = UNIT * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Cost(population, cohort, taken[0] - began, float(np.median(spent)), memory)


def in_a_process(population: int, cohort: int, rounds: int) -> Cost:
    """Return the costs of a case in a process of its own.

    Raises
    ------
    subprocess.CalledProcessError
        If it fails.
    """
    command = [sys.executable, "-m", "benchmarks.population", "--one"]
    sizes = [str(each) for each in (population, cohort, rounds)]
    done = subprocess.run([*command, *sizes], check=True, stdout=subprocess.PIPE, text=True)
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def table(costs: Sequence[Cost]) -> str:
    """Return the costs as a table in Markdown."""
    head = "| population | cohort | start, s | round, ms | client, µs | memory, MB |"
    rows = [
        f"| {c.population:,} | {c.cohort:,} | {c.start_s:.2f} | {1e3 * c.round_s:.1f} "
        f"| {1e6 * c.round_s / c.cohort:.0f} | {c.memory / 1e6:.0f} |"
        for c in costs
    ]
    return "\n".join([head, "|---:|---:|---:|---:|---:|---:|", *rows]) + "\n"


def figure(populations: Sequence[Cost], cohorts: Sequence[Cost]) -> str:
    """Return the milliseconds of a round and the memory, by population and by cohort, as SVG."""
    return lines(
        {
            f"population, cohort {COHORT}": [
                (c.population, 1e3 * c.round_s, c.memory / 1e6) for c in populations
            ],
            f"cohort, population {POPULATION:,}": [
                (c.cohort, 1e3 * c.round_s, c.memory / 1e6) for c in cohorts
            ],
        },
        ("ms a round", "MB of memory"),
    )


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print the table, and return 1 where a round or memory grows with the population."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.population", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="of a case (40)")
    parser.add_argument("--most", type=int, default=max(POPULATIONS), help="the largest population")
    parser.add_argument("--plot", type=Path, help="write the figure there, as SVG")
    parser.add_argument("--one", type=int, nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args(given)
    if asked.one:
        print(json.dumps(asdict(measure(*asked.one))))
        return 0
    sizes = [n for n in POPULATIONS if n <= asked.most]
    populations = [in_a_process(n, COHORT, asked.rounds) for n in sizes]
    of = min(POPULATION, asked.most)
    cohorts = [in_a_process(of, n, asked.rounds) for n in COHORTS if 10 * n <= of]
    print(table([*populations, *cohorts]))
    if asked.plot:
        asked.plot.write_text(figure(populations, cohorts), encoding="utf-8")
    first, last = populations[0], populations[-1]
    grows = last.round_s > 2 * first.round_s or last.memory > 2 * first.memory
    return int(grows)


if __name__ == "__main__":
    raise SystemExit(main())
