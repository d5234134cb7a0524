"""Parameters as modules have them: frozen, lazy, of other numbers; rows of integers, own losses."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.problems import Network
from rayfed.runs.serial import SerialStudy

KEY = Key(0, "init")
LOCAL = {"steps": 3, "batch": 4, "lr": 0.5}


class Adapted(nn.Module):
    """A base that needs no gradient, with an adapter of low rank, and a head."""

    def __init__(self, inputs, outputs, width=8, rank=2):
        super().__init__()
        self.base = nn.Linear(inputs[0], width).requires_grad_(False)
        self.A = nn.Parameter(torch.randn(rank, inputs[0]) / 4)
        self.B = nn.Parameter(torch.zeros(width, rank))
        self.norm = nn.LayerNorm(width).requires_grad_(False)
        self.head = nn.Linear(width, outputs)

    def forward(self, x):
        return self.head(self.norm(self.base(x) + x @ self.A.T @ self.B.T).relu())


class Pretrained(Adapted):
    """The same with a base that is read, and not drawn."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        with torch.no_grad():
            self.base.weight.copy_(torch.arange(self.base.weight.numel()).view_as(self.base.weight))


class Shared(nn.Module):
    """Two layers with one weight that needs no gradient."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.a, self.b = nn.Linear(inputs[0], inputs[0]), nn.Linear(inputs[0], inputs[0])
        self.b.weight = self.a.weight
        self.a.weight.requires_grad_(False)
        self.head = nn.Linear(inputs[0], outputs)

    def forward(self, x):
        return self.head(self.b(self.a(x)))


class Tokens(nn.Module):
    """Scores of rows of token ids."""

    def __init__(self, outputs, vocabulary=50, width=3):
        super().__init__()
        self.table, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, outputs)

    def forward(self, x):
        return self.head(self.table(x).mean(1))


class Lazy(nn.Module):
    """A head of as many inputs as come."""

    def __init__(self, outputs):
        super().__init__()
        self.body, self.head = nn.LazyLinear(4), nn.LazyLinear(outputs)

    def forward(self, x):
        return self.head(self.body(x).relu())


class Complex(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.w = nn.Parameter(torch.randn(inputs[0], dtype=torch.cfloat))
        self.head = nn.Linear(inputs[0], outputs)

    def forward(self, x):
        return self.head((x * self.w).real)


class Half(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.head = nn.Linear(inputs[0], outputs).half()

    def forward(self, x):
        return self.head(x.half())


class Double(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.head = nn.Linear(inputs[0], outputs).double()

    def forward(self, x):
        return self.head(x.double())


class Line(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.head = nn.Linear(inputs[0], outputs)

    def forward(self, x):
        return self.head(x)


class Nothing(Line):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.requires_grad_(False)


def pinball(outputs, targets):
    d = targets - outputs[:, 0]
    return torch.maximum(0.9 * d, -0.1 * d)


def bind(model, shape=(6,), classes=3, **settings):
    return Network(model=model, **settings).bound(shape, classes, KEY)


def scenario(model, **changes):
    dataset = {"name": "synthetic", "features": 6, "classes": 3, "samples": 12}
    problem = {"name": "network", "model": model, "dataset": dataset, "test": 0.25}
    return {
        "name": "parameters", "seeds": [0], "rounds": 3, "problem": problem,
        "clients": {"count": 4}, "algorithms": [{"name": "fedavg", "local": LOCAL}],
        "executor": "serial",
    } | changes  # fmt: skip


def ran(tmp_path, made):
    plan = api.prepare(api.read(made))
    outcome = SerialStudy(tmp_path).execute(plan.runs, plan.tables, False, lambda *_: None)
    assert set(outcome.values()) == {"finished"}
    return api.Result(tmp_path, outcome), plan.runs[0].training.problem


# -- parameters that need no gradient ---------------------------------------------------------


@pytest.mark.parametrize("frozen", [(), ("head.bias",)])
def test_parameters_that_need_no_gradient_are_outside_the_model(frozen):
    problem = bind(Adapted, frozen=frozen)
    names = [layer.name for layer in problem.layers(6, 3)]
    assert names == [n for n in ("A", "B", "head.weight", "head.bias") if n not in frozen]
    assert problem.size(6, 3) == 2 * 6 + 8 * 2 + 8 * 3 + (0 if frozen else 3)
    assert {"base.weight", "base.bias", "norm.weight", "norm.bias"} <= set(problem.fixed)


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "fedper"])
def test_a_frozen_base_stays_and_is_not_charged(tmp_path, name):
    made = scenario(Adapted, algorithms=[{"name": name, "local": LOCAL}])
    result, problem = ran(tmp_path, made)
    before = problem.named(problem.initial("torch", 6, 3, KEY), 6, 3)
    after = problem.named(result.weights(f"{name}-seed0"), 6, 3)
    moved = {key for key in after if not np.array_equal(before[key], after[key])}
    head = set() if name == "fedper" else {"head.weight", "head.bias"}
    assert moved - {"head.weight", "head.bias"} == {"A", "B"}
    assert head <= moved
    shared = 55 - (27 if name == "fedper" else 0)
    vectors = 2 if name == "scaffold" else 1
    sent = result.rounds.bytes_up.iloc[-1] / 4  # of a round, a client
    assert sent == 4 * shared * vectors


def test_a_base_that_was_read_is_the_same_for_all_seeds_and_never_drawn():
    values = [Network(model=Pretrained).bound((6,), 3, Key(seed, "init")) for seed in (0, 5)]
    for problem in values:
        weight = problem.module().base.weight.detach().numpy()
        np.testing.assert_array_equal(weight.ravel(), np.arange(48))
    drawn = [Network(model=Adapted).bound((6,), 3, Key(seed, "init")) for seed in (0, 5)]
    assert not np.array_equal(drawn[0].fixed["base.weight"], drawn[1].fixed["base.weight"])


def test_a_shared_weight_is_frozen_everywhere():
    names = [layer.name for layer in bind(Shared).layers(6, 3)]
    assert names == ["a.bias", "b.bias", "head.weight", "head.bias"]


def test_a_start_from_a_file_gives_frozen_parameters_too(tmp_path):
    module = Adapted((6,), 3)
    torch.save(module.state_dict(), tmp_path / "base.pt")
    problem = Network(model=Adapted, init=str(tmp_path / "base.pt")).bound((6,), 3, KEY)
    np.testing.assert_array_equal(problem.fixed["base.weight"], module.base.weight.numpy())


def test_a_module_without_anything_to_train_is_refused():
    with pytest.raises(ScenarioError, match="no parameter of the module needs a gradient"):
        bind(Nothing)


# -- rows of integers -------------------------------------------------------------------------


def tokens(tmp_path, X, **changes):
    rows = np.arange(len(X))
    np.savez(tmp_path / "ids.npz", X=X, y=rows % 3, client=rows % 4)
    made = scenario(Tokens, **changes)
    made["problem"] |= {"dataset": {"name": "arrays", "path": str(tmp_path / "ids.npz")}}
    return made | {"clients": {}}


@pytest.mark.parametrize("dtype", [np.int64, np.int16, np.float64])
def test_token_ids_reach_an_embedding_as_integers(tmp_path, dtype):
    X = np.random.default_rng(0).integers(0, 50, (40, 5)).astype(dtype)
    made = tokens(tmp_path, X)
    result, problem = ran(tmp_path / "out", made)
    assert problem.integers
    module = problem.module(result.weights("fedavg-seed0"))
    with torch.no_grad():
        scores = module(torch.as_tensor(X.astype(np.int64))).argmax(1).numpy()
    held = to_predict(problem, result.weights("fedavg-seed0"), X)
    np.testing.assert_array_equal(held, scores)
    assert not any("scale them" in line for line in result.warnings)


def to_predict(problem, x, X):
    given = problem.arrays({"x": x[None], "X": X[None].astype(x.dtype)})
    return problem.predict(given["x"], given["X"])[0].numpy()


@pytest.mark.parametrize(("ids", "message"), [
    (np.full((40, 5), 50), "cannot take integers from 50 to 50: IndexError"),
    (np.full((40, 5), 0.5), "takes integers alone, and some features have fractions"),
    (np.full((40, 5), 2**24 + 1), "are not exact in float32; give dtype: float64"),
])  # fmt: skip
def test_rows_that_are_no_ids_are_refused_before_the_run(tmp_path, ids, message):
    with pytest.raises(ScenarioError, match=message):
        api.prepare(api.read(tokens(tmp_path, ids)))


# -- modules that are made otherwise ----------------------------------------------------------


def test_lazy_layers_are_made_by_a_row_of_zeros_and_drawn_by_the_key():
    first, again, other = (
        Network(model=Lazy).bound((6,), 3, Key(seed, "init")) for seed in (0, 0, 1)
    )
    assert first.size(6, 3) == 6 * 4 + 4 + 4 * 3 + 3
    starts = [
        p.initial("torch", 6, 3, Key(s, "init")) for p, s in ((first, 0), (again, 0), (other, 1))
    ]
    np.testing.assert_array_equal(starts[0], starts[1])
    assert not np.array_equal(starts[0], starts[2])


@pytest.mark.parametrize(("model", "message"), [
    (Complex, "has complex numbers .'w'., and a model is real ones; keep real and imaginary"),
    (Half, "has numbers of float16 .'head.weight'., and models are float32 or float64"),
    (Double, "cannot take 2 rows of shape .6,."),
])  # fmt: skip
def test_other_numbers_are_refused_in_one_line(model, message):
    with pytest.raises(ScenarioError, match=message) as error:
        bind(model)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("model", ["lenet5", "cnn", "resnet18"])
def test_images_with_the_channels_last_are_refused(model):
    with pytest.raises(ScenarioError, match=r"rows look like \(H, W, C\) = \(16, 16, 3\)"):
        bind(model, shape=(16, 16, 3))
    assert bind("lenet5", shape=(3, 16, 16)).rows == (3, 16, 16)
    assert Network(model="cnn", shape=(3, 16, 16)).bound((16, 16, 3), 3, KEY).rows == (3, 16, 16)


# -- losses of one's own ----------------------------------------------------------------------


def table(tmp_path: Path, y, **settings):
    X = np.random.default_rng(1).normal(size=(len(y), 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "load": y})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    problem = {"name": "network", "model": Line, "target": "load",
               "dataset": str(tmp_path / "rows.csv"), "test": 0.25, **settings}  # fmt: skip
    return scenario(Line, problem=problem)


@pytest.mark.parametrize("loss", [pinball, nn.HuberLoss(reduction="none", delta=0.5)])
def test_a_loss_of_numbers_trains(tmp_path, loss):
    y = np.random.default_rng(0).normal(size=60)
    if isinstance(loss, nn.Module):

        def loss(outputs, targets, of=loss):
            return of(outputs[:, 0], targets)

    result, problem = ran(tmp_path / "out", table(tmp_path, y, loss=loss))
    assert (problem.task, problem.outputs) == ("regression", 1)
    assert result.rounds.loss.iloc[-1] < result.rounds.loss.iloc[0]
    assert result.rounds.accuracy.isna().all()


def test_the_target_decides_and_whole_numbers_are_classes_unless_said(tmp_path):
    y = np.arange(60) % 4
    plan = api.prepare(api.read(table(tmp_path, y, loss=pinball)))
    assert plan.runs[0].training.problem.outputs == 4
    plan = api.prepare(api.read(table(tmp_path, y, loss=pinball, predicts="numbers")))
    assert plan.runs[0].training.problem.outputs == 1
    with pytest.raises(ScenarioError, match=r"predicts: found numbers, but the loss"):
        api.read(table(tmp_path, y, predicts="numbers"))
