"""Runs on rows that change: against a simulation of their own, and against each other."""

import pickle
from collections.abc import Set
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import rayfed
from rayfed import api
from rayfed.clients.host import Host
from rayfed.clients.request import Request
from rayfed.core.columns import Column
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import OPTIMUM
from rayfed.executors.base import gather
from rayfed.measures import Measure
from rayfed.messages import Upload
from rayfed.testing.compare import assert_same_results
from rayfed.testing.studies import drive, stop_after
from rayfed.testing.toy import tiny_run

LR, STEPS, ROUNDS = 0.05, 2, 7
KINDS = [
    {"name": "labels-swap", "pairs": [[0, 2]], "at": 3, "over": 4, "recurs": 4},
    {"name": "rotation", "at": 2, "over": 3},
    {"name": "arriving", "at": 1, "over": 9, "first": 0.2},
]


def run_on(folder, X, y, client, drift, **changes):
    """Return what FedAvg with two full-batch steps records, or another algorithm."""
    data = {"X": X, "y": y, "client": client}
    problem = {
        "name": "least-squares",
        "dataset": {"name": "arrays", "data": data},
        "intercept": False,
        "test": 0,
    }
    local = {"steps": STEPS, "batch": "full", "lr": LR}
    settings = {
        "algorithm": {"name": "fedavg", "local": local},
        "problem": problem,
        "partition": None,
        "clients": {"count": int(client.max()) + 1},
        "participation": {},
        "rounds": ROUNDS,
        "evaluate": {"every": 1},
        "drift": drift,
    } | changes
    return tiny_run(folder, settings.pop("algorithm"), **settings)


def simulated(rows_at, clients, p):
    """Return F after each round, from rows X, y of a client in a round."""
    x, losses = np.zeros(p), []

    def loss(round):
        sums = [0.5 * np.sum((X @ x - y) ** 2) for X, y in (rows_at(i, round) for i in clients)]
        return sum(sums) / sum(len(rows_at(i, round)[1]) for i in clients)

    losses.append(loss(0))
    for round in range(1, ROUNDS + 1):
        models, sizes = [], []
        for i in clients:
            X, y = rows_at(i, round)
            local = x.copy()
            for _ in range(STEPS):
                local -= LR * X.T @ (X @ local - y) / len(y)
            models.append(local)
            sizes.append(len(y))
        x = np.average(models, axis=0, weights=sizes)
        losses.append(loss(round))
    return losses


def test_features_that_turn_give_the_losses_of_a_simulation(tmp_path):
    rng = np.random.default_rng(0)
    X, y, client = rng.standard_normal((9, 3)), rng.standard_normal(9), np.array([0] * 6 + [1] * 3)
    degrees = {0: 0, 1: 0, 2: 0, 3: 20, 4: 40, 5: 60, 6: 60, 7: 60}

    def rows_at(i, round):
        mine, targets = X[client == i].copy(), y[client == i]
        if i == 0:
            a = np.deg2rad(degrees[round])
            u, v = mine[:, 2].copy(), mine[:, 0].copy()
            mine[:, 2], mine[:, 0] = np.cos(a) * u - np.sin(a) * v, np.sin(a) * u + np.cos(a) * v
        return mine, targets

    drift = {"name": "rotation", "plane": [2, 0], "angle": 60, "at": 3, "over": 3, "clients": [0]}
    result = run_on(tmp_path, X, y, client, drift)
    np.testing.assert_allclose(result.rounds.loss, simulated(rows_at, (0, 1), 3), rtol=1e-10)


def test_rows_that_arrive_count_for_means_losses_and_events(tmp_path):
    client = np.array([0] * 10 + [1] * 4)  # rows of a client are equal: their order is no matter
    X, y = np.where(client == 0, 1.0, 2.0)[:, None], np.where(client == 0, 3.0, -1.0)
    there = {0: 2, 1: 2, 2: 4, 3: 6, 4: 8, 5: 10, 6: 10, 7: 10}

    def rows_at(i, round):
        n = there[round] if i == 0 else 4
        return X[client == i][:n], y[client == i][:n]

    drift = {"name": "arriving", "first": 0.2, "at": 2, "over": 4, "clients": [0]}
    result = run_on(tmp_path, X, y, client, drift)
    np.testing.assert_allclose(result.rounds.loss, simulated(rows_at, (0, 1), 1), rtol=1e-10)
    assert result.clients.samples.tolist() == [10, 4]
    early = run_on(tmp_path / "early", X, y, client, drift, rounds=3)
    assert early.clients.samples.tolist() == [6, 4]


