"""Schedules, by hand; and how a scenario gives them."""

import math

import pytest

from rayfed.core.errors import ScenarioError
from rayfed.solvers import SGD, ConstantRate, Cosine, Decay, Step
from rayfed.study import Study


def test_constant():
    assert [ConstantRate(start=0.3).at(r) for r in (1, 2, 900)] == [0.3, 0.3, 0.3]


def test_step_is_ten_times_smaller_from_round_50_and_again_from_75():
    step = Step(start=0.02, factor=0.1, rounds=(50, 75))
    found = [step.at(r) for r in (1, 49, 50, 74, 75, 100)]
    assert found == pytest.approx([0.02, 0.02, 0.002, 0.002, 0.0002, 0.0002], rel=1e-12)


def test_decay_with_the_root():
    decay = Decay(start=1.0, rate=3.0, power=0.5)
    assert [decay.at(r) for r in (1, 2, 6)] == [1.0, 0.5, 0.25]


def test_cosine_falls_along_half_a_wave_and_begins_anew():
    cosine = Cosine(start=1.0, end=0.2, rounds=6)
    halves = [(1 + math.cos(math.pi * k / 6)) / 2 for k in range(6)]
    assert [cosine.at(r) for r in range(1, 7)] == pytest.approx([0.2 + 0.8 * h for h in halves])
    assert cosine.at(4) == pytest.approx(0.6)
    assert cosine.at(7) == 1.0


def test_no_schedule_is_ever_zero():
    falling = (Cosine(start=1.0, rounds=5), Decay(), Step(rounds=(2, 3)))
    assert all(schedule.at(r) > 0 for schedule in falling for r in range(1, 30))


def study(lr):
    return Study.parse(
        {
            "rounds": 1,
            "problem": {"name": "least-squares", "dataset": "line"},
            "clients": {"count": 3},
            "algorithms": [{"name": "fedavg", "local": {"lr": lr}}],
        }
    )


def test_a_scenario_names_a_schedule_in_place_of_a_number():
    read = study({"name": "step", "start": 0.05, "rounds": [300, 600]})
    assert read.algorithms[0].local == SGD(lr=Step(start=0.05, rounds=(300, 600)))
    assert Study.parse(read.to_dict()) == read
    assert study(0.3).algorithms[0].local.rate(9) == 0.3


@pytest.mark.parametrize(
    ("lr", "line"),
    [
        ({"name": "cosin", "rounds": 3}, r"unknown schedule 'cosin'; did you mean 'cosine'"),
        ({"name": "cosine"}, r"^algorithms.0.local.lr.rounds: is missing; give it"),
        ({"name": "step", "rounds": [5, 3]}, r"found \[5, 3\]; give each round once, in asc"),
        ({"name": "cosine", "rounds": 3, "end": 1}, "found 1; "),
        (-0.1, r"^algorithms.0.local.lr: found -0.1; it should be greater than 0"),
    ],
)
def test_bad_schedules_are_one_clear_line(lr, line):
    with pytest.raises(ScenarioError, match=line):
        study(lr)
