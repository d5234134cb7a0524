"""The driver of one run: the engine's loop with checkpoints, records and progress around it."""

from __future__ import annotations

import platform
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rayfed.core.arrays import Array
from rayfed.core.errors import RayfedError, RunFailed
from rayfed.core.parquet import schema
from rayfed.engine import columns
from rayfed.engine.engine import Engine
from rayfed.engine.run import Run
from rayfed.engine.state import Row, RunState, at
from rayfed.executors.base import Executor, HostLost
from rayfed.runs.away import AWAY_CLIENTS, away
from rayfed.runs.backend import RunProgress
from rayfed.runs.records import Records, log, status, write_npz, write_parquet
from rayfed.runs.walked import WALK, WalkPath, walked

VERSIONS = ("rayfed", "numpy", "scipy", "pandas", "pyarrow", "ray")
_REPLAYS = 20  # without a checkpoint in between: the machine is dying, not an actor
HERE = (OSError, MemoryError, HostLost)
"""Errors of this machine, not of the run: a resume tries again."""


class Interrupted(Exception):
    """The user asked to stop; the run is checkpointed."""


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
        self.run, self.executor = run, executor
        declared = columns.diagnostics(run.algorithm, run.selection)
        self.records = Records(out / run.folder, thinning=run.thinning, declared=declared)
        self.engine = Engine(run, executor)
        self.started = time.time()
        self.saved = time.monotonic()
        self.progress = RunProgress(0, run.rounds, 0.0, float("nan"))
        self.stopping = False

    def stop(self) -> None:
        """Ask the run to checkpoint and end after the current round."""
        self.stopping = True

    def execute(
        self, resume: bool = False, report: Callable[[RunProgress], None] = lambda p: None
    ) -> str:
        """Run to the end and return "finished" or "failed".

        Parameters
        ----------
        resume : bool
            Go on from the checkpoint in the folder, if there is one.
        report : callable
            Called after every round.

        Raises
        ------
        Interrupted
            After `stop`, with a checkpoint written.
        """
        try:
            rule = self._run(resume, report)
            self._tell("finished", stopped_by=rule, warnings=self._warnings())
        except Interrupted:
            raise
        except RunFailed as error:
            return self._fail(str(error), str(error))
        except Exception as error:  # whatever it is: the other runs go on
            reason = f"after round {self.progress.round}: {_line(error)}"
            return self._fail(reason, traceback.format_exc(), isinstance(error, HERE))
        return "finished"

    def _run(self, resume: bool, report: Callable[[RunProgress], None]) -> str:
        """Run to the end and return the rule that ended it."""
        if not resume:
            self.records.clear()
        self._tell("running")
        try:
            return self._survive(report)
        finally:
            self._forget()

    # -- the loop --------------------------------------------------------------------------

    def _survive(self, report: Callable[[RunProgress], None]) -> str:
        """Run to the end; after the loss of a host go back to the checkpoint and replay."""
        lost, held = 0, None
        while True:
            try:
                moment, row = self._begin()
                moment, rule = self._rounds(moment, row, report)
                self._end(moment)
                return rule
            except HostLost as error:
                before, held = held, self.records.checkpoint_round()
                lost = lost + 1 if held == before else 1
                if lost > _REPLAYS:
                    raise HostLost(f"clients were lost {lost} times: {error}") from error
                where = "the start" if held is None else f"the checkpoint of round {held}"
                self.records.log(f"{error}; back to {where} to replay")

    def _begin(self) -> tuple[RunState, Row]:
        """Open the run at its checkpoint, or at its start."""
        held = self.records.load()
        if held is not None:
            moment, rows = held
            self.executor.open(self.run.folder, self.run.setup(), rows)
            return moment, self.records.last_row()
        self.records.clear()
        self.executor.open(self.run.folder, self.run.setup())
        moment, row = self.engine.start()
        self.records.add(row, [], moment.own)
        self._checkpoint(moment)
        return moment, row

    def _rounds(
        self, moment: RunState, row: Row, report: Callable[[RunProgress], None]
    ) -> tuple[RunState, str]:
        self._report(moment, row)
        rule = self._judge(moment, row)
        while rule is None and moment.round < self.run.rounds:
            if self.stopping:
                self._checkpoint(moment)
                raise Interrupted
            moment, row, events = self.engine.step(moment)
            self.records.add(row, events, moment.own)
            self._report(moment, row)
            report(self.progress)
            rule = self._judge(moment, row)
            if time.monotonic() - self.saved >= self.run.checkpoint_s:
                self._checkpoint(moment)
        return moment, rule or "rounds"

    def _judge(self, moment: RunState, row: Row) -> str | None:
        """Return the rule that ends the run, or None.

        Raises
        ------
        RunFailed
            If the run diverged.
        """
        reason = self.engine.failure(moment, row)
        if reason is not None:
            raise RunFailed(reason)
        return self.run.stop.rule(row)

    def _report(self, moment: RunState, row: Row) -> None:
        loss = row["loss"] if np.isfinite(row["loss"]) else self.progress.loss
        self.progress = RunProgress(moment.round, self.run.rounds, moment.time_s, loss)

    def _checkpoint(self, moment: RunState) -> None:
        self.records.save(moment, self.executor.snapshot(self.run.folder))
        self.saved = time.monotonic()

    # -- the end ---------------------------------------------------------------------------

    def _end(self, moment: RunState) -> None:
        """Write the model, the clients, and the tables in one part each."""
        self._checkpoint(moment)
        write_npz(self.records.folder / "model.npz", {"x": moment.model, **_extra(moment)})
        self.records.finish(moment.own)
        write_parquet(self._clients(moment), self.records.folder / "clients.parquet")
        write_parquet(self._away(), self.records.folder / "away.parquet")
        self._walk()

    def _warnings(self) -> list[str]:
        """Return what readers should beware of: by the diagnostics, and by theory."""
        names = [column.name for column in self.run.algorithm.diagnostics]
        rows = pq.read_table(self.records.folder / "rounds.parquet", columns=names)
        warnings = self.run.algorithm.warnings({name: rows[name].to_numpy() for name in names})
        return [*warnings, *(self.run.examiner.warnings() if self.run.examiner else [])]

    def _clients(self, moment: RunState) -> pa.Table:
        """Return a row for each client that took part."""
        folder = self.records.folder / "events.parquet"
        events = pq.read_table(folder, columns=["client", "status"]).to_pandas()
        ids, selected = np.unique(events["client"].to_numpy(np.int64), return_counts=True)
        used_ids, used = np.unique(
            events.loc[events["status"] == "used", "client"].to_numpy(np.int64), return_counts=True
        )
        times = np.zeros(len(ids), dtype=np.int64)
        times[np.searchsorted(ids, used_ids)] = used
        if self.run.algorithm.pooled:  # it stands for everybody
            ids = self.run.evaluated
            selected = times = np.full(len(ids), selected.sum() if len(selected) else 0)
        shards, pop = self.run.views["evaluation"].shards, self.run.clients
        each = self.engine.measures.each(moment.model, ids, at(moment)) if len(ids) else {}
        none = np.full(len(ids), np.nan)
        return pa.table(
            {
                "client": ids,
                "samples": shards.sizes(ids),
                "test_samples": shards.sizes(ids, "test"),
                "speed_s": pop.mean_seconds_per_step(ids),
                "straggler": pop.straggles(ids),
                "group": pop.group_of(ids),
                "selected": selected,
                "used": times,
                "loss": each.get("loss", none),
                "accuracy": each.get("accuracy", none),
            },
            schema=schema(columns.CLIENTS),
        )

    def _away(self) -> pa.Table:
        """Return when the touched clients were away, a row an interval; see `away`."""
        ids = pq.read_table(self.records.folder / "clients.parquet", columns=["client"])["client"]
        rounds = pq.read_table(self.records.folder / "rounds.parquet", columns=["time_s"])
        few = ids.to_numpy()[:AWAY_CLIENTS]
        intervals = away(self.run.population, few, rounds["time_s"].to_numpy())
        return pa.table(intervals, schema=schema(columns.AWAY))

    def _walk(self) -> None:
        """Write where a walking server went; a failure is a line in the log, not the run's end."""
        graphs = self.run.graphs
        if graphs is None or self.records.rounds.rows < 2:  # row 0 is before the first round
            return
        try:
            rule = self.run.selection.walk_on(graphs)
            if rule is not None:
                write_npz(self.records.folder / WALK, walked(graphs, rule, self._way()))
        except Exception as error:
            self.records.log(f"the walk could not be recorded: {_line(error)}")

    def _way(self) -> WalkPath:
        """Return where the server was in each round, and when it asked whom."""
        folder = self.records.folder
        rounds = pq.read_table(folder / "rounds.parquet", columns=["time_s", "position"])
        places = rounds["position"].to_numpy()[1:]
        events = pq.read_table(folder / "events.parquet", columns=["round", "client", "start_s"])
        numbers, first = np.unique(events["round"].to_numpy(), return_index=True)
        times = rounds["time_s"].to_numpy()[1:].copy()  # of rounds that nobody was asked in
        times[numbers - 1] = events["start_s"].to_numpy()[first]
        return WalkPath(places.astype(np.int64), times, events["client"].to_numpy())

    def _fail(self, reason: str, trace: str, retry: bool = False) -> str:
        """Keep what was recorded, as far as the disk takes it, and say why the run ended."""
        for keep in (
            self.records.flush,
            lambda: self.records.log(f"failed: {trace}"),
            lambda: self._tell("failed", reason=reason, retry=retry),
        ):
            with suppress(Exception):  # it may fail by what failed before; `reason` is the first
                keep()
        return "failed"

    def _forget(self) -> None:
        try:
            self.executor.close(self.run.folder)
        except HostLost as error:
            self.records.log(str(error))

    def _tell(self, status: str, **more: Any) -> None:
        """Write ``run.json``."""
        self.records.status(account(self.run, self.started, status, **more))


