"""What only shows with actors: a user's own code, failures, what cannot be used."""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import ray
import yaml

import rayfed
from rayfed import api
from rayfed.clients.setup import DataView, DataViews, Setup
from rayfed.core.errors import RayfedError
from rayfed.executors.ray_host import HostActor
from rayfed.executors.ray_pool import Pool, RayExecutor
from rayfed.runs.backend import ProgressDisplay
from rayfed.runs.files import afterwards
from rayfed.runs.files.outcome import reason
from rayfed.runs.ray.backend import RayStudy, _Queue

OWN = """
import os, sys
from dataclasses import dataclass
from typing import ClassVar
import helper_of_mine
from rayfed.algorithms.fedavg import FedAvg

@dataclass(frozen=True, kw_only=True)
class Mine(FedAvg):
    name: ClassVar[str] = "mine"
    started_in: int = 0
    breaks: bool = False

    def train(self, clients, x):
        assert os.getpid() != self.started_in, "this is no actor"
        # the file must not be needed here: another node does not have it
        assert sys.modules["own_module"].Mine is type(self)
        if 4 in clients.ids:
            print("four is here")
        if self.breaks and 5 in clients.ids and clients.round == 3:
            raise ZeroDivisionError("client five has no batteries")
        return helper_of_mine.halved(super().train(clients, x))
"""
HELPER = """
from rayfed.messages import Upload

def halved(upload):
    return Upload({"delta": upload.values["delta"] / 2}, loss=upload.loss)
"""
RUN = """
import os, sys, rayfed
rayfed.run(sys.argv[1], out=sys.argv[2],
           overrides=[f"algorithms.0.started_in={os.getpid()}",
                      f"algorithms.1.started_in={os.getpid()}"])
"""


@pytest.mark.ray
def test_a_users_own_module_reaches_the_actors_and_a_failing_client_is_named(mixed, tmp_path):
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home, elsewhere):
        folder.mkdir()
    (home / "own_module.py").write_text(OWN)
    (home / "helper_of_mine.py").write_text(HELPER)
    local = {"steps": 5, "batch": 4, "lr": 0.1}
    made = mixed(
        algorithms=[
            {"name": "own_module:Mine", "label": "works", "local": local},
            {"name": "own_module:Mine", "label": "breaks", "breaks": True, "local": local},
            {"name": "fedavg", "server_lr": 0.5, "local": local},
        ],
        executor={"name": "ray", "clients_per_actor": 7},
        participation={"cohort": 13},
    )
    made["clients"]["availability"] = "always"
    made["clients"]["network"] = {}
    (home / "study.yaml").write_text(yaml.safe_dump(made))
    out = tmp_path / "out"
    called = subprocess.run(
        [sys.executable, "-c", RUN, str(home / "study.yaml"), str(out)],
        check=True, cwd=elsewhere, capture_output=True, text=True,
    )  # fmt: skip
    shown = [line for line in called.stdout.splitlines() if "four is here" in line]
    assert sum("works-seed3, round 12, client" in line for line in shown) == 1
    assert sum("breaks-seed3" in line for line in shown) == 3  # that of the round that fails too
    told = {p.parent.name: json.loads(p.read_text()) for p in out.glob("*/run.json")}
    assert told["works-seed3"]["status"] == told["fedavg-seed3"]["status"] == "finished"
    rounds = rayfed.load(out).rounds
    mine, fedavg = (rounds[rounds.label == label].loss.tolist() for label in ("works", "fedavg"))
    assert len(mine) == 13
    assert mine == fedavg  # half of the pseudo-gradient is half of the server's step
    failed = told["breaks-seed3"]
    assert failed["status"] == "failed"
    line = next(i for i, text in enumerate(OWN.splitlines(), 1) if "batteries" in text)
    where = f"(own_module.py:{line})"
    for fragment in ("round 3", "client 5", "time", "client five has no batteries", where):
        assert fragment in failed["reason"]
    assert "Traceback" in (out / "breaks-seed3" / "log.txt").read_text()
    assert rounds[rounds.label == "breaks"]["round"].tolist() == [0, 1, 2]


DOOMED = """
import os
from dataclasses import dataclass
from typing import ClassVar
from rayfed.algorithms.fedavg import FedAvg

STARTED_IN = int(os.environ.setdefault("PLANNED_IN", str(os.getpid())))

def unpack(*settings):
    raise ModuleNotFoundError("no module named 'my_cluster_has_not'")

@dataclass(frozen=True, kw_only=True)
class Dies(FedAvg):
    name: ClassVar[str] = "dies"

    def round(self, state):
        if os.getpid() != STARTED_IN:  # the process that plans asks for the first Ask
            os._exit(9)  # as the kernel does to who takes too much memory
        return (yield from super().round(state))

@dataclass(frozen=True, kw_only=True)
class Stays(FedAvg):
    name: ClassVar[str] = "stays"

    def __reduce__(self):
        return unpack, ()
"""


