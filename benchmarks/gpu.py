"""Networks on a GPU beside a plain loop on the same one: ``python -m benchmarks.gpu``.

Client updates a second of W4 (LeNet-5), ResNet-18 and adapters in one process; blocks of rounds of
rayfed and of the bare loop take turns, and the ratio is the median over neighbouring blocks. A
round of W4 with stacked clients (`torch.func`) is compared with one stream for each client, both in
plain PyTorch. Two runs must have the same bytes, and memory after a tenth of the rounds may not
grow until the last. Without a GPU nothing is measured; ``--device cpu --small`` tries the script
itself.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import psutil
import torch
from torch.nn import functional

import rayfed
from benchmarks.bare import bare_seconds
from benchmarks.bare_torch import Network, lenet
from benchmarks.measure import _backend, _block
from benchmarks.networks import NETWORKS
from benchmarks.plot import bars
from benchmarks.workloads import Size, Workload, network
from rayfed import api
from rayfed.problems.network.kernels.stacked import device_of

CASES = {case.name: case for case in NETWORKS if case.name in ("W4", "resnet18", "adapters")}
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


def model(workload: Workload, device: str) -> bytes:
    """Return the bytes of the model at the end of a run."""
    ends = {"rounds": 3, "evaluate": {"every": 3}}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        rayfed.run({**workload.scenario, **ends}, out=out, page=False)
        (file,) = out.glob("*/model.npz")
        with np.load(file, allow_pickle=False) as arrays:
            return b"".join(arrays[name].tobytes() for name in sorted(arrays))


def stacked_and_streams(device: str, clients: int, repeats: int) -> tuple[float, float]:
    """Return the seconds of a step of some LeNets, stacked by `torch.func` and in streams.

    A client is a model of its own with a batch of its own. On a CPU there are no streams, and the
    clients take turns.
    """
    nets = [lenet().to(device) for _ in range(clients)]
    draws = torch.Generator().manual_seed(0)
    images = torch.randn(clients, 32, 3, 32, 32, generator=draws).to(device)
    labels = torch.randint(10, (clients, 32), generator=draws).to(device)
    parameters, _ = torch.func.stack_module_state(nets)
    on_gpu = torch.device(device).type == "cuda"
    streams = [torch.cuda.Stream(device) for _ in nets] if on_gpu else []  # type: ignore[no-untyped-call]

    def loss(own: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(torch.func.functional_call(nets[0], own, (x,)), y)

    step = torch.func.vmap(torch.func.grad(loss))

    def stacked() -> None:
        step(parameters, images, labels)

    def alone() -> None:
        for number, net in enumerate(nets):
            with torch.cuda.stream(streams[number]) if on_gpu else nullcontext():
                functional.cross_entropy(net(images[number]), labels[number]).backward()  # type: ignore[no-untyped-call]

    taken = []
    for work in (stacked, alone):
        times = []
        for _ in range(repeats + 1):  # the first one compiles kernels
            began = perf_counter()
            work()
            if on_gpu:
                torch.cuda.synchronize(device)
            times.append(perf_counter() - began)
        taken.append(float(np.median(times[1:])))
    return taken[0], taken[1]


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
    parser.add_argument("--rounds", type=int, default=100, help="of the look at memory (100)")
    parser.add_argument("--small", action="store_true", help="few clients and rounds")
    parser.add_argument("--write", type=Path, help="write the table there, and FILE.svg beside it")
    asked = parser.parse_args(given)
    unknown = [name for name in asked.names if name not in CASES]
    if unknown:
        parser.error(f"found '{unknown[0]}'; choose from {', '.join(CASES)}")
    if device_of(asked.device) is None:
        print(f"no GPU: torch does not find '{asked.device}' here, so nothing was measured")
        return 0
    size = Size(clients=0.04, rounds=0.1) if asked.small else Size()
    rounds, repeats = (10, 1) if asked.small else (asked.rounds, asked.repeats)
    made = {name: on_device(network(CASES[name], 0, size), asked.device) for name in CASES}
    lines = ["| workload | updates a second | of a plain loop | ratio |", "|---|---:|---:|---:|"]
    holds, drawn = True, dict[str, dict[str, float]]()
    for name in asked.names or made:
        taken = np.array(seconds(made[name], asked.device, repeats))
        ratio = float(np.median(taken[:, 1] / taken[:, 0]))
        holds &= ratio >= 1
        ours, bare = made[name].cohort / np.median(taken, axis=0)
        lines.append(f"| {name} | {ours:.1f} | {bare:.1f} | {ratio:.2f} |")
        drawn[name] = {"ours": ours, "bare": bare}
    stacked, streams = stacked_and_streams(asked.device, 2 if asked.small else 10, repeats)
    same = model(made["W4"], asked.device) == model(made["W4"], asked.device)
    early, late = memory(made["W4"], asked.device, rounds)
    lines += [
        "",
        f"- {asked.device}, medians of {repeats} blocks in turn",
        f"- a step of LeNets by torch.func: {streams / stacked:.2f}x a stream for each client",
        f"- two runs of W4: {'the same' if same else 'different'} bytes",
        f"- W4, {rounds} rounds: {early / 1e6:.0f} MB after a tenth, {late / 1e6:.0f} MB",
    ]
    print("\n".join(lines))
    if asked.write:
        asked.write.write_text("\n".join(lines) + "\n", encoding="utf-8")
        legend = (("ours", "rayfed, updates a second"), ("bare", "a plain loop"))
        asked.write.with_suffix(".svg").write_text(bars(drawn, legend), encoding="utf-8")
    return 0 if holds and same and late <= GROWTH * early else 1


if __name__ == "__main__":
    raise SystemExit(main())
