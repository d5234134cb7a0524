"""Rounds beside those of pfl: ``python -m benchmarks.peers --pfl ENVIRONMENT``.

pfl (https://pypi.org/project/pfl) is in an environment of its own, made by::

    python -m venv ENVIRONMENT
    ENVIRONMENT/bin/pip install pfl torch threadpoolctl

The same work in one process each, with one thread: a block of rounds of rayfed, of the bare loop
and of pfl take turns. Ratios are medians of the blocks. Without an environment nothing is measured.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.bare import bare_seconds
from benchmarks.measure import _backend, _block
from benchmarks.networks import NETWORKS
from benchmarks.workloads import Size, Workload, network, w3_serial
from rayfed import api
from rayfed.core.errors import RayfedError
from rayfed.core.threads import ONE_THREAD

MEASURED: Mapping[str, Callable[[Size], Workload]] = {
    "W3": w3_serial,
    **{case.name: partial(network, case, 0) for case in NETWORKS},
}


class Pfl:
    """A process of pfl that computes rounds when it is asked.

    Parameters
    ----------
    process : subprocess.Popen
        With `benchmarks.pfl_loop`.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._answer()  # of the first round

    def seconds(self, block_s: float) -> float:
        """Return the mean seconds of the rounds of a block."""
        assert self._process.stdin
        self._process.stdin.write(f"{block_s}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> float:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RayfedError("pfl ended; its message is above")
        return float(line)


@contextmanager
def started(python: Path, name: str) -> Iterator[Pfl]:
    """Start pfl on a case, and end it."""
    command = [str(python), "-m", "benchmarks.pfl_loop", name]
    where = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=where
    ) as process:
        try:
            yield Pfl(process)
        finally:
            process.kill()


def measured(workload: Workload, python: Path, name: str, repeats: int) -> list[list[float]]:
    """Return the seconds of a round of rayfed, the bare loop and pfl, block after block."""
    plan = api.prepare(api.read(workload.scenario))
    (run,), (make,), found = plan.runs, workload.bare, []
    with (
        tempfile.TemporaryDirectory() as folder,
        _backend(plan, Path(folder)) as backend,
        started(python, name) as pfl,
    ):
        loop = make()
        for _ in range(repeats):
            block = _block(plan, run, backend, Path(folder))
            block_s = block.rounds * block.round_s
            found.append([block.round_s, bare_seconds(loop, block_s), pfl.seconds(block_s)])
    return found


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 where pfl is faster."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURED)}")
    parser.add_argument("--pfl", type=Path, help="an environment that has pfl")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args(given)
    unknown = [name for name in asked.names if name not in MEASURED]
    if unknown:
        parser.error(f"found '{unknown[0]}'; choose from {', '.join(MEASURED)}")
    python = asked.pfl and asked.pfl.absolute() / "bin" / "python"
    if not python or not python.exists() or not _has_pfl(python):
        print("skipped: no environment with pfl; see python -m benchmarks.peers --help")
        return 0
    shown = Table(title=f"one process each, medians of {asked.repeats} blocks in turn")
    for column in ("workload", "ms a round", "bare ms", "pfl ms", "bare / ours", "pfl / ours"):
        shown.add_column(column, justify="left" if column == "workload" else "right")
    ahead = True
    for name in asked.names or MEASURED:
        taken = np.array(measured(MEASURED[name](Size()), python, name, asked.repeats))
        ratios = np.median(taken[:, 1:] / taken[:, :1], axis=0)
        ahead &= bool(ratios[1] > 1)
        numbers = (*(1e3 * np.median(taken, axis=0)), *ratios)
        shown.add_row(name, *(f"{number:.2f}" for number in numbers))
    Console().print(shown)
    return 0 if ahead else 1


def _has_pfl(python: Path) -> bool:
    return subprocess.run([python, "-c", "import pfl"], capture_output=True).returncode == 0


if __name__ == "__main__":
    raise SystemExit(main())
