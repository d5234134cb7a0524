"""The driver of one run: the loop of rounds with checkpoints, records and progress around it."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rayfed.core import leases
from rayfed.core.columns import names
from rayfed.core.entries import Damaged, described
from rayfed.core.errors import RunFailed, ScenarioError, clipped
from rayfed.core.machine import keep_freed_memory
from rayfed.core.plugins import advice, ends_process, places
from rayfed.core.summary import network_of
from rayfed.engine import columns
from rayfed.engine.loop import Loop
from rayfed.engine.run import Run
from rayfed.engine.state import Row, RunState
from rayfed.engine.stopping import PRUNED
from rayfed.executors.base import Executor, HostLost
from rayfed.executors.profile import Profile
from rayfed.runs.backend import RunProgress
from rayfed.runs.files import stops
from rayfed.runs.files.place import SNAPSHOTS
from rayfed.runs.files.records import Records, write_profile
from rayfed.runs.files.run_json import MACHINE_ERRORS, one_line, run_record
from rayfed.runs.files.run_json import status as write_status
from rayfed.runs.files.summaries import Summaries, bands_of, finish
from rayfed.runs.logger import log_round, logger
from rayfed.runs.outputs import run_warnings, write_outputs
from rayfed.runs.resume import digests_of

_REPLAYS = 20  # without a checkpoint in between: the machine is dying, not an actor
_LOOK_S = 0.5  # between two looks at whether somebody asked the run to stop


class _Stopped(Exception):
    """Somebody asked this run to stop; it is checkpointed."""


LOOP = "loop"
"""What ends a run whose rows a loop of the user's gets, if that ends it."""


@dataclass(frozen=True)
class Moment:
    """State of a run between two rounds.

    Parameters
    ----------
    state, row : RunState, dict
        The state, and the last row of ``rounds``, as the run goes on from them.
    last, closed : RunState, dict
        The same, with the evaluation that the last row of a run always gets.
    rule : str, optional
        What ends the run here.
    """

    state: RunState
    row: Row
    last: RunState
    closed: Row
    rule: str | None = None


