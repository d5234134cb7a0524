"""Training code of a user's own as clients, from a scenario or from Python to the tables."""

import json
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from textwrap import dedent

import numpy as np
import pytest
import yaml

import rayfed
from rayfed import api
from rayfed.algorithms import FedAvg
from rayfed.core.errors import ScenarioError
from rayfed.problems import OwnCode
from rayfed.report.best import Aim
from rayfed.report.read.curves import default_target
from rayfed.report.read.results import Results
from rayfed.solvers import OwnTrain
from rayfed.trials import SweepGoal

MOVED = """
import numpy as np

def model():
    return {"w": np.zeros(2)}

def client(i):
    return i

def size(i, part):
    return {"train": i + 1, "test": 2, "val": 0}[part]

def train(model, data, context):
    model["w"] += [data, context.steps]
    return {"loss": 10.0 * data}

def evaluate(model, data, part):
    return {"loss": float(model["w"][0]) + data, "accuracy": data / 10}
"""
"""Client i of i + 1 examples moves the first number by i, the second by its steps."""


@pytest.fixture
def study(tmp_path, request):
    """Returns the scenario file of a study with code of this text, in a module of its own."""

    def make(code=MOVED, local=None, **keys):
        name = f"own_{abs(hash(request.node.nodeid))}"
        (tmp_path / f"{name}.py").write_text(dedent(code))
        local = {"name": "own-train", "steps": 4, **(local or {})}
        algorithm = {"name": "fedavg", **keys.pop("algorithm", {}), "local": local}
        problem = {"name": "own-code", "code": name, **keys.pop("problem", {})}
        scenario = {
            "name": "own", "rounds": 2, "problem": problem, "clients": {"count": 3},
            "algorithms": [algorithm], "executor": {"name": "serial"},
        }  # fmt: skip
        path = tmp_path / "own.yaml"
        path.write_text(yaml.safe_dump(scenario | keys))
        return path

    return make


@pytest.fixture
def result(study, tmp_path):
    def run(*args, **keys):
        return rayfed.run(study(*args, **keys), out=tmp_path / "out", page=False)

    return run


def failure(result):
    (run,) = result.outcome
    return json.loads((result.folder / run / "run.json").read_text())["reason"]


def test_the_model_is_the_mean_by_size_and_losses_are_those_of_the_code(result):
    found = result()
    # a round moves the first number by (0 * 1 + 1 * 2 + 2 * 3) / 6
    assert found.rounds["loss"].tolist() == pytest.approx([4 / 3, 8 / 3, 4.0], rel=1e-6)
    # test losses and accuracies are means over two examples each
    assert found.rounds["test_loss"].tolist() == pytest.approx([1, 1 + 4 / 3, 1 + 8 / 3], rel=1e-6)
    assert found.rounds["accuracy"].tolist() == pytest.approx([0.1] * 3)
    assert found.events["loss"].tolist() == [0, 10, 20] * 2
    assert found.clients["samples"].tolist() == [1, 2, 3]
    assert found.clients["accuracy"].tolist() == pytest.approx([0, 0.1, 0.2])
    np.testing.assert_allclose(found.weights(), [8 / 3, 8])
    logs = [path.read_text() for path in found.folder.glob("*/log.txt")]
    assert not any("could not" in log for log in logs)  # no picture of rows is tried


def test_epochs_cost_passes_over_the_examples(result):
    found = result(local={"steps": None, "epochs": 2, "batch": 2})
    assert found.events["steps"].tolist() == [2, 2, 4] * 2


def test_a_declared_cost_is_the_time_and_the_budget(result):
    cost = "def cost(i, n, context):\n    return n * context.config['each'] + (i == 2)\n"
    clients = {"count": 3, "delay": {"name": "constant", "mean_s": 1.0}}
    found = result(MOVED + cost, local={"config": {"each": 5}}, clients=clients)
    assert found.events["steps"].tolist() == [5, 10, 16] * 2
    assert found.events["compute_s"].tolist() == pytest.approx([5, 10, 16] * 2)
    mean = (5 * 1 + 10 * 2 + 16 * 3) / 6
    np.testing.assert_allclose(found.weights()[1], 2 * mean, rtol=1e-6)


