"""Checks of algorithms, in runs of a second each."""

from __future__ import annotations

import inspect
import math
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from rayfed import api
from rayfed.algorithms.base import Algorithm
from rayfed.core.columns import names
from rayfed.core.errors import ScenarioError
from rayfed.testing.checks.common import Skipped, require, require_unchanged
from rayfed.testing.compare import assert_same_results
from rayfed.testing.studies import (
    assert_same_bits,
    drive,
    mixed_for,
    on_network,
    tensors_alone,
)
from rayfed.testing.toy import run_here

_SELDOM = {"every_s": 60.0}
"""Checkpoints of runs that nothing interrupts; otherwise each round leaves one."""


def check_paper(cls: type[Algorithm], folder: Path) -> None:
    """Check that the docstring has a source, deviations and an example."""
    text = inspect.getdoc(cls) or ""
    module = inspect.getdoc(inspect.getmodule(cls)) or ""
    require(">>>" in text, f"{cls.__qualname__}: its docstring shows no example (>>>)")
    if not cls.baseline:
        require("Deviations from the paper" in text, f"{cls.__qualname__}: no 'Deviations from")
        require("http" in module + text, f"{cls.__qualname__}: its module links to no paper")


def check_bits(cls: type[Algorithm], folder: Path) -> None:
    """Check that the bits depend neither on stacks of 1 or 7 clients, nor on a stop on the way."""
    scenario = mixed_for(cls, rounds=6, checkpoint=_SELDOM)
    every = scenario["rounds"] // 2
    measures = [] if cls.centralised else ["heterogeneity"]
    scenario["evaluate"] = {"every": every, "measures": measures}
    assert_same_bits(api.prepare(api.read(scenario)), folder, rounds=3)


def check_learns(cls: type[Algorithm], folder: Path) -> None:
    """Check that it lowers the loss and records its diagnostics in every round."""
    large_cohort = {"select": "uniform", "cohort": 13}  # without the noise of small cohorts
    scenario = mixed_for(cls, rounds=20, participation=large_cohort, checkpoint=_SELDOM)
    scenario["clients"] |= {"availability": "always"}
    if cls.asynchronous:  # a reply alone, of a client that differs from others, is a long step
        scenario["algorithms"][0]["local"]["lr"] = 0.02
    rows = run_here(scenario, folder).rounds
    first, last = rows.loss.iloc[0], rows.loss.iloc[-1]
    require(last < first, f"{cls.__qualname__}: the loss went from {first:g} to {last:g}")
    for column in names(cls.diagnostics):
        require(math.isnan(rows[column].iloc[0]), f"'{column}' has a value before the first round")
        require(np.isfinite(rows[column].iloc[1:]), f"'{column}' is not finite in every round")


def check_float32(cls: type[Algorithm], folder: Path) -> None:
    """Check that a model of float32 stays float32."""
    result = run_here(mixed_for(cls, dtype="float32", rounds=3, checkpoint=_SELDOM), folder)
    (run,) = result.outcome
    dtype = result.weights(run).dtype
    require(dtype == np.float32, f"{cls.__qualname__}: a float32 model became {dtype}")


def check_seeds(cls: type[Algorithm], folder: Path) -> None:
    """Check that another seed gives another run."""
    rounds = run_here(mixed_for(cls, seeds=[0, 1], rounds=3, checkpoint=_SELDOM), folder).rounds
    losses = rounds.groupby("seed").loss.last()
    require(losses[0] != losses[1], f"{cls.__qualname__}: two seeds end with the same loss")


def check_state(cls: type[Algorithm], folder: Path) -> None:
    """Check that a round changes neither the server's state nor its inputs in place."""
    plan = api.prepare(api.read(mixed_for(cls)))
    require_unchanged(plan, cls.__qualname__, lambda now: [now.state])


def check_network(cls: type[Algorithm], folder: Path) -> None:
    """Check that it trains a network of PyTorch with the same bits in stacks of 1 and 7 clients.

    NumPy's functions, which would turn tensors into NumPy arrays, are errors.
    """
    if find_spec("torch") is None:
        raise Skipped("torch is not installed")
    scenario = mixed_for(cls, rounds=2, evaluate={"every": 2}, checkpoint=_SELDOM)
    if scenario["problem"]["name"] != "network":
        scenario = on_network(scenario)
    try:
        plan = api.prepare(api.read(scenario))
    except ScenarioError as refused:
        require("Hessian" in str(refused), f"{cls.__qualname__} refuses a network: {refused}")
        raise Skipped(str(refused)) from None
    with tensors_alone():
        for block in (1, 7):
            drive(plan, folder / str(block), block=block)
    assert_same_results(folder / "1", folder / "7")
