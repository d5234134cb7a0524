"""What a scenario says is what runs: who, when, how long, until when, worked out by hand."""

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from rayfed import api
from rayfed.algorithms import FedAvg
from rayfed.core.errors import ScenarioError
from rayfed.runs.serial import SerialStudy
from rayfed.study import expand
from rayfed.study.forecast.cost import Cost, Processes
from rayfed.study.plan.plan import make
from rayfed.study.scenario.parts import Executor

PACE = (1.0, 2.0, 3.0, 10.0)  # seconds of a step of clients 0 to 3
P = 3  # two features and the intercept
MODEL = 8 * P  # bytes
ROWS = {
    "client": [0, 0, 1, 1, 1, 2, 3, 3],
    "a": [1.0, 0.5, -1.0, 0.2, 0.4, 2.0, -0.5, 1.5],
    "b": [0.3, -0.8, 0.6, 1.1, -0.2, 0.4, -1.3, 0.7],
    "y": [1.0, 0.4, -1.5, 0.8, 0.3, 1.9, -1.0, 1.2],
}


@pytest.fixture
def made(tmp_path):
    """Return a function that makes the scenario of four clients, each with a pace of its own."""
    file = tmp_path / "four.csv"
    pd.DataFrame(ROWS).to_csv(file, index=False)

    def make(local=None, groups=({}, {}, {}, {}), **changes):
        paces = [
            {"ids": [i], "delay": {"name": "constant", "mean_s": s}, **groups[i]}
            for i, s in enumerate(PACE)
        ]
        return {
            "name": "four",
            "rounds": 2,
            "problem": {"name": "least-squares", "dataset": str(file)},
            "clients": {"groups": paces, **changes.pop("clients", {})},
            "algorithms": [
                {"name": "fedavg", "local": local or {"steps": 2, "batch": "full", "lr": 0.1}}
            ],
            "executor": "serial",
        } | changes

    return make


@pytest.fixture
def recorded(tmp_path):
    """Return a function that runs a scenario, without a page, and returns what it recorded."""

    def run(scenario):
        plan = api.prepare(api.read(scenario))
        out = tmp_path / "out"
        return api.Result(out, SerialStudy(out).execute(plan.runs, plan.tables, False, _unseen))

    return run


def _unseen(progress, outcome):
    pass


def told(result, run="fedavg-seed0"):
    return json.loads((result.folder / run / "run.json").read_text())


def events(result, number):
    """Return client, start, compute, end, status and steps of each event of a round."""
    rows = result.events[result.events["round"] == number]
    columns = ["client", "start_s", "compute_s", "end_s", "status", "steps"]
    return [tuple(row) for row in rows[columns].itertuples(index=False)]


def rows(result, *columns):
    return [tuple(row) for row in result.rounds[list(columns)].itertuples(index=False)]


