"""The page of a large study: ``python -m benchmarks.page``.

300 runs (50 settings of two algorithms, three seeds; 20 clients, 60 rounds) are made, and the page
of their folder is written by ``rayfed report`` in a process of its own. Printed is what that
process took; the exit status is 1 if it was more than 15 s of a processor.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import rayfed

_MOST_S = 15.0
_SCENARIO = {
    "name": "large",
    "rounds": 60,
    "problem": {"name": "logistic-regression", "dataset": "mushroom", "test": 0.2},
    "clients": {"count": 20, "delay": {"name": "lognormal", "mean_s": 1.0, "sigma": 0.5}},
    "participation": {"cohort": 5},
    "algorithms": [
        {"name": name, "local": {"steps": 20, "batch": 32, "lr": 0.1}}
        for name in ("fedavg", "fedexp")
    ],
}


def made(folder: Path, settings: int, seeds: int) -> int:
    """Run a study of two algorithms into a folder; return how many runs it has."""
    steps = [float(f"{step:.4g}") for step in np.geomspace(1e-3, 1.0, settings)]
    changes = {"seeds": list(range(seeds)), "grid": {"algorithms.*.local.lr": steps}}
    result = rayfed.run(_SCENARIO, out=folder, overrides=changes, page=False, watch=False)
    return len(result.runs)


def taken(folder: Path) -> tuple[float, float]:
    """Write the page; return seconds of a processor, and bytes of the page."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = spent()
    command = [sys.executable, "-m", "rayfed", "report", str(folder), "--quiet"]
    subprocess.run(command, check=True)
    return spent() - before, (folder / "report.html").stat().st_size


def main() -> int:
    """Print the time, and return the exit status."""
    parser = argparse.ArgumentParser(description="What the page of a large study takes.")
    parser.add_argument("--settings", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "large"
        runs = made(folder, given.settings, given.seeds)
        seconds, size = taken(folder)
    print(f"page of {runs} runs: {seconds:.1f} s of a processor, {size / 1e6:.1f} MB")
    return int(seconds > _MOST_S)


if __name__ == "__main__":
    sys.exit(main())
