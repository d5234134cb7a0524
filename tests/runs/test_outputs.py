"""What a run says at its end of the rounds that it had."""

import numpy as np
import pandas as pd
import pytest

from rayfed import api
from rayfed.runs import outputs
from rayfed.testing.toy import tiny_run, toy_scenario


def said(tmp_path, *algorithms, **changes):
    return tiny_run(tmp_path / "out", *algorithms, **changes).warnings


def test_rounds_without_replies_are_a_warning(tmp_path):
    """A step takes 1 s: replies of round 1 come at 3 s, and the deadline is at 2 s."""
    local = {"name": "fedavg", "local": {"steps": 3, "batch": 1}}
    clients = {"count": 3, "delay": {"name": "constant", "mean_s": 1.0}}
    (line,) = said(tmp_path, local, clients=clients, rounds=3, participation={"deadline_s": 2.0})
    assert line.startswith("3 of 3 rounds used no reply: ")
    assert "participation.deadline_s" in line
    assert said(tmp_path, local, clients=clients, rounds=3, participation={"deadline_s": 4.0}) == ()


@pytest.mark.parametrize(
    ("empty", "rounds", "warned"),
    [(1, 9, False), (2, 9, True), (2, 20, False), (3, 20, True), (1, 1, True), (0, 0, False)],
)
def test_a_tenth_of_the_rounds_may_be_empty(empty, rounds, warned):
    lines = outputs._empty(np.repeat([0, 2], [empty, rounds - empty]))
    assert lines == ([f"{empty} of {rounds} rounds used no reply: {outputs.WHY_EMPTY}"] * warned)


@pytest.mark.parametrize(("loss", "warned"), [(0.8, False), (0.9, True), (np.nan, False)])
def test_a_loss_worse_than_that_of_guessing_is_a_warning(loss, warned):
    """Of two classes it is 0.693; a last row without an evaluation counts by the one before."""
    study = toy_scenario("fedavg", problem={"name": "logistic-regression", "dataset": "mushroom"})
    (run,) = api.prepare(api.read(study)).runs
    lines = outputs._guessing(run, np.array([0.5, loss, np.nan]))
    assert bool(lines) == warned
    if warned:
        assert lines[0].startswith(
            "the loss ended at 0.9, that of guessing among 2 classes is 0.69"
        )
    (other,) = api.prepare(api.read(toy_scenario("fedavg"))).runs  # least squares
    assert outputs._guessing(other, np.array([16.0])) == []


def test_features_that_are_large_are_said_before_the_run_and_after_it(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 2)) * [1.0, 300.0]
    table = pd.DataFrame(rows, columns=["age", "income"]).assign(y=(rows[:, 0] > 0).astype(int))
    table.to_csv(tmp_path / "rows.csv", index=False)
    problem = {"name": "logistic-regression", "dataset": str(tmp_path / "rows.csv"), "target": "y"}
    local = {"steps": 5, "batch": 4, "lr": 1.0}
    study = {"problem": problem, "partition": {"name": "iid"}}
    scale, guess = said(tmp_path, {"name": "fedavg", "local": local}, **study)
    assert scale.startswith("1 of 2 features are larger than 20, feature 'income' most (")
    assert guess.startswith("the loss ended at ")
