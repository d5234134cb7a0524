"""A small study with every possible disturbance, and its driver."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from rayfed.core.needs import (
    ADAPTERS,
    BY_CLOCK,
    COHORT,
    EVERYONE,
    FIXED_GRAPH,
    GRAPHS,
    LAYERS,
    OWN_STATISTICS,
    OWN_STEPS,
)
from rayfed.core.plugins import name_of
from rayfed.engine.loop import Loop
from rayfed.engine.run import Run
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.driver import Driver
from rayfed.runs.files.outcome import reason
from rayfed.runs.files.stops import STOPPED
from rayfed.selection.simple import All
from rayfed.study.plan.plan import Plan
from rayfed.testing.compare import assert_same_results
from rayfed.testing.toy import loop

LOCAL: Mapping[str, Any] = {"steps": 5, "batch": 4, "lr": 0.1}
MIXED: Mapping[str, Any] = {
    "name": "mixed",
    "seeds": [3],
    "rounds": 12,
    "problem": {
        "name": "softmax-regression",
        "dataset": {"name": "synthetic", "features": 5, "classes": 3, "samples": 12},
        "l2": 1e-2,
        "test": 0.25,
    },
    "clients": {
        "count": 13,
        "delay": {"name": "lognormal", "mean_s": 1.0, "sigma": 0.5},
        "stragglers": {"fraction": 0.2, "slowdown": 8},
        "network": {"down_mbps": 20, "up_mbps": 5},
        "availability": {"name": "cyclic", "groups": 3, "rounds": 1},
        "groups": [{"name": "phones", "fraction": 0.3, "local": {"steps": 3, "lr": 0.05}}],
    },
    "participation": {
        "cohort": 4, "select": {"name": "uniform"}, "over_select": 1.3, "deadline_s": 100,
    },
    "checkpoint": {"every_s": 0},
    "algorithms": [{"name": "fedavg", "local": dict(LOCAL)}],
    "executor": {"name": "serial"},
}  # fmt: skip
"""Minibatches, stragglers, cyclic availability, groups, over-selection and a deadline."""


def mixed(**changes: Any) -> dict[str, Any]:
    """Return a copy of the scenario `MIXED` with other sections."""
    return copy.deepcopy(dict(MIXED)) | changes


def mixed_for(cls: type[Any], **changes: Any) -> dict[str, Any]:
    """Return `MIXED` for an algorithm class.

    One that pools the data gets a table to pool, one that separates layers a model with layers, or
    with adapters; for one without rounds availability follows the clock, and a round is replaced by
    four updates: FedAT's model stays where it is until the slowest clients have replied.
    """
    scenario = mixed(algorithms=[{"name": name_of(cls), "local": dict(LOCAL)}], **changes)
    if cls.asynchronous:
        scenario["rounds"] *= 4
        scenario["participation"] |= {"over_select": 1.0, "deadline_s": None, "timeout_s": 30}
    if cls.asynchronous or BY_CLOCK in cls.needs:
        scenario["clients"] |= {"availability": {"name": "cyclic", "groups": 3, "period_s": 20}}
    if EVERYONE in cls.needs:
        scenario["clients"] |= {"availability": "always", "groups": []}
    if EVERYONE in cls.needs or cls.gossip:
        scenario["participation"] = {"select": {"name": "uniform"}}
    if cls.gossip:
        every = None if FIXED_GRAPH in cls.needs else 2
        scenario["topology"] = {
            "name": "random", "p": 0.3, "disconnected": "repair", "every": every,
        }  # fmt: skip
    if OWN_STEPS in cls.gives:
        del scenario["algorithms"][0]["local"]["steps"]
    scenario["problem"] |= _problem_for(cls)
    if cls.centralised:
        scenario["problem"] |= {"dataset": {"name": "mushroom"}}
        scenario["partition"] = {"name": "dirichlet", "alpha": 0.5}
    return scenario


def _problem_for(cls: type[Any]) -> dict[str, Any]:
    """Return changes of the problem for a method that needs layers or adapters."""
    network = {"name": "network", "l2": 0}
    if OWN_STATISTICS in cls.gives and LAYERS in cls.needs:
        return network | {"model": "rayfed.testing.modules:Normed"}
    if ADAPTERS in cls.needs:
        return network | {"model": "rayfed.testing.modules:Adapted"}
    return {"name": "mlp", "hidden": [4]} if LAYERS in cls.needs else {}


def on_network(scenario: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    """Return a scenario with a small network with dropout as the model.

    Parameters
    ----------
    scenario : mapping
        As `mixed` returns one.
    **settings
        Further settings of the problem.
    """
    data = {key: scenario["problem"][key] for key in ("dataset", "test")}
    model = {"name": "rayfed.testing.modules:Small", "dropout": 0.25}
    return {
        **scenario,
        "problem": {"name": "network", "model": model, "l2": 1e-2, **data} | settings,
    }


@contextmanager
def tensors_alone() -> Iterator[None]:
    """Refuse to turn tensors into NumPy arrays by NumPy's functions, which do so silently."""
    import torch

    def refuse(self: Any, *given: Any, **named: Any) -> None:
        raise AssertionError("a function of NumPy was called with a tensor")

    with mock.patch.object(torch.Tensor, "__array__", refuse):
        yield


