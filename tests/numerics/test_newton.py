"""Newton systems: against one plain solve a client, alone and in a stack, definite or not."""

import numpy as np
import pytest

from rayfed.numerics.newton import Cholesky, ConjugateGradients, tolerance

K, P, MU = 7, 6, 0.5


def hessians(seed=0, least=0.0):
    """Symmetric matrices whose eigenvalues lie between `least` and 10."""
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.normal(size=(K, P, P)))
    H = (Q * rng.uniform(least, 10, (K, 1, P))) @ Q.swapaxes(1, 2)
    return (H + H.swapaxes(1, 2)) / 2, rng.normal(size=(K, P))


def systems(kind, H, mu=MU, steps=50):
    if kind == "cholesky":
        return Cholesky(H.copy(), mu)
    return ConjugateGradients(lambda v: (H @ v[:, :, None])[:, :, 0], mu, steps)


both = pytest.mark.parametrize("kind", ["cholesky", "cg"])


@both
def test_each_client_has_what_a_plain_solve_gives(kind):
    H, r = hessians()
    found = systems(kind, H)
    d = found.solve(r)
    for k in range(K):
        plain = np.linalg.solve(H[k] + MU * np.eye(P), r[k])
        np.testing.assert_allclose(d[k], plain, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.times(d), r, rtol=1e-12, atol=1e-12)
    assert not found.indefinite.any()


@both
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("least", [0.0, -3.0])
def test_the_bits_do_not_depend_on_the_stack(kind, dtype, least):
    H, r = (a.astype(dtype) for a in hessians(least=least))
    r[3] = 0.0  # this one has nothing to do
    whole = systems(kind, H)
    d, image = whole.solve(r), whole.times(r)
    assert d.dtype == dtype
    for k in range(K):
        one = systems(kind, H[k : k + 1])
        assert one.solve(r[k : k + 1]).tobytes() == d[k].tobytes()
        assert one.times(r[k : k + 1]).tobytes() == image[k].tobytes()
        assert one.indefinite[0] == whole.indefinite[k]


def test_negative_curvature_is_raised_to_the_penalty():
    H = np.array([np.diag([4.0, -2.0]), np.diag([4.0, 1.0])])
    r = np.ones((2, 2))
    found = Cholesky(H, 0.5)
    assert found.indefinite.tolist() == [True, False]
    np.testing.assert_allclose(found.solve(r), [[1 / 4.5, 1 / 0.5], [1 / 4.5, 1 / 1.5]], rtol=1e-12)
    np.testing.assert_allclose(found.times(r), [[4.5, 0.5], [4.5, 1.5]], rtol=1e-12)


def test_a_penalty_lost_in_rounding_still_gives_a_descent_direction():
    A = np.array([[1e9, 2e9, 3e9]])
    H = (A.T @ A)[None]  # rank 1, and mu is far below its rounding errors
    found, r = Cholesky(H, 1e-6), np.array([[1.0, -1.0, 0.5]])
    assert found.indefinite.tolist() == [True]
    d = found.solve(r)
    assert np.isfinite(d).all()
    assert np.vecdot(d, r)[0] > 0


def test_what_is_not_finite_stays_so_and_spares_the_neighbours():
    H, r = hessians()
    H[2, 0, 0] = np.nan
    found = Cholesky(H.copy(), MU)
    d = found.solve(r)
    assert np.isnan(d[2]).all()
    assert np.isfinite(np.delete(d, 2, axis=0)).all()
    assert not found.indefinite.any()


def test_conjugate_gradients_stop_at_a_direction_that_does_not_curve_up():
    H = np.array([np.diag([-1.0, 0.0]), np.diag([2.0, -9.0])])
    r = np.array([[3.0, 0.0], [1.0, 0.1]])
    found = systems("cg", H, 0.5)
    d = found.solve(r)
    assert found.indefinite.tolist() == [True, True]
    assert d[0].tolist() == [3.0, 0.0]  # the first direction: the right-hand side itself
    # r'Mr = 2.5 - 0.085 > 0: the first step has length r'r / r'Mr, the second is not taken
    np.testing.assert_allclose(d[1], r[1] * 1.01 / 2.415, rtol=1e-12)


def test_conjugate_gradients_take_no_more_products_than_they_may():
    H, r = hessians()
    taken = []

    def product(v):
        taken.append(1)
        return (H @ v[:, :, None])[:, :, 0]

    rough = ConjugateGradients(product, MU, 3).solve(r)
    assert len(taken) == 3
    exact = systems("cholesky", H).solve(r)
    short, full = np.abs(rough - exact).max(), np.abs(exact).max()
    assert 1e-6 * full < short < full


def test_what_conjugate_gradients_leave_is_measured():
    """Condition 1e9: after 50 steps the residual is larger than the right-hand side."""
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.normal(size=(200, 200)))
    H = np.stack([(Q * np.logspace(0, 9, 200)) @ Q.T, np.eye(200)])
    r = rng.normal(size=(2, 200))
    found = systems("cg", H, 1e-9, steps=50)
    left = np.linalg.norm(found.times(found.solve(r)) - r, axis=1) / np.linalg.norm(r, axis=1)
    assert left[0] > 10
    assert found.residual[0] == pytest.approx(left[0], rel=1e-6)
    assert found.residual[1] <= tolerance(np.float64)
    found.solve(0 * r)
    assert found.residual.tolist() == [0, 0]


def test_a_first_direction_that_does_not_curve_up_leaves_its_own_residual():
    found = systems("cg", np.diag([-3.0, 0.0])[None], 0.5)
    found.solve(np.array([[2.0, 0.0]]))  # d = r: r - M r = 2 + 2.5 * 2
    assert found.residual.tolist() == [3.5]
