"""DP-SGD (Abadi et al. 2016) as federated averaging: every row is a client of its own.

A plain loop draws the same coins and the same noise, clips the gradient of each example, and steps.
With the network two epochs, 500 steps, take seven minutes: set ``DP_SGD_STEPS=500``.
"""

import os
from pathlib import Path

import numpy as np
import pytest
import yaml

from rayfed import api
from rayfed.core.rng import Key
from rayfed.engine.loop import Loop
from rayfed.executors.serial import SerialExecutor

pytest.importorskip("dp_accounting")
SCENARIO = Path(__file__).parents[2] / "scenarios" / "dp_sgd_as_clients.yaml"
needs_mnist = pytest.mark.skipif("RAYFED_DATA" not in os.environ, reason="needs MNIST")
LR, CLIP, NOISE = 0.25, 1.5, 0.7


def models_of(plan, rounds):
    """Yield the model after each round."""
    run, executor = plan.runs[0], SerialExecutor(plan.tables)
    executor.open(run.folder, run.setup())
    loop = Loop(run, executor)
    state, _ = loop.start()
    for _ in range(rounds):
        state, _, _ = loop.step(state)
        yield state.state["x"]


def rows_of(plan, ids):
    data = plan.runs[0].federation.views.training.with_table(plan.tables)
    return data.shards.rows(ids, 1)


def plain_loop(plan, gradients, rounds):
    """Yield the models of DP-SGD; ``gradients(x, X, y)`` are those of single examples (K, p)."""
    run = plan.runs[0]
    count, cohort = run.federation.clients.count, run.participation.cohort
    coins, key = Key(run.seed, "poisson"), Key(run.seed, "privacy").sub("delta")
    x = run.training.x0.astype(np.float64)
    for t in range(1, rounds + 1):
        number = int(coins.generator(t).binomial(count, cohort / count))
        ids = np.sort(coins.permutation(count, round=t)(np.arange(number)))
        g = np.zeros((1, x.size))
        if number:
            X, y = rows_of(plan, ids)
            g = gradients(x, X[:, 0], y[:, 0])
            g = g / np.maximum(1, np.linalg.norm(g, axis=1, keepdims=True) / CLIP)
        noise = NOISE * CLIP * key.normals([0], x.size, round=t)[0]
        x = x - LR * (g.sum(axis=0) + noise) / cohort
        yield x


def softmax_gradients(x, X, y):
    scores = X @ x.reshape(-1, X.shape[1]).T
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y.astype(int)] -= 1
    return (p[:, :, None] * X[:, None, :]).reshape(len(y), -1)


def assert_equal(plan, gradients, rounds, tolerance):
    pairs = zip(models_of(plan, rounds), plain_loop(plan, gradients, rounds), strict=True)
    for found, expected in pairs:
        np.testing.assert_allclose(found, expected, atol=tolerance, rtol=0)
    assert np.linalg.norm(found - plan.runs[0].training.x0) > 0.1


def scenario(**changes):
    given = yaml.safe_load(SCENARIO.read_text()) | {"executor": "serial", "dtype": "float64"}
    given["privacy"] = given["privacy"] | {"accountant": "rdp"}
    return api.prepare(api.read(given | changes))


SOFTMAX = {"name": "softmax-regression", "dataset": {"name": "mnist"}}


def test_one_row_a_client_and_one_step_are_dp_sgd():
    data = {"name": "synthetic", "features": 8, "classes": 4, "samples": 1}
    plan = scenario(
        problem={"name": "softmax-regression", "dataset": data, "test": 0},
        partition=None,
        clients={"count": 300},
        participation={"cohort": 12, "select": "poisson"},
    )
    assert_equal(plan, softmax_gradients, 20, 1e-12)


@needs_mnist
@pytest.mark.slow
def test_two_epochs_of_mnist_are_those_of_a_plain_loop():
    """60,000 images, 240 of them a step: 250 steps an epoch."""
    assert_equal(scenario(problem=SOFTMAX), softmax_gradients, 500, 1e-6)


@needs_mnist
@pytest.mark.slow
def test_the_first_steps_of_the_network_are_those_of_a_plain_loop():
    torch = pytest.importorskip("torch")
    from rayfed.problems.network.models.dpcnn import DPCNN

    net = DPCNN((1, 28, 28), 10).double()
    assert sum(p.numel() for p in net.parameters()) == 26_010

    def gradients(x, X, y):
        torch.nn.utils.vector_to_parameters(torch.from_numpy(x), net.parameters())
        found = []
        for row, label in zip(torch.from_numpy(X), torch.from_numpy(y.astype(int)), strict=True):
            scores = net(row.reshape(1, 1, 28, 28))
            loss = torch.nn.functional.cross_entropy(scores, label[None])
            grads = torch.autograd.grad(loss, tuple(net.parameters()))
            found.append(torch.cat([g.reshape(-1) for g in grads]).numpy())
        return np.stack(found)

    assert_equal(scenario(), gradients, int(os.environ.get("DP_SGD_STEPS", "5")), 1e-6)
