"""Running statistics that are averaged, stay at the clients or do not move, against plain loops."""

import copy
import re
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.core.plugins import find
from rayfed.testing import loop
from rayfed.testing.studies import mixed_for

SIZES, STEPS, LR = (3, 9, 5), (2, 4, 2), 0.2
MODEL = "rayfed.testing.modules:Normed"
OWN = """
import pandas as pd
import torch
from torch import nn
from rayfed.testing.modules import Normed

ROWS = pd.read_csv({path!r})

def model():
    torch.manual_seed(5)
    return Normed((2,), 3)

def client(i):
    rows = ROWS[ROWS["client"] == i]
    return torch.tensor(rows[["a", "b"]].to_numpy()), torch.tensor(rows["y"].to_numpy())

def size(i, part):
    return int((ROWS["client"] == i).sum()) if part == "train" else 0

def train(model, data, context):
    model.train()
    optimiser, losses = torch.optim.SGD(model.parameters(), {lr}), []
    for _ in range(context.steps):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(data[0]), data[1])
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return {{"loss": sum(losses) / len(losses)}}

def evaluate(model, data, part):
    model.eval()
    with torch.no_grad():
        return {{"loss": nn.functional.cross_entropy(model(data[0]), data[1]).item()}}
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A file of three clients of unequal sizes, whose features differ in scale and place."""
    draws, client = np.random.default_rng(5), np.repeat(np.arange(3), SIZES)
    X = draws.standard_normal((len(client), 2)) * (1 + client[:, None]) + 2 * client[:, None]
    y = draws.integers(0, 3, len(client))
    y[:3] = 0, 1, 2
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    pd.DataFrame({"client": client, "a": X[:, 0], "b": X[:, 1], "y": y}).to_csv(
        path, index=False, float_format="%.17g"
    )
    return path


@pytest.fixture
def scenario(rows):
    """A function that returns a scenario of the built-in problem, with settings of it."""

    def make(algorithm="fedavg", local=None, **problem):
        given = {"steps": 2, "batch": "full", "lr": LR, **(local or {})}
        return {
            "rounds": 5, "dtype": "float64", "executor": "serial",
            "problem": {"name": "network", "model": MODEL, "dataset": str(rows), **problem},
            "clients": {"count": 3, "groups": [{"ids": [1], "local": {"steps": 4}}]},
            "participation": {"cohort": 2},
            "algorithms": [{"name": algorithm, "local": given}],
        }  # fmt: skip

    return make


@pytest.fixture
def own(rows, scenario, tmp_path, monkeypatch):
    """A function that returns the same scenario with own code."""
    (tmp_path / "own_normed.py").write_text(OWN.format(path=str(rows), lr=LR))
    monkeypatch.syspath_prepend(tmp_path)

    def make(algorithm="fedavg", **problem):
        made = scenario(algorithm)
        made["problem"] = {"name": "own-code", "code": "own_normed", **problem}
        made["algorithms"][0]["local"] = {"name": "own-train", "steps": 2}
        return made

    return make


def data_of(rows, i):
    table = pd.read_csv(rows)
    table = table[table["client"] == i]
    return torch.tensor(table[["a", "b"]].to_numpy()), torch.tensor(table["y"].to_numpy())


def looped(rows, module, cohorts, *, frozen=False, mu=0.0, decay=0.0):
    """Returns the losses of FedAvg on state dicts, statistics included, as Flower averages them."""

    def mode(each, training):
        each.train(training)
        if frozen:
            each.norm.eval()
        return each

    def loss_of(each, i):
        X, y = data_of(rows, i)
        return nn.functional.cross_entropy(each(X), y)

    def total():
        with torch.no_grad():
            values = [loss_of(mode(module, False), i).item() for i in range(3)]
        return np.average(values, weights=SIZES)

    losses = [total()]
    for cohort in cohorts:
        locals_ = []
        for i in cohort:
            mine = mode(copy.deepcopy(module), True)
            start = [p.detach().clone() for p in mine.parameters()]
            optimiser = torch.optim.SGD(mine.parameters(), LR, weight_decay=decay)
            for _ in range(STEPS[i]):
                optimiser.zero_grad()
                pull = sum(
                    ((p - s) ** 2).sum() for p, s in zip(mine.parameters(), start, strict=True)
                )
                (loss_of(mine, i) + mu / 2 * pull).backward()
                optimiser.step()
            locals_.append(mine.state_dict())
        for name, value in module.state_dict().items():
            if value.dtype.is_floating_point:
                mean = sum(SIZES[i] * s[name] for i, s in zip(cohort, locals_, strict=True))
                value.copy_(mean / sum(SIZES[i] for i in cohort))
        losses.append(total())
    return losses


