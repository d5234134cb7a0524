"""Options that the defaults of the averaging family leave off keep the promises of bits too."""

from dataclasses import replace

import pytest

from rayfed import api
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.driver import Driver
from rayfed.runs.files.stops import STOPPED

DRAWN = {"epochs": {"low": 1, "high": 3}, "batch": 4, "lr": {"name": "cosine", "rounds": 8}}
OPTIONS = {
    "scaffold, option 1": {"name": "scaffold", "option": 1, "local": DRAWN},
    "fednova with everything": {
        "name": "fednova", "variance_reduction": True, "server_momentum": 0.5,
        "local": {**DRAWN, "momentum": 0.5, "mu": 0.1},
    },
    "fedexp with everything": {
        "name": "fedexp", "variance_reduction": True, "server_momentum": 0.5,
        "epsilon_decay": 0.9, "evaluate_last": 2, "local": DRAWN,
    },
    "fedadam, tau inside": {"name": "fedadam", "tau_inside": True, "local": DRAWN},
    "fewer and fewer steps": {
        "name": "fedavg",
        "local": {**DRAWN, "epochs": {"name": "adacomm", "start": 4, "every": 2}},
    },
    "fedvarp, drawn steps": {"name": "fedvarp", "local": DRAWN},
    "clusterfedvarp, drawn steps": {"name": "clusterfedvarp", "clusters": 3, "local": DRAWN},
    "clusters by updates, drawn steps": {
        "name": "clusterfedvarp", "clusters": {"by": "updates", "number": 3}, "local": DRAWN,
    },
    "adam at the client": {"name": "fedavg", "local": {**DRAWN, "name": "adam"}},
    "adagrad at the client": {"name": "fedprox", "local": {**DRAWN, "name": "adagrad", "mu": 0.1}},
}  # fmt: skip
SELDOM = ("fedvarp, drawn steps", "adam at the client")
"""What another of them does, too."""
each = pytest.mark.parametrize(
    "algorithm",
    [
        pytest.param(how, marks=pytest.mark.slow if name in SELDOM else (), id=name)
        for name, how in OPTIONS.items()
    ],
)


def plan_of(mixed, algorithm):
    made = mixed(algorithms=[algorithm], dtype="float32")
    made["clients"]["groups"] = [{"ids": [2, 5], "local": {"epochs": {"low": 2, "high": 2}}}]
    return api.prepare(api.read(made))


def drive(plan, out, block=7, **how):
    (run,) = plan.runs
    driver = Driver(replace(run, block=block), out, SerialExecutor(plan.tables))
    return driver, lambda **more: driver.execute(**how, **more)


@pytest.mark.guard
@each
def test_stacks_and_a_stop_change_no_bytes(mixed, algorithm, tmp_path, assert_same):
    plan = plan_of(mixed, algorithm)
    drive(plan, tmp_path / "calm")[1]()
    drive(plan, tmp_path / "alone", block=1)[1]()
    assert_same(tmp_path / "calm", tmp_path / "alone")
    driver, run = drive(plan, tmp_path / "stopped")
    assert run(report=lambda p: driver.stop() if p.round == 5 else None) == STOPPED
    drive(plan, tmp_path / "stopped", resume=True)[1]()
    assert_same(tmp_path / "calm", tmp_path / "stopped")