def mixed_under(cls: type[Any], **changes: Any) -> dict[str, Any]:
    """Return `MIXED` for a selection class, with a topology where it needs one."""
    scenario = mixed(**changes)
    scenario["participation"] |= {"select": {"name": name_of(cls)}}
    if COHORT in cls.removes or issubclass(cls, All):
        scenario["participation"] |= {"cohort": None}
    if cls.may_be_empty:
        scenario["participation"] |= {"over_select": 1.0}
    if GRAPHS in cls.needs:
        every = None if FIXED_GRAPH in cls.needs else 2
        scenario["topology"] = {
            "name": "random", "p": 0.3, "disconnected": "repair", "every": every,
        }  # fmt: skip
        scenario["clients"] |= {"availability": "always"}  # a whole neighbourhood may be away
    return scenario


def drive(plan: Plan, folder: Path, *, block: int | None = None, resume: bool = False) -> None:
    """Run the only run of a plan in this process.

    Parameters
    ----------
    block : int, optional
        Clients to a stack, in place of the plan's choice.

    Raises
    ------
    AssertionError
        If the run fails, with the reason.
    """
    (run,) = plan.runs
    if block is not None:
        run = replace(run, block=block)
    ended = Driver(run, folder, SerialExecutor(plan.tables)).execute(resume)
    if ended != "finished":
        raise AssertionError(f"{run.folder} {ended}: {reason(folder / run.folder)}")


def loops(plan: Plan) -> Iterator[tuple[Run, Loop]]:
    """Yield the runs of a plan, each with its loop in this process, which has not begun."""
    for run in plan.runs:
        yield run, loop(plan, run)


def stop_after(plan: Plan, folder: Path, rounds: int, *, block: int | None = None) -> None:
    """Run the only run of a plan until a round has ended, and leave a checkpoint."""
    (run,) = plan.runs
    if block is not None:
        run = replace(run, block=block)
    driver = Driver(run, folder, SerialExecutor(plan.tables))
    ended = driver.execute(report=lambda now: driver.stop() if now.round == rounds else None)
    if ended != STOPPED:
        raise AssertionError(f"{run.folder} {ended} before round {rounds}")


def assert_same_bits(plan: Plan, folder: Path, rounds: int) -> None:
    """Raise an AssertionError unless neither stacks of clients nor a stop change the only run.

    It runs in stacks of 1 client, and in stacks of 7 with a stop after some rounds.
    """
    drive(plan, folder / "1", block=1)
    stop_after(plan, folder / "7", rounds, block=7)
    drive(plan, folder / "7", block=7, resume=True)
    assert_same_results(folder / "1", folder / "7")
