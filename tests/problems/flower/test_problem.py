"""Flower apps as problems: they run unchanged, and what does not fit is refused before a run."""

import json
import re
import signal
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError
from tests.problems.flower.conftest import (
    CLIENT,
    CONFIGURED,
    DATA,
    DECAYING,
    LEGACY,
    LEGACY_MAIN,
    LEGACY_SERVER,
    LEGACY_SIMULATION,
    PROJECT,
    SERVER,
    SIMULATION,
)

pytest.importorskip("flwr")


NO_SERVER = PROJECT.replace("serverapp =", "other =")


def reference(rounds, cohorts=None, lr=0.1, decay=1.0):
    """Return models, losses and test losses of FedAvg by the app's arithmetic, without Flower."""
    held = {}
    exec(DATA, held)

    class Context:
        def __init__(self, i):
            self.node_config = {"partition-id": i}

    rows = [held["data"](Context(i)) for i in range(4)]
    n, m = np.array([len(y) for _, y in rows]), np.array([len(y[::2]) for _, y in rows])
    w, b, found = np.zeros(3), np.zeros(1), []
    for round in range(rounds + 1):
        losses = [np.mean((X[::2] @ w + b[0] - y[::2]) ** 2) for X, y in rows]
        found.append((np.average(losses, weights=n), np.average(losses, weights=m)))
        cohort = np.arange(4) if cohorts is None else cohorts.get(round + 1, [])
        replies = []
        for i in cohort:
            own = w.copy(), b.copy()
            held["steps"](*own, *rows[i], lr * decay**round, [i, round + 1])
            replies.append(np.concatenate(own))
        if len(replies):
            x = np.average(replies, axis=0, weights=n[cohort])
            w, b = x[:3], x[3:]
    return np.array(found)


@pytest.fixture
def result(flower, tmp_path):
    def run(*args, **keys):
        return rayfed.run(flower(*args, **keys), out=tmp_path / "out", page=False)

    return run


@pytest.mark.parametrize(
    ("client", "keys"),
    [(CLIENT, {}), (LEGACY, {"project": NO_SERVER})], ids=["messages", "client_fn"],
)  # fmt: skip
def test_losses_are_those_of_the_app_with_its_model_settings_and_weights(result, client, keys):
    found = result(client, **keys)
    losses = reference(3)
    np.testing.assert_allclose(found.rounds["loss"], losses[:, 0], rtol=1e-12)
    np.testing.assert_allclose(found.rounds["test_loss"], losses[:, 1], rtol=1e-12)
    assert found.clients["samples"].tolist() == [10, 15, 20, 25]
    assert found.rounds["mae"].notna().all()
    assert (found.events["loss"] > 0).all()


def test_a_fit_without_loss_and_an_app_without_state(result):
    found = result(
        LEGACY.replace('{"loss": loss}', "{}"), project=NO_SERVER, problem={"state_bytes": 0}
    )
    np.testing.assert_allclose(found.rounds["loss"], reference(3)[:, 0], rtol=1e-12)
    assert found.events["loss"].isna().all()


@pytest.mark.parametrize("loss", [True, False])
def test_what_learns_from_losses_needs_a_fit_with_one(flower, loss):
    client = LEGACY if loss else LEGACY.replace('{"loss": loss}', "{}")
    for name, keys in {
        "participation.select: 'oort'": {"participation": {"cohort": 2, "select": "oort"}},
        "local: 'adacomm'": {"local": {"steps": {"name": "adacomm", "start": 4}}},
    }.items():
        study = api.read(flower(client, project=NO_SERVER, **keys))
        message = f"{name} learns from losses of local steps, but train returns none; return a"
        with nullcontext() if loss else pytest.raises(ScenarioError, match=message):
            api.prepare(study)


def test_an_accuracy_of_training_is_a_column(result):
    more = '"train_accuracy": seen / 4, "num-examples": len(X)}'
    found = result(CLIENT.replace('"num-examples": len(X)}', more))
    assert found.rounds["train_accuracy"].tolist()[1:] == pytest.approx([0, 1 / 4, 2 / 4])


