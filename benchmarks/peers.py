"""Rounds beside those of pfl: ``python -m benchmarks.peers --pfl ENVIRONMENT --processes 2``.

pfl (https://github.com/apple/pfl-research) is in an environment of its own, made by::

    python -m venv ENVIRONMENT
    ENVIRONMENT/bin/pip install pfl torch threadpoolctl

The same work in one process each, or in two, with one thread: a block of rounds of rayfed, of the
bare loop, which is one process, and of pfl take turns. Ratios are medians of the blocks. Without an
environment nothing is measured.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.bare import bare_seconds
from benchmarks.measure import _backend, _block
from benchmarks.networks import NETWORKS
from benchmarks.workloads import Size, Workload, network, w3
from rayfed import api
from rayfed.core.errors import RayfedError
from rayfed.core.threads import ONE_THREAD

MEASURED: Mapping[str, Callable[[int], Workload]] = {
    "W3": partial(w3, Size()),
    **{case.name: partial(network, case, size=Size()) for case in NETWORKS},
}
"""The workloads, by their number of processes."""


class Pfl:
    """Rounds of pfl, computed when they are asked for.

    Parameters
    ----------
    process : subprocess.Popen
        With `benchmarks.pfl_loop`, the first of its processes.
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
def started(python: Path, name: str, processes: int) -> Iterator[Pfl]:
    """Start pfl on a case, and end it."""
    command = [str(python), "-m", "benchmarks.pfl_loop", name]
    here = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(Path(__file__).parents[1])}
    shared = _launched(processes) if processes else {}
    with ExitStack() as stack:
        ranks = []
        for rank in range(max(processes, 1)):
            pipe = subprocess.DEVNULL if rank else subprocess.PIPE
            where = {**here, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            ranks.append(
                stack.enter_context(
                    subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=where)
                )
            )
            stack.callback(ranks[-1].kill)
        yield Pfl(ranks[0])


def _launched(processes: int) -> Mapping[str, str]:
    """Return what ``torchrun`` would tell each process, except its rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return {
        "TORCHELASTIC_RUN_ID": "benchmark", "WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip


def measured(workload: Workload, python: Path, name: str, repeats: int) -> list[list[float]]:
    """Return the seconds of a round of rayfed, the bare loop and pfl, block after block."""
    plan = api.prepare(api.read(workload.scenario))
    (run,), (make,), found = plan.runs, workload.bare, []
    with (
        tempfile.TemporaryDirectory() as folder,
        _backend(plan, Path(folder)) as backend,
        started(python, name, workload.processes) as pfl,
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
    parser.add_argument("--processes", type=int, default=0, help="of rayfed and of pfl (0: one)")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args(given)
    unknown = [name for name in asked.names if name not in MEASURED]
    if unknown:
        parser.error(f"found '{unknown[0]}'; choose from {', '.join(MEASURED)}")
    python = asked.pfl and asked.pfl.absolute() / "bin" / "python"
    if not python or not python.exists() or not _has_pfl(python):
        print("skipped: no environment with pfl; see python -m benchmarks.peers --help")
        return 0
    each = f"{asked.processes or 1} process(es) each"
    shown = Table(title=f"{each}, medians of {asked.repeats} blocks in turn")
    for column in ("workload", "ms a round", "bare ms", "pfl ms", "bare / ours", "pfl / ours"):
        shown.add_column(column, justify="left" if column == "workload" else "right")
    ahead = True
    for name in asked.names or MEASURED:
        taken = np.array(measured(MEASURED[name](asked.processes), python, name, asked.repeats))
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
