"""Local solvers: identities worked out by hand, and bits that ignore neighbours."""

from dataclasses import dataclass, replace
from typing import Annotated, get_args, get_type_hints

import numpy as np
import pytest
from annotated_types import Ge, Gt, Interval

from rayfed.clients import Clients
from rayfed.core.errors import ScenarioError
from rayfed.problems import MLP, LeastSquares, SoftmaxRegression
from rayfed.problems.objective import Objective
from rayfed.solvers import SGD, Adagrad, Adam, Exponential, Local, Step, base, block, override

SIZES = np.array([5, 9, 3, 7, 9, 1, 6])


@dataclass(frozen=True)
class Rows:
    """The rows of every client, one array each."""

    X: list
    y: list
    classes: int = 0

    @property
    def dtype(self):
        return self.X[0].dtype

    @property
    def version(self):
        return id(self)

    def sizes(self, ids, part="train"):
        return np.array([len(self.y[i]) for i in ids])

    def widths(self, ids, part="train"):
        return np.full(len(ids), max(len(y) for y in self.y))

    def rows(self, ids, width, part="train"):
        X = np.zeros((len(ids), width, self.X[0].shape[1]), self.dtype)
        y = np.zeros((len(ids), width), self.y[0].dtype)
        for k, i in enumerate(ids):
            X[k, : len(self.y[i])], y[k, : len(self.y[i])] = self.X[i], self.y[i]
        return X, y

    def take(self, ids, index):
        X = [self.X[i][at] for i, at in zip(ids, index, strict=True)]
        return np.stack(X), np.stack([self.y[i][at] for i, at in zip(ids, index, strict=True)])


def clients(shards, solver, problem=None, ids=None, steps=None, round=1):
    problem = problem or LeastSquares(intercept=False)
    ids = np.arange(len(shards.y)) if ids is None else np.asarray(ids)
    sizes, features = shards.sizes(ids), shards.X[0].shape[1]
    total = sum(len(y) for y in shards.y)
    return Clients(
        problem=problem,
        objective=Objective(problem, clients=len(shards.y), samples=total, features=features),
        shards=shards,
        solver=solver,
        ids=ids,
        sizes=sizes,
        steps=solver.step_counts(sizes) if steps is None else np.asarray(steps),
        seed=4,
        round=round,
        ask=0,
        p=problem.size(features, shards.classes),
    )


def line():
    """Return one client with F(x) = (x - 6)^2 / 2: the gradient is x - 6."""
    return Rows([np.array([[1.0]])], [np.array([6.0])])


def many(dtype=np.float64, classes=0, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.standard_normal((n, 3)).astype(dtype) for n in SIZES]
    if classes:
        return Rows(X, [rng.integers(0, classes, n) for n in SIZES], classes)
    return Rows(X, [rng.standard_normal(n).astype(dtype) for n in SIZES])


def descend(solver, start, **kwargs):
    """Return where the solver ends on the line, from `start`."""
    return clients(line(), solver, **kwargs).solve(np.array([start])).x.item()


def test_one_full_step_is_a_gradient_step_and_reports_the_loss_before_it():
    some = clients(many(), SGD(steps=1, batch="full", lr=0.3), LeastSquares(l2=0.1))
    x = np.random.default_rng(1).standard_normal((7, 3))
    local = some.solve(x)
    assert isinstance(local, Local)
    np.testing.assert_allclose(local.x, x - 0.3 * some.gradient(x), rtol=1e-15)
    np.testing.assert_allclose(local.loss, some.value(x), rtol=1e-15)
    assert local.loss.dtype == np.float64


def test_steps_contract_the_line_by_one_minus_lr():
    # x - 6 shrinks by 1/2 in each of three steps: 2, 4, 5, 5.5
    local = clients(line(), SGD(steps=3, batch="full", lr=0.5)).solve(np.array([2.0]))
    assert local.x.item() == 5.5
    assert local.loss.item() == pytest.approx((4**2 + 2**2 + 1**2) / 2 / 3, rel=1e-15)


def test_momentum_follows_its_recursion():
    # gradient x - 6 from 2: m = -4, x = 4; m = -2 - 2 = -4, x = 6; m = -2, x = 7
    assert descend(SGD(steps=3, batch="full", lr=0.5, momentum=0.5), 2.0) == 7.0


