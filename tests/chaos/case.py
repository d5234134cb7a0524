"""One case: a scenario, another placement, faults; what became of it, and what it found."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import yaml

from rayfed import api
from rayfed.core.errors import RayfedError
from rayfed.executors.ray_host import RayHost
from rayfed.executors.ray_pool import RayExecutor
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.backend import ProgressDisplay
from rayfed.study.plan.plan import Plan
from rayfed.testing.compare import assert_same_results
from tests.chaos.dice import Dice
from tests.chaos.edits import Edit, drawn_edit, resume_edited
from tests.chaos.ended import Ended
from tests.chaos.faults import Attempt, Fault, drawn, strike
from tests.chaos.hosts import Watched, divided
from tests.chaos.invariants import broken
from tests.chaos.nodes import WALL_S, Change, drawn_changes, run_on_nodes
from tests.chaos.remote import Blow, drawn_blows, run_at_url
from tests.chaos.scenarios import draw
from tests.chaos.together import disagreement, drawn_combination
from tests.chaos.trial import Scenario
from tests.chaos.words import failure_of, reason_of, wordy
from tests.contract.references.combination import Combination
from tests.fakes.cluster import no_ray, pool, stored
from tests.fakes.disk import Disk, Down

LONGEST_S = 60.0
"""Seconds of processor time that a case may take; a busy machine does not stretch them."""
_PATIENCE_S = 300.0  # for another process
_PAGES = 0.03  # of the cases that write the page
_EDITED = 0.25  # of the cases that are resumed after something was changed
_AT_URLS = 0.1  # of the cases that also run in a folder at a URL
_LONGEST_PAGE = 8  # file operations
_RAY = 0.0003  # of the cases that also run on Ray
_TOGETHER = 0.5  # of the cases that also compare a combination with a plain loop


class TooLong(BaseException):
    """A case takes longer than `LONGEST_S`."""


@dataclass(frozen=True)
class Case:
    """What is done.

    Parameters
    ----------
    seed : int
        Which all of it was drawn from.
    scenario : dict
    block : int
        Clients to a stack, in the other placement.
    hosts : float
        Share in [0, 1) that decides among how many actors the clients are divided there.
    faults : tuple of Fault
        One after the other; each begins where the one before left the folder.
    page : float, optional
        Share in [0, 1) of the file operations at which the process dies that writes the page; it is
        not written if None.
    ray : bool
        Whether the scenario runs on Ray, too.
    changes : tuple of Change
        What happens to the nodes of a Ray cluster where it also runs; on none if there are none.
    edit : Edit, optional
        What is changed before a resume.
    blows : tuple of Blow
        What happens to the machines that run it in a folder at a URL; nobody does if there are
        none.
    together : Combination, optional
        A method with what happens to what it sends, which is compared with a plain loop.
    """

    seed: int
    scenario: Scenario
    block: int
    hosts: float
    faults: tuple[Fault, ...]
    page: float | None
    ray: bool
    changes: tuple[Change, ...] = ()
    edit: Edit | None = None
    blows: tuple[Blow, ...] = ()
    together: Combination | None = None

    @classmethod
    def drawn(
        cls, seed: int, folder: Path, algorithms: Collection[str] = (), *, nodes: bool = False
    ) -> Case:
        """Return the case of a seed; its scenario may name files in a folder; see `draw`.

        With `nodes`, it also runs on a Ray cluster whose nodes change; a few cases do anyway.
        """
        dice = Dice(seed)
        scenario = draw(dice, folder, algorithms)
        case = cls(
            seed, scenario, dice.whole(1, 4), dice.share(), drawn(dice),
            dice.share() if dice.chance(_PAGES) else None, dice.chance(_RAY),
            edit=drawn_edit(dice) if dice.chance(_EDITED) else None,
            blows=drawn_blows(dice) if dice.chance(_AT_URLS) else (),
        )  # fmt: skip
        if dice.chance(_RAY) or nodes:
            case = replace(case, changes=drawn_changes(dice))
        if dice.chance(_TOGETHER):
            case = replace(case, together=drawn_combination(dice, algorithms))
        return case


@dataclass
class Outcome:
    """What became of a case.

    Parameters
    ----------
    seed : int
    verdict : "accepted", "refused" or "broken"
        What `check` said; it broke where it raised anything but a ScenarioError.
    reason : str
        Of a refusal, without what was found: scenarios of one mistake have the same.
    runs : dict of str to int
        How many runs ended how.
    faults : list of str
        Kinds of the faults that happened.
    findings : list of (str, str)
        What is wrong: the name of an invariant or of a step, and what was found.
    seconds : float
        Wall-clock seconds.
    """

    seed: int
    verdict: str = "accepted"
    reason: str = ""
    runs: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    findings: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0


def run_seed(
    seed: int,
    home: Path | None = None,
    algorithms: Collection[str] = (),
    *,
    nodes: bool = False,
) -> Outcome:
    """Return what becomes of the case of a seed.

    Parameters
    ----------
    home : Path, optional
        Where a folder is made for the case, and deleted afterwards; that of temporary files if
        None.
    algorithms : collection of str
        Which algorithms are drawn; any if empty.
    nodes : bool
        Whether it also runs on a Ray cluster whose nodes change.
    """
    made = tempfile.TemporaryDirectory(dir=home, prefix=f"chaos-{seed}-")
    with made as folder, np.errstate(all="ignore"):  # runs that diverge are part of it
        return run_case(Case.drawn(seed, Path(folder), algorithms, nodes=nodes), Path(folder))


def run_case(case: Case, folder: Path) -> Outcome:
    """Return what becomes of a case that uses an empty folder."""
    outcome, begun = Outcome(case.seed), time.monotonic()
    try:
        with _limit(LONGEST_S):
            _Execution(case, folder, outcome).run()
    except TooLong:
        outcome.findings.append(("time", f"it takes more than {LONGEST_S:g} s of processor time"))
    except Exception as error:
        trace = traceback.format_exc()
        outcome.findings.append(("traceback", f"{type(error).__name__}: {error}\n{trace}"))
    outcome.seconds = time.monotonic() - begun
    return outcome


class _Execution:
    """Executes a case, step by step."""

    def __init__(self, case: Case, folder: Path, outcome: Outcome) -> None:
        self.case, self.folder, self.outcome = case, folder, outcome

    def run(self) -> None:
        """Check the scenario; run it undisturbed, placed otherwise, and with the faults."""
        if self.case.together is not None and (text := disagreement(self.case.together)):
            self.outcome.findings.append(("together", text))
        plan = self.plan()
        if plan is None:
            return
        calm = Attempt(plan, api.begin(plan, self.folder / "calm"), 0)
        operations = self.undisturbed(calm)
        self.compared("placement", calm, lambda: self.placed(plan))
        if self.case.ray:
            self.compared("ray", calm, lambda: self.on_ray())
        if self.case.changes:
            self.compared("nodes", calm, lambda: self.on_nodes(calm))
        self.compared("faults", calm, lambda: self.disturbed(plan, operations))
        if self.case.edit is not None:
            self.edited(plan, calm, operations, self.case.edit)
        if self.case.blows:
            self.compared("url", calm, lambda: self.at_url(plan))
        if self.case.page is not None:
            self.page(calm, self.case.page)

    def plan(self) -> Plan | None:
        """Return the plan of the scenario; None if it is refused."""
        try:
            plan = api.prepare(api.read(self.case.scenario))
            plan.check_used()
            return plan
        except RayfedError as error:
            self.outcome.verdict, self.outcome.reason = "refused", reason_of(error)
            self.outcome.findings += [("refusal", text) for text in wordy(error)]
        except Exception as error:
            self.outcome.verdict = "broken"
            trace = traceback.format_exc()
            self.outcome.findings.append(("check", f"{type(error).__name__}: {error}\n{trace}"))
        return None

    def undisturbed(self, attempt: Attempt) -> int:
        """Run the study, check what it left, and return the number of its file operations."""
        disk, watched = Disk(), []

        def executor(tables: Any) -> Watched:
            watched.append(Watched(SerialExecutor(tables)))
            return watched[-1]

        with disk.patched():
            outcome = attempt.execute(executor)
        for run, seen in zip(attempt.plan.runs, watched, strict=True):
            ended = Ended(run, attempt.folder / run.folder, seen.traffic)
            self.outcome.findings += broken(ended)
            kind = "finished" if ended.finished else failure_of(str(ended.record["reason"]))
            self.outcome.runs[kind] = self.outcome.runs.get(kind, 0) + 1
        announced = {run.folder for run in attempt.plan.runs}
        if set(outcome) != announced:
            self.outcome.findings.append(("runs", f"{set(outcome)} ended, of {announced}"))
        return disk.count

    def placed(self, plan: Plan) -> Path:
        """Run the study with its clients on several nodes and in stacks of another size."""
        attempt = Attempt(plan, api.begin(plan, self.folder / "placed"), 0)
        hosts = 1 + int(self.case.hosts * plan.clients)
        runs = [replace(run, block=self.case.block) for run in plan.runs]

        def executor(tables: Any) -> RayExecutor:
            own = None if hosts % 2 else RayHost()  # a driver that hosts clients itself
            nodes = divided(hosts if own is None else hosts - 1, plan.clients)
            return RayExecutor(pool(nodes), plan.clients, stored(tables), own=own)

        with Disk().patched(), no_ray():
            attempt.execute(executor, runs=runs)
        return attempt.folder

    def on_ray(self) -> Path:
        """Run the study on Ray, in a process of its own."""
        file, out = self.folder / "ray.yaml", self.folder / "ray"
        file.write_text(yaml.safe_dump({**self.case.scenario, "executor": "ray"}))
        words = [sys.executable, "-m", "rayfed", "run", str(file), "--out", str(out)]
        subprocess.run(words, capture_output=True, check=False, timeout=_PATIENCE_S)
        return out

    def on_nodes(self, calm: Attempt) -> Path:
        """Run the study on a Ray cluster whose nodes change, stretched by a wall clock."""
        tables = [pd.read_parquet(path) for path in calm.folder.glob("*/rounds.parquet")]
        simulated_s = max([float(rows["time_s"].max()) for rows in tables if len(rows)], default=0)
        scale = WALL_S / simulated_s if 0 < simulated_s < math.inf else 1.0
        made = {**self.case.scenario, "clock": {"name": "wall", "scale": scale}}
        made |= {"executor": "ray", "checkpoint": {"every_s": 0.5}}
        file, out = self.folder / "nodes.yaml", self.folder / "nodes"
        file.write_text(yaml.safe_dump(made))
        happened = run_on_nodes(file, out, self.case.changes)
        self.outcome.faults += [f"node: {kind}" for kind in happened]
        return out

    def disturbed(self, plan: Plan, operations: int) -> Path:
        """Run the study with the faults, one after the other, then to its end."""
        folder = api.begin(plan, self.folder / "disturbed")
        for fault in self.case.faults:
            self.outcome.faults.append(fault.kind)
            strike(Attempt(plan, folder, operations), fault)
        with Disk().patched():
            Attempt(api.recorded(folder), folder, operations).execute()
        return folder

    def compared(self, step: str, calm: Attempt, other: Callable[[], Path]) -> None:
        """Note where the results of a step are not those of the undisturbed run."""
        folder = other()
        try:
            assert_same_results(calm.folder, folder)
        except AssertionError as error:
            self.outcome.findings.append((step, str(error)))

    def edited(self, plan: Plan, calm: Attempt, operations: int, edit: Edit) -> None:
        """Resume the study after something was changed, and note whether that was refused."""
        home = self.folder / "edited"
        became, wrong = resume_edited(plan, calm.folder, home, edit, operations)
        if became is not None:
            self.outcome.faults.append(f"edit: {edit.kind}, {became}")
        self.outcome.findings += [("edit", f"{edit}: {text}") for text in wrong]

    def at_url(self, plan: Plan) -> Path:
        """Run the study in a folder at a URL, on machines that die."""
        self.outcome.faults += ["url"] * len(self.case.blows)
        return run_at_url(plan, self.folder / "machines", self.case.blows)

    def page(self, calm: Attempt, died_at: float) -> None:
        """Write the page, as the commands do, and again after a process died that wrote it."""
        result = api.execute(calm.plan, calm.folder, resume=True, watch=ProgressDisplay())
        page = calm.folder / "report.html"
        written, rounds = page.read_bytes(), len(result.rounds)
        with suppress(Down), Disk(down_at=1 + int(died_at * _LONGEST_PAGE)).patched():
            result.report()
        self.outcome.faults.append("page")
        if len(api.load(calm.folder).rounds) != rounds:
            self.outcome.findings.append(("page", "other rounds are read"))
        if not written or api.load(calm.folder).report().read_bytes() != written:
            self.outcome.findings.append(("page", "it is empty, or another one"))


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raise `TooLong` after some seconds of processor time."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
