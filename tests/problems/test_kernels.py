"""Every problem found: derivatives against finite differences, and bits that ignore K."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from rayfed.core import plugins
from rayfed.core.errors import RayfedError
from rayfed.core.needs import HESSIANS
from rayfed.core.rng import Key
from rayfed.problems.base import Batch
from rayfed.problems.objective import Objective

FOUND = {
    name: cls
    for name, cls in plugins.find("problems").items()
    # kernels of networks take tensors, which the contract tests convert; own code has none
    if name != "network" and cls.task != "own"
}
SMALL = {"mlp": {"hidden": (4, 3)}}
CLASSES = {"regression": 0, "binary": 2, "multiclass": 3}
D = 4  # features and the column of ones
WIDTH = 6
SIZES = np.array([6, 3, 1, 5, 6, 2, 4])  # shorter clients are padded
H = 1e-5


@dataclass
class Case:
    problem: object
    batch: Batch
    x: np.ndarray
    v: np.ndarray

    def alone(self, k, *, shared=False):
        """Return the case of client k alone, at its own x or at that of client 0."""
        b = self.batch
        at = slice(0, 1) if shared else slice(k, k + 1)
        one = slice(k, k + 1)
        ridge = None if b.ridge is None else b.ridge[one].copy()
        batch = Batch(b.X[one].copy(), b.y[one].copy(), b.w[one].copy(), ridge)
        return Case(self.problem, batch, self.x[at].copy(), self.v[at].copy())


def case(name, dtype=np.float64, **settings):
    problem = FOUND[name](**{"l2": 0.3, **SMALL.get(name, {}), **settings})
    classes = CLASSES[problem.task]
    problem = problem.bound((D - problem.intercept,), classes, Key(0, "init"))
    p = problem.size(D, classes)
    rng = np.random.default_rng(5)
    K = len(SIZES)
    real = np.arange(WIDTH) < SIZES[:, None]
    X = rng.standard_normal((K, WIDTH, D))
    X[:, :, -1] = 1.0 if problem.intercept else X[:, :, -1]
    X = (X * real[:, :, None]).astype(dtype)
    y = rng.integers(0, classes, (K, WIDTH)) if classes else rng.standard_normal((K, WIDTH))
    y = y * real if classes else (y * real).astype(dtype)
    objective = Objective(problem, clients=K, samples=int(SIZES.sum()), features=D)
    w = real * objective.per_row(SIZES)[:, None]
    ridge = objective.ridge(SIZES, p)
    ridge = None if ridge is None else ridge.astype(dtype)
    x, v = rng.standard_normal((2, K, p)).astype(dtype)
    return Case(problem, Batch(X, y, w.astype(dtype), ridge), x, v)


KERNELS = {
    "value": lambda c: c.problem.value(c.x, c.batch),
    "gradient": lambda c: c.problem.gradient(c.x, c.batch),
    "both: value": lambda c: c.problem.value_and_gradient(c.x, c.batch)[0],
    "both: gradient": lambda c: c.problem.value_and_gradient(c.x, c.batch)[1],
    "near": lambda c: c.problem.near(np.zeros_like(c.x), c.batch)(c.x)[1],
    "predict": lambda c: c.problem.predict(c.x, c.batch.X),
    "hessian": lambda c: c.problem.hessian(c.x, c.batch),
    "hvp": lambda c: c.problem.hvp(c.x, c.v, c.batch),
}
SECOND_ORDER = ("hessian", "hvp")
SECOND = [n for n in FOUND if HESSIANS in FOUND[n].gives]
HAVE = [(n, k) for n in FOUND for k in KERNELS if n in SECOND or k not in SECOND_ORDER]
DRAWN = [n for n, cls in FOUND.items() if "normal" in cls.starts]
INTERCEPTED = [n for n, cls in FOUND.items() if cls.intercept]
NORMALISATIONS = [
    {},
    {"l2": 0.0},
    {"intercept": False},
    {"regularise_intercept": False},
    {"divide_by": "all-samples", "l2_per": "population", "weighting": "sum"},
    {"divide_by": "none", "l2_per": "sample"},
]


def differences(f, x):
    """Return the central differences of f (K, ...) by each coordinate of x, as last axis."""
    columns = [(f(x + H * e) - f(x - H * e)) / (2 * H) for e in np.eye(x.shape[1])]
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("settings", NORMALISATIONS, ids=str)
@pytest.mark.parametrize("name", FOUND)
def test_gradient_is_that_of_the_value(name, settings):
    c = case(name, **settings)
    expected = differences(lambda x: c.problem.value(x, c.batch), c.x)
    np.testing.assert_allclose(c.problem.gradient(c.x, c.batch), expected, atol=2e-8)


@pytest.mark.parametrize("settings", NORMALISATIONS, ids=str)
@pytest.mark.parametrize("name", SECOND)
def test_hessian_is_that_of_the_gradient(name, settings):
    c = case(name, **settings)
    hessian = c.problem.hessian(c.x, c.batch)
    expected = differences(lambda x: c.problem.gradient(x, c.batch), c.x)
    np.testing.assert_allclose(hessian, expected, atol=2e-8)
    np.testing.assert_array_equal(hessian, hessian.swapaxes(1, 2))


@pytest.mark.parametrize("settings", NORMALISATIONS, ids=str)
@pytest.mark.parametrize("name", SECOND)
def test_hvp_is_the_derivative_of_the_gradient_along_v(name, settings):
    c = case(name, **settings)
    ahead = c.problem.gradient(c.x + H * c.v, c.batch)
    behind = c.problem.gradient(c.x - H * c.v, c.batch)
    product = c.problem.hvp(c.x, c.v, c.batch)
    np.testing.assert_allclose(product, (ahead - behind) / (2 * H), atol=5e-8)


@pytest.mark.parametrize("name", sorted(FOUND.keys() - SECOND))
def test_a_missing_hessian_is_one_clear_line(name):
    c = case(name)
    with pytest.raises(RayfedError, match=f"'{name}' has no Hessian; choose"):
        c.problem.hessian(c.x, c.batch)
    with pytest.raises(RayfedError, match=f"'{name}' has no Hessian; choose"):
        c.problem.hvp(c.x, c.v, c.batch)


@pytest.mark.parametrize("name", FOUND)
def test_value_and_gradient_agree_with_each_alone(name):
    c = case(name)
    value, gradient = c.problem.value_and_gradient(c.x, c.batch)
    np.testing.assert_allclose(value, c.problem.value(c.x, c.batch), rtol=1e-14)
    np.testing.assert_array_equal(gradient, c.problem.gradient(c.x, c.batch))


@pytest.mark.parametrize("name", [n for n in FOUND if case(n).problem.curvature(case(n).batch)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e2])
def test_no_hessian_is_curved_less_or_more_than_its_bounds(name, scale):
    c = case(name)
    low, high = c.problem.curvature(c.batch)
    eigenvalues = np.linalg.eigvalsh(c.problem.hessian(scale * c.x, c.batch))
    slack = 1e-12 * np.abs(high)
    assert (eigenvalues[:, 0] >= low - slack).all()
    assert (eigenvalues[:, -1] <= high + slack).all()
    if name in ("least-squares", "quadratic"):  # there they are the eigenvalues
        np.testing.assert_allclose(eigenvalues[:, 0], low, rtol=1e-10)
        np.testing.assert_allclose(eigenvalues[:, -1], high, rtol=1e-10)


@pytest.mark.parametrize("name", INTERCEPTED)
def test_l2_adds_half_the_squared_norm_and_spares_intercepts_if_asked(name):
    without, everywhere = case(name, l2=0.0), case(name)
    spared = case(name, regularise_intercept=False)
    x, p = without.x, without.x.shape[1]
    plain = without.problem.value(x, without.batch)
    ridge = everywhere.problem.value(x, everywhere.batch) - plain
    np.testing.assert_allclose(ridge, 0.15 * (x**2).sum(axis=1), rtol=1e-12)
    weights = np.setdiff1d(np.arange(p), spared.problem.intercepts(D, p))
    assert 0 < len(weights) < p
    partly = spared.problem.value(x, spared.batch) - plain
    np.testing.assert_allclose(partly, 0.15 * (x[:, weights] ** 2).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("name", INTERCEPTED)
def test_intercepts_are_what_the_problem_without_them_lacks(name):
    c = case(name, l2=0.0)
    p = c.x.shape[1]
    none = replace(c.problem, intercept=False)
    others = np.setdiff1d(np.arange(p), c.problem.intercepts(D, p))
    assert len(others) == none.size(D - 1, CLASSES[c.problem.task])
    assert len(none.intercepts(D, p)) == 0


@pytest.mark.parametrize("name", FOUND)
def test_rows_of_weight_zero_do_not_count(name):
    c = case(name)
    b = c.batch
    more = Batch(
        np.concatenate([b.X, np.zeros_like(b.X)], axis=1),
        np.concatenate([b.y, np.zeros_like(b.y)], axis=1),
        np.concatenate([b.w, np.zeros_like(b.w)], axis=1),
        b.ridge,
    )
    value, gradient = c.problem.value_and_gradient(c.x, more)
    np.testing.assert_allclose(value, c.problem.value(c.x, b), rtol=1e-13)
    np.testing.assert_allclose(gradient, c.problem.gradient(c.x, b), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("settings", [{}, {"l2": 0.0}, {"regularise_intercept": False}], ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("name", "kernel"), HAVE)
def test_a_client_alone_has_the_bits_it_has_in_a_stack(name, dtype, settings, kernel):
    c = case(name, dtype, **settings)
    stacked = KERNELS[kernel](c)
    shared = KERNELS[kernel](Case(c.problem, c.batch, c.x[:1], c.v[:1]))
    spread = np.broadcast_to(c.x[0], c.x.shape), np.broadcast_to(c.v[0], c.v.shape)
    repeated = KERNELS[kernel](Case(c.problem, c.batch, *spread))
    assert stacked.dtype == (c.batch.y.dtype if kernel == "predict" else dtype)
    columns = np.asfortranarray(c.x), np.asfortranarray(c.v)
    np.testing.assert_array_equal(shared, repeated)
    if kernel != "predict":
        turned = KERNELS[kernel](Case(c.problem, c.batch, *columns))
        np.testing.assert_array_equal(turned, stacked)
    for k in range(len(SIZES)):
        np.testing.assert_array_equal(KERNELS[kernel](c.alone(k))[0], stacked[k])
        np.testing.assert_array_equal(KERNELS[kernel](c.alone(k, shared=True))[0], shared[k])


@pytest.mark.parametrize(("name", "kernel"), HAVE)
def test_kernels_leave_their_arguments_alone(name, kernel):
    c = case(name)
    for array in (c.x, c.v, c.batch.X, c.batch.y, c.batch.w, c.batch.ridge):
        array.flags.writeable = False
    first = KERNELS[kernel](c)
    np.testing.assert_array_equal(first, KERNELS[kernel](c))
    assert kernel == "predict" or first.flags.writeable


@pytest.mark.parametrize("name", FOUND)
def test_near_is_the_value_and_gradient(name):
    c = case(name)
    start = 0.5 * c.v
    near = c.problem.near(start, c.batch)
    for x in (start, c.x, start):
        value, gradient = near(x)
        np.testing.assert_allclose(value, c.problem.value(x, c.batch), rtol=1e-12)
        np.testing.assert_allclose(gradient, c.problem.gradient(x, c.batch), atol=1e-12)


@pytest.mark.parametrize("name", DRAWN)
def test_the_first_model_is_zeros_or_keyed_noise_of_the_stated_spread(name):
    problem = FOUND[name]()
    classes = CLASSES[problem.task]
    p = problem.size(40, classes)
    assert not problem.initial("zeros", 40, classes, Key(0, "init")).any()
    x = problem.initial("normal", 40, classes, Key(0, "init"))
    assert x.shape == (p,)
    assert x.dtype == np.float64
    np.testing.assert_array_equal(x, problem.initial("normal", 40, classes, Key(0, "init")))
    assert (x != problem.initial("normal", 40, classes, Key(1, "init"))).any()
    spread = problem.spread(40, p)
    chi_square = ((x[spread > 0] / spread[spread > 0]) ** 2).sum()
    free = (spread > 0).sum()
    assert abs(chi_square - free) < 4 * np.sqrt(2 * free)
    assert not x[spread == 0].any()


@pytest.mark.parametrize("name", DRAWN)
def test_a_uniform_start_fills_the_stated_reach(name):
    problem = FOUND[name]()
    classes = CLASSES[problem.task]
    x = problem.initial("uniform", 40, classes, Key(0, "init"))
    reach = problem.reach(40, len(x))
    assert (np.abs(x) <= reach).all()
    # the square of a uniform number on -1..1 has mean 1/3 and variance 4/45
    assert abs(((x / reach) ** 2).mean() - 1 / 3) < 4 * np.sqrt(4 / 45 / len(x))


def test_the_head_of_a_batch_is_its_first_clients():
    c = case("least-squares", regularise_intercept=False)
    whole, head = c.batch, c.batch.head(2)
    assert whole.head(len(SIZES)) is whole
    assert head.X.shape == (2, WIDTH, D)
    np.testing.assert_array_equal(head.ridge, whole.ridge[:2])
    np.testing.assert_array_equal(head.gram, whole.gram[:2])
    np.testing.assert_array_equal(whole.head(3).gram, whole.gram[:3])
    assert replace(whole, ridge=None).head(2).ridge is None