def test_the_metric_that_is_named_is_the_loss_whatever_others_are_called(result):
    more = '"loss": -1.0, "seen": seen, "at"'
    found = result(CLIENT.replace('"seen": seen, "at"', more), problem={"loss": "eval_loss"})
    np.testing.assert_allclose(found.rounds["loss"], reference(3)[:, 0], rtol=1e-12)


def test_numbers_without_a_shape_reach_the_app_as_they_are(result):
    """The intercept is an array () in place of (1,)."""
    client = CLIENT.replace("b[0]", "b").replace(
        "    loss = steps", "    assert b.ndim == 0\n    loss = steps"
    )
    server = SERVER.replace("np.zeros(1)", "np.zeros(())")
    found = result(client, server=server, task=DATA.replace("b[0]", "b"))
    np.testing.assert_allclose(found.rounds["loss"], reference(3)[:, 0], rtol=1e-12)


def test_arrays_have_the_type_of_the_study_and_reach_the_app_in_their_own(result):
    found = result(dtype="float32")
    assert found.model().dtype == np.float32
    np.testing.assert_allclose(found.rounds["loss"], reference(3)[:, 0], rtol=1e-5)


def test_cohorts_are_weighted_by_num_examples(result):
    found = result(participation={"cohort": 2}, rounds=5)
    cohorts = {r: np.sort(e["client"].to_numpy()) for r, e in found.events.groupby("round")}
    assert {len(cohort) for cohort in cohorts.values()} == {2}
    np.testing.assert_allclose(found.rounds["loss"], reference(5, cohorts)[:, 0], rtol=1e-12)


def test_settings_of_scenario_and_solver_replace_those_of_app_and_server(result, flower):
    found = result(local={"config": {"lr": 0.05}})
    np.testing.assert_allclose(found.rounds["loss"], reference(3, lr=0.05)[:, 0], rtol=1e-12)
    study = api.read(flower(problem={"config": {"learning-rate": 0.2}}))
    held = study.to_dict()["problem"]
    assert held["config"] == {"num-server-rounds": 3, "learning-rate": 0.2, "model.width": 3}
    assert held["server"].endswith("server_app:app")
    found = rayfed.run(study, out=found.folder.parent / "set", page=False)
    np.testing.assert_allclose(found.rounds["loss"], reference(3, lr=0.2)[:, 0], rtol=1e-12)


def test_a_strategy_configures_each_round(result, flower):
    found = result(server=DECAYING, rounds=5)  # more than those of the ServerApp
    np.testing.assert_allclose(found.rounds["loss"], reference(5, decay=0.5)[:, 0], rtol=1e-12)
    assert found.rounds["seen"].tolist() == [0, 1, 2, 3, 4, 5]
    assert found.rounds["at"].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "server",
    [
        LEGACY_SERVER,
        LEGACY_SERVER.replace("server_fn=server_fn", "**parts(Settings)").replace(
            "\napp =", '\nclass Settings:\n    run_config = {"num-server-rounds": 3}\n\n\napp ='
        ),
        LEGACY_MAIN,
    ],
    ids=["server_fn", "strategy", "workflow"],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_older_strategy_configures_each_round(result, server):
    client = CONFIGURED.replace("def get_parameters", "def other")
    found = result(client, server=server, rounds=5)
    losses = reference(5, decay=0.5)
    np.testing.assert_allclose(found.rounds["loss"], losses[:, 0], rtol=1e-12)
    np.testing.assert_allclose(found.rounds["test_loss"], losses[:, 1], rtol=1e-12)
    assert found.rounds["at"].tolist() == [1, 1, 2, 3, 4, 5]
    rates = [0.1 * 0.5**k for k in range(5)]
    np.testing.assert_allclose(found.rounds["train_rate"].iloc[1:], rates, rtol=1e-12)


def test_an_older_strategy_without_parameters_has_those_of_a_client(result):
    given = "initial_parameters=ndarrays_to_parameters([np.zeros(3), np.zeros(1)]),"
    found = result(CONFIGURED, server=LEGACY_SERVER.replace(given, ""))
    np.testing.assert_allclose(found.rounds["loss"], reference(3, decay=0.5)[:, 0], rtol=1e-12)


