"""The driver of one run: the engine's loop with checkpoints, records and progress around it."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rayfed.away import AWAY_CLIENTS, away
from rayfed.engine import Engine, Moment, Row
from rayfed.errors import RunFailed
from rayfed.executors.base import Executor, HostLost, Progress
from rayfed.problems.base import Array
from rayfed.records import Records, write_npz, write_parquet
from rayfed.runs import Run

VERSIONS = ("rayfed", "numpy", "scipy", "pandas", "pyarrow", "ray")
_REPLAYS = 20  # without a checkpoint in between: the machine is dying, not an actor


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
        self.records = Records(out / run.folder)
        self.engine = Engine(run, executor)
        self.started = time.time()
        self.saved = time.monotonic()
        self.progress = Progress(0, run.rounds, 0.0, float("nan"))
        self.stopping = False

    def stop(self) -> None:
        """Ask the run to checkpoint and end after the current round."""
        self.stopping = True

    def execute(
        self, resume: bool = False, report: Callable[[Progress], None] = lambda p: None
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
        if not resume:
            self.records.clear()
        self._tell("running")
        try:
            rule = self._survive(report)
        except RunFailed as error:
            self.records.flush()
            self.records.log(f"failed: {error}")
            self._tell("failed", reason=str(error))
            return "failed"
        finally:
            self._forget()
        self._tell("finished", stopped_by=rule)
        return "finished"

    # -- the loop --------------------------------------------------------------------------

    def _survive(self, report: Callable[[Progress], None]) -> str:
        """Run to the end; after the loss of a host go back to the checkpoint and replay."""
        lost = 0
        while True:
            try:
                moment, row = self._begin()
                moment, rule = self._rounds(moment, row, report)
                self._end(moment)
                return rule
            except HostLost as error:
                held = self.records.checkpoint_round()
                lost = lost + 1
                if lost > _REPLAYS:
                    raise RunFailed(f"clients were lost {lost} times: {error}") from error
                where = "the start" if held is None else f"the checkpoint of round {held}"
                self.records.log(f"{error}; back to {where} to replay")

    def _begin(self) -> tuple[Moment, Row]:
        """Open the run at its checkpoint, or at its start."""
        held = self.records.load()
        if held is not None:
            moment, rows = held
            self.executor.open(self.run.folder, self.run.setup(), rows)
            return moment, self.records.last_row()
        self.records.clear()
        self.executor.open(self.run.folder, self.run.setup())
        moment, row = self.engine.start()
        self.records.add(row, [])
        self._checkpoint(moment)
        return moment, row

    def _rounds(
        self, moment: Moment, row: Row, report: Callable[[Progress], None]
    ) -> tuple[Moment, str]:
        rule = self._judge(moment, row)
        while rule is None and moment.round < self.run.rounds:
            if self.stopping:
                self._checkpoint(moment)
                raise Interrupted
            moment, row, events = self.engine.step(moment)
            self.records.add(row, events)
            self._report(moment, row, report)
            rule = self._judge(moment, row)
            if time.monotonic() - self.saved >= self.run.checkpoint_s:
                self._checkpoint(moment)
        return moment, rule or "rounds"

    def _judge(self, moment: Moment, row: Row) -> str | None:
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

    def _report(self, moment: Moment, row: Row, report: Callable[[Progress], None]) -> None:
        loss = row["loss"] if np.isfinite(row["loss"]) else self.progress.loss
        self.progress = Progress(moment.round, self.run.rounds, moment.time_s, loss)
        report(self.progress)

    def _checkpoint(self, moment: Moment) -> None:
        self.records.save(moment, self.executor.snapshot(self.run.folder))
        self.saved = time.monotonic()

    # -- the end ---------------------------------------------------------------------------

    def _end(self, moment: Moment) -> None:
        """Write the model, the clients, and the tables in one part each."""
        self._checkpoint(moment)
        write_npz(self.records.folder / "model.npz", {"x": moment.model, **_extra(moment)})
        self.records.finish()
        write_parquet(self._clients(moment.model), self.records.folder / "clients.parquet")
        write_parquet(self._away(), self.records.folder / "away.parquet")

    def _clients(self, x: Array) -> pa.Table:
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
        each = self.engine.measures.each(x, ids) if len(ids) else {}
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
            }
        )

    def _away(self) -> pa.Table:
        """Return when the touched clients were away, a row an interval; see `away`."""
        ids = pq.read_table(self.records.folder / "clients.parquet", columns=["client"])["client"]
        rounds = pq.read_table(self.records.folder / "rounds.parquet", columns=["time_s"])
        few = ids.to_numpy()[:AWAY_CLIENTS]
        return pa.table(away(self.run.population, few, rounds["time_s"].to_numpy()))

    def _forget(self) -> None:
        try:
            self.executor.close(self.run.folder)
        except HostLost as error:
            self.records.log(str(error))

    def _tell(self, status: str, **more: Any) -> None:
        """Write ``run.json``."""
        run = self.run
        ended = None if status == "running" else time.time()
        self.records.status(
            {
                "label": run.label, "algorithm": run.algorithm.name, "setting": run.setting,
                "baseline": run.algorithm.baseline, "seed": run.seed, "status": status,
                "stopped_by": None, "reason": None, "rounds": run.rounds,
                "started": _stamp(self.started), "ended": None if ended is None else _stamp(ended),
                "wall_s": None if ended is None else round(ended - self.started, 3),
                "host": platform.node(), "machine": platform.machine(),
                "versions": versions(), **run.record, **more,
            }
        )  # fmt: skip


@cache
def versions() -> dict[str, str]:
    """Return the versions of what a run's bits depend on."""
    return {"python": sys.version.split()[0], **{name: version(name) for name in VERSIONS}}


def _stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _extra(moment: Moment) -> dict[str, Array]:
    """Return the server's state beside the model."""
    return {f"state.{name}": value for name, value in moment.state.items()}
