"""Promise 2: placement changes the speed, never the result. Real actors, real kills."""

import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pandas as pd
import psutil
import pytest
import yaml

import rayfed
from rayfed.core.needs import ADAPTERS, EVERYONE, LAYERS, OWN_STATISTICS
from rayfed.core.plugins import find

pytestmark = pytest.mark.ray

run, resume = partial(rayfed.run, page=False), partial(rayfed.resume, page=False)

LOCAL = {"steps": 5, "batch": 4, "lr": 0.1}
SCENARIOS = Path(__file__).parents[2] / "scenarios"
ADAPTED = ("hetlora", "heterofl", "fedrolex", "federated-dropout")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Every algorithm with rounds that is found, minibatches, stragglers, cyclic availability.

    One of them walks too and leaves its tokens with the clients. FedHybrid also has Newton
    clients, with matrices and by conjugate gradients.
    """
    classes = find("algorithms").items()
    plain = [
        name
        for name, cls in classes
        if not (cls.asynchronous or cls.gossip or {LAYERS, EVERYONE} & cls.needs)
    ]
    found = [{"name": name, "local": LOCAL} for name in plain]
    rule = {"name": "metropolis", "hop_s": 3}
    walk = {
        "label": "walking",
        "participation": {"select": {"name": "walk", "rule": rule}},
    }
    found.append({"name": "rwsadmm", "local": LOCAL, **walk})
    steps = {"alpha_gradient": 0.05, "beta_gradient": 0.01, "beta_newton": 0.01}
    found += [
        {"name": "fedhybrid", "label": how, "newton": count, "newton_solver": how, **steps}
        for how, count in (("cholesky", 4), ("cg", "all"))
    ]
    top, secure = {"name": "top-k", "k": 9}, {"name": "secure-sum", "range": 4.0}
    diana = {"name": "diana", "alpha": 0.1}
    buckets = {"name": "median", "before": {"name": "buckets", "size": 3}}
    rules: list[tuple[str, list, dict | str]] = [
        ("secure", [secure | {"threshold": 0.5}], "study"),
        ("buckets", [top | {"memory": "error-feedback"}], buckets),
        ("secure buckets", [secure | {"threshold": 0.5}], buckets),
        ("krum", [], {"name": "krum", "f": 1, "before": {"name": "nearest-neighbours", "f": 1}}),
    ]
    found += [
        {"name": "fedavg", "label": label, "local": LOCAL, "weights": "uniform", "uplink": up,
         "aggregate": rule}
        for label, up, rule in rules
    ]  # fmt: skip
    found += [
        {"name": "fedavg", "label": label, "local": LOCAL, "uplink": up, "downlink": down}
        for label, up, down in (
            ("feedback", [top | {"memory": "error-feedback"}], []),
            ("ef21", [top | {"memory": "ef21"}], [top | {"memory": "ef21"}]),
            ("diana", [{"name": "rand-k", "k": 9, "shared": True, "memory": diana}], ["natural"]),
        )
    ]
    clip, by_rdp = {"name": "clip", "norm": 0.5}, {"noise": 1.0, "delta": 1e-5, "accountant": "rdp"}
    follows = {"name": "clip", "norm": {"start": 0.5, "noise": 2.0}}
    kept = {"name": "secure-sum", "range": 8.0, "threshold": 0.05}
    tree = {"name": "tree", "noise": 1.0, "delta": 1e-5, "separation": 3, "restart": 2}
    found += [
        {"name": "fedavg", "label": label, "local": LOCAL, "weights": "uniform", "uplink": up,
         "privacy": privacy, "participation": {"over_select": 1, "select": select}}
        for label, up, privacy, select in (
            ("private", [clip], by_rdp, "poisson"),
            ("adaptive", [follows, kept], by_rdp, "poisson"),
            ("tree", [clip], tree, "uniform"),
            ("shares", [clip, kept], by_rdp | {"at": "clients"}, "uniform"),
        )
    ]  # fmt: skip
    made = {
        "name": "placed",
        "seeds": [0],
        "rounds": 8,
        "problem": {"name": "logistic-regression", "dataset": "mushroom", "l2": 1e-3},
        "partition": {"name": "dirichlet", "alpha": 0.5},
        "clients": {
            "count": 7,
            "delay": {"name": "lognormal", "mean_s": 1.0, "sigma": 0.5},
            "stragglers": {"fraction": 0.2, "slowdown": 8},
            "network": {"down_mbps": 20, "up_mbps": 5},
            "availability": {"name": "cyclic", "groups": 2, "rounds": 1},
        },
        "topology": {"name": "random", "p": 0.4, "disconnected": "repair"},
        "participation": {"cohort": 3, "over_select": 1.4, "deadline_s": 60},
        "evaluate": {
            "every": 4,
            "clients": 6,
            "measures": ["skew", "heterogeneity"],
            "left_out": True,
        },
        "checkpoint": {"every_s": 0.3},
        "algorithms": found,
    }
    file = tmp_path_factory.mktemp("placement") / "study.yaml"
    file.write_text(yaml.safe_dump(made))
    return file


@pytest.fixture(scope="module")
def serial(study, tmp_path_factory):
    out = tmp_path_factory.mktemp("serial") / "out"
    run(study, out=out, overrides=["executor.name=serial"])
    return out


def without_walk(study):
    """Return the scenario without its graph, which walks alone use."""
    made = yaml.safe_load(study.read_text())
    del made["topology"]
    return made


KILLED = ("fedavg", "ditto", "scaffold", "fedvarp", "walking", "ef21", "adaptive", "shares")
"""Some with state at the clients, at the server, on links, of a walk and of privacy."""


@pytest.fixture(scope="module")
def kept(study, tmp_path_factory):
    """Return a study of methods that keep something in other places, in more rounds.

    That the bits of each method survive a stop is tested in one process.
    """
    made = yaml.safe_load(study.read_text())
    chosen = [a for a in made["algorithms"] if a.get("label", a["name"]) in KILLED]
    assert len(chosen) == len(KILLED)
    file = tmp_path_factory.mktemp("kept") / "kept.yaml"
    file.write_text(yaml.safe_dump(made | {"rounds": 24, "algorithms": chosen}))
    return file


@pytest.fixture(scope="module")
def undisturbed(kept, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    run(kept, out=out, overrides=["executor.name=serial"])
    return out


@pytest.mark.parametrize(
    "placed",
    [
        pytest.param({"clients_per_actor": 1}, marks=pytest.mark.slow),
        {"clients_per_actor": 3, "memory_gb": 1e-9},  # client state in scratch files
        pytest.param({"name": "ray"}, marks=pytest.mark.slow),
    ],
)
def test_actors_give_the_bytes_of_no_actors(study, serial, tmp_path, assert_same, placed):
    overrides = {f"executor.{name}": value for name, value in placed.items()}
    run(study, out=tmp_path / "out", overrides=overrides)
    assert_same(serial, tmp_path / "out")


@pytest.mark.slow
def test_actors_give_the_bytes_of_no_actors_where_candidates_are_asked(
    study, tmp_path, assert_same
):
    how = ["rounds=6", "participation.select.name=cpow-d"]
    run(study, out=tmp_path / "serial", overrides=[*how, "executor.name=serial"])
    run(study, out=tmp_path / "actors", overrides=[*how, "executor.clients_per_actor=3"])
    assert_same(tmp_path / "serial", tmp_path / "actors")


@pytest.mark.slow
def test_actors_give_the_bytes_of_no_actors_where_layers_differ(study, tmp_path, assert_same):
    found = find("algorithms").items()
    layered = [
        name
        for name, cls in found
        if LAYERS in cls.needs and not (OWN_STATISTICS in cls.gives or ADAPTERS in cls.needs)
    ]
    made = without_walk(study)
    made |= {"rounds": 4, "algorithms": [{"name": name, "local": LOCAL} for name in layered]}
    made["problem"] = {"name": "mlp", "hidden": [4], "dataset": "mushroom"}
    made["evaluate"] = {"every": 4, "measures": ["layers"]}
    run(made | {"executor": "serial"}, out=tmp_path / "serial")
    run(made | {"executor": {"clients_per_actor": 3}}, out=tmp_path / "actors")
    assert_same(tmp_path / "serial", tmp_path / "actors")


@pytest.fixture(scope="module")
def adapters(tmp_path_factory):
    """Return the study of a character model, with ranks by capacity, and its folder."""
    made = yaml.safe_load((SCENARIOS / "dialects.yaml").read_text())
    made["problem"]["init"] = str(SCENARIOS / "dialects.base.npz")
    made["problem"]["dataset"]["path"] = str(SCENARIOS / "dialects.npz")
    made["clients"]["capacity"], made["evaluate"]["clients"] = [1.0, 0.25], 6
    made["algorithms"][0]["local"] |= {"steps": 2, "batch": 2}
    made["algorithms"] = [made["algorithms"][0] | {"name": name, "label": name} for name in ADAPTED]
    made |= {"seeds": [0], "rounds": 4, "checkpoint": {"every_s": 0.1}}
    folder = tmp_path_factory.mktemp("adapters")
    file = folder / "study.yaml"
    file.write_text(yaml.safe_dump(made))
    run(file, out=folder / "serial", overrides=["executor.name=serial"])
    return file, folder / "serial"


@pytest.mark.slow
@pytest.mark.parametrize("placed", ["name=workers", "name=ray", "clients_per_actor=3"])
def test_workers_and_actors_give_the_bytes_of_no_actors_where_ranks_differ(
    adapters, tmp_path, assert_same, placed
):
    file, serial = adapters
    run(file, out=tmp_path / "out", overrides=[f"executor.{placed}"])
    assert_same(serial, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("placed", ["name=serial", "clients_per_actor=3"])
def test_so_does_a_resume_after_kill_9_where_ranks_differ(adapters, tmp_path, assert_same, placed):
    file, serial = adapters
    kill_in_the_middle(file, tmp_path / "out", 3, f"executor.{placed}")
    assert len(list((tmp_path / "out").glob("*/model.npz"))) < len(ADAPTED)
    resume(tmp_path / "out")
    assert_same(serial, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mimic", "replay", "silent"])
def test_actors_give_the_bytes_of_no_actors_where_clients_are_faulty(
    study, tmp_path, assert_same, name
):
    made = without_walk(study)
    made["clients"]["faults"] = [{"name": name, "count": 2, "start": 2}]
    rule = {"name": "centred-clipping", "radius": 0.5, "before": {"name": "buckets", "size": 2}}
    made["algorithms"] = [
        {"name": "fedavg", "local": LOCAL, "weights": "uniform", "aggregate": rule}
    ]
    made["participation"] = {"cohort": 5, "over_select": 1.4}
    run(made | {"executor": "serial"}, out=tmp_path / "serial")
    run(made | {"executor": {"clients_per_actor": 3}}, out=tmp_path / "actors")
    assert_same(tmp_path / "serial", tmp_path / "actors")


@pytest.fixture(scope="module")
def arrivals(study):
    """Return the same for algorithms without rounds, whose clients go away in between."""
    found = [
        name for name, cls in find("algorithms").items() if cls.asynchronous and not cls.gossip
    ]
    made = without_walk(study)
    made["rounds"] = 40
    made["algorithms"] = [{"name": name, "local": LOCAL} for name in found]
    made["clients"]["availability"] = {"name": "cyclic", "groups": 2, "period_s": 30}
    made["participation"] = {"cohort": 4, "timeout_s": 60}
    made["evaluate"] = {"every": 4, "clients": 6}
    return made


@pytest.mark.slow
def test_actors_give_the_bytes_of_no_actors_without_rounds(arrivals, tmp_path, assert_same):
    run(arrivals | {"executor": "serial"}, out=tmp_path / "serial")
    run(arrivals | {"executor": {"clients_per_actor": 3}}, out=tmp_path / "actors")
    assert_same(tmp_path / "serial", tmp_path / "actors")


GOSSIP = {
    "changing": {
        "algorithms": ["d-psgd", "dfedavg", "diging", "extra", "exact-diffusion"],
        "topology": {"name": "random", "p": 0.3, "every": 2, "disconnected": "repair"},
    },
    "arcs": {
        "algorithms": ["sgp", "epidemic"],
        "topology": {"name": "out-degree", "number": 3, "every": 1},
    },
    "coded": {
        "algorithms": ["d-psgd", "epidemic", "choco-sgd"],
        "topology": "ring",
        "uplink": [{"name": "qsgd", "levels": 16}],
    },
    "absent": {
        "algorithms": ["d-psgd", "dfedavg", "epidemic"],
        "topology": "ring",
        "participation": {"select": "all", "patience_s": 2.0, "interrupted": "resume"},
    },
    "meetings": {
        "algorithms": ["ad-psgd", "gossip-learning"],
        "topology": {"name": "random", "p": 0.3, "every": 2, "disconnected": "repair"},
    },
    "walks": {"algorithms": ["multi-walk"], "topology": "ring"},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", GOSSIP)
def test_actors_give_the_bytes_of_no_actors_without_a_server(study, tmp_path, assert_same, kind):
    """All gossip methods are among them."""
    known = {name for name, cls in find("algorithms").items() if cls.gossip}
    assert known == {name for of in GOSSIP.values() for name in of["algorithms"]}
    made = yaml.safe_load(study.read_text()) | {"participation": {"select": "all"}} | GOSSIP[kind]
    made |= {"rounds": 12, "evaluate": {"every": 4, "clients": 6}}
    made["algorithms"] = [{"name": name, "local": LOCAL} for name in made["algorithms"]]
    markov = {"name": "markov", "mean_on_s": 30, "mean_off_s": 10}
    if kind in ("absent", "meetings", "walks"):
        made["clients"]["faults"] = [{"name": "noise", "count": 2, "start": 3}]
    made["clients"]["availability"] = "always" if kind in ("changing", "arcs", "coded") else markov
    run(made | {"executor": "serial"}, out=tmp_path / "serial")
    for place in ({"clients_per_actor": 3}, {"name": "serial", "workers": 2}):
        run(made | {"executor": place}, out=tmp_path / "placed")
        assert_same(tmp_path / "serial", tmp_path / "placed")
        shutil.rmtree(tmp_path / "placed")


@pytest.fixture(scope="module")
def nodes(study, tmp_path_factory):
    """Return a study of gossip in steps on a graph that changes, and its folder in one process."""
    made = yaml.safe_load(study.read_text()) | {"participation": {"select": "all"}}
    made |= {"topology": GOSSIP["changing"]["topology"], "rounds": 150}
    made["clients"] |= {"availability": {"name": "markov", "mean_on_s": 30, "mean_off_s": 10}}
    made |= {"evaluate": {"every": 4, "clients": 6}}
    made["algorithms"] = [{"name": name, "local": LOCAL} for name in ("d-psgd", "dfedavg")]
    folder = tmp_path_factory.mktemp("nodes")
    file = folder / "nodes.yaml"
    file.write_text(yaml.safe_dump(made))
    run(file, out=folder / "serial", overrides=["executor.name=serial"])
    return file, folder / "serial"


@pytest.mark.slow
def test_nodes_of_a_graph_give_the_bytes_of_no_actors_after_one_is_killed(
    nodes, tmp_path, assert_same
):
    file, serial = nodes
    out = tmp_path / "out"
    process = subprocess.Popen(command(file, out, "executor.clients_per_actor=2"))
    try:
        wait_for(lambda: len(list(out.glob("*/checkpoint/manifest.json"))) > 1)
        os.kill(min(actor.pid for actor in hosts(process)), signal.SIGKILL)
        assert process.wait(timeout=200) == 0
    finally:
        process.kill()
    assert_same(serial, out)
    assert "to replay" in "".join(path.read_text() for path in out.glob("*/log.txt"))


@pytest.mark.slow
def test_actors_give_the_bytes_of_no_actors_where_late_work_is_used(study, tmp_path, assert_same):
    made = without_walk(study)
    made |= {"rounds": 8, "algorithms": [{"name": "ditto", "local": LOCAL}]}
    made["participation"] = {"select": "oort", "cohort": 5, "deadline_s": 20, "late": "stale"}
    run(made | {"executor": "serial"}, out=tmp_path / "serial")
    run(made | {"executor": {"clients_per_actor": 3}}, out=tmp_path / "actors")
    assert_same(tmp_path / "serial", tmp_path / "actors")
    events = pd.concat(map(pd.read_parquet, (tmp_path / "actors").glob("*/events.parquet")))
    assert (events["staleness"] > 0).any()


@pytest.mark.slow
def test_actors_give_the_bytes_of_no_actors_in_the_span_of_the_rows(study, tmp_path, assert_same):
    made = without_walk(study)
    data = {"name": "synthetic", "features": 60, "samples": {"low": 8, "high": 24}}
    found = ["fedavg", "scaffold", "fednova", "feddyn", "fedbuff"]  # one does without the span
    local = {"steps": {"low": 2, "high": 30}, "batch": 10, "lr": 0.01, "clip_norm": 5.0}
    made |= {"rounds": 6, "algorithms": [{"name": name, "local": local} for name in found]}
    made["problem"] = {"name": "softmax-regression", "dataset": data, "l2": 1e-3}
    made["clients"]["availability"] = {"name": "cyclic", "groups": 2, "period_s": 30}
    made["participation"] = {"cohort": 4}
    made["evaluate"] = {"every": 3}
    del made["partition"]
    run(made | {"executor": "serial"}, out=tmp_path / "serial")
    run(made | {"executor": {"clients_per_actor": 3}}, out=tmp_path / "actors")
    assert_same(tmp_path / "serial", tmp_path / "actors")


def command(study, out, placed="executor.clients_per_actor=4"):
    return [
        sys.executable, "-m", "rayfed", "run", str(study), "--out", str(out), "--no-page",
        "--set", placed,
    ]  # fmt: skip


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def hosts(process, kind="HostActor"):
    """The client actors, or others, among the descendants of our own process."""
    children = psutil.Process(process.pid).children(recursive=True)
    return [child for child in children if kind in " ".join(_args(child))]


def _args(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.slow
def test_a_driver_that_hosts_clients_and_is_killed_changes_nothing(
    study, serial, tmp_path, assert_same
):
    out = tmp_path / "out"
    process = subprocess.Popen(command(study, out, "executor.name=ray"))
    try:
        wait_for(lambda: len(list(out.glob("*/checkpoint/manifest.json"))) > 2)
        before = {driver.pid for driver in hosts(process, "DriverActor")}
        os.kill(min(before), signal.SIGKILL)
        wait_for(lambda: {driver.pid for driver in hosts(process, "DriverActor")} - before)
        assert process.wait(timeout=120) == 0
    finally:
        process.kill()
    assert_same(serial, out)


def test_after_kill_9_of_everything_and_of_an_actor_of_the_resume_the_bytes_are_the_same(
    kept, undisturbed, tmp_path, assert_same
):
    """The actor is killed in a run that the resume has begun, and in others that go on."""
    out = tmp_path / "out"
    kill_in_the_middle(kept, out, checkpoints=3)
    begun = set(out.glob("*/checkpoint/manifest.json"))
    assert len(list(out.glob("*/model.npz"))) < len(KILLED)
    process = subprocess.Popen([sys.executable, "-m", "rayfed", "resume", str(out), "--no-page"])
    try:
        wait_for(lambda: set(out.glob("*/checkpoint/manifest.json")) - begun)
        victim = min(hosts(process), key=lambda actor: actor.pid)
        os.kill(victim.pid, signal.SIGKILL)
        assert process.wait(timeout=120) == 0
    finally:
        process.kill()
    assert_same(undisturbed, out)
    logs = "".join(path.read_text() for path in out.glob("*/log.txt"))
    assert "to replay" in logs


@pytest.mark.slow
def test_so_does_resume_without_rounds(arrivals, tmp_path, assert_same):
    file = tmp_path / "arrivals.yaml"
    file.write_text(yaml.safe_dump(arrivals | {"rounds": 400}))
    run(file, out=tmp_path / "serial", overrides=["executor.name=serial"])
    kill_in_the_middle(file, tmp_path / "out", checkpoints=2)
    resume(tmp_path / "out")
    assert_same(tmp_path / "serial", tmp_path / "out")


def kill_in_the_middle(study, out, checkpoints, placed="executor.clients_per_actor=4"):
    """Run a study in processes of its own, and kill all of them once so many runs have saved."""
    process = subprocess.Popen(command(study, out, placed))
    everything = [psutil.Process(process.pid)]
    try:
        wait_for(lambda: len(list(out.glob("*/checkpoint/manifest.json"))) >= checkpoints)
        everything += everything[0].children(recursive=True)
    finally:
        for one in everything:
            try:
                one.kill()
            except psutil.NoSuchProcess:
                continue
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rounds", "gossip"])
def test_one_cpu_and_two_nodes_give_the_same_bytes(
    kind, request, tmp_path, assert_same, monkeypatch
):
    """In a process of its own: this one may have a Ray of another size."""
    names = ("study", "serial") if kind == "rounds" else ("nodes",)
    found = [request.getfixturevalue(name) for name in names]
    study, serial = found if kind == "rounds" else found[0]
    monkeypatch.delenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")
    script = tmp_path / "cluster.py"
    script.write_text(
        "import sys, ray, rayfed\n"
        "from ray.cluster_utils import Cluster\n"
        "study, out = sys.argv[1:]\n"
        "cluster = Cluster(initialize_head=True, head_node_args={'num_cpus': 1})\n"
        "rayfed.run(study, out=out + '/one', address=cluster.address, page=False)\n"
        "cluster.add_node(num_cpus=2)\n"  # with a combiner
        "rayfed.run(study, out=out + '/two', address=cluster.address, page=False)\n"
        "cluster.shutdown()\n"
    )
    command = [sys.executable, str(script), str(study), str(tmp_path)]
    subprocess.run(command, check=True, timeout=200)
    assert_same(serial, tmp_path / "one")
    assert_same(serial, tmp_path / "two")


# LeNet with dropout, crops and flips, a module beside the scenario file

MODULE = """
from torch import nn
from rayfed.problems.network.models.lenet5 import LeNet5


