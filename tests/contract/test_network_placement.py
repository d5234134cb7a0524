"""Promise 2 for the networks that the benchmarks train: the same bytes wherever clients live."""

import math
import os
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path

import pandas as pd
import psutil
import pytest
import yaml

import rayfed
from benchmarks.networks import NETWORKS
from tests.contract.test_placement import command, wait_for

pytestmark = pytest.mark.slow

run, resume = partial(rayfed.run, page=False), partial(rayfed.resume, page=False)

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def problem(case):
    """Return a network of the benchmarks on a few rows; its modules lie beside the scenario."""
    data = {"clients": 3, "samples": 4, "classes": case.classes, "symbols": case.symbols}
    return {
        "name": "network",
        "model": case.model.replace("benchmarks.", ""),
        "shape": list(case.shape),
        "dataset": {"name": "rows:Noise", "features": math.prod(case.shape), **data},
        **case.problem,
    }


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Return a scenario file: of each network two of three clients take two steps a round.

    Clients keep a control variate of the size of the model under SCAFFOLD. ResNet-18,
    which takes most of the time, has two rounds of FedAvg.
    """
    folder = tmp_path_factory.mktemp("networks")
    shutil.copy(BENCHMARKS / "adapters.py", folder)
    shutil.copy(BENCHMARKS / "data.py", folder / "rows.py")
    local = {"steps": 2, "batch": 2, "lr": 0.01}
    made = {
        "name": "networks",
        "rounds": 4,
        "cases": {case.name: {"problem": problem(case)} for case in NETWORKS},
        "clients": {"count": 3},
        "participation": {"cohort": 2},
        "evaluate": {"every": 2},
        "checkpoint": {"every_s": 0.2},
        "algorithms": [{"name": name, "local": local} for name in ("fedavg", "scaffold")],
    }
    made["problem"] = made["cases"]["W4"]["problem"]
    made["cases"]["resnet18"] |= {"rounds": 2, "algorithms": made["algorithms"][:1]}
    file = folder / "study.yaml"
    file.write_text(yaml.safe_dump(made))
    return file


@pytest.fixture(scope="module")
def serial(study):
    out = study.parent / "serial"
    run(study, out=out, overrides=["executor.name=serial"])
    return out


def test_all_of_them_are_trained(serial):
    """What follows compares numbers that change."""
    losses = [pd.read_parquet(path)["loss"].dropna() for path in serial.glob("*/rounds.parquet")]
    assert len(losses) == 2 * len(NETWORKS) - 1
    assert all(loss.nunique() == len(loss) > 1 for loss in losses)


@pytest.mark.ray
@pytest.mark.parametrize(
    "placed", ["name=workers", "name=ray", "driver_hosts=false", "clients_per_actor=1"]
)
def test_workers_and_actors_give_the_same_bytes(study, serial, tmp_path, assert_same, placed):
    run(study, out=tmp_path / "out", overrides=[f"executor.{placed}"])
    assert_same(serial, tmp_path / "out")


@pytest.mark.ray
@pytest.mark.parametrize("placed", ["name=serial", "name=ray"])
def test_so_does_a_resume_after_kill_9_of_everything(study, serial, tmp_path, assert_same, placed):
    out = tmp_path / "out"
    process = subprocess.Popen(command(study, out, f"executor.{placed}"))
    try:
        wait_for(lambda: len(list(out.glob("*/checkpoint/manifest.json"))) > 4, seconds=300)
        own = psutil.Process(process.pid)
        for victim in [own, *own.children(recursive=True)]:
            os.kill(victim.pid, signal.SIGKILL)
        assert process.wait(timeout=60) == -signal.SIGKILL  # it was in the middle
    finally:
        process.kill()
    resume(out)
    assert_same(serial, out)