def test_a_step_reads_a_batch_and_a_pass_all_examples(result, tmp_path):
    """Devices of FedScale have the milliseconds of one example; training takes three times that."""
    (tmp_path / "devices.csv").write_text("computation,communication\n10,1000\n")
    clients = {"count": 3, "delay": {"name": "trace", "file": "devices.csv"}}
    code = MOVED.replace('"train": i + 1', '"train": 8 * i + 8')
    local = {"steps": None, "epochs": 1, "batch": 4}
    select = {"cohort": 1, "select": {"name": "power-of-d", "d": 3}}
    found = result(code, local, clients=clients, participation=select, rounds=1)
    task = found.events.iloc[-1]  # after three polls
    assert (task["client"], task["steps"]) == (2, 6)  # it has the largest loss, and 24 examples
    assert task["compute_s"] == pytest.approx(6 * 4 * 0.03)
    assert found.rounds["time_s"].iloc[-1] > 2 * 24 * 0.03  # the poll takes as long
    assert found.rounds["time_s"].iloc[-1] == pytest.approx(2 * 24 * 0.03, abs=0.02)  # transfers


def test_partial_tasks_have_fewer_steps(result):
    clients = {"count": 3, "delay": {"name": "constant", "mean_s": 1.0}}
    participation = {"deadline_s": 2.5, "late": "partial"}
    found = result(clients=clients, participation=participation)
    assert set(found.events["steps"]) == {2}
    assert found.weights()[1] == 4


COUNTED = MOVED.replace(
    'return {"loss": 10.0 * data}',
    """context.state["seen"][0] += 1
    context.state["seen"][1] += context.round
    return {"loss": 0.0, "seen": context.state["seen"][0]}""",
)
STATE = {"state": {"seen": 2}, "metrics": {"seen": "higher"}}


@pytest.mark.parametrize(
    ("status", "keys"),
    [
        ("late", {"participation": {"deadline_s": 4}}),
        ("dropped", {"availability": {"name": "markov", "mean_on_s": 6, "mean_off_s": 2}}),
        ("unfinished", {"algorithm": {"name": "fedbuff", "buffer": 6, "concurrency": 3}}),
    ],
)
def test_used_tasks_alone_leave_state(result, status, keys):
    clients = {"count": 3, "delay": {"name": "exponential", "mean_s": 1.0}}
    clients |= {"availability": keys.get("availability", "always")}
    keys = {name: value for name, value in keys.items() if name != "availability"}
    found = result(COUNTED, STATE, clients=clients, rounds=8, **keys)
    assert {"used", status} <= set(found.events["status"])
    tasks, asynchronous = np.zeros(3), status == "unfinished"
    events = found.events[found.events["status"] == "used"]
    for round, used in events.groupby("round"):
        seen, weights = [], []
        for client in used["client"]:  # in a buffer of 6 some of 3 clients come twice
            tasks[client] += 1
            seen.append(tasks[client])
            weights.append(1 if asynchronous else client + 1)
        mean = np.average(seen, weights=weights)
        assert found.rounds["train_seen"][round] == pytest.approx(mean)
    assert (tasks < 8).all() or asynchronous
    assert len(found.clients) == 3
    np.testing.assert_array_equal(found.clients["train_seen"], np.where(tasks, tasks, np.nan))


def test_own_code_trains_without_a_server(result):
    """Nodes that are away leave no state; metrics weigh the nodes that took the step."""
    local = {"name": "own-train", "steps": 4, **STATE}
    there = {"count": 3, "availability": {"name": "bernoulli", "p": 0.6}}
    gossip = {"topology": "ring", "algorithms": [{"name": "dfedavg", "local": local}]}
    found = result(COUNTED, clients=there, rounds=8, **gossip)
    tasks = np.zeros(3)
    for round, events in found.events.groupby("round"):
        used = events["client"].to_numpy()
        tasks[used] += 1
        mean = np.average(tasks[used], weights=used + 1)
        assert found.rounds["train_seen"][round] == pytest.approx(mean)
    assert 0 < tasks.sum() < 24
    assert found.clients["train_seen"].tolist() == tasks.tolist()


def test_own_code_on_the_complete_graph_is_that_of_fedavg(result):
    local = {"name": "own-train", "steps": 4}
    gossip = {"topology": "complete", "algorithms": [{"name": "dfedavg", "local": local}]}
    (w,) = result(**gossip).model().values()
    np.testing.assert_allclose(w, [8 / 3, 8], rtol=1e-6)


