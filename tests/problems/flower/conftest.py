"""Flower apps as folders, written as a user of Flower would write them."""

from textwrap import dedent

import pytest
import yaml

PROJECT = """
[project]
name = "{package}"
version = "1.0.0"

[tool.flwr.app]
publisher = "tests"

[tool.flwr.app.components]
serverapp = "{package}.server_app:app"
clientapp = "{package}.client_app:app"

[tool.flwr.app.config]
num-server-rounds = 3
learning-rate = 0.1
model.width = 3
"""
DATA = """
import numpy as np


def data(context):
    i = context.node_config["partition-id"]
    draws = np.random.default_rng(i)
    X = draws.normal(size=(10 + 5 * i, 3))
    return X, X @ np.arange(3.0) + 0.1 * i


def steps(w, b, X, y, lr, seed):
    draws = np.random.default_rng(seed)
    losses = []
    for _ in range(5):
        k = draws.integers(len(X), size=4)
        error = X[k] @ w + b[0] - y[k]
        losses.append(float(np.mean(error**2)))
        w -= lr * X[k].T @ error / 4
        b -= lr * error.mean()
    return float(np.mean(losses))
"""
CLIENT = """
import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from {package}.task import data, steps

app = ClientApp()


@app.train()
def train(msg: Message, context: Context):
    X, y = data(context)
    w, b = (array.copy() for array in msg.content["arrays"].to_numpy_ndarrays())
    config = msg.content["config"]
    seed = [context.node_config["partition-id"], config["server-round"]]
    loss = steps(w, b, X, y, config["lr"], seed)
    seen = context.state["seen"]["tasks"] if "seen" in context.state else 0
    context.state["seen"] = MetricRecord({"tasks": seen + 1})
    metrics = {"train_loss": loss, "tasks": seen + 1, "num-examples": len(X)}
    content = {"arrays": ArrayRecord([w, b]), "metrics": MetricRecord(metrics)}
    return Message(RecordDict(content), reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context):
    X, y = data(context)
    w, b = msg.content["arrays"].to_numpy_ndarrays()
    error = X[::2] @ w + b[0] - y[::2]
    loss, mae = float(np.mean(error**2)), float(np.abs(error).mean())
    seen = context.state["seen"]["tasks"] if "seen" in context.state else 0
    context.state["seen"] = MetricRecord({"tasks": seen})
    round = msg.content["config"]["server-round"]
    metrics = {"eval_loss": loss, "mae": mae, "seen": seen, "at": round}
    metrics["num-examples"] = len(error)
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=msg)


@app.query()
def query(msg: Message, context: Context):
    place = MetricRecord({"partition": context.node_config["partition-id"]})
    return Message(RecordDict({"place": place}), reply_to=msg)
"""
SERVER = """
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context):
    config = context.run_config
    FedAvg().start(
        grid=grid,
        initial_arrays=ArrayRecord([np.zeros(config["model.width"]), np.zeros(1)]),
        num_rounds=config["num-server-rounds"],
        train_config=ConfigRecord({"lr": config["learning-rate"]}),
    )
"""
DECAYING = (
    SERVER.replace("FedAvg().start", "Decaying().start")
    + """

class Decaying(FedAvg):
    def configure_train(self, server_round, arrays, config, grid):
        config["lr"] = config["lr"] * 0.5 if server_round > 1 else config["lr"]
        return super().configure_train(server_round, arrays, config, grid)
"""
)
"""A strategy that halves a setting from round to round."""
LEGACY = """
import numpy as np
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import Context

from {package}.task import data, steps


class Client(NumPyClient):
    def __init__(self, context):
        self.context = context
        self.X, self.y = data(context)

    def get_parameters(self, config):
        return [np.zeros(3), np.zeros(1)]

    def fit(self, parameters, config):
        w, b = (array.copy() for array in parameters)
        seed = [self.context.node_config["partition-id"], config["server-round"]]
        loss = steps(w, b, self.X, self.y, self.context.run_config["learning-rate"], seed)
        return [w, b], len(self.X), {"loss": loss}

    def evaluate(self, parameters, config):
        w, b = parameters
        error = self.X[::2] @ w + b[0] - self.y[::2]
        return float(np.mean(error**2)), len(error), {"mae": float(np.abs(error).mean())}


def client_fn(context: Context):
    return Client(context).to_client()


app = ClientApp(client_fn)
"""
SETTINGS = """
import importlib
import json
import os
import sys
import time

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # Ray listens at the loopback alone
os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
config = {"init_args": {"address": "local", "num_cpus": 2}}  # no Ray that runs already
"""
SIMULATION = (
    SETTINGS
    + """
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

package, cohorts = sys.argv[1], json.loads(sys.argv[2])
clients = int(sys.argv[3])
app = ServerApp()
found = {}


class Chosen(FedAvg):
    def configure_train(self, server_round, arrays, config, grid):
        while len(list(grid.get_node_ids())) < clients:  # they register one after the other
            time.sleep(0.05)
        asked = [Message(RecordDict(), node, "query") for node in grid.get_node_ids()]
        nodes = {
            reply.content["place"]["partition"]: reply.metadata.src_node_id
            for reply in grid.send_and_receive(asked)
        }
        config["server-round"] = server_round
        config["lr"] = config["lr"] * 0.5 if server_round > 1 else config["lr"]
        record = RecordDict({"arrays": arrays, "config": config})
        chosen = [nodes[i] for i in cohorts[server_round - 1]]
        return self._construct_messages(record, chosen, "train")


@app.main()
def main(grid, context):
    result = Chosen(min_available_nodes=clients).start(
        grid, ArrayRecord([np.zeros(3), np.zeros(1)]), num_rounds=len(cohorts),
        train_config=ConfigRecord({"lr": 0.1}),
    )  # fmt: skip
    found["train"] = [dict(each) for each in result.train_metrics_clientapp.values()]
    found["evaluate"] = [dict(each) for each in result.evaluate_metrics_clientapp.values()]


sys.path.insert(0, ".")
client = importlib.import_module(f"{package}.client_app").app
run_simulation(app, client, clients, backend_config=config)
print(json.dumps(found))
"""
)
"""Flower's own simulation of an app with given cohorts, whose metrics it prints as JSON."""