def test_a_model_with_a_server_replaces_its_arrays_alone(result, package):
    server = LEGACY_SERVER.replace("np.zeros(3)", "np.ones(3)")
    task = DATA + "\n\ndef zeros():\n    return [np.zeros(3), np.zeros(1)]\n"
    problem = {"server": f"{package}.server_app:app", "model": f"{package}.task:zeros"}
    found = result(CONFIGURED, server=server, task=task, problem=problem)
    np.testing.assert_allclose(found.rounds["loss"], reference(3, decay=0.5)[:, 0], rtol=1e-12)


@pytest.mark.slow
def test_a_resume_after_kill_9_has_the_same_bytes(flower, tmp_path, assert_same):
    killing = """
    if config["server-round"] == 3 and not os.path.exists("KILLED"):
        open("KILLED", "w").close()
        os.kill(os.getpid(), 9)
"""
    client = CLIENT.replace("    loss = steps", f"{killing}    loss = steps")
    client = "import os\n" + client.replace("KILLED", str(tmp_path / "killed.txt"))
    path = flower(client, server=DECAYING, rounds=5, checkpoint={"every_s": 0})
    command = [sys.executable, "-m", "rayfed", "run", path.name, "--out", "killed"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-2000:]
    again = rayfed.resume(tmp_path / "killed", page=False)
    assert set(again.outcome.values()) == {"finished"}
    assert_same(rayfed.run(path, out=tmp_path / "whole", page=False).folder, again.folder)


def test_state_stays_at_the_client_and_late_tasks_leave_none(result):
    clients = {"count": 4, "delay": {"name": "exponential", "mean_s": 1.0}}
    found = result(clients=clients, participation={"deadline_s": 5}, rounds=8)
    assert set(found.events["status"]) == {"used", "late"}
    tasks = np.zeros(4)
    for round, events in found.events[found.events["status"] == "used"].groupby("round"):
        used = events["client"].to_numpy()
        tasks[used] += 1
        mean = np.average(tasks[used], weights=10 + 5 * used)
        assert found.rounds["train_tasks"][round] == pytest.approx(mean)
    assert (tasks < 8).all()


@pytest.mark.parametrize(
    "executor", [pytest.param("workers", marks=pytest.mark.slow),
                 pytest.param("ray", marks=pytest.mark.ray)],
)  # fmt: skip
def test_bytes_are_the_same_elsewhere(flower, tmp_path, assert_same, executor):
    client = CLIENT.replace("import numpy as np\n", "import numpy as np\nimport torch\n", 1)
    here = rayfed.run(flower(client), out=tmp_path / "here", page=False)
    there = rayfed.run(flower(client, executor=executor), out=tmp_path / "there", page=False)
    assert set(there.outcome.values()) == {"finished"}
    assert_same(here.folder, there.folder)


@pytest.mark.slow
def test_a_resumed_study_is_as_if_it_had_not_stopped(flower, tmp_path, assert_same):
    whole = rayfed.run(flower(), out=tmp_path / "whole", page=False)
    begun = rayfed.run(flower(rounds=2), out=tmp_path / "begun", page=False)
    rayfed.extend(begun.folder, rounds=3)
    again = rayfed.resume(begun.folder, page=False)
    assert_same(whole.folder, again.folder)


def test_an_error_in_a_client_names_it_with_its_round(result):
    fails = (
        'if config["server-round"] == 2 and seed[0] == 3:\n        raise KeyError("no such file")'
    )
    client = CLIENT.replace("    loss = steps", f"    {fails}\n    loss = steps")
    with pytest.warns(RuntimeWarning, match="1 of 1 run failed"):
        found = result(client)
    (run,) = found.outcome
    reason = json.loads((found.folder / run / "run.json").read_text())["reason"]
    for text in ("round 2", "client 3", "KeyError: 'no such file'", "client_app.py"):
        assert text in reason


