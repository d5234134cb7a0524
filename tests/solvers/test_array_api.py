"""Local solvers on arrays of the standard's strictest library have NumPy's bits."""

from dataclasses import replace

import numpy as np
import pytest

from rayfed.core.arrays import like, namespace, to_numpy
from rayfed.solvers import SGD, Adagrad, Adam

strict = pytest.importorskip("array_api_strict")
SHARED = {"mu": 0.1, "weight_decay": 0.01}
SOLVERS = [SGD(momentum=0.9, **SHARED), Adam(**SHARED), Adagrad(**SHARED)]
TARGET = np.array([[1.0, -2.0, 3.0], [0.5, 0.0, 4.0]])
STEPS = np.array([4, 2])


def solved(solver, xp):
    """Take the local steps of two clients on half the squared distance from their targets."""
    target = xp.asarray(TARGET)

    def oracle(x):
        off = x - target[: x.shape[0], :]
        return 0.5 * xp.sum(off * off, axis=-1), off

    steps = [(2, oracle), (2, oracle), (1, oracle), (1, oracle)]
    x = xp.asarray(np.ones((2, 3)))
    return solver.run(steps, x, STEPS, round=1, correction=xp.asarray(TARGET / 7))


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_steps_on_strict_arrays_have_the_bits_of_numpy(solver):
    found, expected = solved(solver, strict), solved(solver, np)
    assert namespace(found.x) is strict
    np.testing.assert_array_equal(to_numpy(found.x), expected.x)
    np.testing.assert_array_equal(found.loss, expected.loss)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_clipped_steps_on_strict_arrays_are_those_of_numpy_but_for_rounding(solver):
    """Norms of NumPy's arrays come from BLAS, some kernels of which round once for x + y z.

    So the last bit of a norm differs under OpenBLAS's kernel for AVX-512 and under no other here.
    Each of four steps scales by it: a few units in the last place, of 1.1e-16 each.
    """
    clipped = replace(solver, clip_norm=0.5)
    found, expected = solved(clipped, strict), solved(clipped, np)
    np.testing.assert_allclose(to_numpy(found.x), expected.x, rtol=1e-15, atol=1e-16)
    np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-15)
    far = solved(solver, np).x - expected.x
    assert np.abs(far).max() > 0.01  # the bound was met


def test_facts_of_numpy_enter_in_the_type_of_an_array():
    array = strict.asarray([1.0], dtype=strict.float32)
    entered = like(np.array([1, 2]), array)
    assert entered.dtype == strict.float32
    assert namespace(entered) is strict