@dataclass(frozen=True, kw_only=True)
class Keeping(rayfed.ClientCode):
    """Functions with state of their own, as a Flower app has it."""

    size_of: int = 2

    @property
    def first_state(self):
        return {"kept": np.zeros(self.size_of)}


@pytest.mark.parametrize("size", [0, 2])
def test_sampled_privacy_refuses_state_of_the_code(size):
    held = {}
    exec(MOVED, held)
    functions = {name: held[name] for name in ("model", "client", "size", "train", "evaluate")}
    given = {
        "rounds": 2, "clients": {"count": 3}, "executor": "serial",
        "problem": OwnCode(code=Keeping(size_of=size, **functions)),
        "algorithms": (FedAvg(weights="uniform", local=OwnTrain(steps=1)),),
        "privacy": {"noise": 1.0, "delta": 1e-5}, "uplink": [{"name": "clip", "norm": 1.0}],
        "participation": {"cohort": 2, "select": "poisson"},
    }  # fmt: skip
    if not size:
        api.prepare(api.read(None, **given))
        return
    with pytest.raises(ScenarioError, match="the state of the app keeps state between rounds"):
        api.prepare(api.read(None, **given))


@pytest.mark.parametrize("name", ["local-only", "d-psgd"])
def test_methods_with_own_models_have_metrics(result, name):
    """Client i adds i a round to a number; the mean of own models or nodes moves by 1."""
    code = MOVED.replace('"accuracy"', '"first": float(model["w"][0]), "accuracy"')
    code = code.replace('"train": i + 1', '"train": 2')
    keys = {"topology": "ring"} if name == "d-psgd" else {}
    problem = {"metrics": {"first": "higher"}}
    rows = result(code, problem=problem, algorithm={"name": name}, **keys).rounds
    np.testing.assert_allclose(rows["first"], rows["round"], rtol=1e-6)
    np.testing.assert_allclose(rows["personal_loss"], rows["round"] + 1, rtol=1e-6)  # F_i: + i
    np.testing.assert_allclose(rows["personal_accuracy"], 0.1)


def test_metrics_are_columns_weighted_by_the_replies_and_targets(result):
    code = MOVED.replace('"accuracy": data / 10', '"f1": data / 10 + float(model["w"][0]) / 10')
    code = code.replace('{"loss": 10.0 * data}', '{"loss": 0.0, "norm": data}')
    found = result(code, {"metrics": {"norm": None}}, problem={"metrics": {"f1": "higher"}})
    assert found.rounds["f1"].tolist() == pytest.approx([0.1, 0.1 + 4 / 30, 0.1 + 8 / 30])
    assert found.rounds["train_norm"].tolist()[1:] == pytest.approx([4 / 3] * 2)
    assert np.isnan(found.rounds["train_norm"][0])
    assert found.clients["f1"].tolist() == pytest.approx(np.arange(3) / 10 + 8 / 30)
    assert found.clients["train_norm"].tolist() == [0, 1, 2]
    assert found.rounds["accuracy"].isna().all()
    aim = Aim.of(Results.read(found.folder), None, None, "f1=0.2")
    assert (aim.column, aim.target, aim.higher) == ("f1", 0.2, True)


def test_training_may_have_an_accuracy(result):
    code = MOVED.replace('{"loss": 10.0 * data}', '{"loss": 0.0, "accuracy": data / 4}')
    found = result(code, {"metrics": {"accuracy": "higher"}})
    assert found.rounds["train_accuracy"].tolist()[1:] == pytest.approx([1 / 3] * 2)


def test_tuning_has_the_costs_and_metrics_of_training(study, tmp_path):
    """A round moves the second number by 3, the declared cost, and so does the tuning."""
    code = MOVED.replace('{"loss": 10.0 * data}', '{"loss": 0.0, "norm": context.state["n"][0]}')
    code = code.replace('float(model["w"][0]) + data', 'float(model["w"][1])')
    code += "\ndef cost(i, n, context):\n    return 3\n"
    tuned = {"name": "fedavg-finetuned", "tune": {"name": "own-train"}}
    local = {"metrics": {"norm": None}, "state": {"n": 1}, "steps": None}
    rows = rayfed.run(study(code, local, algorithm=tuned), out=tmp_path / "out", page=False).rounds
    assert rows["loss"].tolist() == [0, 3, 6]
    assert rows["personal_loss"].tolist() == [3, 6, 9]


