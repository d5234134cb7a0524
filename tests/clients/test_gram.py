"""Which clients work by their Gram matrix, and what that needs."""

from dataclasses import replace

import numpy as np
import pytest

from rayfed import api
from rayfed.clients import Clients, gram
from rayfed.clients.gram import covers, fewest_steps
from rayfed.clients.stacks import Grams
from rayfed.datasets.base import Table
from rayfed.problems import MLP, LeastSquares, LogisticRegression, SoftmaxRegression
from rayfed.runs.serial import SerialStudy
from rayfed.solvers import SGD, Adam
from rayfed.testing.toy import clients_of, toy_scenario

RNG = np.random.default_rng(0)


class Sign(SGD):
    """Steps along signs."""

    def direction(self, g, pull, cache, step):
        return np.sign(super().direction(g, pull, cache, step))


class Noisy(LogisticRegression):
    """Adds a term that is not of the scores."""

    def data_value_and_gradient(self, x, batch):
        value, gradient = super().data_value_and_gradient(x, batch)
        return value + x.sum(axis=1), gradient + 1


class Hinge(LogisticRegression):
    """Another loss of the score."""

    def losses(self, z, y):
        margin = 1 - (2 * y - 1) * z
        return np.maximum(margin, 0), np.where(margin > 0, 1.0 - 2 * y, 0.0)


def test_long_steps_on_few_rows_are_taken_by_the_gram_matrix():
    # b d c: a step reads 32 rows of 784 for 10 classes, or 60 x 60 inner products
    assert fewest_steps(60, 32, 784, 10) <= 10
    assert fewest_steps(60, 60, 784, 10) < fewest_steps(60, 32, 784, 10)
    assert fewest_steps(60, 32, 784, 10, 2) > fewest_steps(60, 32, 784, 10, 1)
    # more rows than columns, or than a matrix of inner products may have
    assert fewest_steps(50, 50, 30, 1) is None
    assert fewest_steps(600, 600, 5000, 10) is None
    # minibatches so small that inner products with all rows are dearer
    assert fewest_steps(300, 8, 784, 10) is None


def test_solvers_and_problems_that_change_what_is_computed_are_not_covered():
    for problem in (LeastSquares(), LogisticRegression(), SoftmaxRegression(l2=0.1), Hinge()):
        assert covers(SGD(momentum=0.9, clip_norm=1.0), problem)
        assert not covers(Adam(), problem)
        assert not covers(Sign(), problem)
    assert not covers(SGD(), Noisy())
    assert not covers(SGD(), LogisticRegression(l2=0.1, regularise_intercept=False))
    assert MLP().linear_scores(10) is None


def count_kinds(monkeypatch):
    """Return a set that comes to hold the ways of taking local steps that are used from now on."""
    kinds, run, make = set(), Clients._oracles, Clients._solve_by_gram

    def noted(kind, call):
        return lambda *given: kinds.add(kind) or call(*given)

    monkeypatch.setattr(Clients, "_oracles", noted("direct", run))
    monkeypatch.setattr(Clients, "_solve_by_gram", noted("gram", make))
    return kinds


def clients(steps, **settings):
    """Return five clients with 6 rows of 300 columns."""
    table = Table(RNG.standard_normal((30, 300)), RNG.integers(0, 2, 30), 2)
    table = replace(table, client=np.repeat(np.arange(5), 6))
    solver = SGD(batch=4, lr=0.1, **settings)
    return clients_of(table, LogisticRegression(), solver=solver, steps=steps)


