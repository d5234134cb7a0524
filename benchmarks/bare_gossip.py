"""Bare loops of D-PSGD and of FedAvg: ``python -m benchmarks.bare_gossip``.

What one writes in NumPy and SciPy for the workload of `benchmarks.gossip`: local steps of a few
nodes at once, one product with W for blocks of columns, no clock, no losses, no records. The ratio
of a step and a round, and the speed of two independent halves at once, are what the machine gives.
Two halves on Ray actors exchange their models through Ray's store in each step. All times are of a
processor, those of Ray's threads in a process included; waits are not in them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rayfed.core.threads import own_process
from rayfed.runs.ray import imported

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = npt.NDArray[Any]
CLASSES, FEATURES, SAMPLES, BATCH, DEGREE = 10, 784, 60, 32, 10
LR = 0.01
STACK = 8  # nodes whose local steps are taken together
WIDTH = 256  # columns of a block, 1 MB of 1,000 models


@dataclass
class Nodes:
    """Some of the nodes, with rows of their own.

    Parameters
    ----------
    count : int
        Number N of all nodes.
    own : slice
        The K nodes that are computed here.
    """

    count: int
    own: slice

    def __post_init__(self) -> None:
        self.rng, k = np.random.default_rng(0), len(range(self.count)[self.own])
        self.X = self.rng.standard_normal((k, SAMPLES, FEATURES), dtype=np.float32)
        self.y = self.rng.integers(CLASSES, size=(k, SAMPLES))

    @cached_property
    def w(self) -> csr_array[Any]:
        """Weights (K, N) of each node and of random others, all equal."""
        from scipy.sparse import csr_array

        ids, links = range(self.count)[self.own], min(DEGREE, self.count - 1) + 1
        columns = np.empty((len(ids), links), np.int32)
        for row, i in zip(columns, ids, strict=True):
            others = self.rng.choice(self.count - 1, links - 1, replace=False)
            row[:] = np.sort(np.append(others + (others >= i), i))
        weights = np.full(columns.size, 1 / links, np.float32)
        starts = np.arange(0, columns.size + 1, links, dtype=np.int32)
        return csr_array((weights, columns.ravel(), starts), shape=(len(ids), self.count))

    def picked(self) -> npt.NDArray[np.int64]:
        """Return the rows (K, B) of a minibatch of each node."""
        return self.rng.integers(SAMPLES, size=(len(self.X), BATCH))

    def step(self, x: Array, at: slice, picked: npt.NDArray[np.int64]) -> Array:
        """Return lr times the gradient (k, c, d) of some of the nodes at x (c, d) or (k, c, d)."""
        node = np.arange(len(self.X))[at, None]
        rows, labels = self.X[node, picked[at]], self.y[node, picked[at], None]
        z = rows @ x.swapaxes(-1, -2)
        z -= z.max(axis=-1, keepdims=True)
        np.exp(z, out=z)
        z /= z.sum(axis=-1, keepdims=True)
        np.put_along_axis(z, labels, np.take_along_axis(z, labels, -1) - 1, -1)
        z *= np.float32(LR / BATCH)
        change: Array = z.swapaxes(1, 2) @ rows
        return change

    def round(self, x: Array, picked: npt.NDArray[np.int64]) -> Array:
        """Return FedAvg's next model (c, d)."""
        total = np.zeros_like(x)
        for at in self._stacks():
            total += self.step(x, at, picked).sum(axis=0)
        return x - total / np.float32(len(self.X))

    def mixed(self, own: Array, parts: Sequence[Array], picked: npt.NDArray[np.int64]) -> Array:
        """Return D-PSGD's next models (K, c, d) from the own ones and the parts of all N models."""
        flat = [part.reshape(len(part), -1) for part in parts]
        near = np.empty((len(own), own[0].size), own.dtype)
        for start in range(0, near.shape[1], WIDTH):
            block = slice(start, start + WIDTH)
            near[:, block] = self.w @ np.concatenate([part[:, block] for part in flat])
        out = near.reshape(own.shape)
        for at in self._stacks():
            out[at] -= self.step(own[at], at, picked)
        return out

    def _stacks(self) -> list[slice]:
        k = len(self.X)
        return [slice(start, min(start + STACK, k)) for start in range(0, k, STACK)]


