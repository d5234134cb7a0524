"""Networks whose layers are told apart: representations of rows, and running statistics."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from rayfed import api
from rayfed.core.arrays import to_numpy
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.problems import Network
from rayfed.problems.base import Batch, StepKey
from rayfed.testing.modules import Normed, Small

KEY = Key(0, "init")


def bind(model=Normed, **settings):
    return Network(model=model, **settings).bound((3,), 2, KEY)


def batch(K=2, B=5):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((K, B, 3)), rng.integers(0, 2, (K, B))
    return Batch(X, y, np.full((K, B), 1 / B), None)


def run(problem, kernel, x, rows, *more):
    """Return what a kernel computes, from NumPy to NumPy."""
    given = problem.arrays({"x": x})["x"]
    data = problem.batch(rows)
    data = data.X if kernel == "representation" else data
    found = getattr(problem, kernel)(given, data, *more)
    return tuple(map(to_numpy, found)) if isinstance(found, tuple) else to_numpy(found)


def in_training(rows):
    return replace(rows, key=StepKey(np.arange(len(rows.w)), seed=0, draw=1, ask=0, step=0))


def start(problem, K=2):
    x = problem.initial("torch", 3, 2, KEY)
    return x + 0.1 * np.arange(K)[:, None]


def test_the_representation_is_what_the_last_layer_is_given():
    problem, rows = bind(Small), batch()
    x = start(problem)
    z = run(problem, "representation", x, rows)
    frozen = bind(Small, frozen=("head.*",))
    np.testing.assert_array_equal(run(frozen, "representation", x[:, :16], rows), z)
    for k in range(2):
        module = problem.module(x[k])
        expected = torch.tanh(module.hidden(torch.from_numpy(rows.X[k])))
        np.testing.assert_array_equal(z[k], expected.detach().numpy())


def test_gradients_of_functions_of_representations():
    problem, rows = bind(Small), batch()
    x, target = start(problem), np.random.default_rng(3).standard_normal((2, 5, 4))

    def term(z, which):
        off = z - torch.from_numpy(target[which])
        return (off * off).sum(axis=(1, 2)), 2 * off

    def both(x):
        return run(problem, "value_and_gradient_with", x, rows, term)

    value, gradient = both(x)
    z = run(problem, "representation", x, rows)
    expected = run(problem, "value", x, rows) + ((z - target) ** 2).sum(axis=(1, 2))
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for j in range(x.shape[1]):
        step = 1e-6 * np.eye(x.shape[1])[j]
        slope = (both(x + step)[0] - both(x - step)[0]) / 2e-6
        np.testing.assert_allclose(gradient[:, j], slope, atol=1e-7)


def test_running_statistics_follow_the_parameters():
    layers = bind().layers(3, 2)
    kinds = [(layer.name, layer.size, layer.kind) for layer in layers]
    assert kinds[2:4] == [("norm.weight", 4, "normalisation"), ("norm.bias", 4, "normalisation")]
    assert kinds[-2:] == [
        ("norm.running_mean", 4, "statistics"), ("norm.running_var", 4, "statistics"),
    ]  # fmt: skip
    first = bind().initial("torch", 3, 2, KEY)
    assert first[-8:].tolist() == [0] * 4 + [1] * 4


def test_a_step_moves_statistics_as_torch_does():
    """In training the gradient is that of the minibatch's own normalisation; padding is no row."""
    problem, rows = bind(), batch()
    w = rows.w.copy()
    w[1, 3:] = 0  # the second client has three rows
    rows = replace(rows, w=w)
    x = start(problem)
    value, gradient = run(problem, "value_and_gradient", x, in_training(rows))
    for k, count in enumerate((5, 3)):
        module = problem.module(x[k]).train()
        X, y = (torch.from_numpy(a[k, :count]) for a in (rows.X, rows.y))
        losses = nn.functional.cross_entropy(module(X), y, reduction="none")
        total = (torch.from_numpy(w[k, :count]) * losses).sum()
        total.backward()
        expected = [p.grad.ravel() for p in module.parameters()]
        np.testing.assert_allclose(value[k], total.item(), rtol=1e-12)
        np.testing.assert_allclose(gradient[k, :-8], torch.cat(expected).numpy(), atol=1e-12)
        moved = torch.cat([module.norm.running_mean, module.norm.running_var]).numpy()
        np.testing.assert_allclose(x[k, -8:] - gradient[k, -8:], moved, rtol=1e-12)


def test_evaluations_normalise_by_the_statistics_of_the_model():
    problem, rows = bind(), batch()
    x = start(problem)
    value, gradient = run(problem, "value_and_gradient", x, rows)
    assert not gradient[:, -8:].any()
    module = problem.module(x[1])
    losses = nn.functional.cross_entropy(
        module(torch.from_numpy(rows.X[1])), torch.from_numpy(rows.y[1])
    )
    np.testing.assert_allclose(value[1], losses.item(), rtol=1e-12)
    run(problem, "value_and_gradient", x, in_training(rows))  # leaves no statistics behind
    np.testing.assert_array_equal(run(problem, "value", x, rows), value)


def untracked(inputs, outputs):
    """Return a module whose BatchNorm keeps no statistics."""
    norm = nn.BatchNorm1d(3, track_running_stats=False)
    return nn.Sequential(norm, nn.Linear(3, outputs))


@pytest.mark.parametrize(
    ("settings", "place", "message"),
    [
        ({"model": untracked}, "model", r"has BatchNorm \('0'\) without running statistics"),
        ({"l2": 0.1}, "l2", r"covers the running statistics.*give local\.weight_decay"),
    ],
)
def test_normalisations_that_no_client_can_keep_are_refused(settings, place, message):
    with pytest.raises(ScenarioError, match=message) as raised:
        bind(**settings)
    assert raised.value.place == f"problem.{place}"


@pytest.mark.parametrize("algorithm", ["fedavg", "fedper", "fedadam"])
def test_local_statistics_are_refused_where_they_would_be_shared(mixed, algorithm):
    made = mixed(algorithms=[{"name": algorithm}])
    model = {"model": "rayfed.testing.modules:Normed", "normalisation": "local"}
    made["problem"] |= {"name": "network", "l2": 0, **model}
    line = r"^problem.model: BatchNorm \('norm', local\) needs .*use GroupNorm or algorithm 'fedbn'"
    with pytest.raises(ScenarioError, match=line):
        api.prepare(api.read(made))
