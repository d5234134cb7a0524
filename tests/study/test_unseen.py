"""Clients that never train: they are evaluated with the global model, and with own ones of it."""

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import rayfed
from rayfed import api
from rayfed.cli.main import app
from rayfed.core.errors import ScenarioError

ROWS = np.random.default_rng(3).normal(size=(60, 3))
OWNER = np.repeat(np.arange(6), [4, 6, 8, 10, 12, 20])
TARGETS = ROWS @ [1.0, -1.0, 0.5] + 0.3 * OWNER
"""Rows of six clients of unequal sizes."""


@pytest.fixture
def study(tmp_path):
    """Returns a scenario of least squares, of which two of six clients never train."""

    def make(*algorithms, test=None, **keys):
        file = tmp_path / "rows.csv"
        columns = ",".join(["client", "a", "b", "c", "y"])
        table = np.column_stack([OWNER, ROWS, TARGETS])
        kinds = ["%d", *["%.17g"] * 4]
        np.savetxt(file, table, kinds, ",", header=columns, comments="")
        local = {"steps": 3, "batch": "full", "lr": 0.1}
        problem = {"name": "least-squares", "dataset": str(file), "intercept": False}
        problem["test"] = test or {"clients": 0.34, "rows": 0.25}
        given = {"name": "unseen", "rounds": 3, "executor": {"name": "serial"}}
        named = algorithms or ("fedavg",)
        runs = [each if isinstance(each, dict) else {"name": each} for each in named]
        given["algorithms"] = [{"local": local} | each for each in runs]
        problem |= keys.pop("problem", {})
        return given | {"problem": problem} | keys

    return make


@pytest.fixture
def result(study, tmp_path):
    def run(*algorithms, **keys):
        return rayfed.run(study(*algorithms, **keys), out=tmp_path / "out", page=False)

    run.folder = tmp_path
    return run


def parts(data):
    """Returns the rows of the clients that train, and of the others, each as ((X, y), (X, y))."""
    shards, rows = data.unseen.split, []
    for i in range(shards.clients):
        own = [shards.part(name).of_client(i) for name in ("train", "test")]
        rows.append([(ROWS[each], TARGETS[each]) for each in own])
    return rows[: data.shards.clients], rows[data.shards.clients :]


def loss(x, rows):
    """Returns the mean over all rows of half squares."""
    errors = np.concatenate([(X @ x - y) ** 2 for X, y in rows])
    return 0.5 * errors.mean()


def data_of(study):
    """Returns the data of the plan of a study."""
    plan = api.prepare(api.read(study))
    views = plan.runs[0].federation.views
    return type("Data", (), {"unseen": views.unseen.shards, "shards": views.evaluation.shards})


def fedavg(seen, rounds=3, steps=3, lr=0.1):
    """Returns the models of FedAvg, by hand."""
    x, found = np.zeros(3), [np.zeros(3)]
    sizes = [len(y) for (_, y), _ in seen]
    for _ in range(rounds):
        models = []
        for (X, y), _ in seen:
            local = x.copy()
            for _ in range(steps):
                local -= lr * X.T @ (X @ local - y) / len(y)
            models.append(local)
        x = np.average(models, axis=0, weights=sizes)
        found.append(x)
    return found


def test_unseen_clients_have_all_their_rows_and_train_nothing(study):
    data = data_of(study())
    seen, unseen = parts(data)
    assert (len(seen), len(unseen)) == (4, 2)
    every = [data.unseen.split.part(name).rows for name in ("train", "test")]
    assert sorted(np.concatenate(every)) == list(range(60))
    owners = [set(OWNER[data.unseen.split.part("train").of_client(i)]) for i in range(6)]
    assert all(len(owner) == 1 for owner in owners)
    assert len(set.union(*owners)) == 6


def test_losses_are_those_of_plain_loops(study, result):
    seen, unseen = parts(data_of(study()))
    found = result().rounds
    models = fedavg(seen)
    wanted = [
        [
            loss(x, [train for train, _ in seen]),
            loss(x, [test for _, test in seen]),
            loss(x, [test for _, test in unseen]),
        ]
        for x in models
    ]
    columns = found[["loss", "test_loss", "unseen_loss"]]
    np.testing.assert_allclose(columns, wanted, rtol=1e-12)
    assert (found["participants"][1:] == 4).all()
    assert "unseen_personal_loss" not in found