class TestTheClock:
    COUNTS = ("time_s", "participants", "late", "dropped", "local_steps")

    def test_everybody_is_waited_for(self, made, recorded):
        result = recorded(made())
        assert events(result, 1) == [
            (0, 0.0, 2.0, 2.0, "used", 2),
            (1, 0.0, 4.0, 4.0, "used", 2),
            (2, 0.0, 6.0, 6.0, "used", 2),
            (3, 0.0, 20.0, 20.0, "used", 2),
        ]
        assert rows(result, *self.COUNTS) == [
            (0.0, 0, 0, 0, 0),
            (20.0, 4, 0, 0, 8),
            (40.0, 4, 0, 0, 8),
        ]

    def test_a_deadline_ends_the_round_and_the_last_second_counts(self, made, recorded):
        result = recorded(made(participation={"deadline_s": 6}))
        assert events(result, 2) == [
            (0, 6.0, 2.0, 8.0, "used", 2),
            (1, 6.0, 4.0, 10.0, "used", 2),
            (2, 6.0, 6.0, 12.0, "used", 2),
            (3, 6.0, 20.0, 26.0, "late", 2),
        ]
        assert rows(result, *self.COUNTS)[1:] == [(6.0, 3, 1, 0, 6), (12.0, 3, 1, 0, 6)]
        loss = result.events[result.events["round"] == 1].loss
        assert loss.isna().tolist() == [False, False, False, True]  # it was never computed

    def test_who_is_late_changes_nothing(self, made, recorded):
        """After one round the model is the mean over clients 0, 1 and 2, of 2, 3 and 1 rows."""
        result = recorded(made(participation={"deadline_s": 6}, rounds=1))
        X = np.column_stack([ROWS["a"], ROWS["b"], np.ones(8)])
        y, client = np.array(ROWS["y"]), np.array(ROWS["client"])
        x = np.zeros(P)
        for i, n in ((0, 2), (1, 3), (2, 1)):
            A, b, model = X[client == i], y[client == i], np.zeros(P)
            for _ in range(2):
                model -= 0.1 * A.T @ (A @ model - b) / n
            x += n / 6 * model
        np.testing.assert_allclose(result.model("fedavg-seed0"), x, rtol=1e-12)

    def test_nobody_in_time(self, made, recorded):
        result = recorded(made(participation={"deadline_s": 1}))
        assert rows(result, *self.COUNTS)[1:] == [(1.0, 0, 4, 0, 0), (2.0, 0, 4, 0, 0)]
        assert len(set(result.rounds.loss)) == 1

    def test_over_selection_takes_the_first(self, made, recorded):
        result = recorded(made(participation={"cohort": 2, "over_select": 2}))
        assert [(e[0], e[4]) for e in events(result, 1)] == [
            (0, "used"),
            (1, "used"),
            (2, "late"),
            (3, "late"),
        ]
        assert rows(result, *self.COUNTS)[1:] == [(4.0, 2, 2, 0, 4), (8.0, 2, 2, 0, 4)]

    def test_over_selection_is_rounded_up(self, made, recorded):
        result = recorded(made(participation={"cohort": 3, "over_select": 1.1}, rounds=1))
        assert len(events(result, 1)) == 4

    def test_who_goes_away_is_dropped_then(self, made, recorded):
        """Clients 0 and 1 are there in [0, 5), 2 and 3 in [5, 10); three steps are 6 s for 1."""
        clients = {"availability": {"name": "cyclic", "groups": 2, "period_s": 5}}
        local = {"steps": 3, "batch": "full", "lr": 0.1}
        groups = ({}, {}, {"local": {"steps": 1}}, {})
        result = recorded(made(local, groups, clients=clients))
        assert events(result, 1) == [
            (0, 0.0, 3.0, 3.0, "used", 3),
            (1, 0.0, 6.0, 5.0, "dropped", 3),
        ]
        assert events(result, 2) == [
            (2, 5.0, 3.0, 8.0, "used", 1),
            (3, 5.0, 30.0, 10.0, "dropped", 3),
        ]
        assert rows(result, *self.COUNTS)[1:] == [(5.0, 1, 0, 1, 3), (10.0, 1, 0, 1, 1)]
        # A dropped client has downloaded, but uploads nothing.
        assert rows(result, "bytes_down", "bytes_up")[1:] == [(2 * MODEL, MODEL)] * 2

    def test_stragglers_are_slow_and_say_so(self, made, recorded):
        scenario = made(clients={"groups": [], "stragglers": {"fraction": 0.5, "slowdown": 8}})
        result = recorded(scenario)
        clients = result.clients
        assert clients.straggler.sum() == 2
        np.testing.assert_array_equal(clients.speed_s, np.where(clients.straggler, 8.0, 1.0))
        slow = {e[0] for e in events(result, 1) if e[2] == 16.0}
        assert slow == set(clients.client[clients.straggler])