@dataclass(frozen=True, kw_only=True)
class Probe(Measure):
    """The model, and all that a measure can ask about it."""

    name: ClassVar[str] = "probe"
    columns: ClassVar[tuple[Column, ...]] = tuple(
        map(Column, ("x0", "x1", "mean0", "mean1", "weight", "asked", "told", "steps", "moved"))
    )

    def slope(self, clients, x):
        return Upload({"slope": clients.gradient(x)})

    def values(self, clients, x):
        return Upload({"value": clients.value(x)})

    def solved(self, clients, x):
        return Upload({"moved": clients.solve(x).x - x})

    def measure(self, view, known):
        x, ids = view.model, view.clients
        mean = view.mean("slope", {"x": x}, {"slope": 2}).mean["slope"]
        steps = view.steps(ids)
        moved = view.mean("solved", {"x": x}, {"moved": 2}, ids, steps).mean["moved"]
        told = view.losses(x, ids)
        row = {
            "x0": x[0], "x1": x[1], "mean0": mean[0], "mean1": mean[1],
            "weight": view.weights(ids)[0] / view.weights(ids).sum(),
            "asked": view.ask("values", {"x": x}, {"value": 1}).each["value"].sum(),
            "told": told.sum(), "steps": steps[0], "moved": moved[0],
        }  # fmt: skip
        return row, known


def swapped(X, y, round):
    return (X, 1 - y) if round >= 3 else (X, y)


def grown(X, y, round):
    return X[: 2 * max(1, min(round, 5))], y[: 2 * max(1, min(round, 5))]


