"""FedBN against a torch script that keeps a module with BatchNorm for every client."""

import copy

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError

SIZES, LR, STEPS = (6, 11, 8), 0.2, 3
MODEL = "rayfed.testing.modules:Normed"


@pytest.fixture(scope="module")
def rows():
    """Three clients whose features differ in scale and place."""
    rng = np.random.default_rng(5)
    client = np.repeat(np.arange(3), SIZES)
    X = rng.standard_normal((len(client), 2)) * (1 + client[:, None]) + 2 * client[:, None]
    y = rng.integers(0, 3, len(client))
    y[:3] = 0, 1, 2
    return client, X, y


@pytest.fixture(scope="module")
def scenario(rows, tmp_path_factory):
    """A scenario in which two of the three clients take part in a round."""
    client, X, y = rows
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    pd.DataFrame({"client": client, "a": X[:, 0], "b": X[:, 1], "y": y}).to_csv(
        path, index=False, float_format="%.17g"
    )
    return {
        "rounds": 6,
        "dtype": "float64",
        "problem": {"name": "network", "model": MODEL, "dataset": str(path)},
        "clients": {"groups": [{"ids": [1], "local": {"steps": 5}}]},
        "participation": {"cohort": 2},
        "executor": "serial",
    }


def trained(module, X, y, steps):
    module = copy.deepcopy(module).train()
    optimiser = torch.optim.SGD(module.parameters(), LR)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(X), y).backward()
        optimiser.step()
    return module


def test_rounds_are_those_of_a_torch_script(rows, scenario, tmp_path):
    client, X, y = rows
    local = {"steps": STEPS, "batch": "full", "lr": LR}
    result = rayfed.run(
        scenario | {"algorithms": [{"name": "fedbn", "local": local}]}, out=tmp_path, page=False
    )
    training = api.recorded(tmp_path).runs[0].training
    modules = [training.problem.module(training.x0) for _ in range(3)]
    data = [(torch.tensor(X[client == i]), torch.tensor(y[client == i])) for i in range(3)]
    shared = ["hidden.weight", "hidden.bias", "head.weight", "head.bias"]
    for _, cohort in result.events.groupby("round").client:
        for i in cohort:
            modules[i] = trained(modules[i], *data[i], 5 if i == 1 else STEPS)
        total = sum(SIZES[i] for i in cohort)
        for name in shared:
            mean = sum(SIZES[i] * modules[i].state_dict()[name] for i in cohort) / total
            for module in modules:
                module.state_dict()[name].copy_(mean)
    losses = [
        nn.functional.cross_entropy(module.eval()(a), b).item()
        for module, (a, b) in zip(modules, data, strict=True)
    ]
    last = result.rounds.iloc[-1]
    assert last.loss == pytest.approx(np.average(losses, weights=SIZES), rel=1e-10)
    assert last.personal_loss == pytest.approx(np.mean(losses), rel=1e-10)
    np.testing.assert_allclose(result.clients.sort_values("client").loss, losses, rtol=1e-10)
    sent = sum(modules[0].state_dict()[name].numel() for name in shared)
    assert result.rounds.bytes_up.iloc[1:].tolist() == [2 * 8 * sent] * 6


def test_a_model_that_does_not_normalise_is_refused(scenario):
    made = scenario | {"algorithms": ["fedbn"]}
    made["problem"] = made["problem"] | {"model": "rayfed.testing.modules:Small"}
    line = "^algorithms.0.personal_layers: the model has no normalisation layers; use fedper"
    with pytest.raises(ScenarioError, match=line):
        api.prepare(api.read(made))
