"""Full-batch training of a small convolutional network against a plain PyTorch script.

The script knows nothing of rayfed: it holds modules and lists of tensors, as in the papers.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from rayfed import api
from rayfed.datasets import Dataset
from rayfed.datasets.base import Table
from rayfed.testing.toy import tiny_run

SIZES, STEPS, LR, ROUNDS = (9, 5, 7), 3, 0.2, 10
CLOSE = {"float64": 1e-10, "float32": 1e-5}


@dataclass(frozen=True, kw_only=True)
class Grey(Dataset):
    """Grey images of 6 x 6, three clients."""

    name: ClassVar[str] = "grey"

    def load(self, source, seed):
        rng = np.random.default_rng(2)
        n = sum(SIZES)
        client = np.repeat(np.arange(3), SIZES)
        X = rng.standard_normal((n, 36)).astype(np.float32) + 0.2 * client[:, None]
        return Table(X, rng.integers(0, 3, n), 3, client=client, shape=(1, 6, 6))


class Net(nn.Module):
    """A convolution, pooling, GroupNorm, two linear layers."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.GroupNorm(2, 4)
        self.hidden = nn.Linear(16, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.norm(self.conv(x))), 2)
        return self.head(torch.tanh(self.hidden(x.flatten(1))))


class Script:
    """The plain script: clients' data, a module, and a rule for each method."""

    def __init__(self, start, dtype):
        table = Grey().load(None, 0)
        X = torch.from_numpy(table.X).to(dtype).view(-1, 1, 6, 6)
        self.data = list(zip(X.split(SIZES), torch.from_numpy(table.y).split(SIZES), strict=True))
        self.net = Net().to(dtype)
        self.x = torch.from_numpy(start).to(dtype)
        self.weights = [n / sum(SIZES) for n in SIZES]

    def gradient(self, x, i):
        vector_to_parameters(x, self.net.parameters())
        loss = functional.cross_entropy(self.net(self.data[i][0]), self.data[i][1])
        parts = torch.autograd.grad(loss, list(self.net.parameters()))
        return loss.item(), torch.cat([part.reshape(-1) for part in parts])

    def loss(self):
        return sum(w * self.gradient(self.x, i)[0] for i, w in enumerate(self.weights))

    def local(self, i, change=lambda g, x: g):
        x = self.x.clone()
        for _ in range(STEPS):
            x = x - LR * change(self.gradient(x, i)[1], x)
        return x

    def mean(self, vectors):
        return sum(w * v for w, v in zip(self.weights, vectors, strict=True))

    def fedavg(self):
        self.x = self.mean([self.local(i) for i in range(3)])

    def fedprox(self, mu=0.5):
        self.x = self.mean([self.local(i, lambda g, x: g + mu * (x - self.x)) for i in range(3)])

    def scaffold(self):
        if not hasattr(self, "c_i"):
            self.c, self.c_i = torch.zeros_like(self.x), [torch.zeros_like(self.x)] * 3
        new = [self.local(i, lambda g, x, i=i: g - self.c_i[i] + self.c) for i in range(3)]
        after = [self.c_i[i] - self.c + (self.x - new[i]) / (STEPS * LR) for i in range(3)]
        self.x, self.c_i, self.c = self.mean(new), after, self.mean(after)

    def fedexp(self, epsilon=1e-3):
        deltas = [self.x - self.local(i) for i in range(3)]
        mean = self.mean(deltas)
        squares = self.mean([(d * d).sum() for d in deltas])
        self.x = self.x - max(1.0, squares / (2 * ((mean * mean).sum() + epsilon))) * mean

    def fedadam(self, server_lr=0.1, beta1=0.9, beta2=0.99, tau=1e-3):
        if not hasattr(self, "m"):
            self.m, self.v = torch.zeros_like(self.x), torch.full_like(self.x, tau**2)
        delta = self.mean([self.local(i) for i in range(3)]) - self.x
        self.m = beta1 * self.m + (1 - beta1) * delta
        self.v = beta2 * self.v + (1 - beta2) * delta**2
        self.x = self.x + server_lr * self.m / (self.v.sqrt() + tau)


METHODS = {
    "fedavg": {},
    "fedprox": {"local": {"mu": 0.5}},
    "scaffold": {},
    "fedexp": {"epsilon": 1e-3},
    "fedadam": {"server_lr": 0.1, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3},
}


def algorithm(name):
    settings = dict(METHODS[name])
    local = {"steps": STEPS, "batch": "full", "lr": LR} | settings.pop("local", {})
    return {"name": name, "local": local, **settings}