class Driver:
    """Runs one Run in its folder.

    Parameters
    ----------
    run : Run
        What to run.
    out : Path
        The study's result folder.
    executor : Executor
        Where the clients live.
    """

    def __init__(self, run: Run, out: Path, executor: Executor) -> None:
        self.run, self.executor, self.record = run, executor, run.record
        self.phases = ((-1, replace(run, later=())), *run.later)
        self.pending: tuple[Run, Sequence[Mapping[str, Any]]] | None = None
        declared = columns.diagnostics(
            run.training.algorithm, run.participation.select, run.measured
        )
        events = names(run.event_columns)
        self.records = Records(
            out / run.folder,
            thinning=run.thinning,
            declared=declared,
            events=run.event_columns,
            identities=digests_of(run.record),
            summaries=Summaries(out / run.folder, bands_of(run), network_of(run.record), events),
        )
        self.records.checkpoints.changes = len(run.later)
        self.loop, self.phase = Loop(run, executor), 0
        self.started = time.time()
        self.saved = time.monotonic()
        self.looked = -math.inf
        self.progress = RunProgress(0, run.ending.rounds, 0.0, float("nan"))
        self.stopping = self.ending = False
        self.profile: Profile | None = None
        if run.profiled:
            self._watch(Profile())

    def _watch(self, profile: Profile) -> None:
        """Measure the steps of the run."""
        self.profile = profile
        self.loop.profile(profile)
        self.executor.profile(profile)
        for method in ("add", "save"):
            profile.watch(self.records, method, "records", opens=True, inclusive=True)

    def stop(self) -> None:
        """Ask the run to checkpoint and end after the current round."""
        self.stopping = True

    def end(self) -> None:
        """Ask the run to finish after the current round, as if a rule had ended it."""
        self.ending = True

    @property
    def latest(self) -> Run:
        """The run with all changes of its settings, those of the coming round included."""
        return self.phases[-1][1] if self.pending is None else self.pending[0]

    def change(self, run: Run, noted: Sequence[Mapping[str, Any]]) -> None:
        """Continue as another run from the next round on, if there is one.

        Parameters
        ----------
        run : Run
            The same run with other settings.
        noted : sequence of mapping
            Entries of ``changes`` in ``run.json``.
        """
        earlier = () if self.pending is None else self.pending[1]
        self.pending = run, (*earlier, *noted)

    def execute(
        self, resume: bool = False, report: Callable[[RunProgress], None] = lambda p: None
    ) -> str:
        """Run to the end and return "finished" or "failed"; if asked to stop `stops.STOPPED`.

        Parameters
        ----------
        resume : bool
            Go on from the checkpoint in the folder, if there is one.
        report : callable
            Called after every round; what it raises fails the run.
        """
        moments = self.moments(resume)
        go: Callable[[], object] = partial(next, moments)
        while True:
            try:
                go()
            except StopIteration as end:
                outcome: str = end.value
                return outcome
            go = partial(next, moments)
            try:
                if self.progress.round:
                    report(self.progress)
            except Exception as error:
                go = partial(moments.throw, error)

    def moments(self, resume: bool = False) -> Generator[Moment, None, str]:
        """Yield the run's state before its first and after every round; return as `execute` does.

        Whoever closes the generator before its end leaves a checkpoint.
        """
        try:
            rule = yield from self._run(resume)
            warnings = run_warnings(self.run, self.records)
            self.records.sync()
            files = described(self.records.inventory())
            warnings += self.records.damage
            self._write_record("finished", stopped_by=rule, warnings=warnings, files=files)
            self.records.close()
            self._upload()
        except _Stopped:
            self.records.log(f"stopped after round {self.progress.round}")
            return stops.STOPPED
        except RunFailed as error:
            return self._fail(clipped(error), error.trace)
        except ScenarioError as error:  # a graph of a later round, say: no code is at fault
            reason = f"after round {self.progress.round}: {one_line(error)}"
            return self._fail(reason, reason)
        except (Exception, SystemExit) as error:  # whatever it is: the other runs go on
            if ends_process(error):
                raise
            what = f"{one_line(error)}{advice(error)}{places(error)}"
            reason = f"after round {self.progress.round}: {what}"
            return self._fail(reason, traceback.format_exc(), isinstance(error, MACHINE_ERRORS))
        return "finished"

    def _run(self, resume: bool) -> Generator[Moment, None, str]:
        """Run to the end and return the rule that ended it."""
        keep_freed_memory()
        if not resume:
            self.records.clear()
        self._write_record("running")
        try:
            return (yield from self._run_and_replay())
        finally:
            self._close()
            if self.profile is not None:
                write_profile(self.records.folder, self.profile)

    # -- the loop --------------------------------------------------------------------------

    def _run_and_replay(self) -> Generator[Moment, None, str]:
        """Run to the end; after the loss of a host go back to the checkpoint and replay."""
        losses, checkpoint = 0, None
        while True:
            try:
                end = yield from self._run_rounds(*self._open())
                assert end.rule is not None
                self._finish(end)
                self._say(f"ended after round {end.state.round} by {end.rule}")
                return end.rule
            except (HostLost, Damaged) as error:
                before, checkpoint = checkpoint, self.records.checkpoints.round()
                losses = losses + 1 if checkpoint == before else 1
                if losses > _REPLAYS:
                    if isinstance(error, HostLost):
                        raise HostLost(f"clients were lost {losses} times: {error}") from error
                    raise
                where = "the start"
                if checkpoint is not None:
                    where = f"the checkpoint of round {checkpoint}"
                self.records.log(f"{error}; back to {where} to replay")

    def _open(self) -> tuple[RunState, Row]:
        """Open the run at its checkpoint, or at its start."""
        saved = self.records.load()
        self._use(self._phase(-1 if saved is None else saved[0].round))
        if saved is not None:
            run_state, clients = saved
            row = self.records.last_row()
            self.loop.check(run_state, row)
            self._say(f"goes on after round {run_state.round}")
            self.executor.open(self.run.folder, self.run.setup(), clients)
            return run_state, row
        self._say("begins")
        self.records.clear()
        self.executor.open(self.run.folder, self.run.setup())
        run_state, row = self.loop.start()
        self.records.add(row, [], run_state.personal)
        self._checkpoint(run_state)
        return run_state, row

    def _run_rounds(self, run_state: RunState, row: Row) -> Generator[Moment, None, Moment]:
        """Run round after round, and return the last moment.

        Raises
        ------
        RunFailed
            If the run diverged.
        """
        now = self._moment(run_state, row)
        self.progress = replace(self.progress, first=run_state.round)
        self._update_progress(now)
        if run_state.round == 0:
            now = yield from self._shown(now)
        reason = self.loop.failure(now.last, now.closed)
        while reason is None and now.rule is None:
            self._apply_changes(now.state)
            if self.stopping or self._asked_to_stop():
                self._checkpoint(now.state)
                raise _Stopped
            run_state, row, ended = self.loop.step(now.state)
            now = self._moment(run_state, row)
            reason = self.loop.failure(now.last, now.closed)
            self.records.add(row if reason is None else now.closed, ended, run_state.personal)
            log_round(self.run, now.closed, ended)
            self._update_progress(now)
            now = yield from self._shown(now)
            if reason is None and time.monotonic() - self.saved >= self.run.checkpoint_s:
                self._checkpoint(run_state)
                if now.rule is None and self.executor.moves:
                    self.records.log(f"after round {run_state.round} clients are dealt anew")
                    now = self._moment(*self._open())
        if reason is not None:
            raise RunFailed(reason)
        return now

    def _asked_to_stop(self) -> bool:
        """Return whether somebody asked the run to stop; it looks every now and then.

        Then whoever watches the run is told where its time goes, too.
        """
        now = time.monotonic()
        if now - self.looked < _LOOK_S:
            return False
        self.looked = now
        if self.profile is not None:
            write_profile(self.records.folder, self.profile)
        return leases.is_stop_requested(self.records.folder)

    def _shown(self, now: Moment) -> Generator[Moment, None, Moment]:
        """Yield a moment, and return it as changed by the caller's decision."""
        try:
            yield now
        except GeneratorExit:
            self._checkpoint(now.state)
            if now.rule is None:
                self._note_changes(now.state)
            raise
        if not self.ending or now.rule is not None:
            return now
        last, closed = self.loop.close(now.state, now.row)
        return Moment(now.state, now.row, last, closed, LOOP)

    def _apply_changes(self, run_state: RunState) -> None:
        """Continue after a round with the settings of the next, at hosts that know them.

        The changes are recorded before that round, so a replay from an earlier checkpoint has them.
        """
        self._note_changes(run_state)
        before = self.run
        self._use(self._phase(run_state.round))
        if self.run is not before:
            self.executor.change(self.run.folder, self.run.setup())

    def _note_changes(self, run_state: RunState) -> None:
        """Record the changes of settings after a round, if there are any.

        Those of the declared controller up to the last recorded change are in the record.
        """
        control, round = self.run.control, run_state.round
        if control is not None and round > self.phases[-1][0]:
            decided = control.changed(self.latest, round, run_state.control)
            if decided[1]:
                self.change(*decided)
        if self.pending is None:
            return
        run, noted = self.pending
        self.pending, self.phases = None, (*self.phases, (round, run))
        self.record = {**self.record, "changes": [*self.record.get("changes", ()), *noted]}
        self._write_record("running")
        self.records.checkpoints.changes = len(self.phases) - 1

    def _phase(self, round: int) -> int:
        """Return the number of changes of settings up to a round."""
        return sum(after <= round for after, _ in self.phases[1:])

    def _use(self, phase: int) -> None:
        """Continue with the settings after so many changes."""
        if phase != self.phase:
            self.phase, self.run = phase, replace(self.phases[phase][1], record=self.record)
            self.loop = Loop(self.run, self.executor)
            if self.profile is not None:
                self.loop.profile(self.profile)

    def _moment(self, run_state: RunState, row: Row) -> Moment:
        """Return the moment of a state and its row."""
        rule = self._rule(run_state, row)
        if rule is None:
            return Moment(run_state, row, run_state, row)
        last, closed = self.loop.close(run_state, row)
        return Moment(run_state, row, last, closed, self._rule(last, closed))

    def _rule(self, run_state: RunState, row: Row) -> str | None:
        """Return the rule that a row meets, or None."""
        ending = self.run.ending
        rule = ending.stop.rule(row, run_state.updates, ending.higher)
        if rule is None and run_state.exhausted:
            return "nobody"
        if rule is None and run_state.round >= ending.rounds:
            return "rounds"
        if rule is None and ending.pace is not None and ending.pace.behind(row):
            return PRUNED
        return rule

    def _update_progress(self, now: Moment) -> None:
        """Note the run's progress; a row without an evaluation keeps the last loss."""
        loss = now.closed["loss"] if math.isfinite(now.closed["loss"]) else self.progress.loss
        rounds, state = self.run.ending.rounds, now.state
        self.progress = RunProgress(state.round, rounds, state.time_s, loss, self.progress.first)

    def _checkpoint(self, run_state: RunState) -> None:
        """Write the state of the run, and the clients' state as far as it changed."""
        self.records.save(run_state, self.executor.snapshot(self.run.folder))
        self.saved = time.monotonic()
        self._upload()
        logger.debug("%s: checkpoint of round %d", self.run.folder, run_state.round)

    def _upload(self) -> None:
        """Hand the files of the run to the upload, where the result folder is remote."""
        if (self.records.folder.parent.parent / SNAPSHOTS).is_dir():
            from rayfed.runs.remote.copies import snapshot  # here: it imports fsspec

            with suppress(OSError):  # such as a full disk; the next checkpoint tries again
                snapshot(self.records.folder)

    def _say(self, line: str) -> None:
        """Log a line about the run, for debugging."""
        logger.info("%s: %s", self.run.folder, line)

    # -- the end ---------------------------------------------------------------------------

    def _finish(self, end: Moment) -> None:
        """Write the last checkpoint and everything that is known at the end.

        The checkpoint holds nothing that only the end adds, so that the run can go on from it when
        it is given more rounds.
        """
        self._checkpoint(end.state)
        rows = (end.row, end.closed)
        write_outputs(self.run, self.records, self.loop.measures, end.last, rows)

    def _fail(self, reason: str, trace: str, retry: bool = False) -> str:
        """Keep the records, as far as the disk takes them, and log the reason of the end."""
        for keep in (
            self.records.flush,
            lambda: finish(self.records.folder, self.run.record),
            lambda: self.records.log(f"failed: {reason}\n{trace}"),
            lambda: self._write_record(
                "failed", reason=reason, trace=trace, retry=retry, files=self._files()
            ),
        ):
            with suppress(Exception):  # it may fail by what failed before; `reason` is the first
                keep()
        self._upload()
        return "failed"

    def _files(self) -> dict[str, dict[str, Any]]:
        """Return the entries of the files of a run that failed; none if the files are gone."""
        with suppress(OSError):
            return described(self.records.inventory())
        return {}

    def _close(self) -> None:
        """Let the hosts forget the run."""
        try:
            self.executor.close(self.run.folder)
        except HostLost as error:
            self.records.log(str(error))

    def _write_record(self, status: str, **more: Any) -> None:
        """Write ``run.json``."""
        run = replace(self.run, record=self.record)
        write_status(self.records.folder, run_record(run, self.started, status, **more))