@pytest.mark.slow
@pytest.mark.ray
def test_drivers_that_die_or_cannot_begin_fail_their_runs_alone(mixed, tmp_path, monkeypatch):
    (tmp_path / "doomed_module.py").write_text(DOOMED)
    monkeypatch.syspath_prepend(tmp_path)
    names = ("doomed_module:Stays", "doomed_module:Dies", "fedavg")
    made = mixed(algorithms=[{"name": name, "local": {"steps": 2}} for name in names])
    made["executor"] = {"name": "ray", "clients_per_actor": 13}
    result = rayfed.run(made, out=tmp_path / "out", page=False)
    assert result.outcome == {
        "stays-seed3": "failed", "dies-seed3": "failed", "fedavg-seed3": "finished",
    }  # fmt: skip
    why = {name: reason(tmp_path / "out" / name) for name in result.outcome}
    assert "no module named 'my_cluster_has_not'" in why["stays-seed3"]
    assert "its driver failed: it died 4 times" in why["dies-seed3"]
    assert "failed" in (tmp_path / "out" / "dies-seed3" / "log.txt").read_text()


@pytest.mark.slow
@pytest.mark.ray
def test_this_process_reads_tables_where_actors_do_until_they_end(mixed, tmp_path, monkeypatch):
    scenario = mixed(
        executor={"name": "ray", "clients_per_actor": "auto"},
        problem={"name": "logistic-regression", "dataset": {"name": "mushroom"}},
        partition={"name": "dirichlet", "alpha": 0.5},
    )
    plan = api.prepare(api.read(scenario))
    own = [rows.X.copy() for rows in plan.tables.values()]
    flags = []

    def check(run, tables, folder):
        for rows, kept in zip(tables.values(), own, strict=True):
            same = np.array_equal(rows.X, kept)
            flags.append((rows.X.flags.writeable, rows.X.flags.owndata, same))

    monkeypatch.setitem(afterwards._MADE, "fit.npz", (check, "failed"))
    folder = api.begin(plan, tmp_path / "out")
    api.execute(plan, folder, watch=ProgressDisplay(), page=False)
    assert set(flags) == {(False, False, True)}
    for rows, kept in zip(plan.tables.values(), own, strict=True):
        np.testing.assert_array_equal(rows.X, kept)
        assert rows.X.flags.owndata


@pytest.mark.ray
@pytest.mark.slow
def test_a_ray_of_the_users_own_is_used_and_left_running(mixed, tmp_path, monkeypatch):
    made = mixed(executor={"name": "ray", "clients_per_actor": 13}, rounds=2)
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        hog = ray.remote(num_cpus=1)(dict).remote()
        ray.get(hog.__ray_ready__.remote())
        with monkeypatch.context() as patch:
            patch.setattr("rayfed.runs.ray.backend._START_S", 1.0)
            with pytest.raises(RayfedError, match="wait for 1 CPU each, but of 1 CPUs 0 are free"):
                rayfed.run(made, out=tmp_path / "full", page=False)
            # an actor that has died and finds no room again: its run must not wait for ever
            patch.setattr("rayfed.executors.ray_pool._RESTART_S", 1.0)
            waits = ray.remote(num_cpus=1)(HostActor).remote()
            executor = RayExecutor(Pool([waits], [1]), 1, {})
            views = DataViews(DataView(None, None), DataView(None, None))
            with pytest.raises(ConnectionError, match="did not come back in 1 s"):
                executor.open("run", Setup({}, views, None, (), {}, 0, 1, 1))
            ray.kill(waits)
        ray.kill(hog)
        assert rayfed.run(made, out=tmp_path / "out", page=False).outcome == {
            "fedavg-seed3": "finished"
        }
        assert ray.is_initialized()
    finally:
        ray.shutdown()


@pytest.mark.parametrize("alone", [True, False])
def test_slow_actors_are_waited_for_unless_others_may_hold_the_cpus(alone, monkeypatch):
    """One busy core starts 20 actors, which hold all of it, in more than the time without one."""
    study, reported = object.__new__(RayStudy), []
    study.alone, answers = alone, [([], [1]), ([], [1]), ([1], [])]
    study.study_actors = SimpleNamespace(
        starting=[1], actors=[1] * 20, share=0.05, cpus=1, started=lambda: None
    )
    monkeypatch.setattr(study, "_first", lambda waiting: answers.pop(0))
    monkeypatch.setattr(ray, "get", lambda done: None)
    monkeypatch.setattr(ray, "available_resources", dict)
    if alone:
        study.wait(lambda done, total: reported.append((done, total)))
        assert reported == [(19, 20), (19, 20), (20, 20)]
    else:
        with pytest.raises(RayfedError, match=r"wait for 0\.05 CPU each, but of 1 CPUs 0 are free"):
            study.wait()


def test_a_machine_that_is_no_node_of_the_cluster_is_refused(tmp_path):
    with pytest.raises(RayfedError, match=r"ray start --address"):
        RayStudy(4, "auto", "ray://head:10001", tmp_path)


def test_deaths_of_drivers_count_from_the_last_checkpoint(tmp_path):
    queue = _Queue(SimpleNamespace(out=tmp_path), [], {}, False)
    run, manifest = SimpleNamespace(folder="a"), tmp_path / "a" / "checkpoint" / "manifest.json"
    assert [queue._deaths(run, 0), queue._deaths(run, 1)] == [1, 2]
    manifest.parent.mkdir(parents=True)
    manifest.write_text("round 3")
    assert [queue._deaths(run, 2), queue._deaths(run, 1)] == [1, 2]
    manifest.write_text("round 4")
    assert queue._deaths(run, 2) == 1
