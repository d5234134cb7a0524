"""One result on every machine: ``python -m benchmarks.machines``.

A study of built-in methods and one of own training code with client state run in one process, on
1, 2 and 16 client actors, on two Ray nodes, and in processes that are killed by signal 9 again and
again and resumed. Each way has one digest over the rounds, events, client tables and models of
all runs. A study that ends before all kills are done starts again and is compared again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import yaml

from benchmarks.plot import bars
from scripts.digests import digest_study

ROOT = Path(__file__).parents[1]
CLIENTS = 16
CODE = Path(__file__).with_name("one_client.py")
SHARED: Mapping[str, Any] = {
    "seeds": [0, 1],
    "evaluate": {"every": 20},
    "clients": {
        "count": CLIENTS,
        "delay": {"name": "lognormal", "mean_s": 1.0, "sigma": 0.5},
        "stragglers": {"fraction": 0.25, "slowdown": 8},
        "availability": {"name": "cyclic", "groups": 2, "rounds": 1},
    },
    "participation": {"cohort": 6, "over_select": 1.5, "deadline_s": 60},
    "checkpoint": {"every_s": 0.05},
}
STUDIES: Mapping[str, Mapping[str, Any]] = {
    "methods": {
        **SHARED,
        "problem": {"name": "logistic-regression", "dataset": "mushroom", "l2": 1e-3},
        "partition": {"name": "dirichlet", "alpha": 0.3},
        "algorithms": [
            {"name": name, "local": {"steps": 5, "batch": 16, "lr": 0.1}}
            for name in ("fedavg", "scaffold", "fedvarp")
        ],
    },
    "own code": {
        **SHARED,
        "problem": {"name": "own-code", "code": CODE.stem},
        "algorithms": [
            {
                "name": "fedavg",
                "local": {"name": "own-train", "steps": 5, "state": {"momentum": 8}},
            }
        ],
    },
}
WAYS: Mapping[str, Any] = {
    "one process": {"name": "serial"},
    **{
        f"{n} client actor{'s' * (n > 1)}": {"name": "ray", "clients_per_actor": CLIENTS // n}
        for n in (1, 2, 16)
    },
    "two nodes": {"name": "ray", "clients_per_actor": CLIENTS // 2},
}
NODES = """
import sys
import rayfed
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
cluster.add_node(num_cpus=1)
rayfed.run(sys.argv[1], out=sys.argv[2], address=cluster.address, page=False)
cluster.shutdown()
"""
PATIENCE_S = 600.0


def written(name: str, rounds: int, way: Any, folder: Path) -> Path:
    """Write the scenario file of a study in a new folder, beside its own code."""
    folder.mkdir()
    shutil.copy(CODE, folder)
    file = folder / "study.yaml"
    scenario = {"name": name, "rounds": rounds, **STUDIES[name], "executor": way}
    file.write_text(yaml.safe_dump(scenario), encoding="utf-8")
    return file


def command(*given: str) -> subprocess.Popen[bytes]:
    """Start a Python command on this checkout."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, *given],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.DEVNULL,
    )


def finished(process: subprocess.Popen[bytes]) -> None:
    """Wait for a command.

    Raises
    ------
    RuntimeError
        If it fails.
    """
    if process.wait() != 0:
        raise RuntimeError(f"{process.args!r}: exit status {process.returncode}")


def digest(folder: Path) -> str:
    """Return one digest of all runs of a result folder."""
    return hashlib.sha256("\n".join(digest_study(folder)).encode()).hexdigest()


def run(name: str, rounds: int, way: str, folder: Path) -> str:
    """Run a study in one way and return its digest."""
    file, out = written(name, rounds, WAYS[way], folder), folder / "out"
    if way == "two nodes":
        finished(command("-c", NODES, str(file), str(out)))
    else:
        finished(command("-m", "rayfed", "run", str(file), "--out", str(out), "--quiet"))
    return digest(out)


def killed(name: str, rounds: int, kills: int, folder: Path, draws: random.Random) -> set[str]:
    """Kill a study so many times, and return the digests of all times that it ended."""
    found, done, time = set[str](), 0, 0
    while done < kills:
        place = folder.with_name(f"{folder.name}-{time}")
        file, out, time = written(name, rounds, WAYS["one process"], place), place / "out", time + 1
        given = ["-m", "rayfed", "run", str(file), "--out", str(out), "--quiet"]
        while done < kills and kill(command(*given), out, draws):
            done += 1
            given = ["-m", "rayfed", "resume", str(out), "--quiet"]
        finished(command("-m", "rayfed", "resume", str(out), "--quiet"))
        found.add(digest(out))
    return found


def kill(process: subprocess.Popen[bytes], out: Path, draws: random.Random) -> bool:
    """Kill a command at a random moment after a checkpoint.

    Returns
    -------
    bool
        False if it ended by itself.

    Raises
    ------
    RuntimeError
        If it fails by itself.
    """
    before, end = checkpoints(out), monotonic() + PATIENCE_S
    try:
        while process.poll() is None and monotonic() < end and checkpoints(out) == before:
            sleep(0.002)
        sleep(draws.uniform(0, 0.1))
        if process.poll() is None:
            return True
    finally:
        process.kill()
        process.wait()
    finished(process)
    return False


def checkpoints(out: Path) -> dict[str, int]:
    """Return the times of the checkpoints of a study."""
    found = {}
    for manifest in out.glob("*/checkpoint/manifest.json"):
        try:
            found[manifest.parts[-3]] = manifest.stat().st_mtime_ns
        except FileNotFoundError:  # the run ended meanwhile
            continue
    return found


def main(given: Sequence[str] | None = None, ways: Sequence[str] = tuple(WAYS)) -> int:
    """Run everything, print the digests, and return 1 where one differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.machines", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="of both studies together (200)")
    parser.add_argument("--rounds", type=int, default=400, help="of a run (400)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    parser.add_argument("--plot", type=Path, help="write the seconds of the ways there, as SVG")
    asked = parser.parse_args(given)
    draws, each = random.Random(asked.seed), asked.kills // len(STUDIES)
    differ, seconds = False, dict[str, dict[str, float]]()
    print("| study | way | seconds | digest |\n|---|---|---:|---|")
    for name in STUDIES:
        first: set[str] = set()
        for way in (*ways, *([f"{each} kills"] if each else ())):
            began = monotonic()
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place) / "study"
                if way in WAYS:
                    found = {run(name, asked.rounds, way, folder)}
                else:
                    found = killed(name, asked.rounds, each, folder, draws)
            taken = monotonic() - began
            first = first or found
            differ |= found != first or len(found) > 1
            texts = ", ".join(f"`{text[:16]}`" for text in sorted(found))
            print(f"| {name} | {way} | {taken:.1f} | {texts} |", flush=True)
            seconds[f"{name}, {way}"] = {"ours": taken}
    print("different digests" if differ else "one digest for each study")
    if asked.plot:
        text = bars(seconds, (("ours", "seconds, the same digest"),))
        asked.plot.write_text(text, encoding="utf-8")
    return int(differ)


if __name__ == "__main__":
    raise SystemExit(main())