def test_own_models_of_unseen_clients_come_from_their_other_rows(study, result):
    seen, unseen = parts(data_of(study()))
    tuned = {"name": "fedavg-finetuned", "tune": {"steps": 2, "batch": "full", "lr": 0.2}}
    found = result(tuned, {"name": "per-fedavg", "alpha": 0.1}).rounds
    found = found[found["label"] == "fedavg-finetuned"]
    wanted = []
    for x in fedavg(seen):
        total = count = 0.0
        for (X, y), (held, right) in unseen:
            own = x.copy()
            for _ in range(2):
                own -= 0.2 * X.T @ (X @ own - y) / len(y)
            total += 0.5 * ((held @ own - right) ** 2).sum()
            count += len(right)
        wanted.append(total / count)
    np.testing.assert_allclose(found["unseen_personal_loss"], wanted, rtol=1e-12)
    assert wanted[-1] != pytest.approx(found["unseen_loss"].iloc[-1])


GENERATED = {"name": "linear", "features": 3, "samples": {"low": 5, "high": 12}, "drift": 0.5}


def test_the_last_clients_of_a_generator_are_unseen(study, result):
    drawn = {"problem": {"dataset": GENERATED}, "clients": {"count": 6}}
    tuned = {"name": "fedavg-finetuned", "tune": {"steps": 2, "batch": "full", "lr": 0.2}}
    found = result("fedavg", tuned, **drawn).rounds
    alone = study("fedavg", test=0.25, **(drawn | {"clients": {"count": 4}}))
    shards = data_of(study(**drawn)).unseen

    def rows(i):
        ids, parts = np.array([i]), []
        for part in ("train", "test"):
            n = int(shards.sizes(ids, part)[0])
            X, y = shards.rows(ids, n, part)
            parts.append((X[0], y[0]))
        return parts

    assert shards.clients == 6
    models, unseen = fedavg([rows(i) for i in range(4)]), [rows(i) for i in (4, 5)]
    wanted = [loss(x, [test for _, test in unseen]) for x in models]
    plain = found[found["label"] == "fedavg"]
    np.testing.assert_allclose(plain["unseen_loss"], wanted, rtol=1e-12)
    assert (plain["participants"][1:] == 4).all()
    own = found[found["label"] == "fedavg-finetuned"]
    for x, measured in zip(models, own["unseen_personal_loss"], strict=True):
        tuned_losses = []
        for (X, y), (held, right) in unseen:
            z = x - 0.2 * X.T @ (X @ x - y) / len(y)
            z = z - 0.2 * X.T @ (X @ z - y) / len(y)
            tuned_losses.append((z, held, right))
        total = sum(0.5 * ((held @ z - right) ** 2).sum() for z, held, right in tuned_losses)
        count = sum(len(right) for _, _, right in tuned_losses)
        np.testing.assert_allclose(measured, total / count, rtol=1e-12)
    same = rayfed.run(alone, out=result.folder / "alone", page=False).rounds
    columns = ["loss", "test_loss", "bytes_up", "time_s"]
    np.testing.assert_array_equal(plain[columns], same[columns])


def test_of_many_unseen_clients_a_fixed_sample_is_evaluated(study):
    drawn = {"problem": {"dataset": GENERATED}, "clients": {"count": 100_000}}
    many = drawn | {"participation": {"cohort": 5}}
    for asked, number in (("auto", 10_000), (7, 7), ("all", 34_000)):
        plan = api.prepare(api.read(study(evaluate={"clients": asked}, **many)))
        chosen = plan.runs[0].measuring.unseen
        assert (len(chosen), len(set(chosen))) == (number, number)
        assert chosen.min() >= 66_000
        assert chosen.max() < 100_000


def test_methods_with_client_state_have_no_own_models_for_them(result):
    found = result("ditto").rounds
    assert "unseen_personal_loss" not in found
    assert found["unseen_loss"].notna().all()


