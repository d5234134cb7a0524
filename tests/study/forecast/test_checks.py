"""What is refused before a run starts, because it could not be run."""

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from rayfed import api
from rayfed.algorithms import Algorithm
from rayfed.core.errors import ScenarioError
from rayfed.messages import Ask
from rayfed.solvers import SGD, UniformSteps
from rayfed.study.forecast.checks import MOST_STEPS, of_steps

NOW_AND_THEN = {"name": "markov", "mean_on_s": 1e-3, "mean_off_s": 1e-3}
STEPS = {
    "rounds": 1,
    "executor": "serial",
    "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 2}},
    "clients": {"count": 3},
    "algorithms": [{"name": "fedavg", "local": {"lr": 0.1}}],
}


@dataclass(frozen=True, kw_only=True)
class Mistyped(Algorithm):
    """Asks for a client function that it does not have."""

    name: ClassVar[str] = "mistyped"

    def train(self, clients):
        raise NotImplementedError

    def round(self, state):
        yield Ask("trian", send={}, up={})
        return state, {}


@dataclass(frozen=True, kw_only=True)
class Silent(Algorithm):
    """Asks nothing."""

    name: ClassVar[str] = "silent"

    def round(self, state):
        yield from ()
        return state, {}


@dataclass(frozen=True, kw_only=True)
class Broken(Algorithm):
    """Raises before it asks anything."""

    name: ClassVar[str] = "broken"

    def round(self, state):
        raise ValueError("not yet")
        yield


def test_a_client_half_that_does_not_exist_is_refused_before_the_run(mixed):
    made = mixed()
    study = api.read(made | {"algorithms": [*made["algorithms"], Mistyped()]})
    with pytest.raises(ScenarioError, match="'mistyped' asks for 'trian', but has no such method"):
        api.prepare(study)


@pytest.mark.parametrize("algorithm", [Silent(), Broken()])
def test_what_asks_nothing_or_raises_is_left_to_the_run(mixed, algorithm):
    (run,) = api.prepare(api.read(mixed(algorithms=[algorithm]))).runs
    assert run.first_ask() is None


def waiting(availability, count=100, **changes):
    """Plan a study of two rounds whose local work takes 10 s."""
    return api.prepare(
        api.read(
            {
                "rounds": 2,
                "problem": {
                    "name": "least-squares",
                    "dataset": {"name": "linear", "features": 2, "samples": 5},
                },
                "clients": {
                    "count": count,
                    "delay": {"name": "constant", "mean_s": 10.0},
                    "availability": availability,
                },
                "algorithms": [{"name": "fedavg", "local": {"steps": 1, "lr": 0.1}}],
                "executor": "serial",
            }
            | changes
        )
    )


def bernoulli(p):
    return {"name": "bernoulli", "p": p, "period_s": 1e-9}


@pytest.mark.parametrize(
    ("availability", "participation", "found"),
    [
        (bernoulli(1e-300), {}, "1 of 100 clients are available at one change in 1e+298"),
        # (1 - p)^100 with p = 5e-9: somebody is there at one look in 2e6
        (bernoulli(5e-9), {}, "1 of 100 clients are available at one change in 2e+06"),
        # 0.1^100
        (
            bernoulli(0.1),
            {"minimum": 100},
            "100 of 100 clients are available at one change in 1e+100",
        ),
        (NOW_AND_THEN | {"mean_off_s": 1e9}, {"minimum": 50}, "50 of 100 .* more than 1e+300"),
    ],
)
def test_nobody_waits_for_a_million_looks(availability, participation, found):
    line = f"^clients.availability: {found}"
    with pytest.raises(ScenarioError, match=line.replace("+", r"\+")):
        waiting(availability, participation=participation)


@pytest.mark.parametrize(
    ("availability", "participation"),
    [
        (bernoulli(5e-8), {}),  # one look in 2e5
        (bernoulli(0.0), {}),  # nobody ever: such rounds pass
        (bernoulli(0.1), {"minimum": 100, "patience_s": 1e-6}),
        ({"name": "bernoulli", "p": 1e-300}, {}),  # rounds pass
        (NOW_AND_THEN, {"minimum": 50}),
        ({"name": "diurnal", "from_h": 0, "to_h": 1}, {"minimum": 100}),  # all at once
    ],
)
def test_others_may_wait(availability, participation):
    waiting(availability, participation=participation)