def taken_ms(call: Callable[[], object], times: int) -> float:
    """Return the lower quartile of the processor's milliseconds of a call."""
    taken = []
    for _ in range(times):
        began = process_time()
        call()
        taken.append(process_time() - began)
    return 1e3 * float(np.percentile(taken, 25))


def loops(count: int, repeats: int) -> tuple[float, float]:
    """Return the milliseconds of a round of FedAvg and of a step of D-PSGD, by turns."""
    nodes = Nodes(count, slice(count))
    one = np.zeros((CLASSES, FEATURES), np.float32)
    every = np.zeros((count, *one.shape), np.float32)
    nodes.mixed(every, [every], nodes.picked())
    turns = [
        (
            taken_ms(lambda: nodes.round(one, nodes.picked()), 5),
            taken_ms(lambda: nodes.mixed(every, [every], nodes.picked()), 5),
        )
        for _ in range(repeats)
    ]
    fedavg, dpsgd = np.median(turns, axis=0).tolist()
    return fedavg, dpsgd


def halves(count: int, repeats: int) -> list[float]:
    """Return the milliseconds of a step of each half, in two processes at once."""
    context = get_context("spawn")
    with context.Pool(2, initializer=own_process) as pool:
        jobs = [(count, k, 5 * repeats) for k in range(2)]
        return pool.starmap(_half, jobs, chunksize=1)


def _half(count: int, k: int, times: int) -> float:
    half = Half(count, k)
    half.mix(half.x[::-1])
    return taken_ms(lambda: half.mix(half.x[::-1]), times)


class Half:
    """Half of the nodes, and their models.

    Parameters
    ----------
    count : int
        Number N of all nodes, which is even.
    k : int
        0 or 1: which half.
    """

    def __init__(self, count: int, k: int) -> None:
        own_process()
        self.k = k
        self.nodes = Nodes(count, slice(k * count // 2, (k + 1) * count // 2))
        self.x = np.zeros((count // 2, CLASSES, FEATURES), np.float32)

    def outgoing(self) -> Array:
        """Return the models."""
        return self.x

    def mix(self, others: Array) -> float:
        """Take a step with the models of the other half; return this process's seconds so far."""
        parts = [self.x, others] if self.k == 0 else [others, self.x]
        self.x = self.nodes.mixed(self.x, parts, self.nodes.picked())
        return process_time()


def exchanging(count: int, repeats: int) -> list[float]:
    """Return the milliseconds of a step of each half, on two actors that exchange their models."""
    node = imported(None).start(None, 2)
    import ray  # now that it is told to listen to this machine alone

    from benchmarks.bare_gossip import Half as Actor  # not of `__main__`, which actors do not have

    try:
        actors = [ray.remote(num_cpus=0)(Actor).remote(count, k) for k in range(2)]
        ended = []
        for _ in range(5 * repeats + 2):
            models = [actor.outgoing.remote() for actor in actors]
            ray.wait(models, num_returns=2, fetch_local=False)
            mixing = zip(actors, reversed(models), strict=True)
            ended.append(ray.get([actor.mix.remote(others) for actor, others in mixing]))
    finally:
        node.end()
    lower: list[float] = np.percentile(np.diff(ended[1:], axis=0), 25, axis=0).tolist()
    return [1e3 * seconds for seconds in lower]


def main(given: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bare_gossip", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000, help="an even number")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args(given)
    own_process()
    fedavg, dpsgd = loops(asked.nodes, asked.repeats)
    slower = max(halves(asked.nodes, asked.repeats))
    on_ray = max(exchanging(asked.nodes, asked.repeats))
    print(f"FedAvg {fedavg:.1f} ms, D-PSGD {dpsgd:.1f} ms: {dpsgd / fedavg:.2f} times FedAvg")
    for halves_are, ms in (("at once", slower), ("that exchange their models", on_ray)):
        text = f"{dpsgd / ms:.2f} times as fast as one process"
        print(f"two halves {halves_are} {ms:.1f} ms: {text}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