class TestTheNetwork:
    def test_transfers_take_their_time_and_are_counted(self, made, recorded):
        """8 Mbit/s carry a byte in 1 us, 4 Mbit/s in 2 us; half a second each way on top."""
        network = {"down_mbps": 8, "up_mbps": 4, "latency_s": 0.5}
        result = recorded(made(clients={"network": network}, rounds=1))
        extra = 0.5 + MODEL * 1e-6 + 0.5 + MODEL * 2e-6
        for (_, start, compute, end, *_), pace in zip(events(result, 1), PACE, strict=True):
            assert (start, compute) == (0.0, 2 * pace)
            assert end == pytest.approx(2 * pace + extra, rel=1e-14)
        assert rows(result, "bytes_down", "bytes_up") == [(0, 0), (4 * MODEL, 4 * MODEL)]

    def test_fedexp_uploads_one_number_more(self, made, recorded):
        result = recorded(made(algorithms=["fedexp"], rounds=1))
        assert rows(result, "bytes_down", "bytes_up")[1] == (4 * MODEL, 4 * (MODEL + 8))

    def test_float32_is_half_of_it(self, made, recorded):
        result = recorded(made(dtype="float32", rounds=1))
        assert rows(result, "bytes_down", "bytes_up")[1] == (2 * MODEL, 2 * MODEL)

    @pytest.mark.parametrize("name", ["local-only", "centralised"])
    def test_baselines_send_nothing(self, made, recorded, name):
        result = recorded(made(algorithms=[name], clients={"network": {"up_mbps": 1}}))
        assert rows(result, "bytes_down", "bytes_up") == [(0, 0)] * 3

    def test_centralised_is_one_ordinary_machine(self, made, recorded):
        """With the population's own pace of 0.5 s and no network: 10 steps are 5 s."""
        clients = {
            "delay": {"name": "constant", "mean_s": 0.5},
            "network": {"latency_s": 7},
            "availability": {"name": "bernoulli", "p": 0},
        }
        result = recorded(made(algorithms=["centralised"], clients=clients))
        assert rows(result, "time_s", "participants", "local_steps")[1:] == [
            (5, 1, 10),
            (10, 1, 10),
        ]


class TestLocalWork:
    def test_as_many_steps_as_the_time_allows_and_one_at_least(self, made, recorded):
        result = recorded(made({"time_s": 7, "batch": "full", "lr": 0.1}, rounds=1))
        assert [e[5] for e in events(result, 1)] == [7, 3, 2, 1]
        assert [e[2] for e in events(result, 1)] == [7.0, 6.0, 6.0, 10.0]

    def test_time_is_no_measure_of_steps_that_take_none(self, made):
        idle = {"delay": {"name": "constant", "mean_s": 0}}
        counted = {**idle, "local": {"steps": 5}}
        local = {"time_s": 7, "batch": "full", "lr": 0.1}
        api.prepare(api.read(made(local, groups=({}, {}, {}, counted))))
        with pytest.raises(ScenarioError, match=r"^local.time_s: a step takes no time; give"):
            api.prepare(api.read(made(local, groups=({}, {}, {}, idle))))
        some = made(local, groups=({}, {}, {}, idle)) | {"evaluate": {"clients": 2}}
        with pytest.raises(ScenarioError, match=r"^local.time_s: a step takes no time; give"):
            api.prepare(api.read(some))

    @pytest.mark.parametrize(
        ("delay", "problem"),
        [
            ({"name": "gamma", "shape": 0.02}, "a step takes no time; give"),  # some u**50
            ({"name": "lognormal", "sigma": 30}, "comes to .* in one round of a thousand"),
        ],
    )
    def test_time_is_no_measure_of_steps_that_may_take_none(self, made, delay, problem):
        local = {"batch": "full", "lr": 0.1}
        groups = ({"delay": {"name": "exponential"}},) * 3
        api.prepare(api.read(made({"time_s": 1e-3, **local}, groups=(*groups, {}))))
        groups = (*groups, {"delay": delay})
        api.prepare(api.read(made({"steps": 5, **local}, groups=groups)))
        with pytest.raises(ScenarioError, match=f"^local.time_s: {problem}"):
            api.prepare(api.read(made({"time_s": 1e-3, **local}, groups=groups)))

    def test_epochs_count_minibatches(self, made, recorded):
        """Two passes over 2, 3, 1 and 2 rows in batches of 2 are 2, 4, 2 and 2 steps."""
        result = recorded(made({"epochs": 2, "batch": 2, "lr": 0.1}, rounds=1))
        assert [e[5] for e in events(result, 1)] == [2, 4, 2, 2]

    def test_groups_have_settings_of_their_own(self, made, recorded):
        """Client 1 takes 5 steps in place of 2, client 3 a step length of its own: its model."""
        groups = ({}, {"local": {"steps": 5}}, {}, {"local": {"lr": 0.4, "steps": 1}})
        result = recorded(made(groups=groups, algorithms=[local_only(2, 0.1)], rounds=1))
        assert [e[5] for e in events(result, 1)] == [2, 5, 2, 1]
        assert [e[2] for e in events(result, 1)] == [2.0, 10.0, 6.0, 10.0]
        F = [F_i(i, descended(i, *how)) for i, how in enumerate([(2, 0.1), (5, 0.1), (2, 0.1)])]
        F.append(F_i(3, descended(3, 1, 0.4)))
        np.testing.assert_allclose(result.clients.loss, F, rtol=1e-12)
        assert result.clients.group.tolist() == [1, 2, 3, 4]