def test_each_clients_own_steps_decide(monkeypatch):
    some = clients(np.array([2, 90, 3, 90, 90]))
    monkeypatch.setattr(gram, "fewest_steps", lambda *sizes: 4)
    x = RNG.standard_normal((5, some.p))
    local, kinds = some.solve(x), count_kinds(monkeypatch)
    for k, kind in enumerate(["direct", "gram", "direct", "gram", "gram"]):
        kinds.clear()
        np.testing.assert_array_equal(some.only(k).solve(x[k]).x[0], local.x[k])
        assert kinds == {kind}


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("classes", [2, 30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_client_has_the_same_bits_in_every_stack(rows, classes, dtype, monkeypatch):
    rng = np.random.default_rng(1)
    table = Table(rng.standard_normal((5 * rows, 60)), rng.integers(0, classes, 5 * rows), classes)
    table = replace(table, client=np.repeat(np.arange(5), rows))
    problem = SoftmaxRegression() if classes > 2 else LogisticRegression()
    solver = SGD(batch=4, lr=0.1, mu=0.1, clip_norm=1.0)
    steps = np.array([7, 9, 7, 8, 7])  # the last steps are of one client alone
    some = clients_of(table, problem, solver=solver, steps=steps, dtype=dtype)
    x = rng.standard_normal((5, some.p))
    monkeypatch.setattr(gram, "FEWEST_NUMBERS", 1)
    monkeypatch.setattr(gram, "fewest_steps", lambda *sizes: 1)
    kinds = count_kinds(monkeypatch)
    together = some.solve(x)
    assert kinds == {"gram"}
    for which in ([0], [1], [2, 3], [4, 1, 0]):
        few = some.chosen(np.array(which)).solve(x[which])
        np.testing.assert_array_equal(few.x, together.x[which])
        np.testing.assert_array_equal(few.loss, together.loss[which])


def test_gradients_that_stand_for_others_and_watched_steps_are_taken_directly():
    some, seen = clients(np.full(5, 90)), []
    x = np.zeros(some.p)
    some.solve(x, after_step=lambda now, index: seen.append(now.shape))
    assert seen == [(5, some.p)] * 90
    local = some.solve(x, gradient=lambda now, batches, index: (now[:, 0], np.ones_like(now)))
    np.testing.assert_allclose(local.x, -9.0)


def test_large_stacks_take_direct_steps_in_pieces_to_the_same_bits():
    some = clients(np.array([3, 1, 4, 1, 5]))
    x = RNG.standard_normal((5, some.p))
    target, last = RNG.standard_normal((5, some.p)), np.zeros((2, 5, some.p))

    def solved(some, last):
        def gradient(now, batches, index):
            loss, g = some.problem.value_and_gradient(now, batches[0])
            return loss, g + now - target[index]

        def follow(now, index):
            last[index] = now

        return some.solve(x, gradient=gradient, after_step=follow, correction=0.1 * x)

    whole, pieces = solved(some, last[0]), solved(replace(some, block=2), last[1])
    np.testing.assert_array_equal(pieces.x, whole.x)
    np.testing.assert_array_equal(pieces.loss, whole.loss)
    np.testing.assert_array_equal(last[0], whole.x)
    np.testing.assert_array_equal(last[1], whole.x)


def test_matrices_are_kept_within_their_bound_and_by_version():
    X = RNG.standard_normal((3, 4, 7))
    grams, ids = Grams(limit=2 * 4 * 4 * 8), np.array([5, 2, 9])
    expected = X @ X.swapaxes(1, 2)
    np.testing.assert_array_equal(grams.of("v", ids, X), expected)
    assert grams.cache.keys == [("v", 2), ("v", 9)]
    grams.of("v", ids[1:2], X[1:2])
    np.testing.assert_array_equal(grams.of("v", ids, X), expected)
    assert grams.cache.bytes == 2 * 4 * 4 * 8
    # what is held is used, whatever rows come with it; rows of another version are others
    np.testing.assert_array_equal(grams.of("v", ids[2:], 0 * X[2:]), expected[2:])
    assert not grams.of("w", ids[2:], 0 * X[2:]).any()
    assert grams.cache.bytes <= grams.cache.limit


@pytest.mark.parametrize("name", ["scaffold", "fedprox"])
def test_stacks_do_not_change_the_bytes_of_a_run(name, tmp_path, monkeypatch, assert_same):
    data = {"name": "synthetic", "features": 60, "samples": 10, "seed": 0}
    problem = {"name": "softmax-regression", "dataset": data, "l2": 1e-3}
    algorithm = {"name": name, "local": {"steps": 20, "batch": 6, "clip_norm": 2.0}}
    made = toy_scenario(algorithm, problem=problem, rounds=4, partition=None)
    plan = api.prepare(api.read(made))
    kinds = count_kinds(monkeypatch)
    for block in (1, 3, 100):
        runs = [replace(run, block=block) for run in plan.runs]
        out = SerialStudy(tmp_path / str(block)).execute(runs, plan.tables, False, print)
        assert set(out.values()) == {"finished"}
    assert kinds == {"gram"}
    assert_same(tmp_path / "1", tmp_path / "3")
    assert_same(tmp_path / "1", tmp_path / "100")
