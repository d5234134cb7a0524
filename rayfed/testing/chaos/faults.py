"""What may happen to a study while it runs, or to its folder between two attempts.

A fault is a function that takes a `Study` in its folder on, until the fault or to the end. All of
them are found by their names in `FAULTS`; where they strike is drawn as a share of what an
undisturbed run does.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rayfed.engine.run import Run
from rayfed.executors.base import Executor
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.backend import RunProgress
from rayfed.runs.folder import LOCK
from rayfed.runs.outcome import ended
from rayfed.runs.serial import SerialStudy
from rayfed.study.plan import Plan
from rayfed.testing.chaos.dice import Dice
from rayfed.testing.chaos.hosts import ChangingCluster, LosingHosts
from rayfed.testing.cluster import no_ray
from rayfed.testing.disk import Disk, Down, ForgetfulDisk

_KEPT = ("scenario.yaml", LOCK)  # of the user, or without content
_LONGEST_FULL = 60  # file operations
_PATIENCE_S = 120.0


@dataclass(frozen=True)
class Fault:
    """What happens, and where.

    Parameters
    ----------
    kind : str
        A key of `FAULTS`.
    at : float
        Share in [0, 1) of the file operations, exchanges, rounds or files.
    how : float
        Share in [0, 1) that decides how: how long a disk is full, how a file is damaged.
    """

    kind: str
    at: float
    how: float


@dataclass(frozen=True)
class Attempt:
    """A study in its folder, which may have been begun before.

    Parameters
    ----------
    plan : Plan
    folder : Path
        With the scenario.
    operations : int
        File operations of an undisturbed execution.
    """

    plan: Plan
    folder: Path
    operations: int

    def execute(
        self,
        executor: Callable[[Mapping[str, Any]], Executor] = SerialExecutor,
        report: Callable[[Mapping[str, RunProgress], Mapping[str, str]], None] | None = None,
        runs: Sequence[Run] | None = None,
    ) -> dict[str, str]:
        """Go on with the runs that have not ended, and return the outcome of all."""
        runs = self.plan.runs if runs is None else runs
        outcome = ended(self.folder, [run.folder for run in runs])
        waiting = [run for run in runs if run.folder not in outcome]
        study = SerialStudy(self.folder, executor)
        return outcome | study.execute(
            waiting, self.plan.tables, True, report or (lambda progress, outcome: None)
        )

    def share(self, at: float) -> int:
        """Return the number of a file operation, from 1."""
        return 1 + int(at * self.operations)


def kill(attempt: Attempt, fault: Fault) -> None:
    """Let the process die at a file operation."""
    with suppress(Down), Disk(down_at=attempt.share(fault.at)).patched():
        attempt.execute()


def power(attempt: Attempt, fault: Fault) -> None:
    """Let the machine go down at a file operation; what was not synced is gone."""
    disk = ForgetfulDisk(attempt.folder, attempt.share(fault.at))
    with suppress(Down), disk.patched():
        attempt.execute()
    after = attempt.folder.with_name(f"{attempt.folder.name}.after")
    disk.restore(after)
    shutil.rmtree(attempt.folder)
    after.rename(attempt.folder)


def full(attempt: Attempt, fault: Fault) -> None:
    """Let the disk be full for a while."""
    first = attempt.share(fault.at)
    with Disk(full=range(first, first + 1 + int(fault.how * _LONGEST_FULL))).patched():
        attempt.execute()


def stop(attempt: Attempt, fault: Fault) -> None:
    """Press Ctrl-C after a round."""
    rounds = max(run.ending.rounds for run in attempt.plan.runs)
    left = [1 + int(fault.at * rounds * len(attempt.plan.runs))]

    def report(progress: Mapping[str, RunProgress], outcome: Mapping[str, str]) -> None:
        left[0] -= 1
        if left[0] == 0:
            signal.raise_signal(signal.SIGINT)

    with suppress(KeyboardInterrupt):
        attempt.execute(report=report)


def host(attempt: Attempt, fault: Fault) -> None:
    """Lose the host of the clients at an exchange; the driver replays by itself."""
    rounds = max(run.ending.rounds for run in attempt.plan.runs)
    lost_at = 1 + int(fault.at * 3 * rounds)  # a round exchanges with clients, its row too
    attempt.execute(lambda tables: LosingHosts(SerialExecutor(tables), lost_at))


def nodes(attempt: Attempt, fault: Fault) -> None:
    """Let nodes of a cluster come and go, and actors start anew, while the study runs."""
    rounds = max(run.ending.rounds for run in attempt.plan.runs)
    draw = np.random.default_rng([int(share * 2**32) for share in (fault.at, fault.how)])
    at = draw.integers(1, 3 * rounds + 1, size=1 + int(5 * fault.how)).tolist()
    changes = {number: tuple(draw.random(2).tolist()) for number in at}
    clients = attempt.plan.clients
    with no_ray():
        attempt.execute(lambda tables: ChangingCluster(tables, clients, changes))


def damage(attempt: Attempt, fault: Fault) -> None:
    """Tear, empty, change, replace or delete a file, or add a stray one."""
    files = sorted(
        path for path in attempt.folder.rglob("*") if path.is_file() and path.name not in _KEPT
    )
    if not files:
        return
    path = files[int(fault.at * len(files))]
    content = path.read_bytes()
    middle = len(content) // 2
    match int(fault.how * 7):
        case 0:
            path.write_bytes(content[:middle])
        case 1:
            path.write_bytes(b"")
        case 2 if content:
            flipped = bytes([content[middle] ^ 1])
            path.write_bytes(content[:middle] + flipped + content[middle + 1 :])
        case 3:
            path.write_bytes(b"[]")
        case 4:
            path.with_name("stray.txt").write_bytes(b"?")
        case 5:
            path.with_name("stray").mkdir(exist_ok=True)
        case _:
            path.unlink()


def process(attempt: Attempt, fault: Fault) -> None:
    """Kill a process of its own that runs the study, with signal 9."""
    words = [sys.executable, "-m", "rayfed", "resume", str(attempt.folder)]
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + _PATIENCE_S
    try:
        while running.poll() is None and time.monotonic() < end:
            if any(attempt.folder.glob("*/run.json")):
                time.sleep(0.2 * fault.at)
                break
            time.sleep(0.001)
    finally:
        running.kill()
        running.wait()


FAULTS: Mapping[str, Callable[[Attempt, Fault], None]] = {
    each.__name__: each for each in (damage, full, host, kill, nodes, power, process, stop)
}
"""What can happen, by name."""
WEIGHTS = {"kill": 3.0, "power": 2.0, "full": 1.5, "damage": 2.0, "process": 0.01}
"""How often it does, in place of 1."""


def drawn(dice: Dice) -> tuple[Fault, ...]:
    """Return one to three faults, one after the other."""
    count = 1 + dice.chance(0.35) + dice.chance(0.15)
    return tuple(
        Fault(dice.one_of(FAULTS, WEIGHTS), dice.share(), dice.share()) for _ in range(count)
    )


def strike(attempt: Attempt, fault: Fault) -> None:
    """Let a fault happen to a study."""
    FAULTS[fault.kind](attempt, fault)