TORCH = """
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(4, 2)
        )

    def forward(self, x):
        return self.layers(x)


def loaded(msg):
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    return model


def rows(context):
    i = context.node_config["partition-id"]
    X = torch.randn(16 + i, 3, generator=torch.Generator().manual_seed(i))
    return X, (X.sum(1) > 0).long()


@app.train()
def train(msg, context):
    model, (X, y) = loaded(msg), rows(context)
    optimizer = torch.optim.SGD(model.parameters(), lr=msg.content["config"]["lr"])
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(X), y)
        loss.backward()
        optimizer.step()
    metrics = MetricRecord({"train_loss": loss.item(), "num-examples": len(X)})
    arrays = ArrayRecord(model.state_dict())
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=msg)


@app.evaluate()
def evaluate(msg, context):
    model, (X, y) = loaded(msg).eval(), rows(context)
    with torch.no_grad():
        out = model(X)
    metrics = {
        "eval_loss": torch.nn.functional.cross_entropy(out, y).item(),
        "eval_acc": (out.argmax(1) == y).float().mean().item(), "num-examples": len(X),
    }
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)
"""


def test_a_torch_module_is_named_and_integer_buffers_stay(result, package):
    pytest.importorskip("torch")
    problem = {"model": f"{package}.client_app:Net"}
    found = result(
        TORCH, problem=problem, local={"config": {"lr": 0.5}}, dtype="float32", rounds=10
    )
    assert found.rounds["loss"].iloc[-1] < found.rounds["loss"][0]
    assert found.rounds["accuracy"].iloc[-1] > 0.6
    # 3 x 4 + 4, two of 4 of BatchNorm with its two statistics, 4 x 2 + 2
    assert len(found.model()) == 16 + 16 + 10
    assert found.rounds["bytes_up"].iloc[-1] == 4 * 42 * 4  # of a round


UNLIKE = """

class Unlike(FedAvg):
    def configure_train(self, server_round, arrays, config, grid):
        from flwr.app import Message, RecordDict

        messages = super().configure_train(server_round, arrays, config, grid)
        for k, message in enumerate(messages):
            own = ConfigRecord({**config, "lr": 0.1 * server_round**k})
            message.content = RecordDict({**message.content, "config": own})
        return messages
"""


OLD_UNLIKE = """
class Unlike(FedAvg):
    def configure_fit(self, server_round, parameters, client_manager):
        from flwr.common import FitIns

        chosen = super().configure_fit(server_round, parameters, client_manager)
        return [
            (client, FitIns(parameters, {**fit.config, "lr": 0.1 * server_round**k}))
            for k, (client, fit) in enumerate(chosen)
        ]


"""
OLD_ASKING = """
class Asking(FedAvg):
    def configure_fit(self, server_round, parameters, client_manager):
        from flwr.common import GetPropertiesIns

        for client in client_manager.all().values():
            client.get_properties(GetPropertiesIns({}), timeout=None, group_id=server_round)


"""


