"""The recipes for clusters: their files fit their schemas, and the SLURM script runs a study."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import jsonschema
import psutil
import pytest
import ray
import yaml
from typer.testing import CliRunner

import rayfed
from rayfed.cli.main import app

RECIPES = Path(__file__).parents[2] / "docs" / "howto" / "recipes"


def test_the_launchers_file_fits_rays_schema():
    schema = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text())
    recipe = yaml.safe_load((RECIPES / "ray-cluster.yaml").read_text())
    jsonschema.validate(recipe, schema)
    workers = recipe["available_node_types"]["clients"]
    assert recipe["head_node_type"] in recipe["available_node_types"]
    assert recipe["max_workers"] == workers["max_workers"] >= workers["min_workers"]


def test_all_recipes_name_the_ray_that_is_tested():
    requirements = Path(__file__).parents[2] / "requirements.txt"
    pinned = re.search(r"^ray==(\S+)$", requirements.read_text(), re.M)[1]
    _, job = yaml.safe_load_all((RECIPES / "kuberay.yaml").read_text())
    assert job["spec"]["rayClusterSpec"]["rayVersion"] == pinned
    assert f"rayproject/ray:{pinned}-py311" in (RECIPES / "Dockerfile").read_text()
    assert f'"ray[default]=={pinned}"' in (RECIPES / "ray-cluster.yaml").read_text()


def test_pods_of_kubernetes_share_an_image_and_mount_what_they_name():
    claim, job = yaml.safe_load_all((RECIPES / "kuberay.yaml").read_text())
    cluster = job["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    pods = [group["template"]["spec"] for group in groups]
    assert len({pod["containers"][0]["image"] for pod in pods}) == 1
    (volume,) = pods[0]["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    (mount,) = pods[0]["containers"][0]["volumeMounts"]
    assert mount["name"] == volume["name"]
    assert f"--out {mount['mountPath']}/" in job["spec"]["entrypoint"]


@pytest.mark.parametrize("command", ["run", "resume"])
def test_the_commands_of_the_recipes_exist(command):
    told = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
    used = (RECIPES / "slurm.sh").read_text() + (RECIPES / "kuberay.yaml").read_text()
    assert f"rayfed {command} " in used
    assert "--address" in told


def test_without_a_scenario_the_script_says_how_to_use_it():
    command = ["bash", RECIPES / "slurm.sh"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("usage: sbatch slurm.sh SCENARIO OUT")


STUDY = {
    "name": "slurm",
    "seeds": [0],
    "rounds": 40,
    "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 2}},
    "clients": {"count": 6},
    "algorithms": ["scaffold"],
    "checkpoint": {"every_s": 0.1},
    "clock": {"name": "wall", "scale": 0.02},  # so that there is time for the signal
}
STAND_INS = {
    "scontrol": "printf 'first\\nsecond\\n'",
    "srun": 'while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"',
    "hostname": "echo 127.0.0.1",
}


@pytest.mark.ray
@pytest.mark.slow
def test_a_slurm_job_that_ends_too_early_goes_on_in_the_next(tmp_path, assert_same):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, line in STAND_INS.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> "$STAND_IN_LOG"\n{line}\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(STUDY))
    asked = tmp_path / "asked.txt"
    env = os.environ | {
        "HOME": str(tmp_path),
        "PATH": os.pathsep.join(
            [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        ),
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_JOB_NODELIST": "[first,second]",
        "SLURM_CPUS_PER_TASK": "1",
        "STAND_IN_LOG": str(asked),
    }

    def job(signal_when=None):
        """Run a job, and return its status and what it printed."""
        said = tmp_path / "said.txt"
        command = ["bash", str(RECIPES / "slurm.sh"), "study.yaml", "out"]
        with said.open("w") as file:
            process = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=file, stderr=file)
            started = set()
            while process.poll() is None:
                started |= set(psutil.Process(process.pid).children(recursive=True))
                if signal_when is not None and signal_when():
                    process.send_signal(signal.SIGTERM)
                    signal_when = None
                time.sleep(0.1)
        for left in started:  # what a job leaves on its nodes ends with it: SLURM sees to that
            with suppress(psutil.NoSuchProcess):
                left.kill()
        psutil.wait_procs(started, timeout=60)
        return process.returncode, said.read_text()

    manifest = tmp_path / "out" / "scaffold-seed0" / "checkpoint" / "manifest.json"
    status, said = job(manifest.is_file)
    assert status == 130, said
    assert "resume with: rayfed resume out" in said
    starts = [line for line in asked.read_text().splitlines() if " ray start " in line]
    assert ["--head" in line for line in starts] == [True, False]
    assert ["nodelist=first" in line for line in starts] == [True, False]

    status, said = job()
    assert status == 0, said
    rayfed.run(STUDY | {"clock": "virtual", "executor": "serial"}, out=tmp_path / "serial")
    assert_same(tmp_path / "serial", tmp_path / "out")