def local_only(steps, lr):
    return {"name": "local-only", "local": {"steps": steps, "batch": "full", "lr": lr}}


def own(i):
    """Return the rows of client i."""
    mine = np.array(ROWS["client"]) == i
    X = np.column_stack([ROWS["a"], ROWS["b"], np.ones(8)])
    return X[mine], np.array(ROWS["y"])[mine]


def F_i(i, x):  # noqa: N802 - as in the formulas
    A, y = own(i)
    return float(np.mean((A @ x - y) ** 2)) / 2


def descended(i, steps, lr, x=None):
    """Return client i's model after some steps from x, or from 0."""
    A, y = own(i)
    x = np.zeros(P) if x is None else x
    for _ in range(steps):
        x = x - lr * A.T @ (A @ x - y) / len(y)
    return x


def iterates(rounds):
    """Return the models of FedAvg, two steps of 0.1, from the first on."""
    n, models = [2, 3, 1, 2], [np.zeros(P)]
    for _ in range(rounds):
        ends = [descended(i, 2, 0.1, models[-1]) for i in range(4)]
        models.append(sum(k * end for k, end in zip(n, ends, strict=True)) / 8)
    return models


def F(x, clients=range(4)):  # noqa: N802
    """Return F over some clients."""
    n = {0: 2, 1: 3, 2: 1, 3: 2}
    return sum(n[i] * F_i(i, x) for i in clients) / sum(n[i] for i in clients)


class TestEvaluation:
    def test_the_mean_of_the_last_iterates(self, made, recorded):
        scenario = made(rounds=4)
        scenario["algorithms"][0]["evaluate_last"] = 3
        result = recorded(scenario)
        x = iterates(4)
        means = [np.mean(x[max(0, r - 2) : r + 1], axis=0) for r in range(5)]
        np.testing.assert_allclose(result.rounds.loss, [F(m) for m in means], rtol=1e-12)
        np.testing.assert_allclose(result.model("fedavg-seed0"), means[4], rtol=1e-12)
        with np.load(result.folder / "fedavg-seed0" / "model.npz") as held:
            np.testing.assert_allclose(held["state.x"], x[4], rtol=1e-12)

    def test_every_third_round_and_the_last(self, made, recorded):
        result = recorded(made(rounds=5, evaluate={"every": 3}))
        assert result.rounds.loss.notna().tolist() == [True, False, False, True, False, True]
        assert result.rounds.participants.tolist() == [0, 4, 4, 4, 4, 4]

    def test_a_sample_of_the_clients_is_fixed_and_estimates_f(self, made, recorded):
        scenario = made(evaluate={"clients": 2})
        (run,) = api.prepare(api.read(scenario)).runs
        assert len(run.measuring.evaluated) == 2
        result = recorded(scenario)
        expected = [F(x, run.measuring.evaluated.tolist()) for x in iterates(2)]
        np.testing.assert_allclose(result.rounds.loss, expected, rtol=1e-12)

    def test_all_algorithms_of_a_seed_are_evaluated_on_the_same_sample(self, made):
        scenario = made(evaluate={"clients": 2}, algorithms=["fedavg", "fedexp"], seeds=[0, 1, 2])
        runs = api.prepare(api.read(scenario)).runs
        chosen = {}
        for run in runs:
            chosen.setdefault(run.seed, set()).add(tuple(run.measuring.evaluated))
        assert all(len(samples) == 1 for samples in chosen.values())
        assert len(set.union(*chosen.values())) > 1

    def test_auto_is_a_sample_of_large_populations(self, made):
        data = {"name": "least-squares", "dataset": {"name": "linear", "features": 2, "samples": 2}}
        sizes = {}
        for count in (10_000, 10_001, 20_000):
            scenario = made(problem=data, clients=own_pace(count))
            sizes[count] = len(api.prepare(api.read(scenario)).runs[0].measuring.evaluated)
        assert sizes == {10_000: 10_000, 10_001: 10_000, 20_000: 10_000}

    def test_the_gap_is_the_loss_above_the_optimum(self, made, recorded):
        result = recorded(made(evaluate={"gap": True}))
        X = np.column_stack([ROWS["a"], ROWS["b"], np.ones(8)])
        y = np.array(ROWS["y"])
        best = np.linalg.lstsq(X, y, rcond=None)[0]
        gaps = [F(x) - F(best) for x in iterates(2)]
        np.testing.assert_allclose(result.rounds.loss_gap, gaps, rtol=1e-9)

    def test_without_being_asked_there_is_no_gap(self, made, recorded):
        assert recorded(made()).rounds.loss_gap.isna().all()


