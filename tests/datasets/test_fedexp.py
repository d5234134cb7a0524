import numpy as np
import pytest

from rayfed.datasets import FedExPRegression
from rayfed.datasets.base import Source
from rayfed.datasets.fedexp import multivariate_normal


@pytest.fixture(scope="module")
def data():
    table = FedExPRegression().load(Source(), 0)
    return table.X.reshape(20, 30, 1000), table.y.reshape(20, 30, 1)


def loss(data, w):
    A, b = data
    return float(((A @ w[:, None] - b) ** 2).sum()) / 20


def pseudo_gradients(data, w, *, steps=20, lr=0.1):
    """Bare NumPy: 20 full-gradient steps A'(Aw - b) at each client; w - w_i for each."""
    A, b = data
    local = np.repeat(w[None, :, None], 20, axis=0)
    for _ in range(steps):
        local = local - lr * (A.swapaxes(1, 2) @ (A @ local - b))
    return w - local[..., 0]


def fedavg(delta):
    return 10.0


def fedexp(delta):
    """Without the maximum with 1 and without epsilon, as published."""
    return (delta**2).sum() / (2 * 20 * (delta.mean(axis=0) ** 2).sum())


def run(data, server_lr, rounds):
    w, losses, steps = np.zeros(1000), [loss(data, np.zeros(1000))], []
    for _ in range(rounds):
        delta = pseudo_gradients(data, w)
        steps.append(server_lr(delta))
        w = w - steps[-1] * delta.mean(axis=0)
        losses.append(loss(data, w))
    return losses, steps


def test_the_cheap_draw_is_numpy_s():
    mean = np.linspace(-1, 1, 40)
    ours = multivariate_normal(np.random.RandomState(7), mean, 30)
    numpys = np.random.RandomState(7).multivariate_normal(mean, np.eye(40), 30)
    np.testing.assert_array_equal(ours, numpys)


def test_the_recipe_step_by_step():
    # the authors' order of draws for two clients, with NumPy's own multivariate normal
    stream = np.random.RandomState(3)
    u, B = stream.normal(0, 0.1, 2), stream.normal(0, 0.1, 2)
    v = [stream.normal(B[0], 1, 6), stream.normal(B[1], 1, 6)]
    table = FedExPRegression(clients=2, samples=4, features=6).load(Source(), 3)
    for i in range(2):
        W = stream.normal(u[i], 1, (6, 1))
        X = stream.multivariate_normal(v[i], np.eye(6), 4)
        y = (X @ W)[:, 0]
        mine = table.client == i
        np.testing.assert_allclose(table.X[mine], X / np.sqrt((X**2).sum(1))[:, None], rtol=1e-14)
        np.testing.assert_allclose(table.y[mine], y / np.sqrt((y**2).sum()), rtol=1e-13)


def test_published_fingerprints(data):
    A, b = data[0].reshape(600, 1000), data[1].reshape(600)
    assert loss(data, np.zeros(1000)) == pytest.approx(1.0, abs=1e-14)
    eigenvalues = np.linalg.eigvalsh(A @ A.T)  # those of A'A that are not zero
    assert eigenvalues[-1] == pytest.approx(21.806, abs=5e-4)
    assert eigenvalues[0] == pytest.approx(0.026154, abs=5e-7)
    interpolant = A.T @ np.linalg.solve(A @ A.T, b)
    assert np.linalg.norm(interpolant) == pytest.approx(7.45366, abs=5e-6)


def test_published_losses_of_fedavg(data):
    losses, _ = run(data, fedavg, 20)
    assert losses[1] == pytest.approx(0.42048, abs=5e-6)
    assert losses[5] == pytest.approx(0.1367, abs=5e-5)
    assert losses[10] == pytest.approx(0.0669, abs=5e-5)
    assert losses[20] == pytest.approx(0.02555, abs=5e-6)


def test_published_steps_and_losses_of_fedexp(data):
    losses, steps = run(data, fedexp, 10)
    assert steps[:3] == pytest.approx([9.4157, 16.3255, 29.0007], abs=5e-5)
    assert losses[1] == pytest.approx(0.44012, abs=5e-6)
    assert losses[5] == pytest.approx(0.08273, abs=5e-6)
    assert losses[10] == pytest.approx(0.01312, abs=5e-6)
