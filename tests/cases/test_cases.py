"""Ordinary training code, as its user writes it, against plain loops without rayfed.

The user's files are in the folder ``user`` and in pages of the documentation. Plain loops take the
user's functions or modules and average by hand, so that they share nothing with rayfed but those.
"""

import copy
import importlib
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml

import rayfed
from scripts.size import size
from tests.docs.test_code_blocks import blocks

USER = Path(__file__).parent / "user"
PAGES = Path(__file__).parents[2] / "docs" / "howto"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the user's folder, where modules are imported from during the test."""
    shutil.copytree(USER, tmp_path / "user", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path / "user")
    monkeypatch.syspath_prepend(tmp_path / "user")
    before = set(sys.modules)
    yield tmp_path / "user"
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def files_of(page, folder):
    """Writes the files that a page shows."""
    for block in blocks(PAGES / page):
        if block.file:
            (folder / block.file).write_text(block.code)


def run(study):
    return rayfed.run(study, out="results", page=False)


def arrays(model):
    """Returns the numbers of a model in float64: copies of its floats by name."""
    if not isinstance(model, dict):
        model = {name: value.numpy() for name, value in model.state_dict().items()}
    return {k: v.astype(np.float64) for k, v in model.items() if v.dtype.kind == "f"}


def with_arrays(model, values):
    """Returns a copy of a model with these numbers."""
    if isinstance(model, dict):
        return {name: value.astype(model[name].dtype) for name, value in values.items()}
    torch, model = pytest.importorskip("torch"), copy.deepcopy(model)
    model.load_state_dict(
        model.state_dict() | {n: torch.from_numpy(np.asarray(v)) for n, v in values.items()}
    )
    return model


def averaged(models, sizes):
    """Returns the mean of models, weighted by the clients' sizes."""
    parts = [arrays(model) for model in models]
    return {
        name: sum(n * part[name] for n, part in zip(sizes, parts, strict=True)) / sum(sizes)
        for name in parts[0]
    }


def mean(code, model, part, key, clients):
    """Returns the mean of a number that the user's code evaluates, weighted by examples."""
    found = [(code.evaluate(model, code.client(i), part), code.size(i, part)) for i in clients]
    return sum(each[key] * n for each, n in found) / sum(n for _, n in found)


def plain(code, clients, rounds, config, evaluate):
    """Returns what `evaluate(model)` gives before and after rounds of FedAvg with own code.

    And what training returned of each client in the last round.
    """
    model, sizes, returned = code.model(), [code.size(i, "train") for i in clients], []
    found = [evaluate(model)]
    for round in range(1, rounds + 1):
        models, returned = [copy.deepcopy(model) for _ in clients], []
        for i, local in zip(clients, models, strict=True):
            context = SimpleNamespace(client=i, round=round, config=config, state={}, seed=0)
            returned.append(code.train(local, code.client(i), context))
        model = with_arrays(model, averaged(models, sizes))
        found.append(evaluate(model))
    return found, returned


def test_the_table_counts_the_lines_that_a_user_writes(folder):
    for page in ("scikit-learn.md", "jax.md"):
        files_of(page, folder)
    table = re.findall(
        r"^\|.*\| `([\w./]+)` \| (\d+) \|$", (PAGES / "own-code.md").read_text(), re.M
    )
    found = {}
    for name, _ in table:
        place = folder / name.removeprefix("tests/cases/user/")
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        found[name] = sum(size(each.read_text()) for each in files)
    assert found == {name: int(lines) for name, lines in table}
    made = {Path(name).name for name in found}
    assert {path.name for path in USER.iterdir() if path.suffix == ".py"} <= made


def test_a_pytorch_loop_with_adamw_clipping_and_macro_f1(folder):
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    code, clients = importlib.import_module("adamw"), range(4)

    def evaluate(model):
        asked = (("train", "loss"), ("test", "loss"), ("test", "macro_f1"))
        return [mean(code, model, *each, clients) for each in asked]

    config = {"lr": 0.01, "batch": 8, "epochs": 2}
    wanted, returned = plain(code, clients, 3, config, evaluate)
    found = run(folder / "adamw.yaml")
    columns = found.rounds[["loss", "test_loss", "macro_f1"]].to_numpy()
    np.testing.assert_allclose(columns, wanted, rtol=1e-4)
    norms = [each["norm"] for each in returned]
    np.testing.assert_allclose(found.clients["train_norm"], norms, rtol=1e-4)
    weights = [code.size(i, "train") for i in clients]
    last = np.average(norms, weights=weights)
    assert found.rounds["train_norm"].iloc[-1] == pytest.approx(last, rel=1e-4)