def test_work_that_stands_still_a_thousand_times_is_refused():
    """A stay of 1 ms is at most a ten-thousandth of the task; so everybody is given up."""
    with pytest.raises(ScenarioError) as refused:
        waiting(NOW_AND_THEN, participation={"interrupted": "resume"})
    assert refused.value.place == "participation.interrupted"
    assert "and tasks take 10 s, after 1,000 interruptions they are dropped; use drop" in str(
        refused.value
    )
    with pytest.raises(ScenarioError, match="interruptions they are dropped"):
        waiting(bernoulli(0.5), participation={"interrupted": "resume"})
    asynchronous = {"name": "fedasync", "concurrency": 2, "local": {"steps": 1, "lr": 0.1}}
    with pytest.raises(ScenarioError, match="interruptions they are dropped"):
        waiting(NOW_AND_THEN, participation={"interrupted": "resume"}, algorithms=[asynchronous])


def test_work_that_stands_still_now_and_then_is_not():
    often = {"name": "markov", "mean_on_s": 0.1, "mean_off_s": 1e-3}  # 100 times
    for availability in (often, "always", {"name": "cyclic", "groups": 2, "rounds": 1}):
        waiting(availability, participation={"interrupted": "resume"})
    waiting(NOW_AND_THEN, participation={"interrupted": "drop"})


class TestSteps:
    SIZES = np.array([10, 1000])

    @pytest.mark.parametrize(
        ("solver", "pace", "place"),
        [
            (SGD(steps=MOST_STEPS + 1), 1.0, "local.steps"),
            (SGD(epochs=1e300, batch=1), 1.0, "local.epochs"),
            (SGD(epochs=1e6, batch=1), 1.0, "local.epochs"),  # 1e6 passes over 1000 rows
            (SGD(time_s=3.0), 1e-12, "local.time_s"),
            (SGD(time_s=1e12), 1e-300, "local.time_s"),
            (SGD(steps=UniformSteps(low=10**9, high=10**9)), 1.0, "local.steps"),
        ],
    )
    def test_too_many_are_refused(self, solver, pace, place):
        ((found, text),) = of_steps(solver, self.SIZES, np.full(2, pace))
        assert found == place
        assert re.search(r"comes to .* more than 100,000,000; use fewer", text)

    def test_as_many_as_allowed_are_not(self):
        for solver in (SGD(steps=MOST_STEPS), SGD(epochs=1e5, batch=1)):
            assert not list(of_steps(solver, self.SIZES, np.ones(2)))

    def test_no_number_overflows(self):
        assert SGD(epochs=1e300, batch=1).step_counts(self.SIZES).min() > 2**60
        assert SGD(time_s=1.0).step_counts(self.SIZES, np.full(2, 1e-300)).min() > 2**60

    @pytest.mark.parametrize(
        ("local", "delay"),
        [
            ({"time_s": 3}, {"name": "constant", "mean_s": 1e-9}),
            ({"time_s": 3}, {"name": "gamma", "shape": 0.1}),  # at times 1e-27 s a step
            ({"epochs": 1e300}, {"name": "constant"}),
            ({"steps": 2**31 - 1}, {"name": "constant"}),
        ],
    )
    def test_the_plan_refuses_them(self, local, delay):
        raw = {**STEPS, "clients": {"count": 3, "delay": delay}}
        raw["algorithms"] = [{"name": "fedavg", "local": local}]
        with pytest.raises(ScenarioError, match=r"more than 100,000,000") as error:
            api.prepare(api.read(raw))
        assert error.value.place == f"local.{next(iter(local))}"


def test_fine_tuning_takes_no_simulated_time():
    raw = {**STEPS, "algorithms": [{"name": "fedavg-finetuned", "tune": {"time_s": 3}}]}
    with pytest.raises(ScenarioError) as error:
        api.prepare(api.read(raw))
    assert str(error.value) == (
        "algorithms.0.tune: found time_s, but evaluation takes no simulated time; "
        "give steps or epochs"
    )


def test_fine_tuning_comes_to_an_end():
    raw = {**STEPS, "algorithms": [{"name": "fedavg-finetuned", "tune": {"epochs": 1e300}}]}
    with pytest.raises(ScenarioError, match=r"^tune.epochs: comes to 4.61e\+18 local steps"):
        api.prepare(api.read(raw))
