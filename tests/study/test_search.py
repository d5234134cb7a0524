"""What is tried next: what each algorithm is searched over, in which batches, and by whom.

Samplers spread as is worked out by hand, are keyed by the seed, told in order, and resumed from
what is known.
"""

import sys
from importlib.util import find_spec

import numpy as np
import pytest

from rayfed.core.distribution import Distribution
from rayfed.core.errors import ScenarioError
from rayfed.study import Study
from rayfed.study.scenario.parts import ADAPTIVE, Sweep
from rayfed.study.search import Search, sampler

LOCAL = {"steps": 2, "batch": 4, "lr": 0.1}


def study(search, **changes):
    return Study.parse(
        {
            "name": "searched", "rounds": 2, "seeds": [3, 4],
            "problem": {"name": "least-squares", "dataset": {"name": "linear", "samples": 9}},
            "clients": {"count": 5},
            "algorithms": [
                {"name": "fedavg", "local": LOCAL},
                {"name": "fedexp", "label": "ours", "local": LOCAL},
                {"name": "gradient-descent"},
            ],
            "search": search,
        } | changes
    )  # fmt: skip


LR = {"log": [1e-3, 1]}


def test_each_algorithm_has_its_own_keys_and_those_of_the_study():
    search = Search(
        study({
            "algorithms.fedavg.local.lr": LR, "algorithms.ours.epsilon": LR,
            "algorithms.1.local.steps": {"int": [1, 3]}, "participation.cohort": {"int": [1, 5]},
        })
    )  # fmt: skip
    assert [list(space) for space in search.spaces] == [
        ["algorithms.0.local.lr", "participation.cohort"],
        ["algorithms.1.epsilon", "algorithms.1.local.steps", "participation.cohort"],
        ["participation.cohort"],
    ]


def test_a_trial_is_a_study_of_its_algorithm_alone():
    search = Search(study({"algorithms.*.local.lr": LR}, algorithms=[
        {"name": "fedavg", "local": LOCAL}, {"name": "fedexp", "local": LOCAL},
    ]))  # fmt: skip
    trials = search.propose()
    assert [(t.algorithm, t.number) for t in trials[18:22]] == [(0, 19), (0, 20), (1, 1), (1, 2)]
    assert [t.own for t in trials[:20]] == [t.own for t in trials[20:]]  # the same points for both
    trial = trials[20]
    made = search.study_of(trial)
    assert [a.name for a in made.algorithms] == ["fedexp"]
    assert made.algorithms[0].local.lr == trial.own["local.lr"]
    assert (made.search, made.sweep.trials, made.seeds) == ({}, 20, (3, 4))
    assert trial.setting == f"trial 1, lr={trial.own['local.lr']}"
    assert trial.folder(4) == f"fedexp-trial-1-lr={trial.own['local.lr']}-seed4"


def test_where_there_is_nothing_to_choose_there_is_one_trial():
    search = Search(study({"algorithms.fedavg.local.lr": LR}, sweep={"trials": 7}))
    assert search.trials == [7, 1, 1]
    assert search.runs == 9 * 2
    trials = search.propose()
    assert [t.setting for t in trials[7:]] == ["", ""]
    assert trials[7].folder(3) == "ours-seed3"
    assert search.propose() == []


@pytest.mark.parametrize(
    ("sweep", "sizes"),
    [
        ({"sampler": "random"}, [10]),
        ({"sampler": "latin"}, [10]),
        ({"sampler": "latin", "prune": True}, [4, 4, 2]),
        ({"sampler": "tpe"}, [4, 4, 2]),
    ],
)
def test_batches_are_for_those_who_learn(sweep, sizes):
    whole = study({"algorithms.0.local.lr": LR}, sweep={"trials": 10, "batch": 4} | sweep)
    search, found = Search(whole), []
    assert search.batches == len(sizes)
    while batch := search.propose():
        found.append([t for t in batch if t.algorithm == 0])
        search.tell(batch, [1.0] * len(batch))
    assert [len(batch) for batch in found] == sizes
    assert [t.number for batch in found for t in batch] == list(range(1, 11))


def test_what_was_tried_is_not_tried_again():
    few = {"algorithms.0.local.steps": {"choice": [1, 2]}}
    trials = Search(study(few, sweep={"trials": 5, "sampler": "random"})).propose()[:5]
    first = {}
    for trial in trials:
        value = trial.own["local.steps"]
        assert trial.same_as == (first.get(value))
        first.setdefault(value, trial.number)
    assert sum(trial.same_as is None for trial in trials) == len(first) <= 2


@pytest.mark.parametrize(
    ("search", "changes", "message"),
    [
        ({"algorithms.nobody.lr": LR}, {}, "^search.algorithms.nobody.lr: found 'nobody'"),
        ({"algorithms.0.local.lrr": LR}, {}, "^search.algorithms.0.local.lrr: unknown"),
        ({"algorithms.fedavg.local.lr": {"uniform": [-1, 1]}}, {},
         "^search.algorithms.fedavg.local.lr: "),
        ({"algorithms.*.local.batch": {"choice": [4, "some"]}}, {},
         r"^search.algorithms.\*.local.batch: "),
        ({"participation.cohort": {"int": [3, 6]}}, {}, "^search.participation.cohort: found 6"),
        ({"algorithms.0.local.lr": {"log": [0, 1]}}, {},
         r"^search: algorithms.0.local.lr.log: found \[0, 1\]"),
        ({"seeds": {"choice": [[1], [2]]}}, {}, "^search: found 'seeds', which is no setting"),
        ({"sweep.trials": {"int": [1, 2]}}, {}, "^search: found 'sweep.trials'"),
        ({"rounds": {"int": [1, 2]}}, {"grid": {"rounds": [1]}}, "^search: found a grid as well"),
        ({"rounds": {"int": [1, 2]}}, {"sweep": {"trials": 2000}}, "^sweep.trials: found 2,000"),
        ({"rounds": {"int": [1, 2]}}, {"sweep": {"sampler": "grid"}}, "^sweep.sampler: "),
        ({"rounds": {"beta": [1, 2]}}, {}, "^search"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_refused_before_anything_runs(search, changes, message):
    with pytest.raises(ScenarioError, match=message):
        Search(study(search, **changes))


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
        ("tpe", "optuna", r"'tpe' needs optuna; pip install 'optuna>=.*', or use latin"),
        ("gp", "torch", r"'gp' needs torch; pip install 'optuna>=.*' torch, or use latin"),
    ],
)
def test_what_is_not_installed_is_one_line(monkeypatch, name, package, message):
    if package == "torch":
        pytest.importorskip("optuna", reason="needs optuna")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ScenarioError, match="^sweep.sampler: " + message):
        made(name)
    assert len(made("latin").ask([None] * 3)) == 3