def give_up(run: Run, out: Path, error: Exception, trace: str) -> str:
    """Record that a run failed whose driver could not begin, or died; returns "failed"."""
    folder, reason = out / run.folder, f"its driver failed: {_line(error)}"
    with suppress(OSError):  # where the disk is the reason, nothing can be written
        folder.mkdir(parents=True, exist_ok=True)
        log(folder, f"failed: {trace}")
        told = account(run, time.time(), "failed", reason=reason, retry=isinstance(error, HERE))
        status(folder, told)
    return "failed"


def account(run: Run, started: float, status: str, **more: Any) -> dict[str, Any]:
    """Return what ``run.json`` tells."""
    ended = None if status == "running" else time.time()
    return {
        "label": run.label, "algorithm": run.algorithm.name, "setting": run.setting,
        "baseline": run.algorithm.baseline, "seed": run.seed, "status": status,
        "stopped_by": None, "reason": None, "warnings": [], "rounds": run.rounds,
        "started": _stamp(started), "ended": None if ended is None else _stamp(ended),
        "wall_s": None if ended is None else round(ended - started, 3),
        "host": platform.node(), "machine": platform.machine(),
        "versions": versions(), **run.record, **more,
    }  # fmt: skip


def _line(error: Exception) -> str:
    """Return an error as one line; of one that came with a trace from elsewhere, its last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 or (lines and isinstance(error, RayfedError)):
        return lines[-1]
    return ": ".join([type(error).__name__, *lines])


@cache
def versions() -> dict[str, str]:
    """Return the versions of what a run's bits depend on."""
    return {"python": sys.version.split()[0], **{name: version(name) for name in VERSIONS}}


def _stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _extra(moment: RunState) -> dict[str, Array]:
    """Return the server's state beside the model."""
    return {f"state.{name}": value for name, value in moment.state.items()}
