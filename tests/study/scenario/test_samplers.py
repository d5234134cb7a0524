"""Samplers: spread by hand, keyed by the seed, and told in order."""

import sys

import numpy as np
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.study.scenario.distributions import Distribution
from rayfed.study.scenario.samplers import sampler

SPACE = {
    "lr": Distribution("uniform", (0.0, 1.0)),
    "momentum": Distribution("uniform", (0.0, 1.0)),
    "steps": Distribution("int", (1, 5)),
    "how": Distribution("choice", ({"name": "a"}, None)),
}
NAMES = ["random", "latin", "tpe"]


def walk(made, trials, batch, score):
    """Return all proposals, in batches, each told what `score` makes of it."""
    found = []
    while len(found) < trials:
        proposed = made.ask(min(batch, trials - len(found)))
        made.tell([score(values) for values in proposed])
        found += proposed
    return found


def distance(values):
    return abs(values["lr"] - 0.3) + abs(values["steps"] - 2)


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_fixes_all_proposals(name):
    first, again, other = (
        walk(sampler(name, SPACE, 14, seed), 14, 4, distance) for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other
    assert len(first) == 14  # the last batch is a short one
    assert {str(values["how"]) for values in first} == {"{'name': 'a'}", "None"}
    assert {type(values["steps"]) for values in first} == {int}


def test_a_latin_hypercube_has_one_point_in_every_stripe_of_every_key():
    points = sampler("latin", SPACE, 20, 0).ask(20)
    for key in ("lr", "momentum"):
        stripes = np.floor(20 * np.array([values[key] for values in points]) + 1e-9)
        assert len(set(np.clip(stripes, 0, 19))) >= 19  # but for rounding to four digits
    steps = np.bincount([values["steps"] for values in points], minlength=6)
    assert steps.tolist() == [0, 4, 4, 4, 4, 4]


def test_more_random_trials_begin_with_the_same():
    few, many = (sampler("random", SPACE, n, 0).ask(n) for n in (5, 9))
    assert many[:5] == few


def test_tpe_comes_closer_than_chance():
    close = [
        np.mean([distance(v) for v in walk(sampler(name, SPACE, 40, 1), 40, 4, distance)[20:]])
        for name in ("random", "tpe")
    ]
    assert close[1] < 0.7 * close[0]


def test_tpe_learns_from_failures_too():
    def score(values):
        return np.inf if values["lr"] > 0.5 else 1.0

    found = walk(sampler("tpe", SPACE, 40, 1), 40, 4, score)
    early, late = (np.mean([v["lr"] > 0.5 for v in part]) for part in (found[:10], found[20:]))
    assert late < early


def test_tpe_depends_on_the_order_of_what_it_is_told():
    first, other = (sampler("tpe", SPACE, 24, 1) for _ in range(2))
    first.ask(12), other.ask(12)
    scores = list(range(12))
    first.tell(scores)
    other.tell(scores[::-1])
    assert first.ask(1) != other.ask(1)


def test_without_optuna_that_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ScenarioError, match=r"^sweep.sampler: 'tpe' needs Optuna; pip install"):
        sampler("tpe", SPACE, 4, 0)
