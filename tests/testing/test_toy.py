"""Toy problems: the clients are those that were asked for, and a run that fails says why."""

import numpy as np
import pytest

from rayfed.algorithms import FedAvg
from rayfed.core.errors import ScenarioError
from rayfed.datasets.base import Table
from rayfed.problems import SoftmaxRegression
from rayfed.solvers import SGD
from rayfed.testing import clients_of, points, tiny_run


def test_points_have_their_minimisers():
    clients = points([0.0, 4.0, -1.0])
    x = np.array([2.0])
    assert clients.value(x).tolist() == [2.0, 2.0, 4.5]
    assert clients.gradient(x).ravel().tolist() == [2.0, -2.0, 3.0]
    assert clients.hessian(x).ravel().tolist() == [1.0, 1.0, 1.0]


def test_a_local_step_of_points_by_hand():
    local = points([0.0, 4.0], solver=SGD(steps=2, batch="full", lr=0.5)).solve(np.array([8.0]))
    assert local.x.ravel().tolist() == [2.0, 5.0]  # 8 -> 4 -> 2, and 8 -> 6 -> 5


def test_clients_of_a_table_have_its_rows():
    table = Table(np.eye(3), np.array([0, 2, 1]), classes=3, client=np.array([1, 1, 0]))
    clients = clients_of(table, SoftmaxRegression(), ids=[1], state={"memory": [7.0]})
    assert clients.sizes.tolist() == [2]
    assert clients.data.X[0].tolist() == [[1, 0, 0, 1], [0, 1, 0, 1]]
    assert clients.data.y.tolist() == [[0, 2]]
    assert clients.state["memory"].tolist() == [[7.0]]


def test_a_table_without_clients_is_refused():
    with pytest.raises(ValueError, match="names no clients"):
        clients_of(Table(np.eye(2), np.zeros(2)), SoftmaxRegression())


def test_a_tiny_run_takes_values_and_records_every_round(tmp_path):
    result = tiny_run(tmp_path, FedAvg(server_lr=0.5), rounds=3)
    assert result.rounds["round"].tolist() == [0, 1, 2, 3]
    assert result.rounds.loss.iloc[-1] < result.rounds.loss.iloc[0]


class Broken(FedAvg):
    """Fails at the client."""

    name = "broken"

    def train(self, clients, x):
        raise ZeroDivisionError("by zero, on purpose")


def test_a_run_that_fails_says_why(tmp_path):
    with pytest.raises(AssertionError, match=r"broken-seed0 failed.*client"):
        tiny_run(tmp_path, Broken(), rounds=1)


def test_a_wrong_scenario_is_refused(tmp_path):
    with pytest.raises(ScenarioError):
        tiny_run(tmp_path, "fedagv")