def test_a_loss_that_sets_a_threshold_leaves_no_state(study, tmp_path):
    """`maxfl` first trains each client alone; the steps of the first round find zeros."""
    code = COUNTED.replace("[data, context.steps]", '[0, context.state["seen"][0]]')
    maxfl = {"name": "maxfl", "alone": 7}
    path = study(code, STATE, algorithm=maxfl, rounds=1)
    result = rayfed.run(path, out=tmp_path / "out", page=False)
    (run,) = result.outcome
    np.testing.assert_array_equal(result.weights(run), [0, 0])


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_a_metric_ends_a_run_and_is_the_target(result, better):
    sign = 1 if better == "higher" else -1
    code = MOVED.replace('"accuracy": data / 10', f'"f1": {sign} * float(model["w"][0])')
    problem = {"metrics": {"f1": better}}
    stop, evaluate = {"metrics": {"f1": sign * 6.0}}, {"every": 2}
    found = result(code, problem=problem, stop=stop, evaluate=evaluate, rounds=20)
    assert found.rounds["round"].max() == 6  # 4/3 a round are 6.67 in round 5, and it is even
    (run,) = found.outcome
    info = json.loads((found.folder / run / "run.json").read_text())
    assert info["stopped_by"] == "f1"
    assert default_target(Results.read(found.folder), "f1") == sign * 6.0


@pytest.mark.parametrize(("column", "sign"), [("f1", -1.0), ("train_n", 1.0)])
def test_a_sweep_may_go_by_a_metric(study, column, sign):
    local, problem = {"metrics": {"n": "lower"}}, {"metrics": {"f1": "higher"}}
    given = study(local=local, problem=problem, sweep={"by": column, "trials": 2})
    assert SweepGoal.of(api.read(given)) == SweepGoal(column, sign)


PARTS = MOVED.replace('"test": 2, "val": 0', '"test": 2 * (i == 1), "val": 3 * i').replace(
    '    return {"loss": float',
    """    assert part == "train" or size(data, part), "of no examples"
    shift = {"train": 0, "test": 1, "val": 2}[part]
    return {"f1": shift, "loss": shift + float""",
)


def test_parts_without_examples_are_not_evaluated(result):
    found = result(PARTS, problem={"metrics": {"f1": "higher"}}, rounds=1)
    assert found.rounds["test_loss"].tolist() == pytest.approx([2, 2 + 4 / 3])  # of client 1
    assert found.rounds["accuracy"].tolist() == pytest.approx([0.1] * 2)
    assert found.rounds["f1"].tolist() == [1, 1]
    assert found.clients["accuracy"].isna().tolist() == [True, False, True]
    assert "validation_loss" not in found.rounds


def test_validation_examples_are_a_part(result):
    found = result(PARTS, problem={"metrics": {"f1": "higher"}, "val": True}, rounds=1)
    mean = 2 + (3 * 1 + 6 * 2) / 9  # 0, 3 and 6 examples with losses 2 + i
    assert found.rounds["validation_loss"].tolist() == pytest.approx([mean, mean + 4 / 3])
    assert found.rounds["validation_accuracy"].tolist() == pytest.approx(
        [(3 * 0.1 + 6 * 0.2) / 9] * 2
    )
    assert found.rounds["test_loss"].tolist() == pytest.approx([2, 2 + 4 / 3])


def test_groups_of_clients_have_settings_of_their_own(result):
    code = MOVED.replace("context.steps", "context.config['step']")
    groups = [{"name": "fast", "ids": [1], "local": {"config": {"step": 7}}}]
    clients = {"count": 3, "groups": groups}
    found = result(code, {"config": {"step": 1}}, clients=clients, rounds=1)
    assert found.weights()[1] == pytest.approx((1 * 1 + 7 * 2 + 1 * 3) / 6)


def test_generators_are_seeded_by_client_and_round(study, tmp_path):
    code = MOVED.replace("[data, context.steps]", "np.random.normal(size=2)")
    code = code.replace("10.0 * data", "__import__('random').random()")
    one = rayfed.run(study(code), out=tmp_path / "a", page=False)
    np.random.seed(3)  # noqa: NPY002 -- as users do
    two = rayfed.run(study(code), out=tmp_path / "b", page=False)
    losses = one.events["loss"].tolist()
    assert losses == two.events["loss"].tolist()
    assert len(set(losses)) == len(losses)
    assert (one.weights() == two.weights()).all()


