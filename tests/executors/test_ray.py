"""What only shows with actors: a user's own code, failures, what cannot be used."""

import json
import subprocess
import sys

import pytest
import yaml

from rayfed.api import Result
from rayfed.errors import RayfedError
from rayfed.executors.ray import Layout, RayStudy
from rayfed.tree import classes

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
        assert "own_module" not in sys.modules and "helper_of_mine" not in sys.modules
        if self.breaks and 5 in clients.ids and clients.round == 3:
            raise ZeroDivisionError("client five has no batteries")
        return helper_of_mine.halved(super().train(clients, x))
"""
HELPER = """
from rayfed.algorithms.base import Upload

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
    subprocess.run(
        [sys.executable, "-c", RUN, str(home / "study.yaml"), str(out)], check=True, cwd=elsewhere
    )
    told = {p.parent.name: json.loads(p.read_text()) for p in out.glob("*/run.json")}
    assert told["works-seed3"]["status"] == told["fedavg-seed3"]["status"] == "finished"
    mine, fedavg = (
        Result(out, {name: ""}).rounds.loss.tolist() for name in ("works-seed3", "fedavg-seed3")
    )
    assert mine == fedavg  # half of the pseudo-gradient is half of the server's step
    failed = told["breaks-seed3"]
    assert failed["status"] == "failed"
    for fragment in ("round 3", "client 5", "time", "Traceback", "client five has no batteries"):
        assert fragment in failed["reason"]
    assert len(Result(out, {"breaks-seed3": ""}).rounds) == 3  # rows 0, 1 and 2


def test_a_machine_that_is_no_node_of_the_cluster_is_refused(tmp_path):
    with pytest.raises(RayfedError, match=r"ray start --address"):
        RayStudy(4, "auto", "ray://head:10001", tmp_path)


def test_the_layout_knows_the_owner_of_every_client():
    layout = Layout(classes(13, 5))
    fine, owner = layout.owner()
    for actor, owned in enumerate(layout.owned):
        for client in range(13):
            lives_here = any(client % m == r for r, m in owned)
            assert lives_here == (owner[client % fine] == actor)