@pytest.mark.parametrize("dtype", CLOSE)
def test_ten_rounds_are_those_of_a_plain_script(dtype, tmp_path):
    everyone = {"select": "all", "cohort": None}
    rounds = tiny_run(
        tmp_path,
        *map(algorithm, METHODS),
        problem={"name": "network", "model": Net, "dataset": Grey},
        partition=None,
        clients={},
        dtype=dtype,
        participation=everyone,
        rounds=ROUNDS,
        evaluate={"every": 1},
    ).rounds
    start = api.prepare(
        api.read(
            {
                "name": "start", "rounds": 1, "dtype": dtype, "clients": {},
                "algorithms": ["fedavg"],
                "problem": {"name": "network", "model": Net, "dataset": Grey},
            }
        )
    ).runs[0].training.x0  # fmt: skip
    for name in METHODS:
        script = Script(start, getattr(torch, dtype))
        losses = [script.loss()]
        for _ in range(ROUNDS):
            getattr(script, name)()
            losses.append(script.loss())
        found = rounds.loc[rounds.label == name, "loss"].to_numpy()
        assert found[-1] < found[0] - 0.1
        np.testing.assert_allclose(found, losses, rtol=0, atol=CLOSE[dtype], err_msg=name)
    assert len(parameters_to_vector(script.net.parameters())) == len(start)


def written(path, net):
    """Write the parameters of a module to a file, by name or as one vector."""
    state = {name: value.detach() for name, value in net.state_dict().items()}
    x = parameters_to_vector(net.parameters()).detach().numpy()
    if path.suffix == ".safetensors":
        save_file(state, path)
    elif path.suffix == ".pt":
        torch.save({"state_dict": state}, path)
    elif path.suffix == ".npy":
        np.save(path, x)
    else:
        np.savez(path, **({"x": x} if path.stem == "model" else state))
    return path


NAMED, VECTORS, CONV = ("a.safetensors", "a.pt", "named.npz"), ("model.npz", "a.npy"), ("conv.*",)


@pytest.mark.parametrize(
    ("file", "frozen"), [*((f, ()) for f in (*NAMED, *VECTORS)), *((f, CONV) for f in NAMED)]
)
def test_a_start_of_double_precision_keeps_its_digits(file, frozen, tmp_path):
    """A round of one step: F at the start of the file and after it, and the model."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        net = Net().double()
        for value in net.parameters():
            value.data += torch.randn_like(value) / 3  # of which single precision loses digits
    script = Script(parameters_to_vector(net.parameters()).detach().numpy(), torch.float64)
    rate = torch.full_like(script.x, LR)
    rate[: 40 if frozen else 0] = 0  # conv: 4 filters of 9 weights, and 4 biases
    before = script.loss()
    script.x = script.mean([script.x - rate * script.gradient(script.x, i)[1] for i in range(3)])
    result = tiny_run(
        tmp_path,
        {"name": "fedavg", "local": {"steps": 1, "batch": "full", "lr": LR}},
        problem={
            "name": "network", "model": Net, "dataset": Grey, "frozen": frozen,
            "init": str(written(tmp_path / file, net)),
        },
        partition=None, clients={}, dtype="float64", rounds=1,
        participation={"select": "all", "cohort": None},
    )  # fmt: skip
    np.testing.assert_allclose(result.rounds.loss, [before, script.loss()], rtol=1e-15)
    x = parameters_to_vector(result.model(trust=True).parameters()).detach().numpy()
    np.testing.assert_allclose(x, script.x.numpy(), rtol=1e-15, atol=1e-15)


@dataclass(frozen=True, kw_only=True)
class Coloured(Dataset):
    """Coloured images of 8 x 8, two clients of 2 and 3."""

    name: ClassVar[str] = "coloured"

    def load(self, source, seed):
        rng = np.random.default_rng(3)
        X, y = rng.standard_normal((5, 192)).astype(np.float32), np.array([0, 1, 2, 3, 4])
        return Table(X, y, 10, client=np.array([0, 0, 1, 1, 1]), shape=(3, 8, 8))


@pytest.mark.slow
def test_a_round_of_resnet18_is_that_of_a_plain_script(tmp_path):
    scenario = {
        "name": "resnet",
        "rounds": 1,
        "dtype": "float64",
        "clients": {},
        "problem": {"name": "network", "model": "resnet18", "dataset": Coloured},
        "algorithms": [{"name": "fedavg", "local": {"steps": 2, "batch": "full", "lr": 0.05}}],
        "executor": "serial",
    }
    problem, start = _begin(scenario)
    result = api.run(scenario, out=tmp_path / "out", page=False)
    net, table = problem.module(start).train(), Coloured().load(None, 0)
    X, y = torch.from_numpy(table.X).double().view(-1, 3, 8, 8), torch.from_numpy(table.y)
    models = []
    for rows in (slice(0, 2), slice(2, 5)):
        vector_to_parameters(torch.tensor(start), net.parameters())  # changed in place below
        for _ in range(2):
            net.zero_grad()
            functional.cross_entropy(net(X[rows]), y[rows]).backward()
            with torch.no_grad():
                for parameter in net.parameters():
                    parameter -= 0.05 * parameter.grad
        models.append(parameters_to_vector(net.parameters()).detach().numpy())
    expected = 0.4 * models[0] + 0.6 * models[1]
    assert start.size == 11_173_962
    assert np.abs(expected - start).max() > 1e-3
    np.testing.assert_allclose(result.weights("fedavg-seed0"), expected, rtol=0, atol=1e-10)


def _begin(scenario):
    """Return the problem of a scenario, and the model that it starts from."""
    (run,) = api.prepare(api.read(scenario)).runs
    return run.setup().problem, run.training.x0