def own_pace(count):
    return {"count": count, "groups": []}


class TestStop:
    """One client with the row a = 1, y = 1 and no intercept, step 1/2: F = 1/2, 1/8, 1/32, ..."""

    @pytest.fixture
    def one(self, made, tmp_path):
        (tmp_path / "1.csv").write_text("client,a,y\n0,1,1\n")
        problem = {
            "name": "least-squares", "dataset": str(tmp_path / "1.csv"), "intercept": False,
        }  # fmt: skip
        local = {"steps": 1, "batch": "full", "lr": 0.5}
        return lambda **stop: made(local, problem=problem, clients=own_pace(1), stop=stop)

    def test_the_halves_are_exact(self, one, recorded):
        assert recorded(one()).rounds.loss.tolist() == [0.5, 0.125, 0.03125]
        assert told(recorded(one()))["stopped_by"] == "rounds"

    @pytest.mark.parametrize(
        ("rule", "bound", "ends"),
        [
            ("loss", 0.5, 0),
            ("loss", 0.04, 2),
            ("loss", 0.125, 1),
            ("loss_gap", 0.01, 3),
            ("time_s", 2.5, 3),
            ("time_s", 3.0, 3),
        ],
    )
    def test_a_rule_ends_the_run(self, one, recorded, rule, bound, ends):
        result = recorded(one(**{rule: bound}) | {"rounds": None})
        assert result.rounds["round"].iloc[-1] == ends
        assert told(result)["stopped_by"] == rule
        assert told(result)["status"] == "finished"

    def test_rounds_end_it_first(self, one, recorded):
        result = recorded(one(loss=1e-9))
        assert told(result)["stopped_by"] == "rounds"
        assert result.rounds["round"].iloc[-1] == 2

    def test_a_rule_is_judged_by_what_is_evaluated(self, one, recorded):
        result = recorded(one(loss=0.04) | {"rounds": 9, "evaluate": {"every": 3}})
        assert result.rounds["round"].iloc[-1] == 3  # met in round 2, seen in round 3

    def test_accuracy(self, made, recorded, tmp_path):
        """A score of 0 counts as class 0: half is right at first, all after one step."""
        (tmp_path / "2.csv").write_text("client,a,y\n0,1,1\n0,-1,0\n")
        problem = {"name": "logistic-regression", "dataset": str(tmp_path / "2.csv")}
        result = recorded(made(problem=problem, clients=own_pace(1), stop={"accuracy": 0.9}))
        assert result.rounds.accuracy.tolist() == [0.5, 1.0]
        assert told(result)["stopped_by"] == "accuracy"

    def test_accuracy_of_numbers_is_refused(self, one):
        text = "stop.accuracy: 'least-squares' predicts no classes here, so there is no accuracy"
        with pytest.raises(ScenarioError, match=text):
            api.prepare(api.read(one(accuracy=0.9)))