@pytest.mark.parametrize(
    ("algorithm", "local", "settings"),
    [
        ("fedavg", {}, {}),
        ("fedavg", {"weight_decay": 0.1}, {"decay": 0.1}),
        ("fedprox", {"mu": 0.5}, {"mu": 0.5}),
        ("fedavg", {}, {"frozen": True}),
        ("fedavg", {"weight_decay": 0.1}, {"decay": 0.1, "frozen": True}),
    ],
)
def test_statistics_are_averaged_or_fixed_as_in_a_plain_loop(
    rows, scenario, tmp_path, algorithm, local, settings
):
    mode = {"normalisation": "frozen"} if settings.get("frozen") else {}
    given = scenario(algorithm, local, **mode)
    found = rayfed.run(given, out=tmp_path, page=False)
    training = api.prepare(api.read(given)).runs[0].training
    cohorts = found.events.groupby("round")["client"].apply(list)
    expected = looped(rows, training.problem.module(training.x0), cohorts, **settings)
    np.testing.assert_allclose(found.rounds["loss"], expected, rtol=1e-10)
    variance = found.model().norm.running_var.numpy()
    assert (variance == 1).all() == bool(settings.get("frozen"))


@pytest.mark.parametrize(
    ("algorithm", "mode"),
    [("fedavg", "average"), ("fedavg", "frozen"), ("fedbn", "local"), ("fedbn", "average")],
)
def test_own_code_is_as_the_built_in_problem(scenario, own, tmp_path, algorithm, mode):
    built_in = scenario(algorithm, normalisation=mode, model="own_normed:model")
    mine = own(algorithm, normalisation=mode)
    one, two = (
        rayfed.run(given, out=tmp_path / name, page=False)
        for name, given in (("built-in", built_in), ("own", mine))
    )
    np.testing.assert_allclose(one.rounds["loss"], two.rounds["loss"], rtol=1e-10)
    np.testing.assert_allclose(one.weights(), two.weights(), rtol=1e-9, atol=1e-12)
    for name in ("bytes_up", "bytes_down", "local_steps"):
        assert one.rounds[name].tolist() == two.rounds[name].tolist()


KEEPING = {"fedbn", "local-only"}
AVERAGING = {
    "centralised", "fedasync", "fedavg", "fedavg-finetuned", "fedbn", "fedper", "fedprox",
    "local-only",
}  # fmt: skip
PARTIAL = {"federated-dropout", "fedrolex", "heterofl"}
"""Methods that train parts of chains of linear and convolutional layers."""


@pytest.mark.parametrize("name", find("algorithms"))
def test_a_method_has_batch_norm_if_it_has_the_module_without(name):
    def made(model, **settings):
        given = mixed_for(find("algorithms")[name], rounds=1)
        data = {key: given["problem"][key] for key in ("dataset", "test")}
        model = f"rayfed.testing.modules:{model}"
        given["problem"] = {"name": "network", "model": model, **data, **settings}
        given["algorithms"][0]["local"]["batch"] = "full"
        return given

    try:
        api.prepare(api.read(made("Small")))
    except ScenarioError as error:
        if name != "fedbn":
            with pytest.raises(ScenarioError, match=re.escape(str(error)[:60])):
                api.prepare(api.read(made("Normed", normalisation="frozen")))
            return
    for mode in ("average", "local", "frozen"):
        given = made("Normed", normalisation=mode)
        works = {"average": name in AVERAGING, "local": name in KEEPING, "frozen": True}[mode]
        if not works or name in PARTIAL:
            text = rf"problem.model: BatchNorm \('norm', {mode}"
            text = "'norm.weight' is in no chain" if name in PARTIAL else text
            with pytest.raises(ScenarioError, match=text):
                api.prepare(api.read(given))
            continue
        engine = loop(given)
        state, _ = engine.start()
        state, row, _ = engine.step(state)
        assert np.isfinite(row["loss"])


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"uplink": [{"name": "top-k", "share": 0.5}]}, "its uploads as they are, but"),
        (
            {"server_lr": 1.5},
            "a mean of clients' models .*, but 'fedavg' moves the model",
        ),
        (
            {"aggregate": "median", "weights": "uniform"},
            "the exact weighted mean of uploads, but",
        ),
    ],
)
def test_averages_are_of_whole_uploads(scenario, keys, reason):
    given = scenario()
    given["algorithms"][0] |= keys
    with pytest.raises(ScenarioError, match=reason):
        api.prepare(api.read(given))
    given["problem"]["normalisation"] = "frozen"
    api.prepare(api.read(given))


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("torchvision"), reason="needs torchvision")
@pytest.mark.parametrize("mode", ["average", "frozen"])
def test_models_of_torchvision_run(tmp_path, monkeypatch, mode):
    pixels = tmp_path / "pixels.csv"
    draws = np.random.default_rng(0)
    table = pd.DataFrame(draws.normal(size=(12, 3 * 32 * 32)).astype(np.float32))
    table.columns = [f"p{k}" for k in table]
    table.assign(y=np.arange(12) % 3, client=np.arange(12) // 6).to_csv(pixels, index=False)
    given = {
        "rounds": 1, "executor": "serial",
        "problem": {
            "name": "network", "dataset": str(pixels), "shape": [3, 32, 32],
            "model": {"name": "torchvision.models:shufflenet_v2_x0_5", "num_classes": 3},
            "normalisation": mode,
        },
        "algorithms": [{"name": "fedavg", "local": {"steps": 2, "batch": 6, "lr": 0.01}}],
    }  # fmt: skip
    found = rayfed.run(given, out=tmp_path / "out", page=False)
    assert np.isfinite(found.rounds["loss"]).all()
    moved = found.model().conv1[1].running_mean.abs().sum().item() > 0
    assert moved == (mode == "average")