def test_the_proximal_term_pulls_to_the_start_of_the_round():
    # x - 6 + (x - 2): from 2, -4 -> 4; then -2 + 2 = 0 and it stays
    assert descend(SGD(steps=5, batch="full", lr=0.5, mu=1.0), 2.0) == 4.0


def test_the_proximal_term_stays_outside_the_momentum_buffer():
    # m = -4, x = 4; m = -2 - 2 = -4, x = 4 - (-4 + 2) / 2 = 5
    assert descend(SGD(steps=2, batch="full", lr=0.5, momentum=0.5, mu=1.0), 2.0) == 5.0


def test_coefficients_of_the_gradients_have_the_published_norms():
    """Where the gradient is always -1, (x - x0) / lr is the normaliser of FedNova.

    The values for 7 steps are those of the FedNova paper's closed forms (rho = 0.9; lr 0.1,
    mu 0.5); both together follow s <- (1 - lr mu) s + c, c <- rho c + 1.
    """
    flat = Rows([np.array([[0.0]])], [np.array([0.0])])
    push = np.array([[-1.0]])

    def norm(**settings):
        some = clients(flat, SGD(steps=7, batch="full", lr=0.1, **settings))
        return some.solve(np.array([3.0]), correction=push).x.item() - 3.0

    assert norm() / 0.1 == pytest.approx(7, rel=1e-12)
    assert norm(momentum=0.9) / 0.1 == pytest.approx(23.04672, abs=1e-5)
    assert norm(mu=0.5) / 0.1 == pytest.approx(6.033254, abs=1e-6)
    for both in ({}, {"momentum": 0.9}, {"mu": 0.5}, {"momentum": 0.9, "mu": 0.5}):
        known = SGD(lr=0.1, **both).normaliser(np.array([7]), round=1)
        assert norm(**both) / 0.1 == pytest.approx(known.item(), rel=1e-12)


def test_clipping_comes_before_weight_decay_and_correction():
    # gradient -4 is clipped to -1; then + 0.5 * 2 and + 3: 2 - 0.5 * 3 = 0.5
    solver = SGD(steps=1, batch="full", lr=0.5, clip_norm=1.0, weight_decay=0.5)
    local = clients(line(), solver).solve(np.array([2.0]), correction=np.array([[3.0]]))
    assert local.x.item() == 0.5


def test_clipping_spares_short_and_zero_gradients():
    solver = SGD(steps=1, batch="full", lr=0.5, clip_norm=4.0)
    assert descend(solver, 2.0) == 4.0
    assert descend(solver, 6.0) == 6.0
    assert descend(solver, -6.0) == -4.0


def test_clipping_uses_each_clients_own_norm():
    rows = Rows([np.eye(2), np.eye(2)], [np.array([6.0, 8.0]), np.array([0.6, 0.8])])
    problem = LeastSquares(intercept=False, divide_by="none")
    local = clients(rows, SGD(steps=1, batch="full", lr=1.0, clip_norm=5.0), problem)
    np.testing.assert_allclose(local.solve(np.zeros(2)).x, [[3.0, 4.0], [0.6, 0.8]], rtol=1e-15)


def test_the_step_decays_from_round_to_round():
    solver = SGD(steps=1, batch="full", lr=Exponential(start=0.5, factor=0.5))
    assert [descend(solver, 2.0, round=r) for r in (1, 2, 3)] == [4.0, 3.0, 2.5]


def test_the_step_follows_a_schedule():
    solver = SGD(steps=1, batch="full", lr=Step(start=0.5, factor=0.5, rounds=(2,)))
    assert [solver.rate(r) for r in (1, 2, 3)] == [0.5, 0.25, 0.25]
    assert [descend(solver, 2.0, round=r) for r in (1, 2, 3)] == [4.0, 3.0, 3.0]


def test_minibatch_steps_follow_the_rows_that_were_drawn():
    data = many()
    some = clients(data, SGD(steps=4, batch=2, lr=0.2, sampling="shuffle"), ids=[1])
    drawn = []

    class Spy(Rows):
        def take(self, ids, index):
            drawn.append(index[0])
            return super().take(ids, index)

    spied = replace(some, shards=Spy(data.X, data.y))
    found = spied.solve(np.zeros(3)).x[0]
    x = np.zeros(3)
    for rows in drawn:
        A, b = data.X[1][rows], data.y[1][rows]
        x = x - 0.2 * A.T @ (A @ x - b) / 2
    assert len(set(np.concatenate(drawn))) == 8  # 4 steps of 2 of the 9 rows
    np.testing.assert_allclose(found, x, rtol=1e-13)