def test_methods_without_a_global_model_have_no_such_columns(result):
    assert not [name for name in result("local-only").rounds if name.startswith("unseen")]


@pytest.mark.parametrize(
    ("test", "keys", "message"),
    [
        ({"clients": 0.01}, {}, "problem.test.clients: found 0.01, which is 0 of 6 clients; leave"),
        ({"clients": 0.99}, {}, "problem.test.clients: found 0.99, which is 6 of 6 clients; leave"),
        ({"clients": 2}, {}, "problem.test.*clients"),
        ({"client": 0.2}, {}, "problem.test.*client"),
        ({"clients": 0.34}, {}, "problem.test.rows: no unseen client holds out rows; give 0.2"),
        (None, {"evaluate": {"rows": 5}}, "evaluate.rows: unseen clients are evaluated on all"),
        (
            {"clients": 0.1},
            {"problem": {"dataset": {"name": "linear", "features": 2}}, "clients": {"count": 4}},
            "problem.test.clients: found 0.1, which is 0 of 4 clients; leave some of both kinds",
        ),
        (
            {"clients": 0.5, "rows": 0.0},
            {"problem": {"dataset": {"name": "linear", "features": 2}}, "clients": {"count": 4}},
            "problem.test.rows: no unseen client holds out rows; give 0.2",
        ),
        (
            None,
            {"drift": {"name": "rotation", "clients": 0.5, "over": 2}},
            "problem.test: unseen clients would not drift",
        ),
    ],
)
def test_what_cannot_be_is_refused(study, test, keys, message):
    with pytest.raises(ScenarioError, match=message):
        api.prepare(api.read(study(test=test, **keys)))


def test_the_check_counts_them_and_clients_without_held_out_rows(study, tmp_path):
    given = study(test={"clients": 0.34, "rows": 0.1}, seeds=[1])  # no row of 4, 1 or 2 of others
    seen, _ = parts(data_of(given))
    none = sum(len(y) == 0 for _, (_, y) in seen)
    assert none == 1
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(given))
    done = CliRunner().invoke(app, ["check", str(path)])
    assert done.exit_code == 0, done.output
    (line,) = (text for text in done.output.splitlines() if text.startswith("data:"))
    assert line.startswith("data: 4 clients")
    assert line.endswith(", 2 clients that never train, 1 client without held-out rows")


def test_names_and_standardised_columns_are_those_of_the_clients_that_train(study, tmp_path):
    given = study()
    file = tmp_path / "rows.csv"
    lines = file.read_text().splitlines()
    names = ["ann", "bob", "cem", "dag", "eva", "fay"]
    rows = [f"{names[int(line[0])]}{line[1:]}" for line in lines[1:]]
    file.write_text("\n".join([lines[0], *rows]))
    table = {"name": "table", "path": str(file), "standardise": True}
    given["problem"]["dataset"] = table
    plan = api.prepare(api.read(given))
    run = plan.runs[0]
    views, called = run.federation.views, run.federation.clients.names
    split = views.unseen.shards.split
    owners = [OWNER[split.train.of_client(i)] for i in range(6)]
    assert list(called) == [names[owner[0]] for owner in owners[:4]]
    X = plan.tables[views.unseen.table].X
    trained = X[np.concatenate([split.train.of_client(i) for i in range(4)])]
    np.testing.assert_allclose(trained.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(trained.std(axis=0), 1)
    table["standardise"] = "client"
    with pytest.raises(ScenarioError, match=r"problem.dataset.standardise: found client, but uns"):
        api.prepare(api.read(given))


@pytest.mark.slow
def test_placement_changes_nothing(study, tmp_path, assert_same):
    algorithms = ("fedavg", "fedavg-finetuned", "fedbuff")
    here = rayfed.run(study(*algorithms), out=tmp_path / "here", page=False)
    workers = study(*algorithms, executor={"name": "workers"})
    there = rayfed.run(workers, out=tmp_path / "there", page=False)
    assert set(there.outcome.values()) == {"finished"}
    assert_same(here.folder, there.folder)
