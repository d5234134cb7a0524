"""One result in every placement: ``python -m benchmarks.machines``.

A study of built-in methods and one of own training code with client state run in one process, on
1, 2 and 16 client actors, on two Ray nodes, and in processes that are killed by signal 9 again and
again and resumed: at random moments after a checkpoint, and every second time while one is written.
Each way has one digest over the rounds, events, client tables and models of all runs. A study that
ends before all kills are done starts again and is compared again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

import yaml

import rayfed
from benchmarks.plot import digests
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
MANIFEST = "*/checkpoint/manifest.json"


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


class Kill(NamedTuple):
    """A kill: rounds of all runs in checkpoints, and whether a checkpoint was being written."""

    rounds: int
    writing: bool


def killed(
    name: str, rounds: int, kills: int, folder: Path, draws: random.Random
) -> tuple[set[str], list[Kill]]:
    """Kill a study so many times.

    Returns
    -------
    set of str
        The digests of all times that it ended.
    list of Kill
    """
    found, done, time = set[str](), list[Kill](), 0
    while len(done) < kills:
        place = folder.with_name(f"{folder.name}-{time}")
        file, out, time = written(name, rounds, WAYS["one process"], place), place / "out", time + 1
        going, ended = started(file, out), False
        while len(done) < kills and not ended:
            one = kill(going, out, draws, writing=len(done) % 2 == 1)
            ended = one is None
            done += [] if one is None else [one]
            going = started(None, out)
        going.join()
        ended_well(going)
        found.add(digest(out))
    return found, done


def started(file: Path | None, out: Path) -> BaseProcess:
    """Start a process that runs a scenario file, or resumes a result folder.

    Processes are forks of one that has imported rayfed, so that 200 of them take minutes.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rayfed.api", "rayfed.runs.serial", "rayfed.study.plan.plan"])
    process = context.Process(target=go, args=(file, out))
    process.start()
    return process


def go(file: Path | None, out: Path) -> None:
    """Run a scenario file, or resume a result folder."""
    if file is None:
        rayfed.resume(out, page=False)
    else:
        rayfed.run(file, out=out, page=False)


def ended_well(process: BaseProcess) -> None:
    """Raise RuntimeError if a process failed by itself."""
    if process.exitcode != 0:
        raise RuntimeError(f"exit status {process.exitcode}")


def kill(process: BaseProcess, out: Path, draws: random.Random, *, writing: bool) -> Kill | None:
    """Kill a command at a random moment after a checkpoint, or while the next one is written.

    Returns
    -------
    Kill or None
        None if it ended by itself.

    Raises
    ------
    RuntimeError
        If it fails by itself.
    """
    before, end = checkpoints(out), monotonic() + PATIENCE_S
    try:
        while process.is_alive() and monotonic() < end and checkpoints(out) == before:
            sleep(0.002)
        sleep(draws.uniform(0, 0.5))  # some more checkpoints
        while writing and process.is_alive() and monotonic() < end and not unfinished(out):
            pass  # a file is there for a millisecond
        process.join(0)
        alive = process.is_alive()
    finally:
        process.kill()
        process.join()
    if alive:
        return Kill(sum(map(round_of, out.glob(MANIFEST))), unfinished(out))
    ended_well(process)
    return None


def unfinished(out: Path) -> bool:
    """Return whether some file of a checkpoint has been begun and not been renamed."""
    return any(out.glob("*/checkpoint/*.tmp"))


def round_of(manifest: Path) -> int:
    """Return the round of a checkpoint."""
    return int(json.loads(manifest.read_text(encoding="utf-8"))["round"])


def runs_of(name: str) -> int:
    """Return the number of runs of a study."""
    return len(SHARED["seeds"]) * len(STUDIES[name]["algorithms"])


def checkpoints(out: Path) -> dict[str, int]:
    """Return the times of the checkpoints of a study."""
    found = {}
    for manifest in out.glob(MANIFEST):
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
    parser.add_argument("--plot", type=Path, help="write digests and kills there, as SVG")
    asked = parser.parse_args(given)
    draws, each = random.Random(asked.seed), asked.kills // len(STUDIES)
    differ, table, moments = False, dict[str, dict[str, str]](), dict[str, list[Kill]]()
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
                    found, moments[name] = killed(name, asked.rounds, each, folder, draws)
            taken = monotonic() - began
            first = first or found
            differ |= found != first or len(found) > 1
            texts = ", ".join(f"`{text[:16]}`" for text in sorted(found))
            print(f"| {name} | {way} | {taken:.1f} | {texts} |", flush=True)
            table.setdefault(name, {})[way] = ", ".join(text[:8] for text in sorted(found))
    print("different digests" if differ else "one digest for each study")
    if asked.plot:
        shares = {
            name: [(one.rounds / (asked.rounds * runs_of(name)), one.writing) for one in kills]
            for name, kills in moments.items()
        }
        asked.plot.write_text(digests(table, shares), encoding="utf-8")
    return int(differ)


if __name__ == "__main__":
    raise SystemExit(main())
