"""Fairness and skew by hand, and what they add to a run."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed import testing
from rayfed.core.columns import names
from rayfed.core.plugins import find
from rayfed.datasets import Quadratics
from rayfed.datasets.base import Source
from rayfed.measures import ByCapacity, Fairness
from rayfed.numerics.evenness import evenness
from rayfed.population import Population
from tests.fakes.stepping import step


def test_fairness_by_hand():
    accuracies = np.array([0.9, 0.1, 0.5, np.nan, *[0.5] * 8])  # eleven: the two lowest are a tenth
    found = evenness(accuracies)
    assert found[1] == pytest.approx((0.1 + 0.5) / 2)
    assert found[0] == pytest.approx(np.sqrt(2 * 0.4**2 / 11))
    assert found[2] == pytest.approx(5.5**2 / (11 * (0.81 + 0.01 + 9 * 0.25)))


def test_clients_that_are_all_alike_are_served_evenly():
    assert evenness(np.full(4, 0.7)) == pytest.approx((0.0, 0.7, 1.0))
    assert evenness(np.zeros(3))[2] == 1.0
    assert evenness(np.array([1.0, 0, 0, 0]))[2] == 0.25


def test_nobody_with_rows_to_score_is_no_number():
    assert all(np.isnan(evenness(np.full(3, np.nan))))


def test_the_columns_agree_with_the_clients_table(mixed, tmp_path):
    made = mixed(evaluate={"every": 12, "measures": ["fairness"]})
    result = rayfed.run(made, out=tmp_path / "out", page=False)
    last, clients = result.rounds.iloc[-1], result.clients
    assert len(clients) == 13  # all took part
    assert last.accuracy_spread == pytest.approx(clients.accuracy.std(ddof=0))
    worst = clients.accuracy.sort_values().iloc[:2].mean()
    assert last.accuracy_worst_decile == pytest.approx(worst)
    assert result.rounds[list(names(Fairness.columns))].iloc[1:-1].isna().all(axis=None)


def test_both_ends_of_the_capacities_agree_with_the_clients_table(mixed, tmp_path):
    made = mixed(evaluate={"every": 12, "measures": ["capacity"]})
    groups = [{"ids": [1, 4, 11], "capacity": 0.2}, {"ids": [0, 3], "capacity": 0.5}]
    made["clients"] |= {"groups": groups, "capacity": 0.5}
    result = rayfed.run(made, out=tmp_path / "out", page=False)
    last, clients = result.rounds.iloc[-1], result.clients.set_index("client")
    least = clients.index.isin([1, 4, 11])
    assert len(clients) == 13  # all took part
    assert last.accuracy_least_capacity == pytest.approx(clients.accuracy[least].mean())
    assert last.accuracy_most_capacity == pytest.approx(clients.accuracy[~least].mean())
    assert last.accuracy_least_capacity != last.accuracy_most_capacity


def test_of_clients_without_rows_both_ends_are_no_number():
    population = Population(2, 0, capacity=(1.0, 0.5))
    view = SimpleNamespace(accuracy=np.full(2, np.nan), clients=np.arange(2), population=population)
    row, _ = ByCapacity().measure(view, {})
    assert np.isnan(list(row.values())).all()


def test_without_the_keys_no_column_is_added(mixed, tmp_path):
    rows = rayfed.run(mixed(rounds=1), out=tmp_path / "out", page=False).rounds
    asked = {name for measure in find("measures").values() for name in names(measure.columns)}
    assert not asked & set(rows.columns)


def test_clients_are_scored_on_their_training_rows_where_the_server_holds_the_others(
    tmp_path, mixed
):
    test = tmp_path / "test.csv"
    test.write_text("a,b,y\n1,0,0\n0,1,1\n")
    train = tmp_path / "train.csv"
    # client 0 has rows that one line divides, client 1 has one row under both labels
    train.write_text("a,b,y,client\n1,0,0,0\n0,1,1,0\n1,1,0,1\n1,1,1,1\n")
    made = mixed(rounds=60, evaluate={"every": 60, "measures": ["fairness"]})
    made["problem"] = {
        "name": "softmax-regression", "dataset": str(train), "test": str(test), "l2": 1e-3,
    }  # fmt: skip
    made["clients"] = {"count": 2}
    made["participation"] = {}
    last = rayfed.run(made, out=tmp_path / "out", page=False).rounds.iloc[-1]
    assert last.accuracy == 1.0
    assert last.accuracy_worst_decile == 0.5  # one of two
    assert last.accuracy_spread == 0.25


QUADRATIC = {
    "rounds": 4,
    "evaluate": {"every": 2, "measures": ["skew"]},
    "problem": {"name": "quadratic", "dataset": {"name": "quadratic", "seed": 2}},
    "clients": {"count": 30},
    "algorithms": [{"name": "fedavg", "local": {"steps": 2, "lr": 1e-3, "batch": "full"}}],
    "executor": "serial",
}


def engine_for(made):
    return testing.loop(made)


def test_skew_is_the_loss_of_the_cohort_over_that_of_all():
    select = {"name": "power-of-d", "d": 30}
    engine = engine_for(QUADRATIC | {"participation": {"cohort": 3, "select": select}})
    first, _ = engine.start()
    second, row, _ = engine.step(first)
    assert np.isnan(row["skew"])
    _, row, _ = engine.step(second)
    losses = engine.measures.each(second.state["x"], np.arange(30), "now")["loss"]
    mass = engine.run.federation.views.training.shards.mass(np.arange(30))
    assert row["skew"] == pytest.approx(np.sort(losses)[-3:].mean() / (mass @ losses))


def test_a_draw_by_weight_has_no_skew_on_average():
    """The model hardly moves, so that every round draws from the same losses."""
    made = QUADRATIC | {"participation": {"cohort": 3, "select": "weighted"}}
    made |= {"evaluate": {"every": 1, "measures": ["skew"]}, "rounds": 200}
    made["algorithms"] = [{"name": "fedavg", "local": {"steps": 1, "lr": 1e-12, "batch": "full"}}]
    engine = engine_for(made)
    moment, _ = engine.start()
    skews = []
    for _ in range(200):
        moment, row, _ = engine.step(moment)
        skews.append(row["skew"])
    assert abs(np.mean(skews) - 1) < 4 * np.std(skews) / np.sqrt(200)
    assert np.std(skews) > 0.05
    assert row["skew_expected"] == pytest.approx(1, rel=1e-12)
    assert row["skew_optimum_expected"] == pytest.approx(1, rel=1e-12)


def test_the_expected_skew_is_the_mean_over_cohorts():
    """The model hardly moves, so that every round draws from the same losses."""
    made = QUADRATIC | {"participation": {"cohort": 3, "select": {"name": "power-of-d", "d": 9}}}
    made |= {"evaluate": {"every": 1, "measures": [{"name": "skew", "draws": 2000}]}, "rounds": 200}
    made["algorithms"] = [{"name": "fedavg", "local": {"steps": 1, "lr": 1e-12, "batch": "full"}}]
    engine = engine_for(made)
    moment, _ = engine.start()
    rows = []
    for _ in range(200):
        moment, row, _ = engine.step(moment)
        rows.append(row)
    for column in ("skew", "skew_optimum"):
        drawn = np.array([row[column] for row in rows])
        expected = np.array([row[f"{column}_expected"] for row in rows])
        error = np.std(drawn) / np.sqrt(200)
        assert abs(drawn.mean() - expected.mean()) < 4 * error
        assert np.std(expected) < 4 * np.std(drawn) / np.sqrt(2000)
    assert np.mean([row["skew_expected"] for row in rows]) > 1.1


def test_skew_at_the_optimum_is_that_of_the_same_cohort_there():
    table = Quadratics(seed=2).load(Source.here(), 0)
    best = (table.mass @ table.X) / (table.mass @ table.y)
    losses = 0.5 * table.y * np.sum((best - table.X / table.y[:, None]) ** 2, axis=1)
    made = QUADRATIC | {"evaluate": {"measures": ["skew"]}}
    engine = engine_for(made | {"participation": {"cohort": 3, "select": "weighted"}})
    moment, _ = engine.start()
    seen = 0
    while seen < 3:
        moment, row, events = step(engine, moment)
        ids = events[-1]["client"]
        if len(ids) == 3:  # drawn with replacement; one that is drawn twice would count twice
            expected = losses[ids].mean() / (table.mass @ losses)
            assert row["skew_optimum"] == pytest.approx(expected, rel=1e-9)
            seen += 1


@pytest.mark.parametrize("weighting", ["size", "uniform", "sum"])
def test_skew_is_above_what_each_client_could_reach(tmp_path, weighting):
    """Least squares with noise, so that no client's least loss is 0."""
    rng = np.random.default_rng(5)
    client, n = np.repeat([0, 1, 2], [5, 8, 12]), np.array([5, 8, 12])
    X, y = rng.normal(size=(25, 2)), rng.normal(size=25) + client
    pd.DataFrame(X, columns=["a", "b"]).assign(client=client, y=y).to_csv(
        tmp_path / "rows.csv", index=False, float_format="%.17g"
    )
    mine = [(X[client == k], y[client == k]) for k in range(3)]
    above = [
        0.5 * np.mean((A @ np.linalg.lstsq(A, t)[0]) ** 2) for A, t in mine
    ]  # what it explains
    p = n / 25 if weighting == "size" else np.full(3, 1 / 3)
    dataset = {"dataset": str(tmp_path / "rows.csv"), "intercept": False, "weighting": weighting}
    engine = engine_for({
        "rounds": 1, "evaluate": {"measures": ["skew"]},
        "algorithms": ["fedavg"], "executor": "serial",
        "problem": {"name": "least-squares", **dataset}, "clients": {},
        "participation": {"cohort": 1},
    })  # fmt: skip
    moment, _ = engine.start()
    _, row, events = step(engine, moment)
    (drawn,) = events[-1]["client"]
    assert row["skew"] == pytest.approx(above[drawn] / (p @ above), rel=1e-10)


def test_least_losses_that_are_unknown_count_as_zero(mixed):
    made = mixed(rounds=1, evaluate={"clients": 5, "measures": ["skew"]})
    engine = engine_for(made)
    moment, _ = engine.start()
    _, row, events = step(engine, moment)
    x, run = moment.state["x"], engine.run
    some = engine.measures.each(x, run.measuring.evaluated, "now")["loss"]
    sizes = run.federation.views.training.shards.sizes(run.measuring.evaluated)
    chosen = engine.measures.each(x, events[-1]["client"], "now")["loss"]
    expected = chosen.mean() / (sizes @ some / sizes.sum())
    assert row["skew"] == pytest.approx(expected, rel=1e-12)
    assert np.isnan(row["skew_optimum"])
    assert np.isnan(row["skew_expected"])
