"""Networks on a GPU beside a plain loop on the same one: ``python -m benchmarks.gpu``.

Client updates a second of W4 (LeNet-5) and ResNet-18 in one process; blocks of rounds of rayfed and
of the bare loop take turns, and the ratio is the median over neighbouring blocks. Then memory over
1,000 rounds of W4: what is held after a tenth of them may not grow until the last. Without a GPU
nothing is measured. ``--device cpu`` tries the script itself.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import torch
from rich.console import Console
from rich.table import Table

import rayfed
from benchmarks.bare import bare_seconds
from benchmarks.bare_torch import Network
from benchmarks.measure import _backend, _block
from benchmarks.networks import NETWORKS
from benchmarks.workloads import Size, Workload, network
from rayfed import api
from rayfed.problems.network.kernels.stacked import device_of

CASES = {case.name: case for case in NETWORKS if case.name in ("W4", "resnet18")}
GROWTH = 1.02
"""Times what is held after a tenth of the rounds that may be held after all."""


def on_device(workload: Workload, device: str) -> Workload:
    """Return a workload that computes on a device in this process."""
    scenario = {**workload.scenario, "executor": {"name": "serial", "device": device}}
    return replace(workload, scenario=scenario)


def seconds(workload: Workload, device: str, repeats: int) -> list[list[float]]:
    """Return the seconds of a round of rayfed and of the bare loop, block after block."""
    plan = api.prepare(api.read(workload.scenario))
    (run,), (make,), found = plan.runs, workload.bare, []
    with tempfile.TemporaryDirectory() as folder, _backend(plan, Path(folder)) as backend:
        loop = make()
        assert isinstance(loop, Network)
        loop.to(device)
        for _ in range(repeats):
            block = _block(plan, run, backend, Path(folder))
            block_s = block.rounds * block.round_s
            found.append([block.round_s, bare_seconds(loop, block_s)])
    return found


def held(device: str) -> int:
    """Return the bytes that PyTorch holds on a GPU, or that this process holds."""
    if torch.device(device).type == "cuda":
        return int(torch.cuda.memory_reserved(device))
    return int(psutil.Process().memory_info().rss)


def memory(workload: Workload, device: str, rounds: int) -> tuple[int, int]:
    """Return the bytes that are held after a tenth of some rounds, and after all of them."""
    ends = {"rounds": rounds, "evaluate": {"every": rounds}}
    early = 0
    with tempfile.TemporaryDirectory() as folder:
        for row in rayfed.iterate(
            {**workload.scenario, **ends}, out=Path(folder) / "out", page=False
        ):
            if row["round"] == max(1, rounds // 10):
                early = held(device)
    return early, held(device)


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 where the plain loop is faster or memory grows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=1000, help="of the look at memory (1000)")
    parser.add_argument("--scale", type=float, default=1.0, help="of clients and rounds of a block")
    asked = parser.parse_args(given)
    unknown = [name for name in asked.names if name not in CASES]
    if unknown:
        parser.error(f"found '{unknown[0]}'; choose from {', '.join(CASES)}")
    if device_of(asked.device) is None:
        print(f"no GPU: torch does not find '{asked.device}' here, so nothing was measured")
        return 0
    size = Size(clients=asked.scale, rounds=asked.scale)
    made = {name: on_device(network(CASES[name], 0, size), asked.device) for name in CASES}
    shown = Table(title=f"{asked.device}, medians of {asked.repeats} blocks in turn")
    for column in ("workload", "updates a second", "of a plain loop", "ratio"):
        shown.add_column(column, justify="left" if column == "workload" else "right")
    holds = True
    for name in asked.names or made:
        taken = np.array(seconds(made[name], asked.device, asked.repeats))
        ratio = float(np.median(taken[:, 1] / taken[:, 0]))
        holds &= ratio >= 1
        updates = made[name].cohort / np.median(taken, axis=0)
        shown.add_row(name, *(f"{number:.1f}" for number in updates), f"{ratio:.2f}")
    Console().print(shown)
    early, late = memory(made["W4"], asked.device, asked.rounds)
    print(f"W4, {asked.rounds} rounds: {early / 1e6:.0f} MB after a tenth, {late / 1e6:.0f} MB")
    return 0 if holds and late <= GROWTH * early else 1


if __name__ == "__main__":
    raise SystemExit(main())
