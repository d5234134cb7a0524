"""MOON against a torch script that takes its gradients by autograd, as the authors' code does."""

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed import api
from rayfed.algorithms.moon import contrastive, cosine
from rayfed.core.errors import ScenarioError

SIZES, HIDDEN, LR, STEPS, MU, TAU = (5, 9, 7), 4, 0.3, 3, 2.0, 0.4


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(2)
    client = np.repeat(np.arange(3), SIZES)
    y = rng.integers(0, 3, len(client))
    y[:3] = 0, 1, 2
    return client, rng.standard_normal((len(client), 2)), y


@pytest.fixture(scope="module")
def run(rows, tmp_path_factory):
    """Run MOON with some weight mu for some rounds in which two of three clients take part."""
    client, X, y = rows
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    pd.DataFrame({"client": client, "a": X[:, 0], "b": X[:, 1], "y": y}).to_csv(
        path, index=False, float_format="%.17g"
    )

    def of(*algorithms, problem="mlp"):
        kernels = {"name": "mlp", "hidden": [HIDDEN]} if problem == "mlp" else {"name": problem}
        local = {"steps": STEPS, "batch": "full", "lr": LR}
        scenario = {
            "rounds": 5,
            "dtype": "float64",
            "problem": {**kernels, "dataset": str(path)},
            "clients": {},
            "participation": {"cohort": 2},
            "algorithms": [{"local": local, **algorithm} for algorithm in algorithms],
            "executor": "serial",
        }
        return rayfed.run(scenario, out=tmp_path_factory.mktemp("out"), page=False)

    return of


def torch_round(torch, clients, x, previous):
    """Return the local models of clients (X, y) that start from x, with their last ones."""

    def forward(p, X):
        W, V = p[: 3 * HIDDEN].reshape(3, HIDDEN), p[3 * HIDDEN :].reshape(HIDDEN + 1, 3)
        z = torch.relu(X @ W[:-1] + W[-1])
        return z, z @ V[:-1] + V[-1]

    def loss(p, X, y, old):
        z, scores = forward(p, X)
        sims = [
            torch.nn.functional.cosine_similarity(z, forward(o, X)[0].detach()) for o in (x, old)
        ]
        logits = torch.stack(sims, dim=1) / TAU
        alike = torch.nn.functional.cross_entropy(logits, torch.zeros(len(y), dtype=torch.long))
        return torch.nn.functional.cross_entropy(scores, y) + MU * alike

    ends = []
    for (X, y), old in zip(clients, previous, strict=True):
        p = x.clone().requires_grad_()
        for _ in range(STEPS):
            (g,) = torch.autograd.grad(loss(p, X, y, old), p)
            p = (p - LR * g).detach().requires_grad_()
        ends.append(p.detach())
    return ends


def test_rounds_are_those_of_a_torch_script(rows, run):
    torch = pytest.importorskip("torch")
    client, X, y = rows
    result = run({"name": "moon", "mu": MU, "temperature": TAU}, {"name": "fedavg"})
    data = [(torch.tensor(X[client == i]), torch.tensor(y[client == i])) for i in range(3)]
    x = torch.tensor(api.recorded(result.folder).runs[0].training.x0)
    kept = dict.fromkeys(range(3), x)
    for _, cohort in result.events[result.events.label == "moon"].groupby("round").client:
        ends = torch_round(torch, [data[i] for i in cohort], x, [kept[i] for i in cohort])
        kept |= dict(zip(cohort, ends, strict=True))
        x = sum(SIZES[i] * kept[i] for i in cohort) / sum(SIZES[i] for i in cohort)
    np.testing.assert_allclose(result.model("moon-seed0"), x.numpy(), rtol=1e-9, atol=1e-11)
    assert np.abs(result.model("moon-seed0") - result.model("fedavg-seed0")).max() > 1e-3


def test_without_the_contrastive_loss_it_is_fedavg(run):
    result = run({"name": "moon", "mu": 0}, {"name": "fedavg"})
    expected = result.model("fedavg-seed0")
    np.testing.assert_allclose(result.model("moon-seed0"), expected, rtol=1e-13)


def test_a_problem_without_representations_is_refused(run):
    line = "'moon' needs representations of rows, but 'softmax-regression' gives no representations"
    with pytest.raises(ScenarioError, match=f"^algorithms.0: {line}; choose a model with layers"):
        run({"name": "moon"}, problem="softmax-regression")


def test_the_slope_of_the_cosine_is_its_derivative():
    rng = np.random.default_rng(0)
    z, c, e = rng.standard_normal((3, 2, 4, 5))
    difference = (cosine(z + 1e-6 * e, c)[0] - cosine(z - 1e-6 * e, c)[0]) / 2e-6
    np.testing.assert_allclose(np.vecdot(cosine(z, c)[1], e), difference, atol=1e-9)


def test_all_three_models_see_the_same_augmented_rows(tmp_path, monkeypatch):
    """In round 1 they are one model until the first step; dropout is drawn by the local one alone.

    With dropout z has zeros where the other two have none.
    """
    pytest.importorskip("torch")
    told = []

    def spied(z, to, off, w, tau):
        told.append([part.numpy() for part in (z, to, off)])
        return contrastive(z, to, off, w, tau)

    monkeypatch.setattr("rayfed.algorithms.moon.contrastive", spied)
    for dropout in (0.0, 0.5):
        scenario = {
            "rounds": 1, "dtype": "float64", "clients": {"count": 2}, "executor": "serial",
            "problem": {
                "name": "network", "augment": {"crop": 2, "flip": True}, "shape": [1, 4, 4],
                "model": {"name": "rayfed.testing.modules:Small", "dropout": dropout},
                "dataset": {"name": "synthetic", "features": 16, "classes": 3, "samples": 12},
            },
            "algorithms": [{"name": "moon", "local": {"steps": 1, "batch": 6, "lr": 0.1}}],
        }  # fmt: skip
        told.clear()
        rayfed.run(scenario, out=tmp_path / str(dropout), page=False)
        assert len(told) == 2  # clients
        for z, to, off in told:
            np.testing.assert_array_equal(to, off)
            assert (z == to).all() == (dropout == 0.0)
            assert (to != 0).all()
            assert (z == 0).any() == (dropout > 0.0)
