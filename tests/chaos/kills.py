"""Real kills of studies that change their executor: ``python -m tests.chaos.kills``.

Studies run in processes of their own, stretched by a wall clock. Their main process, a worker, a
driver, a client actor or a server of Ray gets a signal at a random moment. Then each goes on under
another executor, until it ends, and must have recorded what it records undisturbed. Nothing is
killed but what this command has started.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from rayfed.testing.compare import assert_same_results
from tests.chaos.processes import SIGNALS, Running, set_executor

EXECUTORS: Mapping[str, Any] = {
    "serial": {"name": "serial"},
    "workers": {"name": "workers", "workers": 2},
    "ray, 1 client to an actor": {"name": "ray", "clients_per_actor": 1},
    "ray, an actor to a CPU": {"name": "ray"},
}
"""What runs a study, by name."""
_LATEST_S = 4.0  # after a run began
_MOST_MISSED = 3
_INTERRUPTED = 130
_WALL = {"name": "wall", "scale": 0.05}
_LOCAL = {"steps": 3, "batch": 4, "lr": 0.05}
_BASE: Mapping[str, Any] = {
    "seeds": [0, 1],
    "rounds": 14,
    "problem": {
        "name": "softmax-regression", "test": 0.25, "l2": 1e-3,
        "dataset": {"name": "synthetic", "features": 5, "classes": 3, "samples": 12},
    },
    "clients": {
        "count": 6,
        "delay": {"name": "lognormal", "mean_s": 1.0, "sigma": 0.5},
        "network": {"down_mbps": 20, "up_mbps": 5},
        "availability": {"name": "cyclic", "groups": 2, "period_s": 30},
    },
    "participation": {"cohort": 3, "deadline_s": 60},
    "checkpoint": {"every_s": 0.2},
    "clock": _WALL,
    "executor": "serial",
}  # fmt: skip


def studies() -> dict[str, dict[str, Any]]:
    """Return the scenarios: methods with memories, a network, and methods without rounds."""

    def methods(*names: str) -> list[dict[str, Any]]:
        return [{"name": name, "local": dict(_LOCAL)} for name in names]

    model = {"name": "rayfed.testing.modules:Small", "dropout": 0.25}
    data = _BASE["problem"]["dataset"]
    return {
        "memories": {**_BASE, "name": "memories", "algorithms": methods("scaffold", "ditto")},
        "network": {
            **_BASE, "name": "network", "algorithms": methods("fedavg", "mifa"),
            "problem": {"name": "network", "model": model, "test": 0.25, "dataset": data},
        },
        "arrivals": {
            **_BASE, "name": "arrivals", "rounds": 50, "algorithms": methods("fedbuff", "fedasync"),
            "participation": {"cohort": 3, "timeout_s": 60},
        },
    }  # fmt: skip


@dataclass(frozen=True)
class Kill:
    """What is killed.

    Parameters
    ----------
    executor : str
        A key of `EXECUTORS`.
    victim : str
        As in `Running.strike`.
    number : str
        A key of `SIGNALS`.
    """

    executor: str
    victim: str
    number: str

    def __str__(self) -> str:
        return f"{self.executor}: {self.victim}, SIG{self.number.upper()}"


def kinds() -> list[Kill]:
    """Return all kinds of kills."""
    on_ray = [name for name in EXECUTORS if name.startswith("ray")]
    mains = list(product(EXECUTORS, ["main"], SIGNALS))
    workers = [("workers", "worker", number) for number in ("kill", "term")]
    rays = list(product(on_ray, ["driver", "client", "raylet", "gcs"], ["kill"]))
    return [Kill(*kind) for kind in (*mains, *workers, *rays)]


def in_turn(rng: random.Random, number: int) -> list[Kill]:
    """Return so many kills: each kind as often, in a random order, each under another executor."""
    every = kinds()
    left = [every[k % len(every)] for k in range(number)]
    ordered: list[Kill] = []
    while left:
        before = ordered[-1].executor if ordered else None
        others = [kill for kill in left if kill.executor != before] or left
        ordered.append(rng.choice(others))
        left.remove(ordered[-1])
    return ordered


@dataclass
class Tally:
    """What was done and found.

    Parameters
    ----------
    kills : Counter of Kill
    missed : Counter of Kill
        Signals after which a study ended as if there had been none.
    resumes : Counter of (str, str)
        The executor before a resume, and the one that went on.
    ends : Counter of str
        Studies that ended with the bytes of undisturbed ones.
    findings : list of str
    """

    kills: Counter[Kill] = field(default_factory=Counter)
    missed: Counter[Kill] = field(default_factory=Counter)
    resumes: Counter[tuple[str, str]] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Yield tables of all counts, then the findings."""
        yield f"{sum(self.kills.values())} kills"
        for kill, count in sorted(self.kills.items(), key=lambda item: str(item[0])):
            yield f"  {count:3d}  {kill}"
        changed = sum(count for (one, two), count in self.resumes.items() if one != two)
        yield f"{sum(self.resumes.values())} resumes, {changed} of them under another executor"
        for (before, then), count in sorted(self.resumes.items()):
            yield f"  {count:3d}  {before} -> {then}"
        yield f"{sum(self.ends.values())} studies ended with the bytes of undisturbed ones"
        for name, count in sorted(self.ends.items()):
            yield f"  {count:3d}  {name}"
        yield f"{len(self.findings)} findings"
        yield from self.findings