LEGACY_SERVER = """
import numpy as np
from flwr.common import ndarrays_to_parameters
from flwr.server import LegacyContext, ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow


def fit_config(server_round):
    lr, first = 0.1 * 0.5 ** (server_round - 1), server_round == 1
    return {"round": server_round, "lr": lr, "first": first, "to": "all", "key": b"k"}


def evaluate_config(server_round):
    return {"at": server_round}


def mean(metrics):
    total = sum(n for n, _ in metrics)
    return {name: sum(n * m[name] for n, m in metrics) / total for name in metrics[0][1]}


def parts(context):
    strategy = FedAvg(
        fraction_fit=0.5, on_fit_config_fn=fit_config, on_evaluate_config_fn=evaluate_config,
        initial_parameters=ndarrays_to_parameters([np.zeros(3), np.zeros(1)]),
        fit_metrics_aggregation_fn=mean, evaluate_metrics_aggregation_fn=mean,
    )
    rounds = context.run_config["num-server-rounds"]
    return {"strategy": strategy, "config": ServerConfig(num_rounds=rounds)}


def server_fn(context):
    return ServerAppComponents(**parts(context))


app = ServerApp(server_fn=server_fn)
"""
LEGACY_MAIN = (
    LEGACY_SERVER.replace("ServerApp(server_fn=server_fn)", "ServerApp()")
    + """

@app.main()
def main(grid, context):
    DefaultWorkflow()(grid, LegacyContext(context, **parts(context)))
"""
)
"""The same by a main function."""
CONFIGURED = (
    LEGACY.replace(
        """config["server-round"]]
""",
        """config["round"]]
        assert [type(each) for each in config.values()] == [int, float, bool, str, bytes], config
        assert list(config) == ["round", "lr", "first", "to", "key"]
""",
    )
    .replace('self.context.run_config["learning-rate"]', 'config["lr"]')
    .replace(
        '{"loss": loss}', '{"loss": loss, "rate": config["lr"], "first": int(config["first"])}'
    )
    .replace('{"mae":', '{"at": config["at"], "mae":')
)
"""A client of `LEGACY_SERVER`, which refuses other settings."""
LEGACY_SIMULATION = (
    SETTINGS
    + """
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

package, clients = sys.argv[1], int(sys.argv[2])
sys.path.insert(0, ".")
server = importlib.import_module(f"{package}.server_app")
found = {"train": [], "evaluate": [], "loss": []}


def server_fn(context):
    context.run_config["num-server-rounds"] = int(sys.argv[3])
    components = server.server_fn(context)
    strategy = components.strategy
    fit, evaluate, strategy.fraction_fit = strategy.aggregate_fit, strategy.aggregate_evaluate, 1.0

    def aggregate_fit(*args):
        parameters, metrics = fit(*args)
        found["train"].append(metrics)
        return parameters, metrics

    def aggregate_evaluate(*args):
        loss, metrics = evaluate(*args)
        found["loss"].append(loss)
        found["evaluate"].append(metrics)
        return loss, metrics

    strategy.aggregate_fit, strategy.aggregate_evaluate = aggregate_fit, aggregate_evaluate
    for least in ("fit", "evaluate", "available"):  # they register one after the other
        setattr(strategy, f"min_{least}_clients", clients)
    return components


client = importlib.import_module(f"{package}.client_app").app
run_simulation(ServerApp(server_fn=server_fn), client, clients, backend_config=config)
print(json.dumps(found))
"""
)
"""Flower's own simulation of `LEGACY_SERVER` with all clients."""


@pytest.fixture
def package(request):
    """Name of the test's app, since a process imports a module of a name once."""
    return f"app_{abs(hash(request.node.nodeid))}"


@pytest.fixture
def flower(tmp_path, package):
    """Returns the scenario file of a study of a Flower app, in the folder of the app."""

    def make(client=CLIENT, server=SERVER, task=DATA, project=PROJECT, local=None, **keys):
        home = tmp_path / package
        home.mkdir(exist_ok=True)
        texts = {"__init__": "", "task": task, "client_app": client, "server_app": server}
        for name, text in texts.items():
            (home / f"{name}.py").write_text(dedent(text).replace("{package}", package))
        (tmp_path / "pyproject.toml").write_text(project.replace("{package}", package))
        problem = {"name": "flower", "app": f"{package}.client_app:app", **keys.pop("problem", {})}
        local = {"name": "own-train", "steps": 5, **(local or {})}
        scenario = {
            "name": "flower", "rounds": 3, "dtype": "float64", "problem": problem,
            "clients": {"count": 4}, "executor": {"name": "serial"},
            "algorithms": [{"name": "fedavg", "local": local}],
        }  # fmt: skip
        path = tmp_path / "study.yaml"
        path.write_text(yaml.safe_dump(scenario | keys))
        return path

    return make