class Dropping(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.lenet, self.drop = LeNet5(inputs, 16), nn.Dropout(0.3)
        self.head = nn.Linear(16, outputs)

    def forward(self, x):
        return self.head(self.drop(self.lenet(x)))
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A scenario file with the user's module beside it."""
    folder = tmp_path_factory.mktemp("network")
    (folder / "dropping_lenet.py").write_text(MODULE)
    made = {
        "name": "lenet",
        "rounds": 12,
        "problem": {
            "name": "network", "model": "dropping_lenet:Dropping", "shape": [1, 8, 8],
            "dataset": {"name": "synthetic", "features": 64, "samples": 12},
            "augment": {"crop": 2, "flip": True},
        },
        "clients": {"count": 7, "delay": {"name": "lognormal", "mean_s": 1.0, "sigma": 0.5}},
        "participation": {"cohort": 4},
        "evaluate": {"every": 4},
        "checkpoint": {"every_s": 0.1},
        "algorithms": [
            {"name": "fedavg", "local": LOCAL | {"steps": 2}},
            {"name": "scaffold", "local": LOCAL | {"steps": 2}},
        ],
    }  # fmt: skip
    file = folder / "study.yaml"
    file.write_text(yaml.safe_dump(made))
    return file


@pytest.fixture(scope="module")
def network_serial(network, tmp_path_factory):
    out = tmp_path_factory.mktemp("network-serial") / "out"
    run(network, out=out, overrides=["executor.name=serial"])
    return out


@pytest.mark.parametrize(
    "clients_per_actor",
    ["3", pytest.param("1", marks=pytest.mark.slow), pytest.param("auto", marks=pytest.mark.slow)],
)
def test_actors_give_a_network_the_bytes_of_no_actors(
    network, network_serial, tmp_path, assert_same, clients_per_actor
):
    how = [f"executor.clients_per_actor={clients_per_actor}"]
    run(network, out=tmp_path / "out", overrides=how)
    assert_same(network_serial, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("everything", [False, True], ids=["an actor", "everything"])
def test_what_is_killed_changes_nothing_in_a_network(
    network, network_serial, tmp_path, assert_same, everything
):
    out = tmp_path / "out"
    process = subprocess.Popen(command(network, out))
    try:
        wait_for(lambda: list(out.glob("*/checkpoint/manifest.json")), seconds=120)
        victims = hosts(process)[:1]
        if everything:
            own = psutil.Process(process.pid)
            victims = [*own.children(recursive=True), own]
        for victim in victims:
            os.kill(victim.pid, signal.SIGKILL)
        process.wait(timeout=120)
    finally:
        process.kill()
    if everything:
        resume(out)
    assert_same(network_serial, out)