def test_the_same_as_a_flower_app(folder, monkeypatch):
    pytest.importorskip("flwr", reason="flwr is not installed (make flower)")
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(folder / "flower_adamw")
    code, clients = importlib.import_module("adamw"), range(4)

    def evaluate(model):
        return [mean(code, model, "test", key, clients) for key in ("loss", "macro_f1")]

    wanted, returned = plain(code, clients, 3, {"lr": 0.01, "batch": 8, "epochs": 2}, evaluate)
    found = run(folder / "flower_adamw" / "study.yaml")
    columns = found.rounds[["test_loss", "macro_f1"]]
    np.testing.assert_allclose(columns, wanted, rtol=1e-4)
    norms = [each["norm"] for each in returned]
    np.testing.assert_allclose(found.clients["train_norm"], norms, rtol=1e-4)


def test_lazy_sequences_of_different_lengths(folder):
    pytest.importorskip("torch")
    draws = np.random.default_rng(0)
    for i in range(3):
        for part, count in (("train", 3 + i), ("test", 2)):
            place = folder / "sequences" / str(i) / part
            place.mkdir(parents=True)
            for k in range(count):
                np.save(place / f"{k}.npy", draws.normal(i, 1.0, (draws.integers(1, 9), 2)))
    code, clients = importlib.import_module("lazy"), range(3)

    def evaluate(model):
        return [mean(code, model, part, "loss", clients) for part in ("train", "test")]

    wanted, _ = plain(code, clients, 2, {"lr": 0.1, "batch": 2}, evaluate)
    found = run(folder / "lazy.yaml").rounds[["loss", "test_loss"]].to_numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    assert found[-1, 1] < found[0, 1]


def test_measured_times_are_those_of_the_clock(folder):
    rows = [
        (i, t, round(0.3 + 0.1 * i + 0.25 * t * (i == 1), 3)) for t in (1, 2, 3) for i in range(3)
    ]
    times = pd.DataFrame(rows, columns=["client", "round", "seconds"])
    times.to_csv(folder / "seconds.csv", index=False)
    found = run(folder / "measured.yaml")
    np.testing.assert_allclose(found.events["compute_s"], times["seconds"], rtol=1e-9)
    slowest = times.groupby("round")["seconds"].max().cumsum()
    np.testing.assert_allclose(found.rounds["time_s"][1:], slowest, rtol=1e-9)


def network(model, data, steps=2, lr=0.3, rounds=2, **problem):
    """Returns the rounds of a network under FedAvg with steps on all rows."""
    local = {"steps": steps, "batch": "full", "lr": lr}
    found = rayfed.run(
        {
            "name": "net", "rounds": rounds, "dtype": "float64",
            "problem": {"name": "network", "model": model, **problem,
                        "dataset": {"name": "arrays", "data": data}},
            "algorithms": [{"name": "fedavg", "local": local}],
            "executor": {"name": "serial"},
        },
        out="results", page=False,
    )  # fmt: skip
    return found.rounds


def by_hand(model, X, y, client, loss, steps=2, lr=0.3, rounds=2):
    """Returns the losses of a network under FedAvg, by a plain loop of PyTorch.

    ``loss(model, X, y)`` is a number; rows of client i are those where `client` is i.
    """
    torch = pytest.importorskip("torch")
    model, client = model.double(), np.array(client)
    parts = [client == i for i in range(client.max() + 1)]
    sizes = [int(part.sum()) for part in parts]
    data = [(X[part], None if y is None else y[part]) for part in parts]

    def evaluated(model):
        with torch.no_grad():
            losses = [float(loss(model.eval(), *rows)) for rows in data]
        return np.average(losses, weights=sizes)

    found = [evaluated(model)]
    for _ in range(rounds):
        models = [copy.deepcopy(model).train() for _ in data]
        for local, rows in zip(models, data, strict=True):
            learned = [each for each in local.parameters() if each.requires_grad]
            optimizer = torch.optim.SGD(learned, lr)
            for _ in range(steps):
                optimizer.zero_grad()
                loss(local, *rows).backward()
                optimizer.step()
        model = with_arrays(model, averaged(models, sizes))
        found.append(evaluated(model))
    return found


CLIENT = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 2])
"""Clients of unequal sizes."""


def rows_of(*shape):
    return np.random.default_rng(1).normal(size=(len(CLIENT), *shape))


