"""The dashboard over many runs: ``python -m benchmarks.dashboard [PART...]``.

``views``: a study of 1,000 runs is made of one that was run. Printed are the seconds to the first
view of the overview and to a change of what is compared. ``looks``: the memory of a process before
and after twelve hours of looks, one a second, simulated. ``slowed``: what an open dashboard costs a
study of 40 runs on two workers, with and without it in turn. ``cases``: the same for a study of
four algorithms by cases whose Compare is open (3 levels of skew and 3 seeds, 36 runs; with
``--levels 15 --seeds 5`` 300 runs), with the server's share of the processor time of the study,
which other load changes less; and the seconds to its first view and to a change of one run.
``events``: a run of 1,000 clients with ten million rows of events is made of one that was run;
printed are the seconds to views of it and to single clients, and the memory of the server. Without
a part all are measured.
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
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import rayfed
from rayfed.core.entries import Entry, sealed
from rayfed.core.parquet import read
from rayfed.dashboard.catalogue import Catalogue
from rayfed.dashboard.server import REST
from rayfed.dashboard.views import VIEWS
from rayfed.runs.files import summaries

_LOOKS = 12 * 3600
EVENTS = 10_000_000
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
    options = ["--port", "0", "--no-open", "--no-token"]
    command = [sys.executable, "-m", "rayfed", "dashboard", str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split()[1]
        try:
            yield address, psutil.Process(server.pid)
        finally:
            server.terminate()


def taken(address: str, process: psutil.Process) -> str:
    """Return the seconds until an address is read, and those of a processor at the server."""
    began, before = perf_counter(), process.cpu_times()
    _read(address)
    clock, after = perf_counter() - began, process.cpu_times()
    spent = after.user + after.system - before.user - before.system
    return f"{clock:.2f} s ({spent:.2f} s of a processor)"


def _read(address: str) -> float:
    """Read an address; return the seconds after which a tab may ask again."""
    with urllib.request.urlopen(address) as answer:
        answer.read()
        return float(answer.headers.get(REST, 0.0))


def views(folder: Path, runs: int) -> None:
    """Print how long views of many runs take, and the memory of the server."""
    with served(folder) as (address, process):
        print(f"{runs} runs: overview {taken(address, process)}")
        print(f"overview again {taken(address, process)}")
        for count in (2, 6):
            query = "&".join(f"run={folder.name}/fedavg-run{k}-seed0" for k in range(count))
            for when in ("", " again"):
                spent = taken(f"{address}compare.json?{query}", process)
                print(f"compare {count} of them{when}: {spent}")
        print(f"the server holds {process.memory_info().rss / 1e6:.0f} MB")


def looks(folder: Path) -> None:
    """Print the memory of a process before and after twelve hours of looks at one study."""
    rayfed.run(SCENARIO, out=folder / "one", page=False)
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


def _seconds(out: Path, scenario: dict[str, Any] | None = None) -> float:
    scenario = scenario or SCENARIO | {"rounds": 200, "seeds": [*range(40)]}
    began = perf_counter()
    rayfed.run(scenario, out=out, overrides=["executor=workers"], page=False, watch=False)
    return perf_counter() - began


def cases(folder: Path, levels: int, seeds: int, pairs: int) -> None:
    """Print how much an open Compare of a study by cases slows it, and what its views take."""
    local = {"steps": 20, "batch": 32, "lr": 0.1}
    names = ("fedavg", "fedexp", "scaffold", "fednova")
    scenario = SCENARIO | {
        "partition": {"name": "dirichlet", "alpha": 0.1},
        "grid": {"partition.alpha": [round(0.1 * level, 1) for level in range(1, levels + 1)]},
        "seeds": [*range(seeds)],
        "algorithms": [{"name": name, "local": local} for name in names],
    }
    ratios, shares, runs = [], [], len(names) * levels * seeds
    for number in range(pairs):
        alone = _seconds(folder / f"alone{number}", scenario)
        out = folder / f"watched{number}"
        out.mkdir()
        view = f"compare.json?study={out.name}/study"
        with served(out) as (address, process), _listening(address, view):
            started, before = _processor(process.cpu_times()), _processor(os.times())
            watched = _seconds(out / "study", scenario)
            used, spent = _processor(process.cpu_times()) - started, _processor(os.times()) - before
        ratios.append(watched / alone)
        shares.append(used / spent)
        print(f"{runs} runs by cases: {alone:.1f} s, with Compare open {watched:.1f} s; ", end="")
        print(
            f"of a processor the study took {spent:.1f} s and the server {used:.1f} s", flush=True
        )
    text = (
        f"{median(ratios):.2f} times as long, the server {median(shares):.1%} of its processor time"
    )
    print(f"{runs} runs by cases with Compare open: {text}")
    changes(folder / "alone0")


def _processor(times: Any) -> float:
    """Return the seconds of a processor that a process took, and its ended children."""
    parts = ("user", "system", "children_user", "children_system")
    return float(sum(getattr(times, part) for part in parts))


def changes(study: Path) -> None:
    """Print what the first view of a study takes, the same again, and one of a changed run."""
    with served(study) as (address, process):
        print(f"overview {taken(address, process)}")
        view = f"{address}compare.json?study={study.name}"
        for when in ("first", "again"):
            print(f"compare {when}: {taken(view, process)}")
        for run in sorted(study.glob("*/run.json"))[:3]:
            os.utime(run)
            print(f"compare after a change of a run: {taken(view, process)}")
        print(f"the server holds {process.memory_info().rss / 1e6:.0f} MB")


@contextmanager
def _listening(address: str, view: str = "overview.json") -> Iterator[None]:
    """Do what an open tab of a view does."""
    ended = threading.Event()

    def follow() -> None:
        with suppress(OSError), urllib.request.urlopen(f"{address}events") as stream:
            while not ended.is_set():
                if stream.readline().startswith(b"data"):
                    with suppress(urllib.error.HTTPError):  # the study has not begun
                        ended.wait(_read(address + view))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    sleep(0.5)
    yield
    ended.set()


def events(folder: Path) -> None:
    """Print how long views of a run with ten million rows of events take."""
    clients = {"count": 1000, "delay": {"name": "lognormal", "mean_s": 1.0, "sigma": 0.5}}
    local = {"steps": 1, "batch": 4, "lr": 0.1}
    changes = {
        "rounds": 20, "clients": clients, "participation": {"cohort": 1000},
        "algorithms": [{"name": "fedavg", "local": local}],
    }  # fmt: skip
    rayfed.run(SCENARIO | changes, out=folder / "large", page=False)
    (run,) = (folder / "large").glob("*-seed0")
    _repeat(run, EVENTS // (20 * 1000))
    with served(folder / "large") as (address, process):
        print(f"{EVENTS:,} rows of events: overview {taken(address, process)}")
        for view in VIEWS:
            print(f"{view}: {taken(f'{address}{view}?study=large', process)}")
            print(f"{view} again: {taken(f'{address}{view}.json?study=large', process)}")
        for client in (7, 512):
            query = f"run=large/{run.name}&client={client}"
            print(f"client {client}: {taken(f'{address}client.json?{query}', process)}")
        print(f"the server holds {process.memory_info().rss / 1e6:.0f} MB")


def _repeat(run: Path, times: int) -> None:
    """Let the rows of a run come again and again, later each time, as one that goes on has them."""
    held = json.loads((run / "run.json").read_text())
    rounds, tasks = read(run / "rounds.parquet"), read(run / "events.parquet")
    many_rounds, span = rounds.num_rows - 1, rounds["time_s"][-1].as_py()
    for name, table, skipped in (("rounds", rounds, 1), ("events", tasks, 0)):
        (part,) = (run / f"{name}.parquet").iterdir()
        whole = part.with_suffix(".new")
        with pq.ParquetWriter(whole, table.schema) as writer:
            writer.write_table(table)
            for k in range(1, times):
                writer.write_table(_later(table.slice(skipped), k * many_rounds, k * span))
        whole.replace(part)
    summaries.finish(run, held)
    for name, entry in held["files"].items():
        rows = None if entry["rows"] is None else pq.read_metadata(run / name).num_rows
        held["files"][name] = vars(Entry.of(run / name, rows))
    held["rounds"] = many_rounds * times
    (run / "run.json").write_text(json.dumps(sealed(held)))


def _later(table: pa.Table, rounds: int, seconds: float) -> pa.Table:
    """Return rows so many rounds and simulated seconds later."""
    moved: dict[str, Any] = {"round": rounds, "time_s": seconds, "start_s": seconds}
    for name, by in (moved | {"end_s": seconds}).items():
        if name in table.column_names:
            values = table[name].to_numpy() + by
            place = table.column_names.index(name)
            field = table.schema.field(name)
            table = table.set_column(place, field, pa.array(values))
    return table


def main() -> None:
    """Print what is asked for, or all of it."""
    parser = argparse.ArgumentParser(description="What the dashboard takes over many runs.")
    parts = ("views", "looks", "slowed", "cases", "events")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--levels", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    asked = {
        "views": lambda folder: views(many(folder, given.runs), given.runs),
        "looks": looks,
        "slowed": lambda folder: slowed(folder, given.pairs),
        "cases": lambda folder: cases(folder, given.levels, given.seeds, given.pairs),
        "events": events,
    }
    for part in given.parts or asked:
        with tempfile.TemporaryDirectory() as place:
            asked[part](Path(place))


if __name__ == "__main__":
    main()
