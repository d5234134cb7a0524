"""The multilayer perceptron: a network small enough to do by hand, sizes, the start."""

from dataclasses import replace

import numpy as np
import pytest

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.datasets.base import Table
from rayfed.executors.serial import SerialExecutor
from rayfed.problems import MLP, SoftmaxRegression
from rayfed.problems.base import Batch, StepKey
from rayfed.runs.driver import Driver
from rayfed.solvers import SGD, Exponential
from rayfed.testing.toy import clients_of


def test_a_network_by_hand():
    # one input and the column of ones, two hidden units, two classes
    first = [[2.0, -1.0], [1.0, 0.5]]  # the second row is the bias
    second = [[1.0, 0.0], [0.0, 3.0], [0.0, np.log(3.0) + 7.0]]  # the third row is the bias
    x = np.concatenate([np.ravel(first), np.ravel(second)])[None]
    row = Batch(np.array([[[3.0, 1.0]]]), np.array([[0]]), np.ones((1, 1)), None)
    # hidden: relu(2*3 + 1) = 7, relu(-3 + 0.5) = 0; scores: 7 and log 3 + 7 -> 1/4 and 3/4
    problem = MLP(hidden=(2,))
    value, gradient = problem.value_and_gradient(x, row)
    np.testing.assert_allclose(value, [np.log(4.0)], rtol=1e-14)
    slope = np.array([-0.75, 0.75])
    hidden = np.array([slope @ second[0], 0.0])  # the second unit is off
    expected = [np.outer([3.0, 1.0], hidden), np.outer([7.0, 0.0, 1.0], slope)]
    np.testing.assert_allclose(
        gradient[0], np.concatenate([np.ravel(e) for e in expected]), rtol=1e-13
    )
    assert problem.predict(x, row.X).tolist() == [[1]]


def test_biases_are_the_last_row_of_each_layer():
    problem = MLP(hidden=(2, 3))
    p = problem.size(4, 2)
    assert p == 4 * 2 + (2 + 1) * 3 + (3 + 1) * 2
    assert problem.intercepts(4, p).tolist() == [6, 7, 14, 15, 16, 23, 24]
    assert MLP(hidden=(2, 3), intercept=False).size(4, 2) == 4 * 2 + 2 * 3 + 3 * 2


def test_the_start_has_the_spread_of_he_and_no_biases():
    problem = MLP(hidden=(200,))
    x = problem.initial("normal", 101, 50, Key(3, "init"))
    first, last = x[: 101 * 200].reshape(101, 200), x[101 * 200 :].reshape(201, 50)
    assert not first[-1].any()
    assert not last[-1].any()
    for weights, inputs in ((first[:-1], 100), (last[:-1], 200)):
        mean_square = np.mean(weights**2) * inputs / 2  # 1, with deviation sqrt(2 / count)
        assert abs(mean_square - 1) < 4 * np.sqrt(2 / weights.size)


def test_the_uniform_start_is_that_of_pytorch_biases_included():
    problem = MLP(hidden=(64, 30))
    p = problem.size(785, 10)
    reach = problem.reach(785, p)
    inputs = np.repeat([784, 64, 30], [785 * 64, 65 * 30, 31 * 10])
    np.testing.assert_allclose(reach, inputs**-0.5, rtol=1e-14)


def test_where_every_unit_is_on_the_network_is_linear():
    rng = np.random.default_rng(6)
    X, y = rng.random((1, 8, 3)), rng.integers(0, 4, (1, 8))
    rows = Batch(X, y, np.full((1, 8), 1 / 8), None)
    first, last = rng.random((3, 5)), rng.standard_normal((5, 4))
    x = np.concatenate([first.ravel(), last.ravel()])[None]
    network, linear = MLP(hidden=(5,), intercept=False), SoftmaxRegression(intercept=False)
    flat = (first @ last).T.reshape(1, -1)  # softmax regression holds its model class by class
    np.testing.assert_allclose(network.value(x, rows), linear.value(flat, rows), rtol=1e-13)
    np.testing.assert_array_equal(network.predict(x, X), linear.predict(flat, X))
    slope = linear.gradient(flat, rows).reshape(4, 3).T
    expected = np.concatenate([(slope @ last.T).ravel(), (first.T @ slope).ravel()])
    np.testing.assert_allclose(network.gradient(x, rows)[0], expected, rtol=1e-11, atol=1e-15)


def rows_for(clients, rows=6, features=4, classes=3):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((clients, rows, features))
    y = rng.integers(0, classes, (clients, rows))
    return Batch(X, y, np.full((clients, rows), 1 / rows), None)


def key_of(ids, **changed):
    place = {"seed": 1, "draw": 3, "ask": 0, "step": 2} | changed
    return StepKey(ids=np.asarray(ids), **place)


