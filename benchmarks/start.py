"""From the command to the first row: ``python -m benchmarks.start``.

``rayfed run quickstart`` is started anew each time, in one process and with 20 client actors.
Beside it, in turn, a bare program starts Ray and 20 actors that do nothing, and calls each once.
A study of LeNet-5 in one process is started beside a program that imports torch. A row counts when
its file is on the disk.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
import yaml

_LOOK_S = 0.005
_BARE = """
import ray
ray.init("local", num_cpus=20, include_dashboard=False, logging_level="fatal", log_to_driver=False)
@ray.remote
class Client:
    def ping(self):
        return 1
clients = [Client.remote() for _ in range(20)]
ray.get([client.ping.remote() for client in clients])
"""
_TORCH = "import torch"
_ACTORS = ("--set", "executor={clients_per_actor: 1}")
_SERIAL = ("--set", "executor=serial")
_NETWORK = {
    "name": "network",
    "rounds": 3,
    "problem": {
        "name": "network", "model": "lenet5", "shape": [1, 28, 28],
        "dataset": {"name": "synthetic", "features": 784, "samples": 32},
    },
    "clients": {"count": 10},
    "algorithms": [{"name": "fedavg", "local": {"steps": 5, "batch": 16, "lr": 0.01}}],
}  # fmt: skip


def seconds(study: str, executor: Sequence[str] = ()) -> tuple[float, float]:
    """Return when ``rayfed run`` has its first row on the disk, and when it has ended.

    Parameters
    ----------
    study : str
        What is run.
    executor : sequence of str
        Further words of the command.

    Raises
    ------
    RuntimeError
        If it ends without a row.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        command = [sys.executable, "-m", "rayfed", "run", study, "--quiet"]
        began = perf_counter()
        process = subprocess.Popen(
            [*command, "--out", str(out), *executor],
            env=_environment(),
            stdout=subprocess.DEVNULL,
        )
        first = None
        while first is None:
            sleep(_LOOK_S)
            if any(out.glob("*/rounds.parquet/*.parquet")):
                first = perf_counter() - began
            elif process.poll() is not None:
                raise RuntimeError(f"{study} ended with status {process.returncode}")
        process.wait()
        return first, perf_counter() - began


def bare(program: str) -> float:
    """Return the seconds of a program in a process of its own."""
    began = perf_counter()
    command = [sys.executable, "-c", program]
    subprocess.run(command, check=True, env=_environment(), stderr=subprocess.DEVNULL)
    return perf_counter() - began


def _environment() -> dict[str, str]:
    """Return the environment of users: Python keeps what it has compiled."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"OPENBLAS_NUM_THREADS": "1"}


def main(given: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args(given).repeats
    with tempfile.TemporaryDirectory() as folder:
        network = Path(folder) / "network.yaml"
        network.write_text(yaml.safe_dump(_NETWORK))
        taken = [
            (
                bare(_BARE), *seconds("quickstart", _ACTORS), *seconds("quickstart"),
                bare(_TORCH), *seconds(str(network), _SERIAL),
            )
            for _ in range(repeats)
        ]  # fmt: skip
    plain, first, end, alone, alone_end, torch, learnt, _ = np.median(taken, axis=0)
    each = ", ".join(f"{row[1]:.1f}" for row in taken)
    print(f"bare Ray with 20 actors: {plain:.1f} s")
    print(f"20 client actors: first row {first:.1f} s ({each}), end {end:.1f} s")
    print(f"one process: first row {alone:.1f} s, end {alone_end:.1f} s")
    print(f"LeNet-5 in one process: first row {learnt:.2f} s, import torch {torch:.2f} s")


if __name__ == "__main__":
    main()
