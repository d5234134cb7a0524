"""Models of nodes: their distance from the mean, and their accuracy on a common test set."""

import numpy as np
import pytest

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.testing import loop

SCENARIO = {
    "name": "nodes",
    "rounds": 3,
    "problem": {"name": "logistic-regression", "dataset": "mushroom", "test": 0.2, "l2": 1e-3},
    "partition": {"name": "dirichlet", "alpha": 0.3},
    "clients": {"count": 7},
    "topology": "star",
    "algorithms": [{"name": "d-psgd", "local": {"steps": 3, "batch": 8, "lr": 0.5}}],
    "executor": "serial",
}


def models(engine):
    """Return the nodes' own models (N, p)."""
    found = {}
    for rows in engine.exchange.executor.snapshot(engine.run.folder):
        found |= dict(zip(rows["ids"].tolist(), rows["x"], strict=True))
    return np.stack([found[i] for i in sorted(found)])


def held_out(plan):
    """Return all held-out rows (B, d) and their classes (B,)."""
    (table,), shards = plan.tables.values(), plan.runs[0].federation.views.evaluation.shards
    return table.take(shards.split.part("test").rows)


@pytest.mark.parametrize("count", [32, 3])
def test_each_model_is_scored_on_the_rows_of_all(count):
    measures = [{"name": "nodes", "count": count}]
    plan = api.prepare(api.read(SCENARIO | {"evaluate": {"measures": measures}}))
    engine = loop(plan)
    state, _ = engine.start()
    for _ in range(3):
        state, row, _ = engine.step(state)
    own, (rows, classes) = models(engine), held_out(plan)
    problem = engine.run.training.problem
    right = [(problem.predict(x[None], rows[None])[0] == classes).mean() for x in own]
    if count == 32:
        worst = min(right)  # the tenth of seven is one
        expected = (np.mean(right), np.std(right), worst)
        found = (
            row["node_accuracy"], row["node_accuracy_spread"], row["node_accuracy_worst_decile"],
        )  # fmt: skip
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert worst < max(right)
    else:
        three = [np.mean(right[i] + right[j] + right[k]) / 3
                 for i in range(7) for j in range(i) for k in range(j)]  # fmt: skip
        assert np.min(np.abs(np.array(three) - row["node_accuracy"])) < 1e-12


def test_the_consensus_distance_is_that_of_all_models():
    engine = loop(SCENARIO)
    state, first = engine.start()
    assert first["consensus"] == 0
    for _ in range(2):
        state, row, _ = engine.step(state)
    mass = engine.run.federation.views.evaluation.shards.sizes(np.arange(7))
    own = models(engine).astype(float)
    apart = ((own - np.average(own, axis=0, weights=mass)) ** 2).sum(axis=1)
    assert row["consensus"] == pytest.approx(np.sqrt(apart.mean()), rel=1e-6)


def test_methods_with_one_model_have_it_at_all_nodes(tmp_path):
    changes = {"algorithms": ["fedavg"], "topology": None, "evaluate": {"measures": ["nodes"]}}
    rows = rayfed.run(SCENARIO | changes, out=tmp_path / "out", page=False).rounds
    np.testing.assert_array_equal(rows.node_accuracy, rows.accuracy)
    np.testing.assert_array_equal(rows.node_accuracy_worst_decile, rows.accuracy)
    assert (rows.node_accuracy_spread == 0).all()


def test_numbers_have_no_accuracy(tmp_path):
    problem = {"name": "least-squares", "dataset": "linear"}
    changes = {"problem": problem, "partition": None, "evaluate": {"measures": ["nodes"]}}
    rows = rayfed.run(SCENARIO | changes, out=tmp_path / "out", page=False).rounds
    assert rows.node_accuracy.isna().all()
    assert (rows.consensus[1:] > 0).all()


def test_at_least_one_node_is_drawn():
    measures = [{"name": "nodes", "count": 0}]
    with pytest.raises(ScenarioError, match=r"evaluate\.measures\.0\.count"):
        api.read(SCENARIO | {"evaluate": {"measures": measures}})


def test_consensus_is_about_the_ratios_of_two_sums():
    arcs = {"topology": {"name": "out-degree", "number": 2, "disconnected": "redraw"}}
    sgp = {"name": "sgp", "local": {"steps": 3, "batch": 8, "lr": 0.5}}
    engine = loop(SCENARIO | arcs | {"algorithms": [sgp]})
    state, _ = engine.start()
    for _ in range(3):
        state, row, _ = engine.step(state)
    (rows,) = engine.exchange.executor.snapshot(engine.run.folder)
    assert np.ptp(rows["w"]) > 0.1
    apart = rows["x"] / rows["w"] - state.state["x"]
    expected = np.sqrt((apart**2).sum(axis=1).mean())
    assert row["consensus"] == pytest.approx(expected, rel=1e-12)
