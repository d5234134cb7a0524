"""The normalisations, by hand: clients with 1, 2 and 5 rows."""

from dataclasses import replace

import numpy as np
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.problems import LeastSquares
from rayfed.problems.objective import Objective

SIZES = np.array([1, 2, 5])


def objective(**settings):
    return Objective(LeastSquares(**settings), clients=3, samples=8, features=2)


@pytest.mark.parametrize(
    ("divide_by", "expected"),
    [("samples", [1, 1 / 2, 1 / 5]), ("all-samples", [1 / 8] * 3), ("none", [1, 1, 1])],
)
def test_a_row_weighs_one_over_the_divisor(divide_by, expected):
    assert objective(divide_by=divide_by).per_row(SIZES).tolist() == expected


@pytest.mark.parametrize(
    ("l2_per", "expected"),
    [("client", [6, 6, 6]), ("population", [2, 2, 2]), ("sample", [6, 3, 6 / 5])],
)
def test_l2_is_per_client_population_or_sample(l2_per, expected):
    assert objective(l2=6.0, l2_per=l2_per).ridge(SIZES, 2).ravel().tolist() == expected


def test_relative_weights_have_mean_one():
    assert objective().relative(SIZES.astype(float)).tolist() == [3 / 8, 6 / 8, 15 / 8]
    for weighting in ("uniform", "sum"):
        assert objective(weighting=weighting).relative(SIZES.astype(float)).tolist() == [1, 1, 1]
    heavy = replace(objective(), mass=10.0)
    assert heavy.relative(np.array([1.0, 4.0, 5.0])).tolist() == pytest.approx([0.3, 1.2, 1.5])


def test_no_l2_is_none_and_intercepts_can_be_spared():
    assert objective().ridge(SIZES, 2) is None
    spared = objective(l2=6.0, l2_per="sample", regularise_intercept=False)
    assert spared.ridge(SIZES, 2).tolist() == [[6, 0], [3, 0], [6 / 5, 0]]
    without = objective(l2=6.0, regularise_intercept=False, intercept=False)
    assert without.ridge(SIZES, 2).tolist() == [[6], [6], [6]]


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [("size", [1 / 8, 2 / 8, 5 / 8]), ("uniform", [1 / 3] * 3), ("sum", [1, 1, 1])],
)
def test_weights_over_their_normaliser_are_those_of_the_global_objective(weighting, expected):
    one = objective(weighting=weighting)
    weights = one.weights(SIZES)
    found = weights / one.normaliser(float(weights.sum()), 3)
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_a_sum_over_some_clients_is_scaled_to_all():
    assert objective(weighting="sum").normaliser(2.0, clients=2) == 2 / 3
    assert objective(weighting="size").normaliser(7.0, clients=2) == 7.0


@pytest.mark.parametrize(
    ("settings", "row", "l2"),
    [
        ({"l2": 6.0}, 1 / 8, 6.0),
        ({"l2": 6.0, "l2_per": "sample"}, 1 / 8, 6.0 * 3 / 8),  # sum_i (n_i/n) (l2/n_i)
        ({"l2": 6.0, "divide_by": "none", "weighting": "sum"}, 1.0, 18.0),
        ({"divide_by": "all-samples", "weighting": "uniform"}, 1 / 24, 0.0),
    ],
)
def test_pooled_rows_and_l2_weigh_what_they_weigh_in_the_global_objective(settings, row, l2):
    pooled = objective(**settings).centralised(SIZES)
    np.testing.assert_allclose(pooled.per_row(np.array([8])), [row], rtol=1e-15)
    assert pooled.problem.l2 == pytest.approx(l2, rel=1e-15)
    assert pooled.problem.l2_per == "client"


def test_rows_that_weigh_differently_cannot_be_pooled():
    with pytest.raises(ScenarioError, match="'uniform' with divide_by 'samples'"):
        objective(weighting="uniform").centralised(SIZES)
