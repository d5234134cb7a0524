"""Clusters of several nodes on this machine, by `ray.cluster_utils`."""

import json
import signal
import subprocess
import sys
import time

import pytest
import yaml

import rayfed
from rayfed.testing.compare import assert_same_results
from tests.contract.test_placement import wait_for
from tests.fakes.nodes import Nodes

pytestmark = [pytest.mark.ray, pytest.mark.slow]

STUDY = {
    "name": "moving",
    "rounds": 40,
    "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 2}},
    "clients": {"count": 12},
    "algorithms": ["scaffold", "fedavg"],
    "checkpoint": {"every_s": 0.5},
}
LONG = STUDY | {"clock": {"name": "wall", "scale": 0.05}}  # there is time for something to happen


@pytest.fixture(autouse=True)
def clusters(monkeypatch):
    """What is started here may start clusters and join them."""
    monkeypatch.delenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")


@pytest.fixture
def nodes():
    with Nodes() as made:
        yield made


@pytest.fixture
def calm(tmp_path):
    (tmp_path / "long.yaml").write_text(yaml.safe_dump(LONG))
    return rayfed.run(STUDY | {"executor": "serial"}, out=tmp_path / "calm", page=False).folder


def log_of(out):
    return "".join(path.read_text() for path in out.glob("*/log.txt"))


def go_on(out):
    """Return whether runs wrote a checkpoint some time after the last line of their logs.

    A loss while a run is being opened with other actors is no replay.
    """
    saved = [path.stat().st_mtime for path in out.glob("*/checkpoint/manifest.json")]
    said = [path.stat().st_mtime for path in out.glob("*/log.txt")]
    return len(saved) == len(said) == 2 and min(saved) > max(said) + 0.8


def test_nodes_come_and_go(nodes, calm, tmp_path):
    nodes.add("here", 0)
    nodes.add("first", 2)
    out = tmp_path / "out"
    process = nodes.run("here", "run", str(tmp_path / "long.yaml"), "--out", str(out))
    try:
        wait_for(lambda: len(list(out.glob("*/checkpoint/manifest.json"))) == 2, 180)
        nodes.add("second", 2)
        wait_for(lambda: log_of(out).count("clients are dealt anew") >= 2 and go_on(out), 120)
        nodes.kill("first")
        _, said = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 0, said
    assert_same_results(calm, out)
    assert said.count("has come: 2 client actors there, 4 in all") == 1
    assert said.count("has gone with 2 client actors; 2 are left") == 1
    assert log_of(out).count("to replay") == 2, log_of(out)


def test_the_node_of_the_drivers_dies_and_resume_on_another_goes_on(nodes, calm, tmp_path):
    """The folder is shared; the main process, drivers and some actors are on the node that dies."""
    nodes.add("here", 2)
    out = tmp_path / "out"
    process = nodes.run("here", "run", str(tmp_path / "long.yaml"), "--out", str(out))
    try:
        wait_for(lambda: len(list(out.glob("*/checkpoint/manifest.json"))) == 2, 180)
        time.sleep(1)
    finally:
        process.kill()
        nodes.kill("here")
    assert not list(out.glob("*/model.npz"))
    nodes.add("there", 2)
    resumed = nodes.run("there", "resume", str(out))
    try:
        _, said = resumed.communicate(timeout=300)
    finally:
        resumed.kill()
    assert resumed.returncode == 0, said
    assert_same_results(calm, out)


COUNTED = """
import json, sys
import numpy as np, ray, ray.experimental
from ray.cluster_utils import Cluster
from rayfed import api
from rayfed.engine.loop import Loop
from rayfed.executors.calls import Calls
from rayfed.executors.ray_pool import RayExecutor
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.ray.actors import StudyActors, alive

NODES, EACH, ROUNDS = 4, int(sys.argv[1]), 4
clients = NODES * EACH
rows = {"X": np.random.default_rng(0).normal(size=(40 * clients, 2**21 // (40 * clients))),
        "y": np.zeros(40 * clients)}  # 16 MiB
made = {"rounds": ROUNDS, "clients": {"count": clients}, "algorithms": ["fedavg"],
        "problem": {"name": "least-squares", "dataset": {"name": "arrays", "data": rows}},
        "partition": "iid", "executor": "serial"}
plan = api.prepare(api.read(made))
(run,) = plan.runs
sent, got = [], []
exchange, get = Calls.exchange, Calls.get

def counted_exchange(self, method, key, messages, in_store):
    sent.extend(["exchange"] * len(messages))
    return exchange(self, method, key, messages, in_store)

def counted_get(self, calls):
    results = get(self, calls)
    got.extend(len(part.branches) for part in results if hasattr(part, "branches"))
    return results

Calls.exchange, Calls.get = counted_exchange, counted_get

def model(executor):
    executor.open(run.folder, run.setup())
    loop = Loop(run, executor)
    state = loop.first()
    for _ in range(ROUNDS):
        state = loop.step(state)[0]
    return state.model.tobytes()

alone = model(SerialExecutor(plan.tables))
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
for _ in range(NODES):
    cluster.add_node(num_cpus=EACH)
ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
study_actors = StudyActors(clients, "auto")
study_actors.begin(alive())
ray.get(study_actors.starting)
study_actors.started()
tables = {name: ray.put(table) for name, table in plan.tables.items()}
same = model(RayExecutor(study_actors.pool(), clients, tables)) == alone
(table,) = tables.values()
kept = ray.experimental.get_object_locations([table])[table]
print(json.dumps({"same": same, "asked": len(sent), "branches": got,
                  "nodes": len(kept["node_ids"]), "bytes": kept["object_size"]}))
ray.shutdown()
cluster.shutdown()
"""


