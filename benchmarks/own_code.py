"""Own training code and a bare loop over its functions: ``python -m benchmarks.own_code``.

The bare loop calls ``client`` and ``train`` for a copy of the model and averages by size; it has no
clock, seeds or codecs. Blocks of rounds and of the loop take turns; ratios are medians. Times are
those of the processor, which other work on the machine hardly changes; nothing is written.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Sequence
from functools import lru_cache
from time import process_time
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from rayfed.core.threads import one_thread
from rayfed.problems.own_code.functions import ClientCode, Context
from rayfed.testing import loop

MOST_MS = 2.0
"""Milliseconds of a client update beyond its own computing, at most."""
ROWS, FEATURES, CLASSES, CLIENTS = 200, 64, 10, 50


@lru_cache(maxsize=CLIENTS)
def client(i: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows and classes of a client."""
    draws = np.random.default_rng(i)
    X = draws.normal(size=(ROWS, FEATURES)).astype(np.float32)
    return torch.from_numpy(X), torch.from_numpy(draws.integers(0, CLASSES, ROWS))


def size(i: int, part: str) -> int:
    """Return the number of rows."""
    return ROWS if part == "train" else 0


def arrays() -> dict[str, Any]:
    """Return a linear model of NumPy arrays."""
    return {"W": np.zeros((FEATURES, CLASSES), np.float32), "b": np.zeros(CLASSES, np.float32)}


def train_arrays(model: dict[str, Any], data: Any, context: Context) -> dict[str, float]:
    """Take steps of softmax regression."""
    X, y = (values.numpy() for values in data)
    losses = []
    for _ in range(context.steps):
        rows = np.random.randint(0, ROWS, 32)  # noqa: NPY002 -- as users draw
        z = X[rows] @ model["W"] + model["b"]
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        losses.append(-np.log(p[np.arange(32), y[rows]]).mean())
        p[np.arange(32), y[rows]] -= 1
        model["W"] -= 0.1 / 32 * X[rows].T @ p
        model["b"] -= 0.1 / 32 * p.sum(axis=0)
    return {"loss": float(np.mean(losses))}


def module() -> nn.Module:
    """Return a network of about 10,000 parameters with BatchNorm."""
    return nn.Sequential(
        nn.Linear(FEATURES, 64), nn.BatchNorm1d(64), nn.ReLU(),
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, CLASSES),
    )  # fmt: skip


def train_module(model: nn.Module, data: Any, context: Context) -> dict[str, float]:
    """Take steps of SGD with momentum."""
    model.train()
    (X, y), losses = data, []
    optimiser = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for _ in range(context.steps):
        rows = torch.randint(0, ROWS, (32,))
        loss = nn.functional.cross_entropy(model(X[rows]), y[rows])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.item())
    return {"loss": float(np.mean(losses))}


def evaluate(model: Any, data: Any, part: str) -> dict[str, float]:
    """Return nothing of interest: evaluations are not measured."""
    return {"loss": 0.0}


CODES = {
    "NumPy arrays": ClientCode(
        model=arrays, client=client, size=size, train=train_arrays, evaluate=evaluate
    ),
    "torch module": ClientCode(
        model=module, client=client, size=size, train=train_module, evaluate=evaluate
    ),
}


def bare_s(code: ClientCode, steps: int, rounds: int) -> float:
    """Return the processor seconds of a client update in the bare loop."""
    model, threads = code.model(), torch.get_num_threads()
    torch.set_num_threads(1)
    with one_thread():
        start = process_time()
        for number in range(rounds):
            after = []
            for i in range(CLIENTS):
                mine = copy.deepcopy(model)
                code.train(mine, code.client(i), Context(i, number + 1, steps))
                after.append(mine.state_dict() if isinstance(mine, nn.Module) else mine)
            mean = {name: sum(each[name] for each in after) / CLIENTS for name in after[0]}
            if isinstance(model, nn.Module):
                model.load_state_dict(mean)
            else:
                model = mean
        taken = process_time() - start
    torch.set_num_threads(threads)
    return taken / rounds / CLIENTS


def measured(code: ClientCode, steps: int, rounds: int, repeats: int) -> np.ndarray:
    """Return the processor seconds of a client update (repeats, 2): here, and in the bare loop."""
    engine = loop(
        {
            "rounds": 1 + rounds * repeats,
            "evaluate": {"every": 1 + rounds * repeats},
            "problem": {"name": "own-code", "code": code},
            "clients": {"count": CLIENTS},
            "algorithms": [{"name": "fedavg", "local": {"name": "own-train", "steps": steps}}],
            "executor": {"name": "serial"},
        }
    )
    now, _ = engine.start()
    turns = []
    for _ in range(repeats):
        with one_thread():
            start = process_time()
            for _ in range(rounds):
                now, _, _ = engine.step(now)
            here = (process_time() - start) / rounds / CLIENTS
        turns.append((here, bare_s(code, steps, rounds)))
    return np.array(turns)


def main(given: Sequence[str] | None = None, timed: Callable[..., np.ndarray] = measured) -> int:
    """Measure, print, and return 1 where an update takes more than `MOST_MS` beyond its code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.own_code", description=__doc__)
    parser.add_argument("--steps", type=int, default=5, help="of a client in a round")
    parser.add_argument("--rounds", type=int, default=10, help="of a block")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args(given)
    shown = Table(title=f"{CLIENTS} clients, {asked.steps} steps, medians of {asked.repeats} turns")
    for column in ("model", "ms an update", "bare loop", "times the bare loop", "overhead in ms"):
        shown.add_column(column, justify="left" if column == "model" else "right")
    most = 0.0
    for name, code in CODES.items():
        turns = timed(code, asked.steps, asked.rounds, asked.repeats)
        here, bare = 1e3 * np.median(turns, axis=0)
        ratio = np.median(turns[:, 0] / turns[:, 1])
        beyond = 1e3 * float(np.median(turns[:, 0] - turns[:, 1]))
        most = max(most, beyond)
        shown.add_row(name, f"{here:.3f}", f"{bare:.3f}", f"{ratio:.2f}", f"{beyond:.3f}")
    Console().print(shown)
    return int(most > MOST_MS)


if __name__ == "__main__":
    raise SystemExit(main())