def test_dropout_takes_units_out_of_a_step_and_scales_the_others():
    problem, plain = MLP(hidden=(40,), dropout=0.25), MLP(hidden=(40,))
    rows, p = rows_for(1, rows=1), plain.size(4, 3)
    x = np.random.default_rng(5).standard_normal((1, p))
    key = key_of([7])
    kept = key.keep_mask(0.75, 1, 40, 0)[0, 0]
    assert 20 < kept.sum() < 40
    thinned = x.copy()  # no weight leads on from a unit that is dropped
    last = thinned[0, 4 * 40 :].reshape(41, 3)
    last[:40] *= kept[:, None] / 0.75
    value, gradient = problem.value_and_gradient(x, replace(rows, key=key))
    expected, slope = plain.value_and_gradient(thinned, rows)
    np.testing.assert_allclose(value, expected, rtol=1e-14)
    slope[0, 4 * 40 :].reshape(41, 3)[:40] *= kept[:, None] / 0.75  # the chain rule
    np.testing.assert_allclose(gradient, slope, rtol=1e-12, atol=1e-15)


def squares(z, which):
    return np.sum(z * z, axis=(1, 2)), 2 * z


@pytest.mark.parametrize("term", [None, squares])
def test_the_gradient_with_dropout_is_that_of_the_loss_with_the_same_units(term):
    problem = MLP(hidden=(6, 5), dropout=(0.0, 0.5))
    rows = replace(rows_for(2), key=key_of([3, 8]))
    x = np.random.default_rng(0).standard_normal((2, problem.size(4, 3)))

    def both(x):
        if term is None:
            return problem.value_and_gradient(x, rows)
        return problem.value_and_gradient_with(x, rows, term)

    _, gradient = both(x)
    for j in range(0, x.shape[1], 7):
        step = np.zeros_like(x)
        step[:, j] = 1e-6
        slope = (both(x + step)[0] - both(x - step)[0]) / 2e-6
        np.testing.assert_allclose(gradient[:, j], slope, rtol=1e-5, atol=1e-8)


def test_dropout_is_off_in_evaluations():
    rows, problem = rows_for(2), MLP(hidden=(6,), dropout=0.5)
    x = np.random.default_rng(0).standard_normal((2, problem.size(4, 3)))
    plain = MLP(hidden=(6,))
    assert problem.value(x, rows).tolist() == plain.value(x, rows).tolist()
    assert problem.gradient(x, rows).tolist() == plain.gradient(x, rows).tolist()


def test_the_units_of_a_client_depend_on_no_other_client_and_on_no_later_row():
    whole = key_of([3, 8, 5]).keep_mask(0.5, 6, 7, 1)
    assert whole[1].tolist() == key_of([8]).keep_mask(0.5, 6, 7, 1)[0].tolist()
    assert whole[:, :4].tolist() == key_of([3, 8, 5]).keep_mask(0.5, 4, 7, 1).tolist()
    for changed in ({"seed": 2}, {"draw": 4}, {"ask": 1}, {"step": 3}, {"stream": 1}):
        assert (key_of([3, 8, 5], **changed).keep_mask(0.5, 6, 7, 1) != whole).any()
    assert (key_of([3, 8, 5]).keep_mask(0.5, 6, 7, 0) != whole).any()
    share = key_of(np.arange(100)).keep_mask(0.3, 10, 20, 0).mean()
    assert abs(share - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 20_000)


def large(kind):
    """A perceptron with a large first, second or last layer, and its number of columns."""
    hidden, features = {
        "first": ((220,), 300), "second": ((260, 260), 20), "both": ((220, 300), 300),
    }[kind]  # fmt: skip
    return MLP(hidden=hidden), features