def test_a_shuffled_batch_of_all_rows_is_the_full_batch():
    data = many()
    some = clients(data, SGD(epochs=1, batch=9, lr=0.1, sampling="shuffle"))
    full = clients(data, SGD(steps=1, batch="full", lr=0.1))
    assert some.steps.tolist() == [1] * 7
    x = np.ones(3)
    np.testing.assert_allclose(some.solve(x).x, full.solve(x).x, rtol=1e-13)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [10, 10, 10]),
        ({"steps": 3}, [3, 3, 3]),
        ({"epochs": 2, "batch": 10}, [2, 6, 60]),
        ({"epochs": 0.1, "batch": 10}, [1, 1, 3]),
        ({"epochs": 1.1, "batch": 6}, [3, 5, 55]),
        ({"epochs": 2, "batch": "full"}, [2, 2, 2]),
        ({"time_s": 0.3}, [3, 1, 1]),
    ],
)
def test_budgets(settings, expected):
    speed = np.array([0.1, 0.2, 4.0])
    steps = SGD(**settings).step_counts(np.array([7, 21, 300]), speed)
    assert steps.dtype == np.int64
    assert steps.tolist() == expected


def test_impossible_budgets_are_one_clear_line():
    with pytest.raises(ScenarioError, match=r"^local: found steps and epochs; give one"):
        SGD(steps=1, epochs=1)
    with pytest.raises(ScenarioError, match=r"^local.time_s: no seconds per step are known"):
        SGD(time_s=1.0).step_counts(np.array([3]))
    with pytest.raises(ScenarioError, match=r"^local.time_s: a step takes no time"):
        SGD(time_s=1.0).step_counts(np.array([3, 3]), np.array([0.5, 0.0]))


def test_another_way_to_say_how_long_replaces_the_first():
    assert override({"epochs": 1, "lr": 0.1}, {"time_s": 2}) == {"lr": 0.1, "time_s": 2}
    assert override({"epochs": 1, "lr": 0.1}, {"lr": 0.2}) == {"epochs": 1, "lr": 0.2}


def test_bounds_of_the_settings_travel_as_annotations():
    hints = get_type_hints(SGD, include_extras=True)
    assert get_args(hints["lr"])[0] == Annotated[float, Gt(0)]
    assert get_args(hints["mu"]) == (float, Ge(0))
    assert get_args(hints["momentum"]) == (float, Interval(ge=0, lt=1))


SOLVERS = {
    "full": SGD(batch="full", lr=0.2),
    "minibatch": SGD(batch=4, lr=0.2),
    "shuffle": SGD(batch=4, lr=0.2, sampling="shuffle"),
    "everything": SGD(
        batch=4,
        lr=Exponential(start=0.2, factor=0.9),
        momentum=0.9,
        mu=0.1,
        weight_decay=0.01,
        clip_norm=0.5,
    ),
    "adam": Adam(batch=4, lr=0.1, mu=0.1, weight_decay=0.01),
    "adagrad": Adagrad(batch="full", lr=0.1, mu=0.1),
}
PROBLEMS = {
    "least squares": (LeastSquares(intercept=False, l2=0.01), 0),
    "softmax": (SoftmaxRegression(regularise_intercept=False, l2=0.01), 3),
    "mlp": (MLP(hidden=(4,)), 3),
}
UNEQUAL = np.array([3, 6, 6, 1, 2, 6, 5])