@pytest.mark.parametrize(
    "executor",
    [
        "serial",
        pytest.param("workers", marks=pytest.mark.slow),
        pytest.param("ray", marks=pytest.mark.ray),
    ],
)
def test_an_error_in_a_client_names_it_with_its_round_and_traceback(result, executor):
    code = MOVED.replace("    model[", "    deep(data)\n    model[")
    code += "\ndef deep(i):\n    if i == 1:\n        raise KeyError('no such label')\n"
    with pytest.warns(RuntimeWarning, match="1 of 1 run failed"):
        found = result(code, executor={"name": executor})
    reason = failure(found)
    assert "round 1" in reason
    assert "client 1" in reason
    assert "KeyError: 'no such label'" in reason
    (run,) = found.outcome
    log = (found.folder / run / "log.txt").read_text()
    assert "in train" in log
    assert "raise KeyError('no such label')" in log


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("10.0 * data}", "1, 'f1': 2}", "returns 'f1', which is not declared; add it to local."),
        ("10.0 * data}", "1}, 3", 'returns .* return {"loss": ...}'),
        ('model["w"] += [data, context.steps]', 'model["w"] = np.zeros(3)', "from shape"),
        ('"accuracy": data / 10', '"accuracy": 50', "accuracy 50; return a share from 0 to 1"),
        ('"accuracy": data / 10', '"examples": 9', "saw 9 examples, but size returns"),
        ("    model[", "    context.state['m'] = 1\n    model[", "adds or removes 'm' in context"),
        (
            "    model[",
            "    raise SystemExit(3)\n    model[",
            r"client 0, .* SystemExit: 3 \(\w+.py:\d+\); raise an Exception in its place",
        ),
        (
            "10.0 * data",
            "float('nan')",
            r"'train' .* \(own_.* returns the loss nan, which is not fin",
        ),
        (
            "+= [data, context.steps]",
            "= model['w'] + 1j",
            "leaves complex.* in 'w'; leave an array",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_returned_amiss_fails_with_one_line(result, old, new, message):
    assert old in MOVED
    found = result(MOVED.replace(old, new))
    assert re.search(message, failure(found)), failure(found)


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_loss_that_is_not_finite_names_its_client_and_round(result, part, value):
    amiss = f'float("{value}" if (data, part) == (1, "{part}") and model["w"][1] > 4 else 1)'
    found = result(MOVED.replace('float(model["w"][0]) + data', amiss))
    expected = (
        rf"evaluation of round 2, .* client 1, .*own_.*:\d+\) returns the loss {value}, which"
    )
    assert re.search(expected, failure(found)), failure(found)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_of_a_model_that_is_not_finite_no_client_is_to_blame(result):
    found = result(MOVED.replace("+= [data, context.steps]", "*= np.nan"))
    assert failure(found).startswith("round 1: the model is not finite")


def group(**local):
    """Returns clients of which two groups override the local solver, the second by these keys."""
    first = {"name": "one", "ids": [0], "local": {"state": {"seen": 1}}}
    return {"clients": {"count": 3, "groups": [first, {"name": "two", "ids": [1], "local": local}]}}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"partition": "iid"},
            "partition: 'iid' needs rows of features",
        ),
        ({"evaluate": {"rows": 3}}, "evaluate.rows: .* needs rows of features"),
        (
            {"algorithms": ["fedavg"]},
            "algorithms.0.local: found 'sgd'; own code needs name",
        ),
        ({"clients": {}}, "clients.count: is missing; give the number of clients"),
        ({"problem": {"metrics": {"late": None}}}, "problem.metrics: the column 'late' is taken"),
        ({"problem": {"metrics": {"a b": None}}}, "problem.metrics: found 'a b'; give a name"),
        ({"evaluate": {"measures": [{"name": "gradient"}]}}, "'gradient' needs gradients"),
        ({"participation": {"cohort": 2, "select": "cpow-d"}}, "'cpow-d' needs rows"),
        ({"problem": {"val": True}}, "problem.val: is true, but size returns 0"),
        ({"stop": {"metrics": {"f2": 1}}}, "stop.metrics.f2: unknown metric 'f2'; there is none"),
        (
            group(state={"seen": 2}),
            r"clients.groups.1.local.state: 'seen' is .2,., elsewhere .1,.; give it another name",
        ),
        (
            group(metrics={"seen": "lower"}),
            "clients.groups.1.local.metrics: found {'seen': 'lower'}, where the algorithm has {}",
        ),
    ],
)
def test_what_own_code_cannot_have_is_refused_before_a_run(study, keys, message):
    with pytest.raises(ScenarioError, match=message):
        rayfed.run(study(**keys), page=False)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'return {"train": i + 1, "test": 2, "val": 0}[part]',
            "return 1.5",
            r"size\(0, 'train'\) returns 1.5",
        ),
        (
            'return {"train": i + 1, "test": 2, "val": 0}[part]',
            "return 0",
            "return an int from 1 on",
        ),
        ("def evaluate(model, data, part)", "def evaluate(model, data)", "takes .model, data."),
        ('return {"w": np.zeros(2)}', "return [1]", "return a torch.nn.Module or a dict"),
        ('return {"w": np.zeros(2)}', "raise OSError('gone')", "model fails: OSError: gone"),
        (
            "def client",
            "def cost(i, n, context):\n    return {}['c']\ndef client",
            r"problem.code: cost\(0, 1, context\) fails in round 1: KeyError: 'c' \(own_",
        ),
    ],
)
def test_code_that_cannot_run_is_refused_before_a_run(study, old, new, message):
    with pytest.raises(ScenarioError, match=message):
        rayfed.run(study(MOVED.replace(old, new)), page=False)


