"""``evaluate.rows``: what rows of a run say of some rows, by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed import api, testing
from rayfed.cli.plans import estimates
from rayfed.core.errors import ScenarioError
from rayfed.engine.loop import Loop
from rayfed.executors.serial import SerialExecutor
from rayfed.report.panels.settings import facts
from rayfed.report.read.results import Results

SIZES = (1, 8, 30, 61)
L2 = 0.1


@pytest.fixture
def scenario(tmp_path):
    """Return a function that makes a scenario of clients of unequal sizes."""
    rng = np.random.default_rng(3)
    client = np.repeat(np.arange(4), SIZES)
    X = rng.normal(size=(len(client), 2)) + client[:, None]
    y = (X[:, 0] + rng.normal(size=len(client)) > 1).astype(int)
    data = pd.DataFrame({"client": client, "a": X[:, 0], "b": X[:, 1], "y": y})
    data.to_csv(tmp_path / "rows.csv", index=False)
    data.drop(columns="client").to_csv(tmp_path / "test.csv", index=False)

    def make(rows, name="fedavg", **problem):
        return {
            "name": "some rows", "rounds": 2, "evaluate": {"rows": rows}, "dtype": "float64",
            "problem": {
                "name": "logistic-regression", "dataset": str(tmp_path / "rows.csv"), "l2": L2,
                "intercept": False, "test": 0.25, "validation": 0.25,
            } | problem,
            "algorithms": [{"name": name, "local": {"steps": 2, "batch": "full", "lr": 0.5}}],
            "clients": {}, "executor": "serial",
        }  # fmt: skip

    return make


def ended(made):
    """Return the last model of a scenario and all rows, run without a folder."""
    loop = testing.loop(made)
    state, row = loop.start()
    rows = [row]
    for _ in range(made["rounds"]):
        state, row, _ = loop.step(state)
        rows.append(row)
    return state.model, pd.DataFrame(rows)


def looked_at(made, part):
    """Return the rows of each client that a plan draws, (X, y) each, and how many it has."""
    plan = api.prepare(api.read(made))
    run = plan.runs[0]
    shards = run.federation.views.evaluation.with_table(plan.tables).shards
    found, sizes = [], []
    for client in range(4):
        ids = np.array([client])
        size, width = shards.sizes(ids, part), int(shards.widths(ids, part)[0])
        index, counts = run.measuring.subsample.rows(ids, size, width, part)
        X, y = shards.rows(ids, width, part)
        chosen = index[0, : counts[0]]
        found.append((X[0, chosen], y[0, chosen]))
        sizes.append(int(size[0]))
    return found, sizes


def scores(x, rows):
    """Return the losses of some rows (n,) and which predictions are right (n,)."""
    X, y = rows
    z = X @ x
    return np.log1p(np.exp(-(2 * y - 1) * z)), (z > 0) == (y == 1)


@pytest.mark.parametrize(
    ("settings", "weight"),
    [({}, "size"), ({"weighting": "uniform"}, "one"), ({"l2_per": "sample"}, "size")],
)
def test_the_loss_is_that_of_some_rows_that_stand_for_all(scenario, settings, weight):
    made = scenario(20, **settings)
    x, told = ended(made)
    rows, sizes = looked_at(made, "train")
    assert [len(y) for _, y in rows] == [n * 20 // sum(sizes) or 1 for n in sizes]
    l2 = [L2 / n if settings.get("l2_per") == "sample" else L2 for n in sizes]
    losses = [scores(x, r)[0].mean() + c / 2 * x @ x for r, c in zip(rows, l2, strict=True)]
    weights = sizes if weight == "size" else [1, 1, 1, 1]
    last = told.iloc[-1]
    assert last.loss == pytest.approx(np.average(losses, weights=weights), rel=1e-12)
    for part, loss, accuracy in (
        ("test", "test_loss", "accuracy"),
        ("validation", "validation_loss", "validation_accuracy"),
    ):
        found = [scores(x, r) for r in looked_at(made, part)[0]]
        assert last[loss] == pytest.approx(np.concatenate([v for v, _ in found]).mean(), rel=1e-12)
        assert last[accuracy] == np.concatenate([hits for _, hits in found]).mean()


def test_nothing_but_scores_depends_on_it_and_many_rows_are_all(scenario):
    (x, some), (y, whole), (_, plenty) = (ended(scenario(rows)) for rows in (20, None, 1000))
    pd.testing.assert_frame_equal(whole, plenty, check_exact=True)
    np.testing.assert_array_equal(x, y)
    told = ["loss", "test_loss", "accuracy", "validation_loss", "validation_accuracy"]
    pd.testing.assert_frame_equal(some.drop(columns=told), whole.drop(columns=told))
    assert (some.loss != whole.loss)[1:].all()


@pytest.mark.parametrize("name", ["fedavg", "per-fedavg"])
def test_any_stack_gives_the_same_bits(scenario, name):
    rows = []
    for block in (100, 1):
        plan = api.prepare(api.read(scenario(20, name)))
        (run,) = plan.runs
        executor = SerialExecutor(plan.tables)
        loop = Loop(run, executor)
        executor.open(run.folder, replace(run.setup(), block=block))
        state, _ = loop.start()
        rows.append(loop.step(state)[1])
    pd.testing.assert_frame_equal(*(pd.DataFrame([row]) for row in rows), check_exact=True)


def test_of_the_servers_own_rows_so_many_are_drawn(scenario, tmp_path):
    made = scenario(37, test=str(tmp_path / "test.csv"))
    plan = api.prepare(api.read(made))
    (run,) = plan.runs
    server = run.federation.views.server.with_table(plan.tables).shards
    ids = np.arange(server.clients)
    assert server.sizes(ids, "test").tolist() == [37]
    X, y = server.rows(ids, 37, "test")
    whole = pd.read_csv(tmp_path / "test.csv")
    drawn = whole.reset_index().merge(pd.DataFrame({"a": X[0, :, 0], "b": X[0, :, 1]}))
    assert drawn["index"].nunique() == 37
    result = rayfed.run(made, out=tmp_path / "out", page=False)
    losses, hits = scores(result.weights(), (X[0], y[0]))
    last = result.rounds.iloc[-1]
    assert last.test_loss == pytest.approx(losses.mean(), rel=1e-12)
    assert last.accuracy == hits.mean()
    assert "37 of 100 test rows" in facts(Results.read(tmp_path / "out"))["estimates"]


def test_check_says_how_many_rows_of_how_many(scenario):
    said = estimates(api.prepare(api.read(scenario(20))))
    # 100 rows: 0, 2, 8 and 15 are held out for tests, as many for validation
    assert said == (
        "losses and accuracies are estimates on 19 of 50 training rows, 19 of 25 held-out rows, "
        "19 of 25 validation rows"
    )
    assert not estimates(api.prepare(api.read(scenario(None))))


@pytest.mark.parametrize(
    ("place", "also"),
    [("evaluate.gap", {"evaluate": {"rows": 5, "gap": True}}),
     ("stop.loss_gap", {"stop": {"loss_gap": 0.1}})],
)  # fmt: skip
def test_a_gap_is_refused(scenario, place, also):
    with pytest.raises(
        ScenarioError, match=f"{place}: .* the loss of all rows, but rows: 5 looks at some"
    ):
        api.prepare(api.read(scenario(5) | also))