def cross_entropy(model, X, y):
    """Returns the mean over rows of the mean over their targets that are not -100."""
    torch = pytest.importorskip("torch")
    z = model(X)
    z = getattr(z, "logits", z)
    losses = []
    for scores, right in zip(z, y, strict=True):  # (T, C) and (T,), or (C, H, W) and (H, W)
        scores = scores if right.ndim == 1 else scores.flatten(1).T
        known = right.flatten() != -100
        losses.append(torch.nn.functional.cross_entropy(scores[known], right.flatten()[known]))
    return torch.stack(losses).mean()


TEXTS = ["federated learning", "of texts", "with", "different lengths", "a", "client has few",
         "or many", "of them and", "all are padded", "on the right"]  # fmt: skip


@pytest.mark.parametrize("module", ["next_token", pytest.param("lora", marks=pytest.mark.slow)])
def test_the_next_token_at_every_position(folder, module):
    torch = pytest.importorskip("torch")
    if module == "lora":
        pytest.importorskip("transformers")
        pytest.importorskip("peft")
    data = importlib.import_module("next_token").rows([text + " " for text in TEXTS])
    model = importlib.import_module(module).model
    trained = sum(each.numel() for each in model().parameters() if each.requires_grad)
    X, y = (torch.from_numpy(data[name]) for name in ("X", "y"))
    wanted = by_hand(model(), X, y, CLIENT, cross_entropy)
    found = network(model, data | {"client": CLIENT})
    np.testing.assert_allclose(found["loss"], wanted, rtol=1e-9)
    assert wanted[-1] < wanted[0]
    assert found["bytes_up"][1] == 3 * 8 * trained  # of float64, from three clients


def test_several_numbers_a_row(folder):
    torch, targets = pytest.importorskip("torch"), importlib.import_module("targets")
    X, y = rows_of(4), rows_of(4)[:, :2] ** 2

    def loss(model, X, y):
        return 0.5 * ((model(X) - y) ** 2).mean()

    wanted = by_hand(targets.numbers(), *map(torch.from_numpy, (X, y)), CLIENT, loss)
    data = {"X": X, "y": y, "client": CLIENT}
    found = network(targets.numbers, data, loss="squared-error")
    np.testing.assert_allclose(found["loss"], wanted, rtol=1e-9)


def test_masks_with_positions_that_do_not_count(folder):
    torch, targets = pytest.importorskip("torch"), importlib.import_module("targets")
    X = rows_of(1, 5, 5)
    y = (X[:, 0] > 0).astype(np.int64) + (X[:, 0] > 1)
    y[:, 0] = -100
    wanted = by_hand(targets.masks(), *map(torch.from_numpy, (X, y)), CLIENT, cross_entropy)
    found = network(targets.masks, {"X": X, "y": y, "client": CLIENT})
    np.testing.assert_allclose(found["loss"], wanted, rtol=1e-9)
    assert found["accuracy"].between(0, 1, inclusive="neither").all()


def test_no_targets(folder):
    torch, targets = pytest.importorskip("torch"), importlib.import_module("targets")
    X = rows_of(4)

    def loss(model, X, _):
        return 0.5 * ((model(X) - X) ** 2).mean()

    wanted = by_hand(targets.autoencoder(), torch.from_numpy(X), None, CLIENT, loss)
    found = network(targets.autoencoder, {"X": X, "client": CLIENT}, loss="squared-error")
    np.testing.assert_allclose(found["loss"], wanted, rtol=1e-9)


def test_triplets_of_rows(folder):
    torch, targets = pytest.importorskip("torch"), importlib.import_module("targets")
    X, y = rows_of(4), np.arange(len(CLIENT)) % 2

    def loss(model, X, y):
        """Compares all pairs, one after the other."""
        z, terms = model(X), []
        for a in range(len(z)):
            apart = [((z[a] - z[b]) ** 2).sum() for b in range(len(z))]
            near = max(d for d, label in zip(apart, y, strict=True) if label == y[a])
            far = min(d for d, label in zip(apart, y, strict=True) if label != y[a])
            terms.append(torch.clamp(near - far + 1.0, min=0.0))
        return torch.stack(terms).mean()

    wanted = by_hand(targets.embedding(), *map(torch.from_numpy, (X, y)), CLIENT, loss, lr=0.02)
    data = {"X": X, "y": y, "client": CLIENT}
    more = {"loss": targets.triplets, "predicts": "nothing"}
    found = network(targets.embedding, data, lr=0.02, **more)
    np.testing.assert_allclose(found["loss"], wanted, rtol=1e-9)
    assert wanted[0] > 0