class TestRuns:
    def test_one_for_each_setting_algorithm_and_seed(self, made):
        scenario = made(
            seeds=[4, 7],
            algorithms=["fedavg", {"name": "fedexp", "label": "Exp eps=1"}],
            grid={"participation.cohort": [1, 2], "algorithms.*.local.lr": [0.5]},
        )
        runs = api.prepare(api.read(scenario)).runs
        assert [run.folder for run in runs] == [
            f"{label}-cohort={cohort}-lr=0.5-seed{seed}"
            for cohort in (1, 2)
            for seed in (4, 7)
            for label in ("fedavg", "Exp-eps=1")
        ]
        assert [run.participation.cohort for run in runs] == [1] * 4 + [2] * 4
        assert {run.setting for run in runs} == {"cohort=1, lr=0.5", "cohort=2, lr=0.5"}
        assert all(run.training.algorithm.local.lr == 0.5 for run in runs)

    def test_means_are_weighted_by_size_unless_the_selection_is(self, made):
        for select, weights in (("uniform", "size"), ("weighted", "uniform")):
            scenario = made(participation={"cohort": 2, "select": select})
            assert api.prepare(api.read(scenario)).runs[0].training.weights == weights

    def test_runs_share_the_data(self, made):
        scenario = made(seeds=[0, 1], algorithms=["fedavg", "fedexp"])
        assert len(api.prepare(api.read(scenario)).tables) == 1

    def test_the_first_model_of_a_file(self, made, recorded, tmp_path):
        x = np.array([0.5, -1.0, 2.0])
        np.savez(tmp_path / "model.npz", x=x)
        scenario = made()
        scenario["problem"]["init"] = str(tmp_path / "model.npz")
        assert recorded(scenario).rounds.loss[0] == pytest.approx(F(x), rel=1e-12)
        np.savez(tmp_path / "model.npz", x=np.zeros(4))
        with pytest.raises(ScenarioError, match=r"problem.init: 'model.npz' has 4 numbers, not 3"):
            api.prepare(api.read(scenario))

    def test_a_normal_start_is_keyed_by_the_seed(self, made):
        scenario = made(seeds=[0, 1], algorithms=["fedavg", "fedexp"])
        scenario["problem"]["init"] = "normal"
        one, two, three, _ = (run.training.x0 for run in api.prepare(api.read(scenario)).runs)
        assert one.tobytes() == two.tobytes()  # algorithms are compared from the same start
        assert one.tobytes() != three.tobytes()
        assert one.any()