@pytest.mark.parametrize(
    ("drift", "change", "label"),
    [
        ({"name": "labels-swap", "at": 3, "clients": [0]}, swapped, 0),
        ({"name": "arriving", "first": 0.2, "at": 2, "over": 4, "clients": [0]}, grown, 1),
    ],
    ids=["labels-swap", "arriving"],
)
def test_measures_see_rows_and_weights_of_the_round_of_their_row(tmp_path, drift, change, label):
    """Against logistic regression in plain NumPy, at the models of the run.

    Of a client whose rows arrive all are equal, so that their order does not matter.
    """
    rng = np.random.default_rng(0)
    client = np.array([0] * 10 + [1] * 4)
    X, y = rng.standard_normal((14, 2)), rng.integers(0, 2, 14)
    if change is grown:
        X[:10], y[:10], y[10] = X[0], label, 1 - label
    local = {"epochs": 1, "batch": 4, "lr": LR}
    found = tiny_run(
        tmp_path, {"name": "fedavg", "local": local},
        problem={
            "name": "logistic-regression", "intercept": False, "test": 0,
            "dataset": {"name": "arrays", "data": {"X": X, "y": y, "client": client}},
        },
        partition=None, clients={"count": 2}, participation={}, rounds=ROUNDS, drift=drift,
        evaluate={"every": 1, "measures": ["gradient", Probe()]},
    ).rounds  # fmt: skip

    def rows_at(round):
        return [change(X[:10], y[:10], round), (X[10:], y[10:])]

    def slope(rows, x):
        return rows[0].T @ (1 / (1 + np.exp(-rows[0] @ x)) - rows[1]) / len(rows[1])

    def value(rows, x):
        return np.mean(np.log1p(np.exp(-(2 * rows[1] - 1) * (rows[0] @ x))))

    for row in found.itertuples():
        x, now, coming = np.array([row.x0, row.x1]), rows_at(row.round), rows_at(row.round + 1)
        sizes = [len(rows[1]) for rows in now]
        mean = np.average([slope(rows, x) for rows in now], axis=0, weights=sizes)
        np.testing.assert_allclose([row.mean0, row.mean1], mean, rtol=1e-10)
        assert row.objective_gradient_norm == pytest.approx(np.linalg.norm(mean), rel=1e-10)
        assert row.weight == pytest.approx(sizes[0] / sum(sizes), rel=1e-14)
        values = [value(rows, x) for rows in now]
        assert row.asked == pytest.approx(sum(values), rel=1e-10)
        assert row.told == pytest.approx(sum(values), rel=1e-10)
        assert row.loss == pytest.approx(np.average(values, weights=sizes), rel=1e-10)
        assert row.steps == -(-len(coming[0][1]) // 4)
    assert found.objective_gradient_norm.nunique() == ROUNDS + 1


@dataclass(frozen=True, kw_only=True)
class OfCohort(Measure):
    """The loss of the cohort before it trains."""

    name: ClassVar[str] = "of-cohort"
    uses: ClassVar[Set[str]] = frozenset({"cohort"})
    columns: ClassVar[tuple[Column, ...]] = (Column("before"), Column("weight"))

    def measure(self, view, known):
        weight = view.weights(view.cohort)[0]
        return {"before": view.losses(view.model, view.cohort)[0], "weight": weight}, known


def test_measures_of_a_cohort_see_the_rows_of_its_round(tmp_path):
    """A client whose model is 0 at first: its losses are y^2 / 2 of the rows that are there."""
    X, y = np.ones((4, 1)), np.array([2.0] * 4)
    drift = {"name": "arriving", "first": 0.25, "at": 1, "over": 3}
    found = run_on(
        tmp_path, X, y, np.zeros(4, np.int64), drift, rounds=4,
        evaluate={"every": 1, "measures": [OfCohort()]},
    ).rounds  # fmt: skip
    assert found.weight.tolist()[1:] == [2, 3, 4, 4]
    assert found.before.tolist()[1] == 2.0


@pytest.mark.parametrize("at", [2, 20])
def test_appeal_compares_with_models_alone_on_the_same_rows(tmp_path, at):
    """One client with the targets 1 and 3, one of which arrives later.

    Steps of 1/2 halve the distance from their mean. At 2, both have a loss of 1/2, which is more
    than that after two steps on one of them, and less than that after two steps on both.
    """
    found = run_on(
        tmp_path, np.ones((2, 1)), np.array([1.0, 3.0]), np.zeros(2, np.int64),
        {"name": "arriving", "first": 0.5, "at": at}, rounds=3,
        evaluate={"every": 1, "measures": [{"name": "appeal", "steps": 2}]},
        algorithm={"name": "fedavg", "local": {"steps": 5, "batch": "full", "lr": 0.5}},
    ).rounds  # fmt: skip
    first = np.sqrt(2 * found.loss[0])  # the model is 0

    def loss(x, targets):
        return np.mean((x - targets) ** 2) / 2

    x, wanted = 0.0, []
    for round in range(4):
        targets = np.array([1.0, 3.0]) if round >= at else np.array([first])
        middle = targets.mean()
        x = middle + (x - middle) / 2**5 if round else x
        wanted.append(float(loss(x, targets) <= loss(middle - middle / 4, targets)))
    assert found.appeal.tolist() == wanted == [0, 1, 1, 1]


@dataclass(frozen=True, kw_only=True)
class Near(OfCohort):
    needs: ClassVar = frozenset({OPTIMUM})


@dataclass(frozen=True, kw_only=True)
class Hopes(Measure):
    """Whether the optimum is known."""

    name: ClassVar[str] = "hopes"
    uses: ClassVar[Set[str]] = frozenset({"optimum"})
    columns: ClassVar[tuple[Column, ...]] = (Column("known"),)

    def measure(self, view, known):
        return {"known": float(view.optimum is not None)}, known


def test_the_optimum_of_the_first_rows_is_none_of_later_ones(tmp_path):
    X, y, client = np.ones((4, 1)), np.arange(4.0), np.zeros(4, np.int64)
    drift = {"name": "arriving", "at": 2}
    with pytest.raises(ScenarioError, match="the same in all rounds, but 'arriving'"):
        run_on(tmp_path / "a", X, y, client, drift, evaluate={"measures": [Near()]})
    asked = {"every": 1, "measures": [Hopes()]}
    found = run_on(tmp_path / "b", X, y, client, drift, evaluate=asked)
    assert (found.rounds.known == 0).all()


def test_epochs_are_as_long_as_the_rows_that_are_there(tmp_path):
    client = np.array([0] * 12 + [1] * 12)
    drift = {"name": "arriving", "at": 1, "over": 3, "clients": [1]}
    scenario = {
        "problem": {
            "name": "least-squares",
            "dataset": {
                "name": "arrays",
                "data": {"X": np.ones((24, 1)), "y": np.ones(24) / 2, "client": client},
            },
        },
        "partition": None,
        "clients": {"count": 2, "delay": {"name": "constant", "mean_s": 1.0}},
        "participation": {},
        "rounds": 3,
        "drift": drift,
    }
    local = {"epochs": 1, "batch": 2, "lr": 0.1}
    events = tiny_run(tmp_path, {"name": "fedavg", "local": local}, **scenario).events
    assert events.steps.tolist() == [6, 2, 6, 4, 6, 6]
    assert (events.end_s - events.start_s).tolist() == [6.0, 2.0, 6.0, 4.0, 6.0, 6.0]


def test_draws_by_size_follow_the_sizes(tmp_path):
    client = np.array([0] * 2000 + [1])
    drift = {"name": "arriving", "at": 21, "clients": [0]}
    result = run_on(
        tmp_path, np.ones((2001, 1)), np.ones(2001) / 2, client, drift,
        participation={"cohort": 1, "select": "weighted"}, rounds=40, evaluate={"every": 40},
    )  # fmt: skip
    chosen = result.events.client.to_numpy()
    assert set(chosen[:20]) == {0, 1}  # one row each
    assert (chosen[20:] == 0).sum() >= 19


@pytest.mark.parametrize("drift", KINDS, ids=lambda drift: drift["name"])
def test_a_drift_of_nobody_is_none_to_the_byte(drift, mixed, tmp_path):
    drive(api.prepare(api.read(mixed())), tmp_path / "none")
    drive(api.prepare(api.read(mixed(drift=drift | {"clients": 0.0}))), tmp_path / "nobody")
    assert_same_results(tmp_path / "none", tmp_path / "nobody")


@pytest.mark.guard
@pytest.mark.parametrize("drift", KINDS, ids=lambda drift: drift["name"])
def test_stacks_and_a_resume_give_the_same_bytes(drift, mixed, tmp_path):
    plan = api.prepare(api.read(mixed(drift=drift | {"clients": "phones"})))
    drive(plan, tmp_path / "seven", block=7)
    drive(plan, tmp_path / "one", block=1)
    assert_same_results(tmp_path / "seven", tmp_path / "one")
    stop_after(plan, tmp_path / "stopped", rounds=4)
    drive(plan, tmp_path / "stopped", resume=True)
    assert_same_results(tmp_path / "seven", tmp_path / "stopped")


@pytest.mark.parametrize("drift", KINDS, ids=lambda drift: drift["name"])
def test_hosts_in_other_processes_see_the_same_rows(drift, mixed):
    """Two hosts, to which the run travels as bytes, give the sums of one that has all clients."""
    plan = api.prepare(api.read(mixed(drift=drift | {"clients": 0.5})))
    (run,) = plan.runs
    ids, x = np.arange(13), run.training.x0
    none = np.zeros(13, np.int64)
    for number in (1, 5, 4):
        request = Request(
            "algorithm", "train", {"delta": x.size}, ids, 1.0 + ids, none + 3, none, number, 0
        )
        found = []
        for classes in ([[(0, 1)]], [[(0, 2)], [(1, 2)]]):
            parts = []
            for mine in classes:
                host = Host()
                setup = pickle.loads(pickle.dumps(run.setup().with_tables(plan.tables)))
                host.open("run", setup, mine)
                at = np.flatnonzero(ids % mine[0][1] == mine[0][0])
                parts.append((at, host.exchange("run", request.part(at), {"x": x})))
            found.append(gather(request, parts))
        assert found[0].sums["delta"].tobytes() == found[1].sums["delta"].tobytes()
        assert found[0].each["loss"].tobytes() == found[1].each["loss"].tobytes()


@pytest.mark.slow
@pytest.mark.ray
def test_ray_gives_the_same_bytes(mixed, tmp_path):
    for executor in ({"name": "serial"}, {"name": "ray", "clients_per_actor": 1}):
        scenario = mixed(drift=KINDS[2] | {"clients": 0.5}, executor=executor)
        rayfed.run(scenario, out=tmp_path / executor["name"], page=False)
    assert_same_results(tmp_path / "serial", tmp_path / "ray")


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"evaluate": {"gap": True}}, "evaluate.gap"),
        ({"evaluate": {"measures": ["distance"]}}, "evaluate.measures.0"),
        ({"evaluate": {"measures": ["heterogeneity"]}}, "evaluate.measures.0"),
        ({"evaluate": {"measures": ["skew"]}}, "evaluate.measures.0"),
        ({"evaluate": {"measures": ["layers"]}}, "evaluate.measures.0"),
        ({"stop": {"loss_gap": 0.1}}, "stop.loss_gap"),
        ({"algorithms": ["fedasync"]}, "drift"),
        ({"algorithms": ["centralised"]}, "drift"),
        ({"drift": {"name": "labels-swap", "clients": "tablets"}}, "drift.clients"),
        ({"drift": {"name": "labels-swap", "pairs": [[0, 3]]}}, "drift.pairs"),
    ],
)
def test_what_assumes_rows_that_stay_is_refused(changes, place, mixed):
    with pytest.raises(ScenarioError) as refused:
        api.prepare(api.read(mixed(drift=KINDS[0]) | changes))
    assert refused.value.place == place


def test_test_rows_at_the_server_are_refused(mixed, tmp_path):
    X = np.ones((26, 4))
    y, client = np.arange(26) % 3, np.arange(26) % 13
    data = {"X": X, "y": y, "client": client, "X_test": X[:4], "y_test": y[:4]}
    problem = {"name": "softmax-regression", "dataset": {"name": "arrays", "data": data}}
    with pytest.raises(ScenarioError, match="would not drift"):
        api.prepare(api.read(mixed(problem=problem, drift=KINDS[0])))