@pytest.mark.parametrize("steps", [np.full(7, 5), UNEQUAL], ids=["equal", "unequal"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_client_alone_has_the_bits_it_has_among_others(solver, problem, dtype, steps):
    problem, classes = PROBLEMS[problem]
    data = many(dtype, classes)
    together = clients(data, SOLVERS[solver], problem, steps=steps, round=2)
    rng = np.random.default_rng(2)
    x = rng.standard_normal((7, together.p)).astype(dtype)
    correction = 0.1 * rng.standard_normal((7, together.p)).astype(dtype)
    before = x.copy()
    local = together.solve(x, correction=correction)
    np.testing.assert_array_equal(x, before)
    assert local.x.dtype == dtype
    assert (local.x != x).any(axis=1).all()
    for k in range(7):
        one = slice(k, k + 1)
        alone = clients(data, SOLVERS[solver], problem, ids=[k], steps=steps[one], round=2)
        single = alone.solve(x[one], correction=correction[one])
        np.testing.assert_array_equal(single.x[0], local.x[k])
        assert single.loss[0] == local.loss[k]


def test_a_shared_start_is_not_written_to_and_has_the_bits_of_copies():
    some = clients(many(), SGD(steps=3, batch=2, mu=0.1))
    x = np.ones(3)
    x.flags.writeable = False
    np.testing.assert_array_equal(some.solve(x).x, some.solve(np.ones((7, 3))).x)


@pytest.mark.parametrize("batch", [2, "full"])
def test_a_model_of_double_precision_is_trained_in_the_precision_of_the_data(batch):
    solver = SGD(steps=3, batch=batch, momentum=0.5, mu=0.1, clip_norm=1.0)
    some = clients(many(np.float32), solver)
    x = np.full(3, 1 / 3)
    local = some.solve(x, correction=np.zeros((7, 3)))
    assert local.x.dtype == np.float32
    np.testing.assert_array_equal(local.x, some.solve(x.astype(np.float32)).x)
    alone = clients(many(np.float32), some.solver, ids=[3])
    np.testing.assert_array_equal(alone.solve(x, correction=np.zeros((1, 3))).x[0], local.x[3])


def test_the_rows_of_a_full_batch_are_gathered_once():
    calls = []

    class Counting(Rows):
        def rows(self, ids, width, part="train"):
            calls.append(len(ids))
            return super().rows(ids, width, part)

    data = many()
    clients(Counting(data.X, data.y), SGD(batch="full"), steps=UNEQUAL).solve(np.zeros(3))
    assert calls == [7]


def test_a_solver_needs_no_clients_and_no_data():
    # F(x) = x^2 / 2 and x^2: a step of 1/2 halves the first model and takes the second to 0
    def oracle(x):
        bend = np.array([1.0, 2.0])[: len(x), None]
        return (bend * x * x / 2)[:, 0], bend * x

    local = SGD(lr=0.5).run(
        [(2, oracle), (1, oracle)], np.array([[8.0], [4.0]]), np.array([2, 1]), round=1
    )
    assert local.x.tolist() == [[2.0], [0.0]]
    assert local.loss.tolist() == [(32 + 8) / 2, 16.0]


def test_after_every_step_its_models_are_told_by_whom():
    told = []
    some = clients(many(), SGD(batch="full", lr=0.1), ids=[0, 1], steps=[1, 2])
    local = some.solve(np.zeros(3), after_step=lambda x, who: told.append((x.copy(), who.tolist())))
    assert [who for _, who in told] == [[1, 0], [1]]  # who takes more steps comes first
    first = -0.1 * some.gradient(np.zeros(3))
    np.testing.assert_allclose(told[0][0], first[[1, 0]], rtol=1e-15)
    np.testing.assert_array_equal(told[1][0][0], local.x[1])
    np.testing.assert_array_equal(told[0][0][1], local.x[0])


def test_a_diverging_client_warns_nobody():
    some = clients(line(), SGD(steps=2000, batch="full", lr=1e6))
    with np.errstate(all="raise"):
        local = some.solve(np.array([2.0]))
    assert not np.isfinite(local.loss).any()


@pytest.mark.parametrize(
    ("own", "share", "mlp", "softmax"),
    [(2**20, 2**24, 5, 12), (2**20, 2**22, 2, 12), (2**21, 2**21, 4, 25), (2**18, 2**23, 5, 5)],
)
def test_blocks_fit_the_caches_and_small_problems_go_in_one_piece(
    own, share, mlp, softmax, monkeypatch
):
    monkeypatch.setattr(base, "CACHE", 2 * own)
    monkeypatch.setattr(base, "SHARE", share)
    assert block(LeastSquares(), 30, 0, rows=50, itemsize=8) >= 2 * own // 14_000
    # 2 x 7840 + 32 (784 + 20) numbers, 166 KB; and 2 x 101,770 + 32 (785 + 20), 917 KB
    assert block(SoftmaxRegression(), 784, 10, rows=32, itemsize=4) == softmax
    assert block(MLP(hidden=(128,)), 785, 10, rows=32, itemsize=4) == mlp
    assert block(MLP(hidden=(4096,)), 785, 10, rows=32, itemsize=4) == 1  # 3 million parameters
