"""The page of a large study: ``python -m benchmarks.page [--settings 152]``.

Of six runs (two algorithms, three seeds; 20 clients, 60 rounds) a study of 50 settings is made,
which share their files. The page of these 300 runs is written by ``rayfed report`` in a process of
its own. Printed is what that process took; the exit status is 1 if it was more than 15 s of a
processor, of more than 300 runs 30 s.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import rayfed
from benchmarks.dashboard import SCENARIO, copied

_ALGORITHMS = [
    {"name": name, "local": {"steps": 20, "batch": 32, "lr": 0.1}} for name in ("fedavg", "fedexp")
]


def taken(folder: Path) -> float:
    """Write the page of a folder; return seconds of a processor."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = spent()
    subprocess.run([sys.executable, "-m", "rayfed", "report", str(folder)], check=True)
    return spent() - before


def main() -> int:
    """Print the time, and return the exit status."""
    parser = argparse.ArgumentParser(description="What the page of a large study takes.")
    parser.add_argument("--settings", type=int, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        one = Path(place) / "one"
        scenario = SCENARIO | {"algorithms": _ALGORITHMS, "seeds": [0, 1, 2]}
        rayfed.run(scenario, out=one, page=False, watch=False)
        folder = copied(one, Path(place) / "large", given.settings)
        seconds = taken(folder)
        size = (folder / "report.html").stat().st_size
    print(f"page of {6 * given.settings} runs: {seconds:.1f} s of a processor, {size / 1e6:.1f} MB")
    return int(seconds > (15.0 if given.settings <= 50 else 30.0))


if __name__ == "__main__":
    sys.exit(main())
