"""Checks of problems: derivatives are those of the value, bits ignore K."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array, namespace, to_numpy
from rayfed.core.errors import RayfedError
from rayfed.core.needs import HESSIANS, PRODUCTS, REPRESENTATIONS
from rayfed.core.rng import Key
from rayfed.datasets.base import Table
from rayfed.problems.base import Batch, Problem
from rayfed.problems.own_code.problem import OwnCode
from rayfed.testing.checks.common import require, require_equal
from rayfed.testing.examples import examples
from rayfed.testing.toy import clients_of

CLASSES = {"regression": 0, "binary": 2, "multiclass": 3}
FEATURES = 3
SIZES = np.array([6, 3, 1, 5, 6, 2, 4])
"""Rows of the seven clients; the shorter ones are padded to six."""

_H = 1e-5
_CLOSE = 5e-8
Kernel: TypeAlias = "Callable[[Case], Array]"


@dataclass(frozen=True)
class Case:
    """A problem on rows of seven clients, at points x and along directions v.

    Parameters
    ----------
    x, v : (K, p) array
    """

    problem: Problem
    batch: Batch
    x: Array
    v: Array

    def alone(self, k: int) -> Case:
        """Return the case of client k alone."""
        one, b = slice(k, k + 1), self.batch
        ridge = None if b.ridge is None else b.ridge[one].copy()
        batch = Batch(b.X[one].copy(), b.y[one].copy(), b.w[one].copy(), ridge)
        return Case(self.problem, batch, self.x[one].copy(), self.v[one].copy())


def _kernel(call: Callable[[Problem, Array, Array, Batch], Array]) -> Kernel:
    """Return a NumPy function of a case from a kernel's function."""

    def kernel(case: Case) -> Array:
        given = case.problem.arrays({"x": case.x, "v": case.v})
        batch = case.problem.batch(case.batch)
        return to_numpy(call(case.problem, given["x"], given["v"], batch))

    return kernel


KERNELS: Mapping[str, Kernel] = {
    "value": _kernel(lambda p, x, v, b: p.value(x, b)),
    "gradient": _kernel(lambda p, x, v, b: p.gradient(x, b)),
    "value_and_gradient: value": _kernel(lambda p, x, v, b: p.value_and_gradient(x, b)[0]),
    "value_and_gradient: gradient": _kernel(lambda p, x, v, b: p.value_and_gradient(x, b)[1]),
    "near": _kernel(lambda p, x, v, b: p.near(0 * x, b)(x)[1]),
    "representation": _kernel(lambda p, x, v, b: p.representation(x, b.X)),
    "value with a term": _kernel(lambda p, x, v, b: p.value_and_gradient_with(x, b, term)[0]),
    "gradient with a term": _kernel(lambda p, x, v, b: p.value_and_gradient_with(x, b, term)[1]),
    "predict": _kernel(lambda p, x, v, b: p.predict(x, b.X)),
    "hessian": _kernel(lambda p, x, v, b: p.hessian(x, b)),
    "hvp": _kernel(lambda p, x, v, b: p.hvp(x, v, b)),
}
SECOND_ORDER = ("hessian", "hvp")
OF_REPRESENTATIONS = ("representation", "value with a term", "gradient with a term")


def variants(cls: type[Any], folder: Path) -> list[Any]:
    """Return the examples of a class; none of own code, which has no rows to check it on."""
    return [] if issubclass(cls, OwnCode) else examples(cls, folder)


def check_gradient(problem: Problem) -> None:
    """Check that the gradient is that of the value, by central differences."""
    case = case_of(problem)
    expected = differences(KERNELS["value"], case)
    _require_close(KERNELS["gradient"](case), expected, f"{problem}: gradient")


def check_hessian(problem: Problem) -> None:
    """Check that the Hessian and its products are those of the gradient, or that it has none."""
    case = case_of(problem)
    for name in SECOND_ORDER:
        if name not in _kernels(problem):
            _require_refused(case, name, "has no Hessian")
    if not problem.gives & {HESSIANS, PRODUCTS}:
        return
    expected = differences(KERNELS["gradient"], case)
    product = (expected @ case.v[:, :, None])[:, :, 0]
    _require_close(KERNELS["hvp"](case), product, f"{problem}: Hessian times a vector")
    if HESSIANS in problem.gives:
        hessian = KERNELS["hessian"](case)
        _require_close(hessian, expected, f"{problem}: Hessian")
        symmetric = f"{problem}: the Hessian is not symmetric"
        require_equal(hessian, hessian.swapaxes(1, 2), symmetric)


def check_representation(problem: Problem) -> None:
    """Check that functions of the representations have their gradients, or that there are none."""
    case = case_of(problem)
    if REPRESENTATIONS not in problem.gives:
        for name in OF_REPRESENTATIONS:
            _require_refused(case, name, "has no representation")
        return
    value, gradient = (KERNELS[name](case) for name in OF_REPRESENTATIONS[1:])
    both = KERNELS["value"](case) + term(KERNELS["representation"](case))[0]
    _require_close(value, both, f"{problem}: value with a term")
    expected = differences(KERNELS["value with a term"], case)
    _require_close(gradient, expected, f"{problem}: gradient with a term")


def check_stacks(problem: Problem) -> None:
    """Check that a client alone has the bits that it has in a stack of seven, in both dtypes."""
    for dtype in (np.float64, np.float32):
        case = case_of(problem, dtype)
        for name, kernel in _kernels(problem).items():
            stacked = kernel(case)
            text = f"{problem}, {np.dtype(dtype)}: {name}"
            wanted = case.batch.y.dtype if name == "predict" else dtype
            require(stacked.dtype == wanted, f"{text} is {stacked.dtype}")
            for k in range(len(SIZES)):
                require_equal(kernel(case.alone(k))[0], stacked[k], f"{text} of client {k}")


