"""What may happen to a study while it runs, or to its folder between two attempts.

A fault is a function that takes a `Study` in its folder on, until the fault or to the end. All of
them are found by their names in `FAULTS`; where they strike is drawn as a share of what an
undisturbed run does.
"""

from __future__ import annotations

import shutil
import signal
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.core.leases import LOCK
from rayfed.engine.run import Run
from rayfed.executors.base import Executor
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.backend import ProgressDisplay, RunProgress
from rayfed.runs.files.afterwards import complete
from rayfed.runs.resume import adopt
from rayfed.runs.serial import SerialStudy
from rayfed.study.plan.controller import replayed
from rayfed.study.plan.plan import Plan
from rayfed.testing.checks.common import require
from tests.chaos.dice import Dice
from tests.chaos.hosts import ChangingCluster, LosingHosts
from tests.chaos.processes import RAYS, Running, set_executor
from tests.fakes.cluster import no_ray
from tests.fakes.disk import Disk, Down, ForgetfulDisk

_KEPT = ("scenario.yaml", LOCK)  # of the user, or without content
_LONGEST_FULL = 60  # file operations
_IN_USE = ("another process is running this study", "this program is running the study")


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
        outcome = api.settled(self.plan, self.folder)
        runs = replayed(self.plan.study, adopt(self.folder, runs))  # changes by rules, too
        waiting = [run for run in runs if run.folder not in outcome]
        study = SerialStudy(self.folder, executor)
        outcome |= study.execute(
            waiting, self.plan.tables, True, report or (lambda progress, outcome: None)
        )
        for run in runs:
            if outcome.get(run.folder) == "finished":
                complete(run, self.plan.tables, self.folder / run.folder)
        return outcome

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
    """Tear, empty, change, replace or delete files, or add stray ones.

    One file in half of the cases, up to four in most others, or all files of a folder.
    """
    files = sorted(
        path for path in attempt.folder.rglob("*") if path.is_file() and path.name not in _KEPT
    )
    if not files:
        return
    draw = np.random.default_rng([int(share * 2**32) for share in (fault.at, fault.how)])
    first, many = files[int(fault.at * len(files))], draw.random()
    others = [files[k] for k in draw.integers(0, len(files), size=int(draw.integers(1, 4)))]
    if many < 0.5:
        others = []
    elif many > 0.9:
        others = [path for path in files if path.parent == first.parent]
    _damage(first, fault.how)
    for path in others:
        if path.exists():  # it may be among them twice
            _damage(path, draw.random())


def _damage(path: Path, how: float) -> None:
    """Damage a file."""
    content = path.read_bytes()
    middle = len(content) // 2
    match int(how * 7):
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


def twice(attempt: Attempt, fault: Fault) -> None:
    """Resume the study a second time while it goes on, which has to be refused."""
    total = sum(run.ending.rounds for run in attempt.plan.runs)
    second = _Second(attempt.folder, 1 + int(fault.at * total))
    resumed(attempt.folder, second)
    refused = second.said is None or any(said in second.said for said in _IN_USE)
    require(refused, f"a second resume: {second.said}")


def resumed(folder: Path, watch: ProgressDisplay | None = None, *, accept: bool = False) -> None:
    """Resume a study as users do, in this process; that runs fail is a result like others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        api.resume(folder, watch=watch or ProgressDisplay(), page=False, accept_changes=accept)


class _Second(ProgressDisplay):
    """Resumes a study when another resume of it has reported so often."""

    def __init__(self, folder: Path, at: int) -> None:
        self.folder, self.left = folder, at
        self.said: str | None = None

    def runs(self, progress: Mapping[str, RunProgress], outcome: Mapping[str, str]) -> None:
        self.left -= 1
        if self.left == 0:
            self.said = "it was not refused"
            try:
                resumed(self.folder)
            except ScenarioError as error:
                self.said = str(error)


def process(attempt: Attempt, fault: Fault) -> None:
    """Kill a process of its own that runs the study, with signal 9."""
    with _resuming(attempt.folder) as study:
        study.begun()
        time.sleep(0.2 * fault.at)
        study.strike("main", signal.SIGKILL)


def _resuming(folder: Path) -> Running:
    return Running.rayfed(folder, "resume", str(folder), "--no-page")


def servers(attempt: Attempt, fault: Fault) -> None:
    """Kill a server, a driver or a client actor of Ray while it runs the study."""
    before = set_executor(attempt.folder, {"name": "ray", "clients_per_actor": 1})
    with _resuming(attempt.folder) as study:
        study.begun()
        time.sleep(fault.at)
        study.strike(RAYS[int(fault.how * len(RAYS))], signal.SIGKILL)
        study.wait()
    set_executor(attempt.folder, before)


FAULTS: Mapping[str, Callable[[Attempt, Fault], None]] = {
    each.__name__: each
    for each in (damage, full, host, kill, nodes, power, process, servers, stop, twice)
}
"""What can happen, by name."""
WEIGHTS = {"kill": 3.0, "power": 2.0, "full": 1.5, "damage": 2.0, "process": 0.01, "servers": 0.005}
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
