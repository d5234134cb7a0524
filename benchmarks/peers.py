"""Rounds of rayfed and of other simulators: ``python -m benchmarks.peers --flower ENVIRONMENT``.

Each simulator is in an environment of its own, made by::

    python -m venv PFL && PFL/bin/pip install pfl torch threadpoolctl
    python -m venv FLOWER && FLOWER/bin/pip install 'flwr[simulation]' torch
    python3.12 -m venv BLAZEFL && BLAZEFL/bin/pip install blazefl torch numpy tqdm

The same work in one process each, or in two, with one thread: a block of rounds of rayfed, of the
bare loop, which is one process, and of each simulator take turns. Ratios are medians of the blocks.
Without an environment nothing is measured.
"""

from __future__ import annotations

import argparse
import os
import signal
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


PEERS = {"pfl": "pfl", "flower": "flwr", "blazefl": "blazefl"}
"""Other simulators, and the module that an environment of each has."""


class Peer:
    """Rounds of another simulator, computed on request.

    Parameters
    ----------
    name : str
    process : subprocess.Popen
        The first of its processes.
    """

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self._name, self._process = name, process
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
            raise RayfedError(f"{self._name} ended; its message is above")
        return float(line)


@contextmanager
def started(peer: str, python: Path, case: str, processes: int) -> Iterator[Peer]:
    """Start a simulator on a case, and end it."""
    command = [str(python), "-m", f"benchmarks.loop_{peer}", case, str(processes)]
    here = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(Path(__file__).parents[1])}
    here |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "FLWR_TELEMETRY_ENABLED": "0"}
    ranks = max(processes, 1) if peer == "pfl" else 1
    shared = _launched(ranks) if peer == "pfl" and processes else {}
    with ExitStack() as stack:
        found = []
        for rank in range(ranks):
            pipe = subprocess.DEVNULL if rank else subprocess.PIPE
            where = {**here, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            found.append(
                stack.enter_context(
                    subprocess.Popen(
                        command,
                        stdin=pipe,
                        stdout=pipe,
                        text=True,
                        env=where,
                        start_new_session=True,
                    )
                )
            )
            stack.callback(os.killpg, found[-1].pid, signal.SIGKILL)
        yield Peer(peer, found[0])


def _launched(processes: int) -> Mapping[str, str]:
    """Return what ``torchrun`` would tell each process, except its rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return {
        "TORCHELASTIC_RUN_ID": "benchmark", "WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip


def measured(
    workload: Workload, pythons: Mapping[str, Path], name: str, repeats: int
) -> list[list[float]]:
    """Return the seconds of a round, by block: of rayfed, the bare loop and each simulator."""
    plan = api.prepare(api.read(workload.scenario))
    (run,), (make,), found = plan.runs, workload.bare, []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        backend = stack.enter_context(_backend(plan, folder))
        others = [
            stack.enter_context(started(peer, python, name, workload.processes))
            for peer, python in pythons.items()
        ]
        loop = make()
        for _ in range(repeats):
            block = _block(plan, run, backend, folder)
            block_s = block.rounds * block.round_s
            rest = [peer.seconds(block_s) for peer in others]
            found.append([block.round_s, bare_seconds(loop, block_s), *rest])
    return found


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 where another simulator is faster."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURED)}")
    for peer, module in PEERS.items():
        parser.add_argument(f"--{peer}", type=Path, help=f"an environment that has {module}")
    parser.add_argument("--processes", type=int, default=0, help="of each simulator (0: one)")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args(given)
    unknown = [name for name in asked.names if name not in MEASURED]
    if unknown:
        parser.error(f"found '{unknown[0]}'; choose from {', '.join(MEASURED)}")
    pythons = {}
    for peer, module in PEERS.items():
        python = (place := getattr(asked, peer)) and place.absolute() / "bin" / "python"
        if python and _has(python, module):
            pythons[peer] = python
        else:
            print(f"skipped: no environment with {peer}; see python -m benchmarks.peers --help")
    if not pythons:
        return 0
    each = f"{asked.processes or 1} process(es) each"
    shown = Table(title=f"{each}, medians of {asked.repeats} blocks in turn")
    shown.add_column("workload")
    others = ("bare", *pythons)
    for column in ("rayfed ms", *(f"{other} ms" for other in others), *others):
        shown.add_column(column, justify="right")
    ahead = True
    for name in asked.names or MEASURED:
        taken = np.array(measured(MEASURED[name](asked.processes), pythons, name, asked.repeats))
        ratios = np.median(taken[:, 1:] / taken[:, :1], axis=0)
        ahead &= bool((ratios[1:] > 1).all())
        numbers = (f"{1e3 * number:.2f}" for number in np.median(taken, axis=0))
        shown.add_row(name, *numbers, *(f"{ratio:.2f}x" for ratio in ratios))
    Console().print(shown)
    return 0 if ahead else 1


def _has(python: Path, module: str) -> bool:
    """Return whether an environment is there and has a module."""
    command = [str(python), "-c", f"import {module}"]
    return python.exists() and not subprocess.run(command, capture_output=True).returncode


if __name__ == "__main__":
    raise SystemExit(main())
