"""Samplers: spread by hand, keyed by the seed, told in order, and resumed from what is known."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.study.scenario.distributions import Distribution
from rayfed.study.scenario.sweep import ADAPTIVE, Sweep
from rayfed.study.search.samplers import sampler

SPACE = {
    "lr": Distribution("log", (1e-3, 1.0)),
    "momentum": Distribution("uniform", (0.0, 1.0)),
    "steps": Distribution("int", (1, 5)),
    "how": Distribution("choice", ({"name": "a"}, None)),
}
MISSING = {"gp": "torch", "cmaes": "cmaes"}
LEARN = [
    pytest.param(name, marks=[pytest.mark.slow] * (name == "gp"))
    for name in ADAPTIVE
    if find_spec(MISSING.get(name, "optuna"))
]
NAMES = ["random", "latin", *LEARN]


def made(name, trials=20, seed=0, batch=4, space=SPACE):
    return sampler(Sweep(sampler=name, trials=trials, batch=batch), space, seed)


def walk(made, trials, batch, score, known=()):
    """Return all proposals, in batches, each told what `score` makes of it."""
    known = [*known, *[None] * (trials - len(known))]
    found = []
    while len(found) < trials:
        proposed = made.ask(known[len(found) : len(found) + batch])
        made.tell([score(values) for values in proposed])
        found += proposed
    return found


def distance(values):
    return abs(np.log10(values["lr"]) + 1) + abs(values["steps"] - 2)


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_fixes_all_proposals(name):
    first, again, other = (walk(made(name, 14, seed), 14, 4, distance) for seed in (3, 3, 4))
    assert first == again
    assert first != other
    assert len(first) == 14  # the last batch is a short one
    assert {str(values["how"]) for values in first} == {"{'name': 'a'}", "None"}
    assert {type(values["steps"]) for values in first} == {int}


@pytest.mark.parametrize("batch", [3, 4])
@pytest.mark.parametrize("name", NAMES)
def test_known_trials_take_their_places_and_change_nothing(name, batch):
    """After a kill: of whole batches, within one, and of a lost one between others."""
    whole = walk(made(name, 18, batch=batch), 18, batch, distance)
    for n in (2 * batch, 2 * batch + 1, 17):
        assert walk(made(name, 18, batch=batch), 18, batch, distance, whole[:n]) == whole
    holes = [values if k % 4 else None for k, values in enumerate(whole)]
    assert walk(made(name, 18, batch=batch), 18, batch, distance, holes) == whole


@pytest.mark.parametrize("name", NAMES)
def test_what_is_known_is_taken_as_it_is(name):
    own = [{"lr": 0.125, "momentum": 0.5, "steps": 3, "how": {"name": "a"}}] * 3
    assert walk(made(name, 6), 6, 2, distance, own)[:3] == own


def test_proposals_have_few_digits():
    for values in walk(made("tpe", 30), 30, 10, distance):
        assert values["lr"] == float(f"{values['lr']:.4g}")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("key", list(SPACE))
def test_one_key_is_enough(name, key):
    space = {key: SPACE[key]}
    found = walk(made(name, 12, space=space), 12, 4, lambda values: len(str(values)))
    assert [list(values) for values in found] == [[key]] * 12


def test_a_latin_hypercube_has_one_point_in_every_stripe_of_every_key():
    points = made("latin").ask([None] * 20)
    for key, places in (("lr", lambda lr: 1 + np.log10(lr) / 3), ("momentum", np.asarray)):
        stripes = np.floor(20 * places([values[key] for values in points]) + 1e-9)
        assert len(set(np.clip(stripes, 0, 19))) >= 19  # but for rounding to four digits
    steps = np.bincount([values["steps"] for values in points], minlength=6)
    assert steps.tolist() == [0, 4, 4, 4, 4, 4]


def test_more_random_trials_begin_with_the_same():
    few, many = (made("random", n).ask([None] * n) for n in (5, 9))
    assert many[:5] == few


@pytest.mark.parametrize("name", LEARN)
def test_what_learns_comes_closer_than_chance(name):
    close = {
        each: np.mean(
            [
                distance(values)
                for seed in range(3)
                for values in walk(made(each, 40, seed), 40, 4, distance)[20:]
            ]
        )
        for each in ("random", name)
    }
    assert close[name] < 0.8 * close["random"]


@pytest.mark.parametrize("name", LEARN)
def test_failures_are_learned_from_too(name):
    def score(values):
        return np.inf if values["momentum"] > 0.5 else values["momentum"]

    found = walk(made(name, 40, 1), 40, 4, score)
    early, late = (
        np.mean([v["momentum"] > 0.5 for v in part]) for part in (found[:10], found[20:])
    )
    assert late < early


def test_tpe_depends_on_the_order_of_what_it_is_told():
    first, other = (made("tpe", 24, 1) for _ in range(2))
    first.ask([None] * 12), other.ask([None] * 12)
    scores = list(range(12))
    first.tell(scores)
    other.tell(scores[::-1])
    assert first.ask([None]) != other.ask([None])


@pytest.mark.parametrize(
    ("name", "package", "message"),
    [
        ("tpe", "optuna", r"'tpe' needs optuna; pip install 'rayfed\[optuna\]', or use latin"),
        ("gp", "torch", r"'gp' needs torch; pip install 'rayfed\[optuna\]' torch, or use latin"),
    ],
)
def test_what_is_not_installed_is_one_line(monkeypatch, name, package, message):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ScenarioError, match="^sweep.sampler: " + message):
        made(name)
    assert len(made("latin").ask([None] * 3)) == 3
