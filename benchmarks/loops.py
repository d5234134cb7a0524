"""Rounds of another simulator: common parts of `benchmarks.loop_pfl` and its neighbours.

`benchmarks.peers` starts such a loop in the environment of that simulator, which does not have
rayfed's requirements. Each line of standard input is the length of a block of rounds in seconds;
the mean seconds of a round answer it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from time import perf_counter

import numpy as np
import torch

from benchmarks.networks import NETWORKS, PERCEPTRON, NetworkCase

FOREVER = 10**9
"""Rounds of a loop, which ends with standard input."""
LR = 0.01


class Blocks:
    """Seconds of rounds, a block at a time. The round before a block is not part of it."""

    def __init__(self) -> None:
        self._began, self._block_s, self._rounds = 0.0, 0.0, -1

    def round_ended(self) -> bool:
        """Count a round, answer at the end of a block; return False when input has ended."""
        self._rounds += 1
        if self._rounds == 0:
            self._began = perf_counter()
        spent = perf_counter() - self._began
        if self._rounds > 0 and spent >= self._block_s:
            print(spent / self._rounds, file=sys.__stdout__, flush=True)
            line = sys.stdin.readline()
            if not line:
                return False
            self._block_s, self._rounds = float(line), -1
        return True


def rows(case: NetworkCase, client: int) -> list[torch.Tensor]:
    """Return the rows of one client: as many as its local steps read, in one epoch."""
    rng, n = np.random.default_rng([0, client]), case.steps * case.batch
    shape = (n, *case.shape)
    X = rng.integers(case.symbols, size=shape) if case.symbols else rng.standard_normal(shape)
    y = torch.from_numpy(rng.integers(case.classes, size=n))
    return [torch.from_numpy(X.astype(np.float32)), y]


def case_of(name: str) -> NetworkCase:
    """Return the case with a name."""
    return {case.name: case for case in (PERCEPTRON, *NETWORKS)}[name]


def serve(loop: Callable[[NetworkCase, int], None]) -> None:
    """Run a loop for the case and the number of processes of the command line, with one thread."""
    torch.set_num_threads(1)
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):  # what simulators print
        loop(case_of(sys.argv[1]), int(sys.argv[2]))