def check_pure(problem: Problem) -> None:
    """Check that kernels leave their arguments alone and answer twice alike."""
    case = case_of(problem)
    for array in (case.x, case.v, case.batch.X, case.batch.y, case.batch.w):
        array.flags.writeable = False
    for name, kernel in _kernels(problem).items():
        require_equal(kernel(case), kernel(case), f"{problem}: {name} asked twice")


def check_padding(problem: Problem) -> None:
    """Check that rows of weight zero do not count."""
    case = case_of(problem)
    b = case.batch
    padded = Batch(_doubled(b.X), _doubled(b.y), _doubled(b.w), b.ridge)
    for name in ("value", "gradient"):
        found = KERNELS[name](replace(case, batch=padded))
        _require_close(found, KERNELS[name](case), f"{problem}: {name} with padding")


def check_start(problem: Problem) -> None:
    """Check that the first model has the right size and depends on the seed alone."""
    problem, classes = _bound(problem), CLASSES[problem.task]
    p = problem.size(40, classes)
    if "zeros" in problem.starts:
        zeros = problem.initial("zeros", 40, classes, Key(0, "init"))
        require(zeros.shape == (p,) and not zeros.any(), f"{problem}: 'zeros' is not p zeros")
    for kind in (kind for kind in problem.starts if kind not in ("zeros", "ones")):
        first, again, other = (
            problem.initial(kind, 40, classes, Key(seed, "init")) for seed in (0, 0, 1)
        )
        require(first.shape == (p,), f"{problem}: a '{kind}' start has {first.shape}, not {p}")
        require_equal(first, again, f"{problem}: a '{kind}' start of the same seed")
        require((first != other).any(), f"{problem}: a '{kind}' start ignores the seed")


def check_layers(problem: Problem) -> None:
    """Check that the layers have names of their own and cover the model, one after the other."""
    problem = _bound(problem)
    layers = problem.layers(40, CLASSES[problem.task])
    at = 0
    for layer in layers:
        require(layer.start == at < layer.stop, f"{problem}: {layer} does not begin at {at}")
        at = layer.stop
    require(at == problem.size(40, CLASSES[problem.task]), f"{problem}: layers end at {at}")
    names = [layer.name for layer in layers]
    require(len(set(names)) == len(names), f"{problem}: two layers have one name")


def case_of(problem: Problem, dtype: npt.DTypeLike = np.float64) -> Case:
    """Return a problem on random rows of seven clients of 1 to 6 rows."""
    rng = np.random.default_rng(5)
    n, classes = int(SIZES.sum()), CLASSES[problem.task]
    y = rng.integers(0, classes, n) if classes else rng.standard_normal(n)
    table = Table(
        rng.standard_normal((n, FEATURES)), y, classes, client=np.repeat(np.arange(7), SIZES)
    )
    clients = clients_of(table, problem, dtype=dtype)
    problem = clients.problem
    width = int(SIZES.max())
    X, y = clients.shards.rows(clients.ids, width)
    real = np.arange(width) < SIZES[:, None]
    w = (real * clients.objective.per_row(SIZES)[:, None]).astype(dtype)
    ridge = clients.objective.ridge(SIZES, clients.p)
    batch = Batch(X, y, w, None if ridge is None else ridge.astype(dtype))
    x, v = rng.standard_normal((2, len(SIZES), clients.p)).astype(dtype)
    return Case(problem, batch, x, v)


def differences(kernel: Kernel, case: Case) -> Array:
    """Return the central differences of a kernel (K, ...) by each coordinate of x, as last axis."""

    def at(x: Array) -> Array:
        return kernel(replace(case, x=x))

    x = case.x
    columns = [(at(x + _H * e) - at(x - _H * e)) / (2 * _H) for e in np.eye(x.shape[1])]
    return np.stack(columns, axis=-1)


def _bound(problem: Problem) -> Problem:
    """Return a problem that has met rows of 40 features."""
    return problem.bound((40,), CLASSES[problem.task], Key(0, "init"))


def _doubled(rows: Array) -> Array:
    """Return rows (K, B, ...) with as many rows of zeros behind them."""
    return np.concatenate([rows, np.zeros_like(rows)], axis=1)


def term(z: Array, which: slice = slice(None)) -> tuple[Array, Array]:
    """Return ``sum_b cos(sum_j z_bj)`` (K,) of representations z (K, B, r), and its derivatives."""
    xp = namespace(z)
    total = xp.sum(z, axis=-1)
    slope = xp.broadcast_to(-xp.sin(total)[:, :, None], z.shape)
    return xp.sum(xp.cos(total), axis=-1), slope


def _kernels(problem: Problem) -> dict[str, Kernel]:
    missing: list[str] = []
    if HESSIANS not in problem.gives:
        missing += SECOND_ORDER[:1] if PRODUCTS in problem.gives else SECOND_ORDER
    if REPRESENTATIONS not in problem.gives:
        missing += OF_REPRESENTATIONS
    return {name: kernel for name, kernel in KERNELS.items() if name not in missing}


def _require_close(actual: Any, expected: Any, what: str) -> None:
    scale = 1.0 + float(np.abs(expected).max(initial=0.0))
    error = float(np.abs(actual - expected).max(initial=0.0))
    require(error <= _CLOSE * scale, f"{what} is off by {error:.2g} (of {scale:.2g})")


def _require_refused(case: Case, name: str, why: str) -> None:
    try:
        KERNELS[name](case)
    except RayfedError as error:
        require(why in str(error), f"{name} is refused with '{error}'")
    else:
        raise AssertionError(f"{case.problem} computes '{name}'; say so in its class variable")