def uneven(K, features, rows=9, dtype=np.float64):
    """Rows of K clients, the last of which are padding for all clients but the first."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((K, rows, features))
    X[:, :, -1] = 1.0
    w = rng.random((K, rows))
    w[1:, -4:] = 0.0
    return Batch(X.astype(dtype), rng.integers(0, 3, (K, rows)), w.astype(dtype), None)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("kind", ["first", "second", "both"])
@pytest.mark.parametrize(("dtype", "close"), [(np.float64, 1e-14), (np.float32, 5e-7)])
def test_a_step_in_place_is_that_along_the_gradient(kind, dropout, dtype, close):
    problem, features = large(kind)
    problem, rows = replace(problem, dropout=dropout), uneven(3, features, dtype=dtype)
    if dropout:
        rows = replace(rows, key=key_of([4, 0, 9]))
    p = problem.size(features, 3)
    x = (0.1 * np.random.default_rng(1).standard_normal((3, p))).astype(dtype)
    value, gradient = problem.value_and_gradient(x, rows)
    moved = x.copy()
    assert problem.descend(moved, rows, 0.3).tolist() == value.tolist()
    assert np.abs(0.3 * gradient).max() > 0.01
    np.testing.assert_allclose(moved, x - 0.3 * gradient, rtol=0, atol=close)


@pytest.mark.parametrize("kind", ["first", "second", "both"])
def test_a_step_in_place_of_a_client_has_the_same_bits_alone(kind):
    problem, features = large(kind)
    rows = uneven(3, features, dtype=np.float32)
    x = np.random.default_rng(1).standard_normal((3, problem.size(features, 3)), np.float32)
    together = x.copy()
    problem.descend(together, rows, 0.3)
    for k in range(3):
        one = slice(k, k + 1)
        alone = x[one].copy()
        problem.descend(alone, Batch(rows.X[one], rows.y[one], rows.w[one], None), 0.3)
        assert alone.tobytes() == together[one].tobytes()


def test_small_layers_and_l2_take_no_steps_in_place():
    (problem, features), small = large("first"), MLP(hidden=(200,))
    ridge = replace(uneven(2, features), ridge=np.full((2, 1), 0.1))
    for made, rows in ((problem, ridge), (small, uneven(2, features))):
        x = np.ones((2, made.size(features, 3)))
        assert made.descend(x, rows, 0.3) is None
        assert (x == 1).all()


class Doubled(MLP):
    """Another gradient."""

    def data_value_and_gradient(self, x, batch):
        value, gradient = super().data_value_and_gradient(x, batch)
        return 2 * value, 2 * gradient


class Halved(MLP):
    """Another gradient, by what writes it."""

    def _backward(self, x, activations, slope, out, *given, **named):
        super()._backward(x, activations, slope, out, *given, **named)
        out *= 0.5


class Longer(SGD):
    """Other steps."""

    def direction(self, g, pull, kept, step):
        return 2 * super().direction(g, pull, kept, step)


@pytest.mark.parametrize(
    ("in_place", "settings"),
    [
        (True, {}), (True, {"lr": Exponential(), "sampling": "shuffle"}),
        (False, {"momentum": 0.5}), (False, {"mu": 0.1}), (False, {"weight_decay": 0.1}),
        (False, {"clip_norm": 0.5}), (False, {"batch": "full"}),
    ],
)  # fmt: skip
def test_plain_steps_on_minibatches_are_taken_in_place(in_place, settings, monkeypatch):
    assert steps_in_place(large("first")[0], SGD(steps=3, **settings), monkeypatch) is in_place


def test_full_gradients_with_dropout_are_those_of_a_minibatch_of_all_rows(monkeypatch):
    problem = replace(large("first")[0], dropout=0.3)
    assert steps_in_place(problem, SGD(steps=3, batch="full"), monkeypatch)


def test_what_computes_otherwise_takes_no_steps_in_place(monkeypatch):
    problem, _ = large("first")
    for changed in (Doubled, Halved):
        assert not steps_in_place(changed(hidden=problem.hidden), SGD(steps=3), monkeypatch)
    assert not steps_in_place(problem, Longer(steps=3), monkeypatch)
    assert not steps_in_place(problem, SGD(steps=3), monkeypatch, correction=0.01)


def steps_in_place(problem, solver, monkeypatch, correction=None):
    """Return whether steps were in place, after comparing with those along gradients."""
    rng = np.random.default_rng(0)
    owner = np.repeat([0, 1, 2], [40, 7, 35])
    X = rng.standard_normal((len(owner), 300))
    table = Table(X, rng.integers(0, 3, len(owner)), classes=3, client=owner)
    clients = clients_of(table, problem, solver=solver, steps=[3, 1, 2])
    x = problem.initial("normal", clients.shards.features, 3, Key(0, "init"))
    if correction is not None:
        correction = np.full((3, len(x)), correction)
    taken, descend = [], MLP.descend
    with monkeypatch.context() as patched:
        patched.setattr(MLP, "descend", lambda *given: taken.append(0) or descend(*given))
        found = clients.solve(x, correction=correction)
    with monkeypatch.context() as patched:
        patched.setattr(MLP, "descend", lambda *given: None)
        expected = clients.solve(x, correction=correction)
    np.testing.assert_allclose(found.x, expected.x, rtol=0, atol=1e-13)
    np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-13)
    assert np.abs(found.x - x).max() > 1e-3
    assert not taken or len(taken) == 3
    return bool(taken)


def test_a_list_of_another_length_than_that_of_the_layers_is_refused():
    with pytest.raises(ScenarioError, match=r"^dropout: found 1 for 2 hidden layers"):
        MLP(hidden=(6, 5), dropout=(0.5,))


@pytest.mark.parametrize("batch", [4, "full"])
def test_bits_with_dropout_do_not_depend_on_the_stack(batch, tmp_path, assert_same):
    made = {
        "rounds": 3, "clients": {"count": 5}, "executor": "serial",
        "problem": {"name": "mlp", "hidden": [5], "dropout": 0.5, "dataset": "synthetic"},
        "algorithms": [{"name": "fedavg", "local": {"steps": 3, "batch": batch, "lr": 0.1}}],
    }  # fmt: skip
    for folder, dropout, block in (("five", 0.5, 5), ("one", 0.5, 1), ("none", 0.0, 5)):
        made["problem"]["dropout"] = dropout
        plan = api.prepare(api.read(made))
        (run,) = plan.runs
        executor = SerialExecutor(plan.tables)
        Driver(replace(run, block=block), tmp_path / folder, executor).execute()
    assert_same(tmp_path / "five", tmp_path / "one")
    with pytest.raises(AssertionError):
        assert_same(tmp_path / "five", tmp_path / "none")