def net_client(i):
    return float(i)


def net_model():
    return {"w": np.zeros(1)}


def net_size(i, part):
    return 1


def net_train(model, data, context):
    model["w"] += data
    return {"loss": 0.0}


def net_evaluate(model, data, part):
    return {"loss": float(model["w"][0])}


def test_functions_can_be_given_in_python(tmp_path):
    code = rayfed.ClientCode(
        model=net_model, client=net_client, size=net_size, train=net_train, evaluate=net_evaluate
    )
    found = rayfed.run(
        problem=OwnCode(code=code), clients=rayfed.study.Clients(count=3), rounds=1,
        algorithms=(rayfed.algorithms.FedAvg(local=OwnTrain(steps=1)),), out=tmp_path / "out",
        page=False,
    )  # fmt: skip
    assert found.rounds["loss"].tolist() == [0, 1]
    assert found.model() == {"w": [1.0]}
    noted = yaml.safe_load((tmp_path / "out" / "scenario.yaml").read_text())["problem"]["code"]
    assert noted["train"].endswith(":net_train")


TRAVELS = """
import os
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

def model():
    return {"w": np.random.normal(size=3)}

class Rows:
    def __init__(self, i):
        self.i = i

    @cached_property
    def values(self):
        return np.random.default_rng(self.i).normal(self.i, 1.0, (4, 3))

@lru_cache
def client(i):
    return Rows(i)

def size(i, part):
    return 4

def train(model, data, context):
    if context.round == 4 and Path(context.config["kill"]).exists():
        os.kill(os.getpid(), 9)
    pull = context.state["pull"]
    for _ in range(context.steps):
        pull = 0.5 * pull + model["w"] - data.values[np.random.randint(4)]
        model["w"] = model["w"] - 0.1 * pull
    context.state["pull"] = pull
    return {"loss": np.abs(pull).sum(), "pull": pull[0]}

def evaluate(model, data, part):
    return {"loss": np.mean((data.values - model["w"]) ** 2)}
"""


SECURE = [{"name": "clip", "norm": 1.0}, {"name": "secure-sum", "range": 4.0}]
PRIVATE = {
    "weights": "uniform", "uplink": [{"name": "clip", "norm": 1.0}],
    "privacy": {"name": "tree", "noise": 1.0, "delta": 1e-5, "separation": 2},
}  # fmt: skip
"""Sampled clients may keep no state, those of a tree may."""