def test_64_actors_on_4_nodes_send_4_vectors_and_hold_a_table_4_times():
    words = [sys.executable, "-c", COUNTED, "16"]
    ended = subprocess.run(words, check=True, stdout=-1, text=True, timeout=500)
    (line,) = (
        line for line in ended.stdout.splitlines() if line.startswith("{")
    )  # Ray prints, too
    found = json.loads(line)
    table = 16 * 2**20
    assert found["same"]
    assert found["asked"] % 4 == 0
    assert found["asked"] >= 4 * 4  # rounds, and evaluations
    assert found["branches"] == [1] * found["asked"]
    assert found["nodes"] == 5  # each node has it once, and that of this process
    assert table < found["bytes"] < 1.5 * table


SHARED = {"name": "ray", "clients_per_actor": 3}
NODES = STUDY | {
    "name": "neighbours",
    "topology": {"name": "random", "p": 0.4, "disconnected": "repair"},
    "algorithms": ["d-psgd", "diging"],
}
LEFT = """
import json, sys, time
import ray
from ray._private.state import actors
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
end = time.monotonic() + 60
while True:
    there, free = ray.cluster_resources(), ray.available_resources()
    missing = [name for name, whole in there.items() if free.get(name, 0) < whole]
    here = [actor["ActorClassName"] for actor in actors().values() if actor["State"] != "DEAD"]
    if not (missing or here) or time.monotonic() > end:
        print(json.dumps({"taken": missing, "actors": here}))
        break
    time.sleep(0.2)
"""


def test_studies_at_once_on_one_cluster_do_not_meet(nodes, calm, tmp_path):
    """One is killed; the others have the bytes of runs alone, and nothing is left of any."""
    nodes.add("here", 6)
    nodes.add("there", 6)
    serial = rayfed.run(NODES | {"executor": "serial"}, out=tmp_path / "alone", page=False).folder
    begun, wall = {}, {"clock": LONG["clock"], "executor": SHARED}
    for name, study in {"server": STUDY, "nodes": NODES, "killed": NODES}.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(study | wall))
    try:
        for name in ("server", "nodes", "killed"):
            out = str(tmp_path / name)
            begun[name] = nodes.run("here", "run", str(tmp_path / f"{name}.yaml"), "--out", out)
        wait_for(lambda: len(list(tmp_path.glob("*/*/checkpoint/manifest.json"))) == 6, 240)
        begun["killed"].kill()
        said = {name: begun[name].communicate(timeout=300)[1] for name in ("server", "nodes")}
        killed = [begun["killed"].wait(), *(tmp_path / "killed").glob("*/model.npz")]
    finally:
        for process in begun.values():
            process.kill()
    assert [begun[name].returncode for name in said] == [0, 0], said
    assert killed == [-signal.SIGKILL]
    assert_same_results(calm, tmp_path / "server")
    assert_same_results(serial, tmp_path / "nodes")
    assert not log_of(tmp_path / "server") + log_of(tmp_path / "nodes")
    words = [sys.executable, "-c", LEFT, nodes.address]
    found = subprocess.run(words, check=True, stdout=-1, text=True, timeout=120).stdout
    assert json.loads(found.splitlines()[-1]) == {"taken": [], "actors": []}
    resumed = nodes.run("here", "resume", str(tmp_path / "killed"))
    try:
        _, why = resumed.communicate(timeout=240)
    finally:
        resumed.kill()
    assert resumed.returncode == 0, why
    assert_same_results(serial, tmp_path / "killed")
