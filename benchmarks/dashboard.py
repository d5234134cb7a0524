"""The dashboard over many runs: ``python -m benchmarks.dashboard``.

A study of 1,000 runs is made of one that was run. Printed are the seconds to the first view of the
overview and to a change of what is compared, the memory of the server before and after twelve hours
of looks (one a second, simulated), and what an open dashboard costs a study of 40 runs on two
workers, with and without it in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from time import perf_counter, sleep

import psutil

import rayfed
from rayfed.core.entries import sealed
from rayfed.dashboard.catalogue import Catalogue

_LOOKS = 12 * 3600
SCENARIO = {
    "name": "many",
    "rounds": 60,
    "problem": {"name": "logistic-regression", "dataset": "mushroom", "test": 0.2},
    "clients": {"count": 20, "delay": {"name": "lognormal", "mean_s": 1.0, "sigma": 0.5}},
    "participation": {"cohort": 5},
    "algorithms": [{"name": "fedavg", "local": {"steps": 20, "batch": 32, "lr": 0.1}}],
    "executor": "serial",
}


def many(folder: Path, runs: int) -> Path:
    """Make a study of many runs, which share the files of one, and return its folder."""
    rayfed.run(SCENARIO, out=folder / "one", page=False)
    return copied(folder / "one", folder / "many", runs)


def copied(one: Path, study: Path, settings: int) -> Path:
    """Make a study in which every run of another one is there once for each of many settings."""
    study.mkdir()
    shutil.copy(one / "scenario.yaml", study)
    for first in sorted(one.glob("*-seed*")):
        held = json.loads((first / "run.json").read_text())
        for number in range(settings):
            run = study / first.name.replace("-seed", f"-run{number}-seed")
            shutil.copytree(first, run, copy_function=os.link)
            (run / "run.json").unlink()
            text = json.dumps(sealed({**held, "setting": f"lr={number}"}))
            (run / "run.json").write_text(text)
    return study


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Serve a dashboard in a process of its own; yields its address and the process."""
    command = [sys.executable, "-m", "rayfed", "dashboard", str(folder), "--port", "0", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split()[1]
        try:
            yield address, psutil.Process(server.pid)
        finally:
            server.terminate()


def taken(address: str) -> float:
    """Return the seconds until an address is read."""
    began = perf_counter()
    with urllib.request.urlopen(address) as answer:
        answer.read()
    return perf_counter() - began


def views(folder: Path, runs: int) -> None:
    """Print how long views of many runs take, and the memory of the server."""
    with served(folder) as (address, process):
        print(f"{runs} runs: overview {taken(address):.2f} s, again {taken(address):.2f} s")
        for count in (2, 6):
            query = "&".join(f"run={folder.name}/fedavg-run{k}-seed0" for k in range(count))
            spent = median(taken(f"{address}compare.json?{query}") for _ in range(3))
            print(f"compare {count} of them: {spent:.2f} s")
        print(f"the server holds {process.memory_info().rss / 1e6:.0f} MB")


def looks(folder: Path) -> None:
    """Print the memory of a process before and after twelve hours of looks at one study."""
    catalogue, process = Catalogue([folder / "one"]), psutil.Process()
    for _ in range(100):
        catalogue.look()
    before = process.memory_info().rss
    for _ in range(_LOOKS):
        catalogue.look()
    grown = (process.memory_info().rss - before) / 1e6
    print(f"{_LOOKS:,} looks: {grown:.1f} MB more")


def slowed(folder: Path, pairs: int) -> None:
    """Print how much longer a study takes whose dashboard is open, in pairs."""
    ratios = []
    for number in range(pairs):
        alone = _seconds(folder / f"alone{number}")
        out = folder / f"watched{number}"
        out.mkdir()
        with served(out) as (address, _), _listening(address):
            watched = _seconds(out / "study")
        ratios.append(watched / alone)
    print(f"40 runs on two workers with the dashboard open: {median(ratios):.2f} times as long")


def _seconds(out: Path) -> float:
    changes = ["rounds=200", "executor=workers", f"seeds={list(range(40))}"]
    began = perf_counter()
    rayfed.run(SCENARIO, out=out, overrides=changes, page=False, watch=False)
    return perf_counter() - began


@contextmanager
def _listening(address: str) -> Iterator[None]:
    """Do what an open tab of the overview does."""
    ended = threading.Event()

    def follow() -> None:
        with suppress(OSError), urllib.request.urlopen(f"{address}events") as stream:
            while not ended.is_set():
                if stream.readline().startswith(b"data"):
                    taken(f"{address}overview.json")

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    sleep(0.5)
    yield
    ended.set()


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description="What the dashboard takes over many runs.")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        views(many(folder, given.runs), given.runs)
        looks(folder)
        slowed(folder, given.pairs)


if __name__ == "__main__":
    main()