def test_running_statistics_of_batchnorm_are_averaged(folder):
    torch, batchnorm = pytest.importorskip("torch"), importlib.import_module("batchnorm")
    X, y = rows_of(5), np.arange(len(CLIENT)) % 3

    def loss(model, X, y):
        return torch.nn.functional.cross_entropy(model(X), y)

    wanted = by_hand(batchnorm.net(), *map(torch.from_numpy, (X, y)), CLIENT, loss)
    found = network(batchnorm.net, {"X": X, "y": y, "client": CLIENT})
    np.testing.assert_allclose(found["loss"], wanted, rtol=1e-9)


def test_estimators_with_partial_fit(folder):
    pytest.importorskip("sklearn")
    files_of("scikit-learn.md", folder)
    code, clients = importlib.import_module("incremental"), range(5)

    def evaluate(model):
        asked = (("train", "loss"), ("test", "loss"), ("test", "accuracy"))
        return [mean(code, model, *each, clients) for each in asked]

    wanted, _ = plain(code, clients, 5, {"lr": 0.01}, evaluate)
    found = run(folder / "incremental.yaml").rounds[["loss", "test_loss", "accuracy"]]
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert found["loss"].is_monotonic_decreasing


def test_boosted_trees_of_all_clients(folder):
    pytest.importorskip("sklearn")
    from sklearn.tree import DecisionTreeRegressor

    files_of("scikit-learn.md", folder)
    code, found = importlib.import_module("trees"), run(folder / "trees.yaml")
    np.testing.assert_array_equal(*(found.weights(name) for name in found.outcome))
    rounds, used = (table[table["label"] == "fedavg"] for table in (found.rounds, found.events))
    assert (rounds["bytes_up"][1:] == 3 * -(-76 * (64 + 11) // 8)).all()  # 11 bits of 1520 places
    data = [code.client(i) for i in range(5)]
    values = [np.zeros(len(y)) for _, y in data]
    for _, events in used.groupby("round"):
        cohort, trees = events["client"].tolist(), []
        for i in cohort:
            X, y = (part[:-20] for part in data[i])
            tree = DecisionTreeRegressor(max_depth=3, random_state=0)
            trees.append(tree.fit(X, y - values[i][:-20]))
        sizes = np.array([len(data[i][1]) - 20 for i in cohort])
        for i, (X, _) in enumerate(data):
            each = [tree.predict(X) for tree in trees]
            values[i] += 0.5 * (sizes / sizes.sum()) @ np.array(each)
    errors = [(v - y) ** 2 for v, (_, y) in zip(values, data, strict=True)]
    last = rounds.iloc[-1]
    assert last["loss"] == pytest.approx(np.concatenate([e[:-20] for e in errors]).mean())
    assert last["test_loss"] == pytest.approx(np.concatenate([e[-20:] for e in errors]).mean())
    assert last["loss"] < rounds["loss"].iloc[0]


def test_a_loss_of_jax(folder):
    pytest.importorskip("jax", reason="jax is not installed (make jax)")
    files_of("jax.md", folder)
    scenario = yaml.safe_load((folder / "jaxed.yaml").read_text())
    local = {"name": "own-train", "steps": 3, "batch": 500, "config": {"lr": 0.5}}
    module, drawn = (folder / "jaxed.py").read_text(), "draws.choice(len(y), "
    assert drawn + '(context.steps, config["batch"]))' in module
    module = module.replace(drawn, "np.tile(draws.permutation(len(y)), ")  # all rows in each step
    (folder / "jaxed.py").write_text(module.replace('config["batch"]))', "1))"))
    scenario |= {"algorithms": [{"name": "fedavg", "local": local}]}
    (folder / "jaxed.yaml").write_text(yaml.safe_dump(scenario))
    code, clients = importlib.import_module("jaxed"), range(4)
    sizes = [20 + 10 * i for i in clients]
    data = [code.client(i) for i in clients]

    def softmax(w, X):
        z = np.exp(X @ w[1:] + w[0])
        return z / z.sum(1, keepdims=True)

    def loss(w, part):
        losses = [-np.log(softmax(w, X[part])[range(len(y[part])), y[part]]) for X, y in data]
        return np.concatenate(losses).mean()

    w, (own, held) = np.zeros((5, 3)), (slice(None, -10), slice(-10, None))
    wanted = [[loss(w, own), loss(w, held)]]
    for _ in range(5):
        models = []
        for X, y in ((X[own].astype(float), y[own]) for X, y in data):
            v = w.copy()
            for _ in range(3):
                error = softmax(v, X) - np.eye(3)[y]
                v -= 0.5 / len(y) * np.vstack([error.sum(0), X.T @ error])
            models.append(v)
        w = np.average(models, axis=0, weights=sizes)
        wanted.append([loss(w, own), loss(w, held)])
    found = run(folder / "jaxed.yaml").rounds[["loss", "test_loss"]]
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
