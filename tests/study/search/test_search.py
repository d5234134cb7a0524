"""Trials: what each algorithm is searched over, in which batches, and what is refused."""

import pytest

from rayfed.core.errors import ScenarioError
from rayfed.study import Study
from rayfed.study.search.search import Search

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
        ({"rounds": {"int": [1, 2]}}, {"grid": {"rounds": [1]}}, "^search: found a grid beside it"),
        ({"rounds": {"int": [1, 2]}}, {"sweep": {"trials": 2000}}, "^sweep.trials: found 2,000"),
        ({"rounds": {"int": [1, 2]}}, {"sweep": {"sampler": "grid"}}, "^sweep.sampler: "),
        ({"rounds": {"beta": [1, 2]}}, {}, "^search"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_refused_before_anything_runs(search, changes, message):
    with pytest.raises(ScenarioError, match=message):
        Search(study(search, **changes))