class Campaign:
    """Kills studies, one after the other, until all kills have happened.

    Parameters
    ----------
    home : Path
        A folder for results.
    rng : random.Random
        Decides about the kills, and when they come.
    """

    def __init__(self, home: Path, rng: random.Random) -> None:
        self.home, self.rng = home, rng
        self.tally = Tally()
        self.calm: dict[str, Path] = {}

    def run(self, kills: Sequence[Kill]) -> Tally:
        """Do so many kills, and end the last study."""
        # where this was started in the background, its children would ignore Ctrl-C, too
        signal.signal(signal.SIGINT, signal.default_int_handler)
        waiting, number = list(kills), 0
        names = list(studies())
        while waiting:
            self._study(names[number % len(names)], self.home / f"killed-{number}", waiting)
            number += 1
        return self.tally

    def _study(self, name: str, folder: Path, waiting: list[Kill]) -> None:
        """Run a study to its end, killed as often as there is time for it."""
        file = self.home / f"{name}.yaml"
        calm = self._undisturbed(name, file)
        words = ["run", str(file), "--out", str(folder)]
        before: str | None = None
        while True:
            kill = waiting[0] if waiting else None
            executor = kill.executor if kill else self._another(before)
            if before is None:
                scenario = studies()[name] | {"executor": EXECUTORS[executor]}
                file.write_text(yaml.safe_dump(scenario), encoding="utf-8")
            else:
                set_executor(folder, EXECUTORS[executor])
                self.tally.resumes[before, executor] += 1
            status = self._attempt(folder, words, kill, waiting)
            if status == 0:
                break
            if kill is None:
                self.tally.findings.append(f"{name} under {executor} ended with status {status}")
                return
            begun = (folder / "scenario.yaml").is_file()
            words = ["resume", str(folder)] if begun else words
            before = executor if begun else None
        try:
            assert_same_results(calm, folder)
            self.tally.ends[name] += 1
        except AssertionError as error:
            self.tally.findings.append(f"{folder}: {error}")

    def _attempt(
        self, folder: Path, words: list[str], kill: Kill | None, waiting: list[Kill]
    ) -> int | None:
        """Run a study until it ends, by a kill or by itself; return its exit status."""
        struck = False
        with Running.rayfed(folder, *words) as study:
            if kill is not None and study.begun():
                time.sleep(self.rng.uniform(0, _LATEST_S))
                struck = study.strike(kill.victim, SIGNALS[kill.number])
            status, said = study.wait(), study.said
            left = study.left()
        if struck and kill is not None:
            missed = kill.victim == "main" and status == 0  # it was at its end, or did not listen
            self.tally.missed[kill] += missed
            if missed and self.tally.missed[kill] < _MOST_MISSED:
                return status
            waiting.remove(kill)
            self.tally.kills[kill] += not missed
            wrong = [*_wrong(kill, status, said), *(f"{line} is left" for line in left)]
            self.tally.findings += [f"{kill}: {line}" for line in wrong]
            print(f"{kill} -> status {status} {_last(said)}", flush=True)
        return status

    def _another(self, before: str | None) -> str:
        return self.rng.choice([name for name in EXECUTORS if name != before])

    def _undisturbed(self, name: str, file: Path) -> Path:
        """Return the results of a study that nobody disturbs."""
        if name not in self.calm:
            out = self.calm[name] = self.home / name
            file.write_text(yaml.safe_dump(studies()[name]), encoding="utf-8")
            with Running.rayfed(out, "run", str(file), "--out", str(out)) as study:
                status, said = study.wait(), study.said
            if status != 0:
                raise RuntimeError(f"{name} ended with status {status}: {said}")
        return self.calm[name]


def _wrong(kill: Kill, status: int | None, said: str) -> Iterator[str]:
    """Yield what is wrong with the end of a study that was struck."""
    if "Traceback" in said:
        yield f"it says {said!r}"
    if status is None:
        yield "it does not end"
    elif kill.victim == "main":
        if status != (-SIGNALS["kill"] if kill.number == "kill" else _INTERRUPTED):
            yield f"its status is {status}: {_last(said)}"
    elif kill.victim in ("raylet", "gcs"):
        if status not in (0, 1):
            yield f"its status is {status}: {_last(said)}"
    elif status != 0:  # workers and actors are replaced
        yield f"its status is {status}: {_last(said)}"


def _last(said: str) -> str:
    return (said.strip().splitlines() or [""])[-1][:160]


def main(given: Sequence[str] | None = None) -> int:
    """Kill studies; return 1 if anything was found."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.kills", description="Kill studies, and resume them."
    )
    parser.add_argument("--number", "-n", type=int, default=60, help="kills (default: 60)")
    parser.add_argument("--seed", type=int, help="of the kills (default: any, printed)")
    options = parser.parse_args(given)
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    os.environ.pop("RAY_ADDRESS", None)
    rng, begun = random.Random(seed), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kills-") as home:
        tally = Campaign(Path(home), rng).run(in_turn(rng, options.number))
    print("\n".join(tally.lines()))
    print(f"{time.monotonic() - begun:.0f} s")
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())
