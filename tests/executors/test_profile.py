"""A profile gives each moment to the innermost step that is watched."""

import time

import numpy as np
import pytest

from rayfed import api
from rayfed.engine.loop import Loop
from rayfed.executors.profile import STEPS, Profile
from rayfed.executors.ray_pool import RayExecutor
from rayfed.executors.serial import SerialExecutor
from tests.fakes.cluster import Node, no_ray, pool, stored


class Steps:
    """Methods that take seconds by a clock that the test moves."""

    def __init__(self, clock):
        self.clock = clock

    def round(self):
        self.clock.now += 1.0
        self.ask()
        self.measure()
        self.clock.now += 0.5
        return "a row"

    def ask(self):
        self.clock.now += 2.0

    def measure(self):
        self.clock.now += 4.0
        self.ask()

    def fail(self):
        self.clock.now += 8.0
        raise ZeroDivisionError


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 0.0

    monkeypatch.setattr(time, "perf_counter", lambda: Clock.now)
    return Clock


@pytest.fixture
def watched(clock):
    steps, profile = Steps(clock), Profile()
    profile.watch(steps, "round", "other", opens=True)
    profile.watch(steps, "ask", "sending")
    profile.watch(steps, "measure", "evaluation", inclusive=True)
    profile.watch(steps, "fail", "records", opens=True)
    return steps, profile


def of(profile):
    return {step: seconds for step, seconds in profile.seconds.items() if seconds}


def test_inner_steps_are_taken_off_outer_ones(watched):
    steps, profile = watched
    assert steps.round() == "a row"
    assert of(profile) == {"other": 1.5, "sending": 2.0, "evaluation": 6.0}
    assert profile.rounds == 1


def test_time_between_rounds_is_nobodys(watched, clock):
    steps, profile = watched
    steps.round()
    clock.now += 100.0
    steps.ask()
    steps.round()
    assert sum(profile.seconds.values()) == 19.0
    assert profile.record()["rounds"] == 2


def test_a_step_that_fails_has_taken_its_time(watched):
    steps, profile = watched
    with pytest.raises(ZeroDivisionError):
        steps.fail()
    assert of(profile) == {"records": 8.0}
    steps.round()
    assert profile.seconds["other"] == 1.5


def test_the_slowest_actor_is_taken_off_the_wait(clock):
    """Not what actors compute for an evaluation."""
    profile = Profile()

    class Asking(Steps):
        def ask(self):
            super().ask()
            profile.computed([0.5, 1.5])

    steps = Asking(clock)
    profile.watch(steps, "round", "other", opens=True)
    profile.watch(steps, "ask", "sending")
    profile.watch(steps, "measure", "evaluation", inclusive=True)
    steps.round()
    assert of(profile) == {"other": 1.5, "sending": 0.5, "computing": 1.5, "evaluation": 6.0}
    assert profile.record()["computing_mean_actor"] == 1.0


@pytest.fixture(scope="module")
def plan():
    return api.prepare(api.read({
        "rounds": 3,
        "problem": {"name": "softmax-regression", "dataset": {"name": "synthetic", "features": 3}},
        "clients": {"count": 6},
        "participation": {"cohort": 4},
        "algorithms": [
            {"name": "fedavg", "local": {"steps": 2, "lr": 0.1}},
            {"name": "fedbuff", "concurrency": 3, "buffer": 2, "local": {"steps": 2, "lr": 0.1}},
        ],
        "executor": "serial",
    }))  # fmt: skip


@pytest.fixture
def executor(plan):
    """An executor of an actor and a combiner of two, without Ray."""
    nodes = [Node(2, plan.clients), Node(1, plan.clients)]
    with no_ray():
        made = RayExecutor(pool(nodes), plan.clients, stored(plan.tables))
        for run in plan.runs:
            made.open(run.folder, run.setup())
        yield made


@pytest.mark.parametrize("which", [0, 1], ids=["fedavg", "fedbuff"])
def test_steps_of_actors(plan, executor, which):
    """All of them take time, and the model is that of a run in one process without a profile."""
    run, profile = plan.runs[which], Profile()
    plain = Loop(run, SerialExecutor(plan.tables))
    plain.exchange.executor.open(run.folder, run.setup())
    loop = Loop(run, executor)
    loop.profile(profile)
    executor.profile(profile)
    states = [plain.start()[0], loop.start()[0]]
    assert of(profile) == {}
    begun = time.perf_counter()
    for _ in range(3):
        states = [plain.step(states[0])[0], loop.step(states[1])[0]]
    wall_s = time.perf_counter() - begun
    np.testing.assert_array_equal(states[0].model, states[1].model)
    assert profile.rounds == 3
    asked = {"records"} | ({"selection"} if which else set())  # of FedBuff within the clock
    assert set(STEPS) - set(of(profile)) == asked
    assert 0 < sum(profile.seconds.values()) < wall_s
    assert 0 < profile.mean_s <= profile.seconds["computing"]


def test_an_unwatched_run_has_its_own_methods(plan):
    executor = SerialExecutor(plan.tables)
    loop = Loop(plan.runs[0], executor)
    assert not {"step", "advance", "_select"} & (vars(loop).keys() | vars(loop.policy).keys())
    assert "exchange" not in vars(executor)