@pytest.mark.parametrize(
    ("changes", "keys", "message"),
    [
        ({"client": "import nothing_of_this\n"}, {}, r"problem.app: .*no module 'nothing_of_this'"),
        ({"client": CLIENT.replace("@app.train()\n", "")}, {}, "client 0 fails .* No train"),
        ({"client": CLIENT.replace("@app.evaluate()\n", "")}, {}, "No evaluate function"),
        ({"client": CLIENT.replace("ArrayRecord([w, b])", "ArrayRecord([w])")}, {}, "removes '1'"),
        ({"client": CLIENT.replace("ArrayRecord([w, b])", "ArrayRecord([w[1:], b])")}, {}, "shape"),
        ({"client": CLIENT.replace(', "num-examples": len(X)', "")}, {}, "no 'num-examples'"),
        ({"client": CLIENT.replace('"eval_loss"', '"odd"')}, {}, "odd.*; name the loss in prob"),
        ({"client": CLIENT.replace('{"arrays": A', '{"x": ArrayRecord([w]), "arrays": A')}, {},
         "returns 2 ArrayRecord and 1 MetricRecord; return one of each"),
        ({"client": LEGACY.replace("def get_parameters", "def other"), "project": NO_SERVER}, {},
         "model: is missing"),
        ({"client": LEGACY.replace("def evaluate", "def other"), "project": NO_SERVER}, {},
         "evaluate of the Flower app"),
        ({"client": LEGACY}, {}, "one of flwr.serverapp, but the ClientApp has a client_fn; use"),
        ({"server": LEGACY_SERVER}, {}, "one of flwr.server, but the ClientApp lacks a client_fn"),
        ({"client": CONFIGURED, "server": LEGACY_SERVER.replace('"all"', "[1, None]")}, {},
         "problem.server: .*TypeError"),
        ({"client": CONFIGURED, "server": LEGACY_SERVER.replace(
            '"all"', "str(1 // (server_round - 2)) and 'all'")}, {}, "server: .*ZeroDivisionError"),
        ({"client": CONFIGURED, "server": LEGACY_SERVER.replace("fraction_fit", "min_fit_clients=9,"
          "min_available_clients=9, fraction_fit")}, {},
         "waits for more clients than the 4 here; raise clients.count"),
        ({"client": CONFIGURED, "server": LEGACY_SERVER.replace("app =", OLD_UNLIKE + "app =")
          .replace("FedAvg(\n", "Unlike(\n")}, {}, "different settings in round 2; give them by"),
        ({"client": CONFIGURED, "server": LEGACY_SERVER.replace("app =", OLD_ASKING + "app =")
          .replace("FedAvg(\n", "Asking(\n")}, {}, "sends a message 'get_properties' before it"),
        ({"server": SERVER.replace("FedAvg()", "FedAvg(min_available_nodes=9)")}, {},
         "waits for more clients than the 4 here; raise clients.count"),
        ({"server": SERVER.replace("FedAvg().start", "Unlike().start") + UNLIKE}, {},
         "the strategy sends clients different settings in round 2; give them by groups in config"),
        ({"server": "app = 3\n"}, {}, "problem.server: found 3; name a ServerApp"),
        ({"server": SERVER.replace("    FedAvg().start(", "    dict(")}, {}, "sends no message"),
        ({"project": PROJECT.replace("learning", "= [")}, {},
         "app: .*pyproject.toml cannot be read: .*; correct it"),
        ({}, {"problem": {"config": {"lr": 1}}}, "unknown setting of the app 'lr'"),
        ({}, {"problem": {"state_bytes": 8}}, "takes .* bytes of 8; set problem.state_bytes"),
        ({}, {"problem": {"model": "numpy"}}, "write module:name"),
        ({"client": CLIENT.replace('"mae": mae', '"top-5": mae, "top_5": mae')}, {},
         "test of the Flower app returns top-5, top_5, which have one name here; rename"),
        ({}, {"local": {"steps": None, "time_s": 3.0}}, "time_s: .*; give steps"),
        ({}, {"participation": {"deadline_s": 1, "late": "partial"}}, "all local steps"),
        ({}, {"algorithms": [{"name": "scaffold", "local": {"name": "own-train", "steps": 1}}]},
         "found 'own-train', but 'scaffold'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_before_the_run(flower, changes, keys, message):
    with pytest.raises(ScenarioError) as caught:
        api.prepare(api.read(flower(**changes, **keys)))
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)


PRIVATE = {
    "privacy": {"noise": 1.0, "delta": 1e-5}, "uplink": [{"name": "clip", "norm": 1.0}],
    "participation": {"cohort": 2, "select": "poisson"},
    "algorithms": [
        {"name": "fedavg", "weights": "uniform", "local": {"name": "own-train", "steps": 5}}
    ],
}  # fmt: skip


def test_sampled_privacy_refuses_state_of_clients(flower):
    """A client's state tells of its earlier rounds, which no epsilon of coins counts."""
    message = "but the state of the app keeps state between rounds; give problem.state_bytes: 0"
    with pytest.raises(ScenarioError, match=message):
        api.prepare(api.read(flower(**PRIVATE)))


def test_sampled_privacy_takes_an_app_without_state(flower):
    kept = '    context.state["seen"] = MetricRecord({"tasks": seen + 1})\n'
    forgetful = CLIENT.replace(kept, "").replace(kept.replace(" + 1", ""), "")
    api.prepare(api.read(flower(client=forgetful, problem={"state_bytes": 0}, **PRIVATE)))


def test_a_declared_size_spares_the_clients_and_a_wrong_one_is_refused(
    result, flower, package, tmp_path
):
    counted = (
        DATA
        + """
asked = []

def size(i, part):
    return 10 + 5 * i if part == "train" else -(-(10 + 5 * i) // 2)

def odd(i, part):
    return 11
"""
    )
    client = CLIENT.replace("    X, y = data(context)\n", """    X, y = data(context)
    from {package} import task
    task.asked.append(context.node_config["partition-id"])
""")  # fmt: skip
    problem = {"examples": f"{package}.task:size"}
    plan = api.prepare(api.read(flower(client, task=counted, problem=problem)))
    assert set(sys.modules[f"{package}.task"].asked) == {0}
    sizes = plan.runs[0].federation.views.training.shards.counts
    assert sizes["train"].tolist() == [10, 15, 20, 25]
    assert sizes["test"].tolist() == [5, 8, 10, 13]
    with pytest.raises(ScenarioError) as caught:
        api.prepare(
            api.read(flower(client, task=counted, problem={"examples": f"{package}.task:odd"}))
        )
    text = "client 0 fails before the run: has 10 examples in train, but examples returns 11"
    assert text in str(caught.value)


def test_a_folder_of_somebody_else_runs_no_app(flower, tmp_path, monkeypatch):
    found = rayfed.run(flower(), out=tmp_path / "out", page=False)
    note = found.folder / "modules.json"
    held = json.loads(note.read_text())
    assert {name.rpartition(".")[2] for name in held["modules"]} == {"client_app", "server_app"}
    note.write_text(json.dumps(held | {"seal": "0" * 64}))
    with pytest.raises(ScenarioError, match="not made by you here"):
        rayfed.extend(found.folder, rounds=4)


@pytest.mark.slow
@pytest.mark.ray
def test_losses_are_those_of_flower_s_own_simulation(flower, tmp_path, package):
    pytest.importorskip("flwr.simulation")
    found = rayfed.run(
        flower(server=DECAYING, participation={"cohort": 2}, rounds=4),
        out=tmp_path / "out", page=False,
    )  # fmt: skip
    cohorts = [e["client"].tolist() for _, e in found.events.groupby("round")]
    (tmp_path / "simulation.py").write_text(SIMULATION)
    done = subprocess.run(
        [sys.executable, "simulation.py", package, json.dumps(cohorts), "4"],
        cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = json.loads(done.stdout.splitlines()[-1])
    rounds = found.rounds.iloc[1:]
    assert (rounds["seen"] > 0).all()  # clients that evaluate know their state
    for name, column in (
        ("eval_loss", "test_loss"), ("mae", "mae"), ("seen", "seen"), ("at", "at")
    ):  # fmt: skip
        same = [each[name] for each in theirs["evaluate"]]
        np.testing.assert_allclose(rounds[column], same, rtol=1e-12)
    same = [each["tasks"] for each in theirs["train"]]
    np.testing.assert_allclose(rounds["train_tasks"], same, rtol=1e-12)
    losses = found.events.assign(n=10 + 5 * found.events["client"]).groupby("round")
    means = losses.apply(lambda e: np.average(e["loss"], weights=e["n"]))
    np.testing.assert_allclose(means, [each["train_loss"] for each in theirs["train"]], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.ray
def test_losses_of_an_older_app_are_those_of_flower_s_own_simulation(flower, tmp_path, package):
    pytest.importorskip("flwr.simulation")
    path = flower(CONFIGURED, server=LEGACY_SERVER, rounds=4)
    found = rayfed.run(path, out=tmp_path / "out", page=False)
    (tmp_path / "simulation.py").write_text(LEGACY_SIMULATION)
    done = subprocess.run(
        [sys.executable, "simulation.py", package, "4", "4"],
        cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = json.loads(done.stdout.splitlines()[-1])
    rounds = found.rounds.iloc[1:]
    np.testing.assert_allclose(rounds["test_loss"], theirs["loss"], rtol=1e-12)
    for kind, names in {"evaluate": ("mae", "at"), "train": ("rate", "first")}.items():
        for name in names:
            same = [each[name] for each in theirs[kind]]
            column = rounds[f"train_{name}" if kind == "train" else name]
            np.testing.assert_allclose(column, same, rtol=1e-12)
    losses = found.events.assign(n=10 + 5 * found.events["client"]).groupby("round")
    means = losses.apply(lambda e: np.average(e["loss"], weights=e["n"]))
    np.testing.assert_allclose(means, [each["loss"] for each in theirs["train"]], rtol=1e-12)
