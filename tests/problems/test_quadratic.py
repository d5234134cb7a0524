"""Quadratics by hand, and the numbers of the published recipe."""

import numpy as np
import pytest

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.datasets import Quadratics
from rayfed.problems import Quadratic
from rayfed.problems.base import Batch

STUDY = {
    "rounds": 1,
    "evaluate": {"gap": True},
    "problem": {"name": "quadratic", "dataset": {"name": "quadratic", "seed": 2}},
    "clients": {"count": 30},
    "algorithms": ["fedavg"],
    "executor": "serial",
}


def test_two_clients_by_hand():
    """h = 2, e = (2, 4): least at (1, 2); h = 4, e = (0, 8): least at (0, 2)."""
    e, h = np.array([[[2.0, 4.0]], [[0.0, 8.0]]]), np.array([[2.0], [4.0]])
    batch = Batch(e, h, np.ones((2, 1)), None)
    value, gradient = Quadratic().value_and_gradient(np.array([[3.0, 2.0]]), batch)
    assert value.tolist() == [4.0, 18.0]
    assert gradient.tolist() == [[4.0, 0.0], [12.0, 0.0]]
    assert Quadratic().value(np.array([[1.0, 2.0], [0.0, 2.0]]), batch).tolist() == [0.0, 0.0]
    assert Quadratic().hessian(np.zeros((1, 2)), batch)[1].tolist() == [[4.0, 0.0], [0.0, 4.0]]


def test_an_intercept_is_refused_in_one_line():
    problem = STUDY["problem"] | {"intercept": True}
    with pytest.raises(ScenarioError, match="a quadratic has none; leave it out"):
        api.read(STUDY | {"problem": problem})


@pytest.fixture(scope="module")
def table():
    return Quadratics(seed=2).load(None, 0)


def test_the_recipe_gives_the_published_curvatures(table):
    assert table.y.min() == pytest.approx(0.27531, abs=5e-6)
    assert table.y.max() == pytest.approx(8.61073, abs=5e-6)
    assert table.mass.sum() == pytest.approx(1, abs=1e-15)
    assert table.mass @ table.y == pytest.approx(4.158384, abs=5e-7)


def test_the_published_optimum_is_that_of_the_study(table):
    (run,) = api.prepare(api.read(STUDY)).runs
    assert run.measuring.optimum.value == pytest.approx(2255.7401, abs=5e-5)
    best = (table.mass @ table.X) / (table.mass @ table.y)
    assert best == pytest.approx([12.2702, 9.0502, 11.8897, 10.8750, 10.3948], abs=6e-5)


def test_a_study_starts_from_the_model_of_the_data_unless_it_names_another():
    plan = api.prepare(api.read(STUDY))
    x = plan.runs[0].training.x0
    table = Quadratics(seed=2).load(None, 0)
    squares = ((x - table.X / table.y[:, None]) ** 2).sum(axis=1)
    assert table.mass @ (table.y / 2 * squares) - 2255.7401 == pytest.approx(3.981e4, rel=2e-4)
    zeros = STUDY["problem"] | {"init": "zeros"}
    assert not api.prepare(api.read(STUDY | {"problem": zeros})).runs[0].training.x0.any()


def test_the_data_say_what_a_client_counts_for(table):
    """Rows are one for each client, so the loss of a model can only come from the masses."""
    plan = api.prepare(api.read(STUDY))
    shards = plan.runs[0].federation.views.training.shards
    ids = np.array([7, 0, 29])
    assert shards.sizes(ids).tolist() == [1, 1, 1]
    np.testing.assert_array_equal(shards.mass(ids), table.mass[ids])


def test_without_masses_a_client_counts_for_its_rows(mixed):
    (run,) = api.prepare(api.read(mixed())).runs
    shards, ids = run.federation.views.training.shards, np.arange(13)
    np.testing.assert_array_equal(shards.mass(ids), shards.sizes(ids))


def test_clients_that_count_for_different_amounts_cannot_be_pooled():
    with pytest.raises(ScenarioError, match="weights the rows of clients unequally"):
        api.prepare(api.read(STUDY | {"algorithms": ["centralised"]}))
