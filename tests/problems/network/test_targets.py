"""Targets of any shape and losses of whole batches, against plain PyTorch at unequal clients."""

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from torch import nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.problems.base import Batch

SIZES, LR, STEPS = (7, 3, 5), 0.1, 2
N = sum(SIZES)
CLIENT = np.repeat(np.arange(3), SIZES)
RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(N, 4))
IMAGES = RNG.normal(size=(N, 1, 4, 4))
TOKENS = RNG.integers(1, 5, (N, 6))
LENGTHS = RNG.integers(2, 7, N)
NEXT = np.where(np.arange(6) < LENGTHS[:, None] - 1, np.roll(TOKENS, -1, axis=1), -100)


class Line(nn.Module):
    def __init__(self, inputs, outputs, width=None):
        super().__init__()
        self.head = nn.Linear(inputs[0], width or outputs)

    def forward(self, x):
        return self.head(x)


class Segmenter(nn.Module):
    """Scores (B, C, H, W) of each pixel."""

    def __init__(self, outputs):
        super().__init__()
        self.body = nn.Conv2d(1, outputs, 3, padding=1)

    def forward(self, x):
        return self.body(x)


class AutoEncoder(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.code, self.back = nn.Linear(16, 3), nn.Linear(3, 16)
        self.inputs = inputs

    def forward(self, x):
        return self.back(torch.tanh(self.code(x.flatten(1)))).view(-1, *self.inputs)


class Variational(nn.Module):
    """Reconstructions, means and log-variances; it draws in training alone."""

    def __init__(self, inputs):
        super().__init__()
        self.code, self.back = nn.Linear(inputs[0], 4), nn.Linear(2, inputs[0])

    def forward(self, x):
        mean, spread = self.code(x).chunk(2, 1)
        return self.back(mean), mean, spread


def elbow(outputs, x):
    back, mean, spread = outputs
    return (back - x).square().sum(1) + 0.1 * (mean**2 + spread.exp() - spread).sum(1)


class Heads(nn.Module):
    """Scores of three classes, and a map (2, 2) of each row."""

    def __init__(self, inputs):
        super().__init__()
        self.scores, self.map = nn.Linear(inputs[0], 3), nn.Linear(inputs[0], 4)

    def forward(self, x):
        return {"scores": self.scores(x), "map": self.map(x).view(-1, 2, 2)}


def both(outputs, y):
    losses = functional.cross_entropy(outputs["scores"], y, reduction="none")
    return losses + outputs["map"].diagonal(dim1=1, dim2=2).square().sum(1)


class Pair(nn.Module):
    """Two numbers of a row, each from a head of its own, one without an axis of its own."""

    def __init__(self, inputs):
        super().__init__()
        self.a, self.b = nn.Linear(inputs[0], 1), nn.Linear(inputs[0], 1)

    def forward(self, x):
        return [self.a(x), self.b(x)[:, 0]]


class Answer:
    """An output of transformers."""

    def __init__(self, logits):
        self.logits = logits


class Language(nn.Module):
    """Scores (B, T, C) of the next token under ``logits``."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(5, 3), nn.Linear(3, 5)

    def forward(self, ids):
        assert ids.dtype == torch.int64
        return Answer(self.head(torch.tanh(self.embed(ids).cumsum(1))))


def triplet(z, y):
    """Return the mean hinge over all triplets of a batch, 0 without one."""
    apart = (z[:, None] - z[None]).square().sum(2)
    same = (y[:, None] == y[None]) & ~torch.eye(len(y), dtype=torch.bool)
    gaps = functional.relu(apart[:, :, None] - apart[:, None, :] + 1.0)
    counted = same[:, :, None] & (y[:, None] != y[None])[:, None, :]
    return (gaps * counted).sum() / counted.sum().clamp(min=1)


def cox(z, y):
    """Return the negative log partial likelihood of a batch, Breslow's for ties."""
    time, event = y[:, 0], y[:, 1]
    risk = torch.where(time[None] >= time[:, None], z.reshape(1, -1), -torch.inf)
    return (event * (risk.logsumexp(1) - z.reshape(-1))).sum() / event.sum().clamp(min=1)


def weighted(z, y):
    """Return a loss of each row of two numbers."""
    return (functional.huber_loss(z, y, reduction="none") * torch.tensor([1.0, 3.0])).sum(1)


def mean(losses):
    return losses.mean()


CASES = {
    "two outputs": (
        {"X": ROWS, "y": RNG.normal(size=(N, 2))}, {"model": Line, "loss": "squared-error"},
        lambda z, y: ((z - y) ** 2 / 2).mean(),
    ),
    "labels": (
        {"X": ROWS, "y": RNG.integers(0, 2, (N, 3))},
        {"model": Line, "loss": "binary-cross-entropy"},
        lambda z, y: functional.binary_cross_entropy_with_logits(z, y.to(z.dtype)),
    ),
    "masks": (
        {"X": IMAGES, "y": RNG.integers(0, 3, (N, 4, 4))}, {"model": Segmenter},
        lambda z, y: functional.cross_entropy(z, y),
    ),
    "autoencoder": (
        {"X": IMAGES}, {"model": AutoEncoder, "loss": "squared-error"},
        lambda z, y: ((z - y) ** 2 / 2).mean(),
    ),
    "triplet": (
        {"X": ROWS, "y": np.arange(N) % 3},
        {"model": {"name": Line, "width": 2}, "loss": triplet, "predicts": "nothing"}, triplet,
    ),
    "cox": (
        {"X": ROWS, "y": np.stack([RNG.exponential(size=N), np.arange(N) % 2], 1)},
        {"model": {"name": Line, "width": 1}, "loss": cox}, cox,
    ),
    "next token": (
        {"X": TOKENS, "y": NEXT}, {"model": Language},
        lambda z, y: torch.stack(list(map(functional.cross_entropy, z, y))).mean(),
    ),
    "tuple": (
        {"X": ROWS}, {"model": Variational, "loss": elbow}, lambda z, x: elbow(z, x).mean(),
    ),
    "dict": (
        {"X": ROWS, "y": np.arange(N) % 3}, {"model": Heads, "loss": both},
        lambda z, y: both(z, y).mean(),
    ),
    "list": (
        {"X": ROWS, "y": RNG.normal(size=(N, 2))}, {"model": Pair, "loss": "squared-error"},
        lambda z, y: 0.5 * (torch.cat((z[0], z[1][:, None]), 1) - y).square().mean(),
    ),
    "own loss of rows": (
        {"X": ROWS, "y": RNG.normal(size=(N, 2))}, {"model": Line, "loss": weighted},
        lambda z, y: weighted(z, y).mean(),
    ),
}  # fmt: skip


def scenario(data, problem):
    data = data if "client" in data else data | {"client": CLIENT}
    return {
        "name": "targets", "rounds": 2, "dtype": "float64", "executor": "serial",
        "problem": {"name": "network", "dataset": {"name": "arrays", "data": data}, **problem},
        "participation": {"select": "all", "cohort": None},
        "algorithms": [{"name": "fedavg", "local": {"steps": STEPS, "batch": "full", "lr": LR}}],
    }  # fmt: skip


def pairs(data, problem):
    """Return the tensors of a client's rows and targets, in the order of clients."""
    X = torch.from_numpy(data["X"])
    y = torch.from_numpy(data["y"]) if "y" in data else X
    return list(zip(X.split(SIZES), y.split(SIZES), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_two_rounds_are_those_of_a_plain_script(name, tmp_path):
    data, problem, loss = CASES[name]
    plan = api.prepare(api.read(scenario(data, problem)))
    bound, x = plan.runs[0].training.problem, torch.from_numpy(plan.runs[0].training.x0)
    net = bound.module(x.numpy()).train()

    def of(x, rows):
        vector_to_parameters(x, net.parameters())
        found = net(rows[0])
        value = loss(getattr(found, "logits", found), rows[1])
        grads = torch.autograd.grad(value, list(net.parameters()))
        return value.item(), parameters_to_vector(grads)

    clients, losses = pairs(data, problem), []
    for round in range(3):
        losses.append(sum(n / N * of(x, rows)[0] for n, rows in zip(SIZES, clients, strict=False)))
        ends = []
        for rows in clients if round < 2 else ():
            local = x.clone()
            for _ in range(STEPS):
                local = local - LR * of(local, rows)[1]
            ends.append(local)
        x = sum(n / N * end for n, end in zip(SIZES, ends, strict=False)) if ends else x
    result = rayfed.run(scenario(data, problem), out=tmp_path / "out")
    np.testing.assert_allclose(result.rounds.loss, losses, rtol=1e-12)
    np.testing.assert_allclose(result.weights("fedavg-seed0"), x, rtol=1e-11, atol=1e-13)
    again = result.model("fedavg-seed0").state_dict()  # from the folder, without the data
    assert all(
        torch.equal(again[k], v)
        for k, v in bound.module(result.weights("fedavg-seed0")).state_dict().items()
    )


SEEN = []
"""Targets that own losses were given; those of padding are 0."""


def seen_rows(z, y):
    """Return losses of rows, infinite for padding."""
    SEEN.append(y.tolist())
    return (1 / y).abs().sum(1) * z.square().sum(1)


def seen_batch(z, y):
    SEEN.append(y.tolist())
    return (z.sum(1) / y[:, 0]).square().mean()


def numbered():
    y = np.stack([1.0 + np.arange(N), 2.0 + np.arange(N)], 1)
    return {"X": ROWS, "y": y}


@pytest.mark.parametrize("loss", [seen_rows, seen_batch])
@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold"])
def test_no_padding_enters_an_own_loss(loss, algorithm, tmp_path):
    study = scenario(numbered(), {"model": {"name": Line, "width": 2}, "loss": loss, "test": 0.3})
    local = {"epochs": 2, "batch": 2, "lr": 1e-3, "sampling": "shuffle"}
    study["algorithms"] = [{"name": algorithm, "local": local}]
    SEEN.clear()
    rounds = rayfed.run(study, out=tmp_path / "out").rounds
    assert np.isfinite(rounds[["loss", "test_loss"]]).all(axis=None)
    invented = [[0.0, 0.0]] * 2  # of the check of the loss, before the run
    assert all(0.0 not in row for rows in SEEN if rows != invented for row in rows)
    assert {len(rows) for rows in SEEN} >= {1, 2}
    assert rounds.accuracy.isna().all()


def test_a_shuffled_epoch_is_that_of_batches_without_padding():
    """The last batch of 7 rows in batches of 3 has one row."""
    study = scenario(numbered(), {"model": {"name": Line, "width": 2}, "loss": seen_batch})
    plan = api.prepare(api.read(study))
    problem = plan.runs[0].training.problem
    X, y = ROWS[None, :3], numbered()["y"][None, :3]
    w = np.array([[0.5, 0.5, 0.0]])
    x = problem.arrays({"x": plan.runs[0].training.x0[None]})["x"]
    padded = Batch(X * (w > 0)[..., None], y * (w > 0)[..., None], w, None)
    alone = Batch(X[:, :2], y[:, :2], w[:, :2], None)
    for found, wanted in zip(
        problem.value_and_gradient(x, problem.batch(padded)),
        problem.value_and_gradient(x, problem.batch(alone)), strict=True,
    ):  # fmt: skip
        assert torch.allclose(found, wanted, rtol=1e-12)
    nothing = Batch(X * 0, y * 0, w * 0, None)
    assert problem.value(x, problem.batch(nothing)).tolist() == [0.0]


@pytest.mark.parametrize("name", CASES)
def test_bits_do_not_depend_on_the_stack(name):
    data, settings, _ = CASES[name]
    plan = api.prepare(api.read(scenario(data, settings)))
    problem, x = plan.runs[0].training.problem, plan.runs[0].training.x0
    rng = np.random.default_rng(0)
    at = rng.integers(0, N, (7, 4))
    X = np.asarray(data["X"], dtype=np.float64).reshape(N, -1)[at]
    y = (data["y"] if "y" in data else np.zeros((N, 0)))[at]
    stack = problem.batch(Batch(X, y, np.full((7, 4), 0.25), None))
    x = problem.arrays({"x": x[None] + np.zeros((7, 1))})["x"]
    value, gradient = problem.value_and_gradient(x, stack)
    for k in range(7):
        one = problem.batch(Batch(X[k : k + 1], y[k : k + 1], np.full((1, 4), 0.25), None))
        v, g = problem.value_and_gradient(x[:1], one)
        assert torch.equal(v[0], value[k])
        assert torch.equal(g[0], gradient[k])


@pytest.mark.parametrize("name", ["labels", "masks", "next token"])
def test_accuracy_is_the_mean_share_of_right_values(name, tmp_path):
    data, problem, _ = CASES[name]
    result = rayfed.run(scenario(data, problem), out=tmp_path / "out")
    net = result.model("fedavg-seed0").double().eval()
    y = torch.from_numpy(data["y"])
    X = torch.from_numpy(data["X"])
    with torch.no_grad():
        z = net(X)
    z = getattr(z, "logits", z)
    predicted = {"labels": z > 0, "masks": z.argmax(1), "next token": z.argmax(-1)}[name]
    shares = [(p == t)[t != -100].double().mean() for p, t in zip(predicted, y, strict=True)]
    np.testing.assert_allclose(result.rounds.accuracy.iloc[-1], np.mean(shares), rtol=1e-12)


def reached(y, z):
    """Return the mean output: of all outputs of a row, or of the scores of classes."""
    return z.sum() / len(z)


@pytest.mark.parametrize("name", ["tuple", "dict", "list"])
def test_several_outputs_are_measured_side_by_side_and_classes_by_the_first(name, tmp_path):
    data, problem, _ = CASES[name]
    study = scenario(data, problem)
    study["evaluate"] = {"measures": [{"name": "metrics", "of": [reached]}]}
    result = rayfed.run(study, out=tmp_path / "out")
    with torch.no_grad():
        found = result.model("fedavg-seed0").double().eval()(torch.from_numpy(data["X"]))
    parts = [found["scores"]] if name == "dict" else found
    wanted = sum(part.sum() for part in parts).item() / N
    np.testing.assert_allclose(result.rounds.reached.iloc[-1], wanted, rtol=1e-10)
    right = np.mean(found["scores"].argmax(1).numpy() == data["y"]) if name == "dict" else np.nan
    np.testing.assert_allclose(result.rounds.accuracy.iloc[-1], right)


class Drawing(nn.Linear):
    def forward(self, x):
        return super().forward(x) + torch.randn(len(x), 1, dtype=x.dtype)


class Fickle(Pair):
    """Outputs in another order in evaluation."""

    def forward(self, x):
        a, b = super().forward(x)
        return [a, b] if self.training else [b, a]


class Scalar(Pair):
    """An output that is no number of each row."""

    def forward(self, x):
        return super().forward(x)[0], x.sum()


LINE = {"model": Line, "loss": "squared-error"}
TWO = RNG.normal(size=(N, 2))
WHOLE = {"X": ROWS, "y": np.ones((N, 2), np.int64)}


@pytest.mark.parametrize(
    ("data", "problem", "more", "message"),
    [
        ({"X": ROWS, "y": TWO}, {"name": "least-squares"}, {}, "predicts one label"),
        ({"X": ROWS}, {"name": "softmax-regression"}, {}, "has no targets; use network"),
        ({"X": ROWS, "y": TWO}, {"model": Line}, {}, "cross-entropy does not fit targets"),
        (WHOLE, LINE, {}, "squared-error does not fit targets of shape"),
        (CASES["dict"][0], {"model": Heads}, {}, r"'scores': \(B, 3\), .* or give a loss of your"),
        (CASES["dict"][0], {"model": Heads, "loss": lambda z, y: z["a"]}, {},
         "cannot take outputs {"),
        ({"X": ROWS, "y": TWO}, LINE | {"model": Fickle}, {},
         "in evaluation mode after .*; return the same outputs"),
        ({"X": ROWS, "y": TWO}, LINE | {"model": Scalar}, {},
         "or a tuple or dict of float tensors"),
        ({"X": ROWS, "y": ROWS[:, 0]}, LINE | {"model": lambda: Drawing(4, 1)}, {},
         "draws random numbers in evaluation mode; draw them if self.training"),
        ({"X": ROWS, "y": TWO}, LINE | {"model": {"name": Line, "width": 3}}, {},
         r"returns \(2, 3\) for 2 rows"),
        ({"X": TOKENS, "y": NEXT[:, :4]}, {"model": Language}, {}, r"needs \(2, 5, 4\) or"),
        ({"X": TOKENS[:, :5], "y": NEXT[:, :5]}, {"model": Language}, {}, "one axis alone"),
        ({"X": ROWS, "y": np.full((N, 2), -100)}, {"model": Line}, {},
         "all targets of row 1 are -100"),
        (CASES["masks"][0], {"model": Segmenter, "augment": {"flip": True}}, {},
         "augment: moves images, but not"),
        ({"X": ROWS, "y": np.full((N, 2), -1)}, {"model": Line}, {}, "go down to -1; number them"),
        ({"X": ROWS, "y": np.full((N, 2), np.nan)}, LINE, {}, "that are not finite"),
        ({"X": ROWS, "y_test": TWO}, LINE, {}, "one of X_test and y_test"),
        ({"X": ROWS, "y": TWO, "X_test": ROWS, "y_test": TWO[:, :1]}, LINE, {}, "give one shape"),
        ({"X": ROWS, "y": TWO[:3]}, LINE, {}, r"has y of float64 \(3, 2\)"),
        ({"X": ROWS, "y": TWO}, LINE, {"drift": {"name": "rotation", "at": 2}},
         "one target for each row"),
        ({"X": ROWS, "y": TWO}, {"model": {"name": Line, "width": 1}, "loss": cox},
         {"evaluate": {"rows": 5}}, "the loss of each row"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_line(data, problem, more, message):
    with pytest.raises(ScenarioError, match=message) as raised:
        api.prepare(api.read(scenario(data, problem) | more))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_of_a_table_are_several_targets(suffix, tmp_path):
    frame = pd.DataFrame(ROWS, columns=list("abcd")).assign(p=TWO[:, 0], q=TWO[:, 1], client=CLIENT)
    path = tmp_path / f"rows.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    (tmp_path / f"net_{suffix}.py").write_text(
        "import torch\n\n\nclass Line(torch.nn.Linear):\n"
        "    def __init__(self):\n        super().__init__(4, 2)\n"
    )
    study = scenario({"X": ROWS, "y": TWO}, LINE | {"model": lambda: nn.Linear(4, 2)})
    wanted = rayfed.run(study, out=tmp_path / "wanted").rounds
    study["problem"] = LINE | {
        "name": "network", "model": f"net_{suffix}:Line", "dataset": str(path),
        "target": ["p", "q"],
    }  # fmt: skip
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    result = rayfed.run(tmp_path / "study.yaml", out=tmp_path / "found")
    pd.testing.assert_frame_equal(result.rounds, wanted)
    assert result.model("fedavg-seed0").weight.shape == (2, 4)
    assert yaml.safe_load((tmp_path / "found/scenario.yaml").read_text())["problem"]["target"] == [
        "p", "q",
    ]  # fmt: skip


def test_partitions_by_target_are_refused():
    study = scenario({"X": ROWS, "y": TWO}, LINE)
    study["problem"]["dataset"]["data"] = {"X": ROWS, "y": TWO}
    for name, text in (("sorted", "one target for each row, and the data have"),
                       ({"name": "dirichlet", "alpha": 0.5}, "needs class")):  # fmt: skip
        with pytest.raises(ScenarioError, match=f"^partition: .*{text}"):
            api.prepare(api.read(study | {"partition": name, "clients": {"count": 3}}))
    api.prepare(api.read(study | {"partition": "iid", "clients": {"count": 3}}))


def test_targets_travel_with_clients_and_test_rows(tmp_path):
    y = np.arange(2.0 * N).reshape(N, 2)
    tests = {"X_test": ROWS[:4], "y_test": y[:4], "client_test": [0, 0, 1, 2]}
    study = scenario({"X": ROWS, "y": y, "client": CLIENT} | tests, LINE)
    np.savez(tmp_path / "rows.npz", **study["problem"]["dataset"]["data"])
    study["problem"]["dataset"] = {"name": "arrays", "path": str(tmp_path / "rows.npz")}
    study["seeds"] = [0]
    results = [
        rayfed.run(study, out=tmp_path / name, overrides={"executor": how}).rounds
        for name, how in (("a", "serial"), ("b", {"name": "workers", "workers": 2}))
    ]
    assert results[0].equals(results[1])
    assert results[0].test_loss.notna().all()


METRICS = {
    "two outputs": ["rmse", "mae", "r2", "quantile_0.5"],
    "labels": ["macro_f1", "f1_2", "auc"],
    "masks": ["macro_f1", "perplexity", "top_2"],
    "autoencoder": ["rmse"],
    "cox": ["concordance"],
    "next token": ["perplexity", "balanced_accuracy"],
}


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.filterwarnings("ignore")
def test_metrics_are_those_of_scikit_learn_over_all_targets(name, tmp_path):
    learn = pytest.importorskip("sklearn.metrics", reason="needs scikit-learn")
    data, problem, _ = CASES[name]
    measures = [{"name": "metrics", "of": METRICS[name]}]
    study = scenario(data, problem) | {"evaluate": {"measures": measures}}
    result = rayfed.run(study, out=tmp_path / "out")
    net = result.model("fedavg-seed0").double().eval()
    with torch.no_grad():
        z = net(torch.from_numpy(data["X"]))
    z = getattr(z, "logits", z).numpy()
    y = data.get("y", data["X"])
    if name in ("masks", "next token"):
        z = np.moveaxis(z, 1, -1) if name == "masks" else z
        z, y = z[y != -100], y[y != -100]
        p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        every = np.arange(z.shape[1])
        expected = {
            "macro_f1": learn.f1_score(y, z.argmax(1), average="macro"),
            "balanced_accuracy": learn.balanced_accuracy_score(y, z.argmax(1)),
            "top_2": learn.top_k_accuracy_score(y, z, k=2, labels=every),
            "perplexity": np.exp(learn.log_loss(y, p, labels=every)),
        }
    elif name == "labels":
        expected = {
            "macro_f1": learn.f1_score(y, z > 0, average="macro"),
            "f1_2": learn.f1_score(y, z > 0, average=None)[2],
            "auc": learn.roc_auc_score(y, z),
        }
    elif name == "cox":
        order = [
            (z[i] > z[j]) + 0.5 * (z[i] == z[j])
            for i in range(N) for j in range(N)
            if y[i, 1] and (y[j, 0] > y[i, 0] or (y[j, 0] == y[i, 0] and not y[j, 1]))
        ]  # fmt: skip
        expected = {"concordance": np.mean(order)}
    else:
        z, y = z.reshape(N, -1), y.reshape(N, -1)
        expected = {
            "rmse": learn.root_mean_squared_error(y, z), "mae": learn.mean_absolute_error(y, z),
            "r2": learn.r2_score(y, z), "quantile_0.5": learn.mean_pinball_loss(y, z, alpha=0.5),
        }  # fmt: skip
    for metric in METRICS[name]:
        found = result.rounds[metric].iloc[-1]
        np.testing.assert_allclose(found, expected[metric], rtol=1e-9, err_msg=metric)


@pytest.mark.parametrize("name", ["two outputs", "labels", "masks", "autoencoder", "next token"])
def test_clients_that_are_computed_together_agree_with_a_loop(name, monkeypatch):
    data, settings, _ = CASES[name]
    training = api.prepare(api.read(scenario(data, settings))).runs[0].training
    problem, rng = training.problem, np.random.default_rng(0)
    at, w = rng.integers(0, N, (3, 4)), rng.random((3, 4))
    w[1, 2:] = 0
    X = np.asarray(data["X"], dtype=np.float64).reshape(N, -1)[at]
    y = (data["y"] if "y" in data else np.zeros((N, 0)))[at]
    batch = problem.batch(Batch(X, y, w, None))
    x = problem.arrays({"x": training.x0[None] + 0.1 * np.arange(3)[:, None]})["x"]
    looped = problem.value_and_gradient(x, batch)
    monkeypatch.setattr(type(problem), "_vmapped", lambda self, batch: True)
    for found, wanted in zip(problem.value_and_gradient(x, batch), looped, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)
