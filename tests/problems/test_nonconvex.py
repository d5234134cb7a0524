"""The nonconvex regulariser of linear models, by hand and by differences."""

from dataclasses import replace

import numpy as np
import pytest

from rayfed.clients.gram import fewest
from rayfed.core.plugins import find
from rayfed.datasets.base import Table
from rayfed.problems import nonconvex
from rayfed.problems.objective import Objective
from rayfed.solvers import SGD
from rayfed.testing import clients_of
from rayfed.testing.checks.problems import KERNELS, case_of, differences

LINEAR = {
    name: cls for name, cls in find("problems").items() if issubclass(cls, nonconvex.Regularised)
}


def test_the_term_and_its_derivatives_by_hand():
    x = np.array([[1.0, 0.0, -2.0], [3.0, 0.5, 0.0]])
    np.testing.assert_allclose(
        nonconvex.total(x, np.ones(3)), [1 / 2 + 4 / 5, 9 / 10 + 1 / 5], rtol=1e-15
    )
    np.testing.assert_allclose(nonconvex.slope(x)[0], [2 / 4, 0, -4 / 25], rtol=1e-15)
    np.testing.assert_allclose(nonconvex.second(x)[0], [-4 / 8, 2, -22 / 125], rtol=1e-15)


def test_no_curvature_is_outside_of_its_bounds():
    found = nonconvex.second(np.linspace(-9, 9, 100_001)[None])
    assert found.min() == pytest.approx(nonconvex.LEAST_CURVATURE, abs=1e-7)
    assert found.max() == nonconvex.LARGEST_CURVATURE


@pytest.mark.parametrize("regularise", [True, False])
@pytest.mark.parametrize("cls", LINEAR.values(), ids=LINEAR)
def test_it_is_added_to_every_objective_and_spares_intercepts_if_asked(cls, regularise):
    without = case_of(cls(l2=0.3, regularise_intercept=regularise))
    case = replace(without, problem=replace(without.problem, nonconvex=0.7))
    spared = [] if regularise else without.problem.intercepts(4, case.x.shape[1])
    counted = np.delete(case.x, spared, axis=1)
    assert counted.shape[1] < case.x.shape[1] or regularise
    more = KERNELS["value"](case) - KERNELS["value"](without)
    np.testing.assert_allclose(more, 0.7 * (counted**2 / (1 + counted**2)).sum(1), rtol=1e-12)
    for kernel, derivative in [("value", "gradient"), ("gradient", "hessian")]:
        expected = differences(KERNELS[kernel], case)
        np.testing.assert_allclose(KERNELS[derivative](case), expected, atol=3e-8)
    product = (KERNELS["hessian"](case) @ case.v[:, :, None])[:, :, 0]
    np.testing.assert_allclose(KERNELS["hvp"](case), product, rtol=1e-10, atol=1e-12)
    value, gradient = case.problem.value_and_gradient(case.x, case.batch)
    np.testing.assert_allclose(value, KERNELS["value"](case), rtol=1e-14)
    np.testing.assert_array_equal(gradient, KERNELS["gradient"](case))
    near = case.problem.near(np.zeros_like(case.x), case.batch)(case.x)
    np.testing.assert_allclose(near[1], gradient, rtol=1e-12)
    low, high = case.problem.curvature(case.batch)
    eigenvalues = np.linalg.eigvalsh(KERNELS["hessian"](case))
    assert (eigenvalues[:, 0] >= low).all()
    assert (eigenvalues[:, -1] <= high).all()
    assert (case.problem.smoothness(case.batch) <= high * (1 + 1e-9)).all()


@pytest.mark.parametrize("kernel", ["value", "gradient", "hessian", "hvp"])
@pytest.mark.parametrize("cls", LINEAR.values(), ids=LINEAR)
def test_a_client_alone_has_the_bits_it_has_in_a_stack(cls, kernel):
    case = case_of(cls(nonconvex=0.7), np.float32)
    stacked = KERNELS[kernel](case)
    assert stacked.dtype == np.float32
    for k in range(len(case.x)):
        np.testing.assert_array_equal(KERNELS[kernel](case.alone(k))[0], stacked[k])


@pytest.mark.parametrize("cls", LINEAR.values(), ids=LINEAR)
def test_local_steps_leave_the_span_of_the_rows(cls):
    table = Table(np.ones((6, 300)), np.arange(6.0) % 2, classes=2, client=np.arange(6) % 2)
    shards = clients_of(table, cls()).shards
    assert fewest(SGD(batch="full"), cls(), shards, 0, 301) is not None
    assert fewest(SGD(batch="full"), cls(nonconvex=0.1), shards, 0, 301) is None


@pytest.mark.parametrize(("weighting", "expected"), [("size", 0.5), ("sum", 1.5)])
def test_all_rows_at_one_client_have_the_term_of_all(weighting, expected):
    problem = find("problems")["least-squares"](
        nonconvex=0.5, weighting=weighting, divide_by="all-samples"
    )
    if weighting == "size":
        problem = replace(problem, divide_by="samples")
    objective = Objective(problem, clients=3, samples=8, features=2)
    assert objective.centralised(np.array([1, 2, 5])).problem.nonconvex == pytest.approx(expected)


@pytest.mark.parametrize("cls", LINEAR.values(), ids=LINEAR)
def test_scores_of_held_out_rows_are_without_it(cls):
    case = case_of(cls(l2=0.0))
    more = replace(case.problem, nonconvex=0.7)
    assert (KERNELS["value"](replace(case, problem=more)) > KERNELS["value"](case)).all()
    np.testing.assert_array_equal(
        more.scored(case.x, case.batch).loss, case.problem.scored(case.x, case.batch).loss
    )


def test_a_minimiser_is_not_searched():
    problem = find("problems")["logistic-regression"]()
    assert problem.has_optimum
    assert not replace(problem, nonconvex=0.1).has_optimum