class TestCost:
    def placed(self, made, **executor):
        scenario = made(executor={"name": "ray", **executor}, algorithms=["local-only"])
        return make(study := api.read(scenario), expand(study))

    def test_actors_drivers_and_memory(self, made):
        """Eight rows of 3 numbers and a target; a model of 3 numbers for each of 4 clients."""
        plan = self.placed(made, clients_per_actor=1)
        cost = plan.cost(2)
        assert (cost.processes.actors, cost.processes.runners) == (4, 1)
        # The rows are in the object store, and in the stacks of the one run at a time, with as
        # much for Gram matrices.
        assert cost.data == 3 * (8 * 3 + 8) * 8
        # Arrays grow by doubling; a checkpoint has four copies of what it reads at once.
        assert cost.state == (2 + 4) * 4 * MODEL
        assert cost.memory == cost.data + cost.state + cost.copies + cost.processes.memory
        assert cost.scratch == 0

    @pytest.mark.parametrize(
        ("each", "cpus", "actors"), [(3, 2, 2), (4, 2, 1), ("auto", 2, 1), ("auto", 64, 3)]
    )
    def test_clients_per_actor(self, made, each, cpus, actors):
        """With "auto" the driver takes the place of one."""
        assert self.placed(made, clients_per_actor=each).cost(cpus).processes.actors == actors

    def test_serial_starts_nothing(self, made):
        cost = api.prepare(api.read(made())).cost(2)
        assert (cost.processes.actors, cost.processes.runners) == (0, 0)
        assert cost.data == 3 * (8 * 3 + 8) * 8
        with pytest.raises(ScenarioError, match="are available; use fewer clients or a smaller"):
            cost.check(available=cost.memory - 1)

    def test_rows_that_are_made_on_demand_count_where_they_recur(self, made):
        """100 rows of 4 numbers and a target for 4 clients, of which a cohort of 2 is drawn."""
        scenario = made(participation={"cohort": 2}, clients={"count": 4})
        scenario["problem"]["dataset"] = {"name": "linear", "features": 4, "samples": 25}
        scenario["problem"]["intercept"] = False
        cost = api.prepare(api.read(scenario)).cost(2)
        assert cost.data == 2 * 100 * (4 + 1) * 8
        scenario["evaluate"] = {"clients": 1}
        assert api.prepare(api.read(scenario)).cost(2).data == 2 * 25 * (4 + 1) * 8

    def test_what_fits_to_the_byte_is_allowed(self):
        there = Processes(actors=3, combiners=0, runners=1, hosts=3, memory=30)
        cost = Cost(there, data=10, state=20, scratch=5, results=7, checkpoints=8)
        cost.check(available=60, scratch=5)
        with pytest.raises(ScenarioError, match=r"\(3 actors\), but 59 B are available; use"):
            cost.check(available=59, scratch=5)
        with pytest.raises(ScenarioError, match=r"needs 5 B of scratch space, but .* set RAYFED"):
            cost.check(available=60, scratch=4)

    def test_what_fits_the_disk_to_the_byte_is_allowed(self, tmp_path, monkeypatch):
        monkeypatch.setenv("RAYFED_SCRATCH", str(tmp_path / "elsewhere"))
        here = Processes(actors=0, combiners=0, runners=0, hosts=1, memory=0)
        cost = Cost(here, data=0, state=0, scratch=5, results=7, checkpoints=8)
        place = tmp_path / "results" / "four"
        cost.check_disk(place, free=20)  # scratch files are on the same disk
        with pytest.raises(ScenarioError, match="results, checkpoints and scratch files need"):
            cost.check_disk(place, free=19)

    def test_state_beyond_its_memory_is_scratch(self, made):
        cost = self.placed(made, clients_per_actor=1, memory_gb=1e-9 * 100).cost(2)
        assert cost.state == 100 + 4 * 4 * MODEL
        assert cost.scratch == 4 * MODEL

    def test_disk_of_large_client_state(self, made):
        """A client that is a file of its own is written anew, and the one before is kept."""
        run = api.prepare(api.read(made(algorithms=["scaffold"], rounds=1))).runs[0]
        large = np.zeros(10 * 2**20)
        run = replace(run, training=replace(run.training, x0=large))
        cost = Cost.of(Executor(name="serial"), [run], {}, 2)
        assert cost.checkpoints == 2 * 2 * large.nbytes + 2 * 4 * large.nbytes
        assert cost.results // large.nbytes == 3  # x twice, and c
        # x, c and two vectors up; of 4 clients, one computes at a time, as the plan says of blocks
        assert cost.copies >= 10 * large.nbytes

    @pytest.mark.parametrize("rounds", [2, None])
    def test_traffic_is_what_the_run_counts(self, made, recorded, rounds):
        scenario = made(algorithms=["scaffold"], rounds=rounds)
        if rounds is None:
            scenario["stop"] = {"time_s": 1e9}
        cost = api.prepare(api.read(scenario)).cost(2)
        assert cost.rounds_known == (rounds is not None)
        assert cost.down == cost.up == 2 * MODEL * 4 * (rounds or 1)
        if rounds:
            rows = recorded(scenario).rounds
            assert (cost.down, cost.up) == (rows.bytes_down.sum(), rows.bytes_up.sum())

    def test_traffic_has_a_norm_that_changes_its_count_and_keys(self, made, recorded):
        pytest.importorskip("dp_accounting")
        follows = {"name": "clip", "norm": {"start": 1.0, "noise": 2.0}}
        scenario = made(
            algorithms=[{"name": "fedavg", "weights": "uniform"}],
            uplink=[follows, {"name": "secure-sum", "range": 8.0}],
            participation={"cohort": 4, "select": "poisson"},  # all four in every round
            privacy={"noise": 1.0, "delta": 1e-5, "accountant": "rdp"},
        )
        cost, rows = api.prepare(api.read(scenario)).cost(2), recorded(scenario).rounds
        assert cost.down == rows.bytes_down.sum() == 2 * 4 * (MODEL + 8 + 3 * (2 * 32 + 80))
        assert cost.up == rows.bytes_up.sum()


@dataclass(frozen=True, kw_only=True)
class Curious(FedAvg):
    """Steps at the server by what it finds before the run: paces, rows, the problem's l2."""

    name: ClassVar[str] = "curious"

    def bound(self, shards, population, objective):
        paces = population.mean_seconds_per_step(np.arange(shards.clients))
        return replace(self, server_lr=paces.sum() + shards.total() + objective.problem.l2)


def test_an_algorithm_meets_its_clients_and_the_objective_before_the_run(made):
    scenario = made(algorithms=[Curious()])
    scenario["problem"]["l2"] = 0.5
    (run,) = api.prepare(api.read(scenario)).runs
    assert run.training.algorithm.server_lr == sum(PACE) + 8 + 0.5
