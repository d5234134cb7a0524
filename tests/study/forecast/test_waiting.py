"""Rounds that would wait, or stand still, for longer than anybody does."""

import pytest

from rayfed import api
from rayfed.core.errors import ScenarioError

NOW_AND_THEN = {"name": "markov", "mean_on_s": 1e-3, "mean_off_s": 1e-3}


def plan(availability, count=100, **changes):
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
        (bernoulli(1e-300), {}, "1 of 100 clients are there at one look in 1e+298"),
        # (1 - p)^100 with p = 5e-9: somebody is there at one look in 2e6
        (bernoulli(5e-9), {}, "1 of 100 clients are there at one look in 2e+06"),
        # 0.1^100
        (bernoulli(0.1), {"minimum": 100}, "100 of 100 clients are there at one look in 1e+100"),
        (NOW_AND_THEN | {"mean_off_s": 1e9}, {"minimum": 50}, "50 of 100 .* more than 1e+300"),
    ],
)
def test_nobody_waits_for_a_million_looks(availability, participation, found):
    line = f"^clients.availability: {found}"
    with pytest.raises(ScenarioError, match=line.replace("+", r"\+")):
        plan(availability, participation=participation)


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
    plan(availability, participation=participation)


def test_work_that_stands_still_a_thousand_times_is_refused():
    """A stay of 1 ms is at most a ten-thousandth of the work; so everybody is given up."""
    with pytest.raises(ScenarioError) as refused:
        plan(NOW_AND_THEN, participation={"interrupted": "resume"})
    assert refused.value.place == "participation.interrupted"
    assert "and work 10 s, after 1,000 breaks they are given up; use drop" in str(refused.value)
    with pytest.raises(ScenarioError, match="breaks they are given up"):
        plan(bernoulli(0.5), participation={"interrupted": "resume"})
    asynchronous = {"name": "fedasync", "concurrency": 2, "local": {"steps": 1, "lr": 0.1}}
    with pytest.raises(ScenarioError, match="breaks they are given up"):
        plan(NOW_AND_THEN, participation={"interrupted": "resume"}, algorithms=[asynchronous])


def test_work_that_stands_still_now_and_then_is_not():
    often = {"name": "markov", "mean_on_s": 0.1, "mean_off_s": 1e-3}  # 100 times
    for availability in (often, "always", {"name": "cyclic", "groups": 2, "rounds": 1}):
        plan(availability, participation={"interrupted": "resume"})
    plan(NOW_AND_THEN, participation={"interrupted": "drop"})