@pytest.fixture
def everything(study):
    """A function that returns a study of methods with client state."""

    def make(**keys):
        local = {
            "name": "own-train", "steps": 3, "state": {"pull": 3}, "metrics": {"pull": None},
        }  # fmt: skip
        memory = {"name": "top-k", "share": 0.4, "memory": {"name": "error-feedback"}}
        algorithms = [
            {"name": "fedavg", "local": local},
            {"name": "fedexp", "local": local},
            {"name": "fedbuff", "buffer": 2, "local": local},
            {"name": "fedvarp", "local": local},
            {"name": "fedavg", "label": "top-k", "local": local, "uplink": [memory]},
            {"name": "fedavg", "label": "secure", "local": local, "uplink": SECURE},
            {"name": "fedavg", "label": "private", "local": local, **PRIVATE},
        ]
        for each in algorithms:
            each["local"] = local | {"config": {"kill": f"kill-{each.get('label', each['name'])}"}}
        clients = {"count": 6, "delay": {"name": "exponential", "mean_s": 1.0}}
        given = {"rounds": 6, "clients": clients, "participation": {"cohort": 3}}
        return study(TRAVELS, algorithms=algorithms, **{**given, **keys})

    return make


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("workers", marks=pytest.mark.slow),
        pytest.param("ray", marks=pytest.mark.ray),
    ],
)
def test_placement_changes_nothing(everything, tmp_path, assert_same, name):
    here = rayfed.run(everything(), out=tmp_path / "here", page=False)
    there = rayfed.run(everything(executor={"name": name}), out=tmp_path / "there", page=False)
    assert set(there.outcome.values()) == {"finished"}
    assert_same(here.folder, there.folder)


@pytest.mark.slow
def test_a_resumed_study_is_as_if_it_had_not_stopped(everything, tmp_path, assert_same):
    whole = rayfed.run(everything(), out=tmp_path / "whole", page=False)
    begun = rayfed.run(everything(rounds=2), out=tmp_path / "begun", page=False)
    rayfed.extend(begun.folder, rounds=6)
    again = rayfed.resume(begun.folder, page=False)
    assert set(again.outcome.values()) == {"finished"}
    assert_same(whole.folder, again.folder)


@pytest.mark.slow
def test_a_resume_after_kill_9_ends_with_the_same_bytes(everything, tmp_path, assert_same):
    file = everything(checkpoint={"every_s": 0})
    whole = rayfed.run(file, out=tmp_path / "whole", page=False)
    command = ["run", file.name, "--out", "killed"]
    for run in yaml.safe_load(file.read_text())["algorithms"]:  # each in the middle of its run
        flag = tmp_path / run["local"]["config"]["kill"]
        flag.touch()
        ended = subprocess.run(
            [sys.executable, "-m", "rayfed", *command], cwd=tmp_path, capture_output=True,
            check=False,
        )  # fmt: skip
        assert ended.returncode == -signal.SIGKILL, ended.stderr[-2000:]
        flag.unlink()
        command = ["resume", "killed"]
    again = rayfed.resume(tmp_path / "killed", page=False)
    assert set(again.outcome.values()) == {"finished"}
    assert_same(whole.folder, again.folder)


SHARED = MOVED.replace(
    'return {"loss": 10.0 * data}',
    """import os
    seen = (context.device == "cuda") + 10 * (os.environ.get("CUDA_VISIBLE_DEVICES") == "0")
    return {"loss": 0.0, "seen": seen}""",
)
"""Its metric is 11 where a task has the device, and Ray gave its actor a GPU."""


@pytest.mark.ray
@pytest.mark.slow
def test_actors_share_a_gpu(study, tmp_path):
    ray = pytest.importorskip("ray")
    shared = {"name": "ray", "device": "cuda", "gpus_per_actor": 0.125}
    clients, local = {"count": 9}, {"metrics": {"seen": None}}
    here = study(SHARED, local, clients=clients, executor={"name": "serial", "device": "cuda"})
    alone = rayfed.run(here, out=tmp_path / "here", page=False)
    ray.init(  # of a GPU that is not there
        address="local", num_cpus=2, num_gpus=1, include_dashboard=False, log_to_driver=False
    )
    try:
        file = study(SHARED, local, clients=clients, executor=shared)
        found = rayfed.run(file, out=tmp_path / "out", page=False)
    finally:
        ray.shutdown()
    assert found.rounds["train_seen"].tolist()[1:] == [11, 11]
    assert alone.rounds["train_seen"].tolist()[1:] == [1, 1]
    np.testing.assert_array_equal(found.weights(), alone.weights())
    assert found.rounds["loss"].tolist() == alone.rounds["loss"].tolist()


def test_a_module_on_a_device_that_is_not_there_is_refused_before_a_run(study):
    pytest.importorskip("torch")
    code = "import torch\n" + MOVED.replace('{"w": np.zeros(2)}', "torch.nn.Linear(1, 1)")
    with pytest.raises(ScenarioError, match=r"executor.device: found 'npu', which torch does not"):
        rayfed.run(study(code, executor={"name": "serial", "device": "npu"}), page=False)
