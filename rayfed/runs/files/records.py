"""The result folder of one run: its tables, its checkpoints and its log.

Parquet files cannot be appended to, so ``rounds.parquet``, ``events.parquet`` and
``personal.parquet`` are folders of parts with one schema. Every file is written under a temporary
name and then renamed, so that neither a reader nor a crash leaves half a file.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rayfed.clients.store import StateRows
from rayfed.core import parquet
from rayfed.core.announced import PARTS, header, line_of
from rayfed.core.arrays import Array
from rayfed.core.columns import Column, by_name, names
from rayfed.core.entries import Damaged, Entry, check
from rayfed.engine import columns
from rayfed.engine.state import Row, RunState
from rayfed.engine.tasks import STATUS, UNFINISHED, CountedTasks, events_of
from rayfed.executors.profile import Profile
from rayfed.measures.evaluation import Thinning
from rayfed.runs.files import store
from rayfed.runs.files.checkpoints import MANIFESTS, Checkpoints
from rayfed.runs.files.run_json import log
from rayfed.runs.files.summaries import SUMMARIES, Summaries

PERSONAL = parquet.schema(columns.OWN_MODELS)
_WRITTEN = ("model.npz", "clients.parquet", "away.parquet", "walk.npz", "graph.npz")
OUTPUTS = (*_WRITTEN, *SUMMARIES)
"""Files that a run writes, beside its tables."""
AT_END = (*_WRITTEN, "fit.npz", "labels.npz")
"""Files that a run has at its end alone."""
_COMPACTED = re.compile(r"-\d+-(\d+)\.parquet$")

Change: TypeAlias = Callable[[pa.Table], pa.Table]
"""What becomes of the rows of a table while it is compacted."""


class PartedTable:
    """A folder of Parquet parts to which rows are added; a part is named after its first row.

    Parameters
    ----------
    folder : Path
        The folder, such as ``rounds.parquet``; it is made if it does not exist.
    make : callable
        Turns the list of added items into an Arrow table.

    Attributes
    ----------
    parts : dict of str to Entry
        What was written, by name.
    """

    def __init__(self, folder: Path, make: Callable[[list[Any]], pa.Table]) -> None:
        self.folder, self.make = folder, make
        self.waiting: list[Any] = []
        self.rows = 0
        self.written = 0
        self.parts: dict[str, Entry] = {}
        self.unsynced: list[Path] = []
        store.make_folder(folder)

    def add(self, item: Any, rows: int = 1) -> None:
        """Keep an item of so many rows until the next `flush`."""
        self.waiting.append(item)
        self.rows += rows

    def flush(self) -> dict[str, Entry]:
        """Write the rows that wait as one part, and return its entry by its name, if any."""
        if self.rows == self.written:
            self.waiting = []  # tasks of an Ask that all go on, say
            return {}
        part = self.folder / f"part-{self.written:012d}.parquet"
        write_parquet(self.make(self.waiting), part)
        self.parts[part.name] = Entry.of(part, self.rows - self.written)
        self.unsynced.append(part)
        self.waiting, self.written = [], self.rows
        return {part.name: self.parts[part.name]}

    def sync(self) -> None:
        """Bring the parts to the disk."""
        store.sync(self.unsynced)
        self.unsynced = []

    def keep(self, parts: Mapping[str, Entry]) -> None:
        """Continue after these parts, and delete all other files of the folder."""
        for name in store.names(self.folder):
            if name not in parts:
                store.remove(self.folder / name)
        self.parts, self.waiting, self.unsynced = dict(parts), [], []
        self.rows = self.written = sum(entry.rows or 0 for entry in parts.values())

    def prepare(self, change: Change = lambda content: content) -> None:
        """Write all rows as one part beside the folder, after `change`; `swap` puts it in place.

        No existing part has its name: in a remote folder both exist for a while.

        Raises
        ------
        Damaged
            If a part is not as it was written.
        """
        self.flush()
        check(self.folder, self.parts)
        new = self.folder.with_suffix(".new")
        store.remove(new)
        store.make_folder(new)
        tables = [parquet.read(self.folder / name) for name in sorted(self.parts)]
        content = change(pa.concat_tables(tables) if tables else self.make([]))
        before = [int(found[1]) for name in self.parts if (found := _COMPACTED.search(name))]
        part = new / f"part-{0:012d}-{max(before, default=0) + 1}.parquet"
        write_parquet(content, part)
        store.sync([part])
        self.compacted = {part.name: Entry.of(part, content.num_rows)}

    def swap(self) -> None:
        """Replace the parts by the file of `prepare`; `recover` deletes them."""
        new, old = (self.folder.with_suffix(s) for s in (".new", ".old"))
        store.move(self.folder, old)
        store.move(new, self.folder)
        self.parts, self.unsynced = self.compacted, []

    @staticmethod
    def recover(folder: Path) -> None:
        """Delete the parts that `swap` replaced; after a crash in it restore the folder first."""
        new, old = folder.with_suffix(".new"), folder.with_suffix(".old")
        if not folder.exists() and old.exists():
            store.move(old, folder)
        for left in (new, old):
            with suppress(OSError):  # a later one tries again
                store.remove(left)


class Records:
    """Writes the folder of one run.

    Parameters
    ----------
    folder : Path
        ``<results>/<label>-seed<k>``; it is made if it does not exist.
    every_s : float
        Wall-clock seconds after which waiting rows are written.
    thinning : Thinning, optional
        Which evaluations of the clients' own models are kept; None if clients have none.
    declared : iterable of Column
        Columns of ``rounds`` that the plug-ins of the run declare.
    events : iterable of Column
        Columns of ``events``.
    identities : sequence of str
        As for `Checkpoints`.
    summaries : Summaries, optional
        Sums up what clients do; None if nobody reads that before the end.
    """

    def __init__(
        self,
        folder: Path,
        every_s: float = 0.9,
        thinning: Thinning | None = None,
        declared: Iterable[Column] = (),
        events: Iterable[Column] = columns.EVENTS,
        identities: Sequence[str] = (),
        summaries: Summaries | None = None,
    ) -> None:
        self.summaries = summaries
        self.folder, self.every_s, self.thinning = folder, every_s, thinning
        store.make_folder(folder)
        store.make_folder(folder / "checkpoint")
        self.checkpoints = Checkpoints(folder / "checkpoint", identities)
        self.damage: list[str] = []
        self.named = False  # whether the folder's name is on the disk
        self.event_table = EventsTable(events)
        # A row of `rounds` is written last, so that no row lacks its events or personal models.
        makes: dict[str, Callable[[list[Any]], pa.Table]] = {
            "events": self.event_table,
            "personal": _personal_table,
            "rounds": RoundsTable(declared),
        }
        if thinning is None:
            del makes["personal"]
        self.tables = {}
        for name, make in makes.items():
            PartedTable.recover(folder / f"{name}.parquet")
            self.tables[name] = PartedTable(folder / f"{name}.parquet", make)
        self.rounds, self.events = self.tables["rounds"], self.tables["events"]
        self.flushed = time.monotonic()

    def clear(self) -> None:
        """Delete all rows and checkpoints."""
        self.checkpoints.forget()
        for table in self.tables.values():
            table.keep({})
        if self.summaries is not None:
            self.summaries.clear()
        self._announce()

    def add(
        self, row: Row, ended: Sequence[CountedTasks], personal: Mapping[str, Array] | None = None
    ) -> None:
        """Add a row and its events; write if the last write was more than `every_s` ago.

        Parameters
        ----------
        row : dict
            A row of ``rounds``.
        ended : sequence of Ended
            Rows of ``events``, an Ask of the round after the other.
        personal : mapping of str to (K,) array, optional
            Rows of ``personal`` from the newest evaluation, of this round or an earlier one.
        """
        self.rounds.add(row)
        for part in ended:
            self.events.add(part, len(part.tasks))
        number = row["round"]
        keep = self.thinning is not None and self.thinning.keeps(number, last=number)
        if keep and personal and personal["round"][0] == number:
            self.tables["personal"].add(personal, len(personal["client"]))
        if time.monotonic() - self.flushed > self.every_s:
            self.flush()

    def flush(self) -> None:
        """Write all waiting rows, announce them, and write the summary."""
        self._flush()
        if self.summaries is not None:
            self.summaries.publish()
        self.flushed = time.monotonic()

    def _flush(self) -> None:
        """Write all waiting rows, and announce them."""
        events = events_of(self.events.waiting) if self.events.waiting else {}
        self.events.waiting = [events] if events else []
        if self.summaries is not None:
            self.summaries.add(self.rounds.waiting, events)
        fresh = {name: table.flush() for name, table in self.tables.items()}
        if any(fresh.values()):
            store.append_text(self.folder / PARTS, line_of(fresh))

    def last_row(self) -> Row:
        """Return the last row of ``rounds`` that is written."""
        table = parquet.read(self.rounds.folder / max(self.rounds.parts))
        row: Row = table.slice(table.num_rows - 1).to_pylist()[0]
        return row

    def _announce(self) -> None:
        """Announce the parts of all tables anew."""
        parts = {name: table.parts for name, table in self.tables.items()}
        identity = next(iter(self.checkpoints.identities), None)
        store.publish_text(self.folder / PARTS, header(identity) + line_of(parts))

    def log(self, line: str) -> None:
        """Add a line to the run's log."""
        log(self.folder, line)

    def finish(
        self,
        rows: tuple[Row, Row],
        personal: Mapping[str, Array] | None = None,
        unfinished: CountedTasks | None = None,
    ) -> None:
        """Add the rows of the end of a run to the tables, and compact them.

        Parameters
        ----------
        rows : pair of dict
            The last row of ``rounds`` as it was recorded, and in its final form.
        personal : mapping of str to (K,) array, optional
            Rows of ``personal`` from the last evaluation, which are always kept.
        unfinished : Ended, optional
            The works that a run leaves unfinished.
        """
        self._flush()
        recorded, closed = rows
        changes: dict[str, Change] = {"rounds": partial(_with_last, closed)}
        if unfinished is not None:
            changes["events"] = partial(_with_unfinished, self.event_table, unfinished)
        elif len(self.events.parts) != 1:
            changes["events"] = lambda content: content
        if self.thinning and personal:
            changes["personal"] = partial(_thinned, self.thinning, personal)
        self._compact(changes, recorded)

    def _reopen(self, moment: RunState, row: Row) -> None:
        """Remove the rows of the end of a run, if there are any; the run may continue."""
        for name in AT_END:
            store.remove(self.folder / name)
        keep = self.thinning is not None and self.thinning.keeps(moment.round, last=moment.round)
        changes: dict[str, Change] = {"rounds": partial(_with_last, row), "events": _ended}
        if "personal" in self.tables and not (keep and moment.last.round == moment.round):
            changes["personal"] = partial(_before, moment.round)
        self._compact(changes, row)

    def _compact(self, changes: Mapping[str, Change], row: Row) -> None:
        """Write tables anew in one part each; they may hold more than the `row` of a checkpoint."""
        for name, change in changes.items():
            self.tables[name].prepare(change)
        now = {name: table.parts for name, table in self.tables.items()}
        then = {name: self.tables[name].compacted for name in changes}
        self.checkpoints.compacted(now, then, row)
        store.append_text(self.folder / PARTS, line_of(then, "instead"))
        for name in changes:
            self.tables[name].swap()
        store.sync_folder(self.folder)  # the new names, before the old parts go
        for name in changes:
            PartedTable.recover(self.tables[name].folder)
        self._announce()

    def inventory(self) -> dict[str, Entry]:
        """Return the entries of the folder's files, by their paths in it."""
        files = {
            f"{table.folder.name}/{part}": entry
            for table in self.tables.values()
            for part, entry in table.parts.items()
        }
        outputs = [self.folder / name for name in OUTPUTS if (self.folder / name).exists()]
        return files | {path.name: Entry.of(path) for path in outputs}

    def close(self) -> None:
        """Delete files that only an unfinished run needs: ``run.json`` lists all files now."""
        store.remove(self.folder / PARTS)
        store.sync_folder(self.folder)

    def sync(self) -> None:
        """Bring all files of the folder to the disk, and their names."""
        store.sync([self.folder / name for name in self.inventory()])
        store.sync_folder(self.folder)

    # -- checkpoints -----------------------------------------------------------------------

    def save(self, moment: RunState, changed: Iterable[StateRows]) -> None:
        """Write a checkpoint; see `Checkpoints.save`.

        Parameters
        ----------
        moment : RunState
            The state between two rounds.
        changed : iterable of dict
            State of the clients for which it has changed since the last checkpoint, in pieces.
        """
        self._flush()
        for table in self.tables.values():
            table.sync()
        if not self.named:
            store.sync_folder(self.folder)  # the names of the tables and of the checkpoints
            store.sync_folder(self.folder.parent)
            self.named = True
        parts = {name: table.parts for name, table in self.tables.items()}
        self.checkpoints.save(moment, changed, parts)

    def load(self) -> tuple[RunState, Iterator[StateRows]] | None:
        """Return the newest sound checkpoint and cut the tables back to it; None if there is none.

        A checkpoint is sound if its own files and all parts of the tables are as they were written.
        What is not is a line in the log, and `damage` keeps it.

        Returns
        -------
        RunState
            The state between two rounds.
        iterator of dict
            State of disjoint clients, which is read piece by piece.
        """
        for name in MANIFESTS:
            try:
                checkpoint = self.checkpoints.read(name, self.folder)
            except Damaged as error:
                self._note(name, error)
                continue
            if checkpoint is None:
                continue
            for table, parts in checkpoint.tables.items():
                self.tables[table].keep(parts)
            self.checkpoints.settle(name)
            self._announce()
            if checkpoint.row is not None:
                self._reopen(checkpoint.moment, checkpoint.row)
            if self.summaries is not None:
                self.summaries.again()
            return checkpoint.moment, checkpoint.clients
        return None

    def _note(self, manifest: str, error: Damaged) -> None:
        older = "the one before" if manifest == MANIFESTS[0] else "the start"
        line = f"the checkpoint cannot be used: {error}; {older} is tried"
        self.damage.append(line)
        self.log(line)


def _with_last(row: Row, content: pa.Table) -> pa.Table:
    """Put a row of ``rounds`` in the place of the one of its number, which is the last."""
    arrays = {name: [row[name]] for name in content.schema.names}
    before = content.slice(0, content.num_rows - 1)
    return pa.concat_tables([before, parquet.table(arrays, content.schema)])


def write_profile(folder: Path, profile: Profile) -> None:
    """Write ``profile.json`` in a run's folder; measured times are not among its results."""
    store.publish_text(folder / "profile.json", json.dumps(profile.record(), indent=1) + "\n")


class RoundsTable:
    """Makes the table of rounds from rows; the keys of the first row are its columns.

    Parameters
    ----------
    declared : iterable of Column
        Columns that the plug-ins of the run declare.
    """

    def __init__(self, declared: Iterable[Column] = ()) -> None:
        tables_own = (column for group in columns.ROUNDS.values() for column in group)
        self.declared = by_name((*tables_own, *declared))
        self.schema: pa.Schema | None = None

    def __call__(self, rows: list[Row]) -> pa.Table:
        """Return rows as a table."""
        if self.schema is None:
            self.schema = parquet.schema(self._declared(name) for name in rows[0])
        arrays = {name: [row[name] for row in rows] for name in self.schema.names}
        return parquet.table(arrays, self.schema)

    def _declared(self, name: str) -> Column:
        return self.declared.get(name, Column(name))


class EventsTable:
    """Makes the table of events.

    Parameters
    ----------
    declared : iterable of Column
        Its columns.
    """

    def __init__(self, declared: Iterable[Column]) -> None:
        self.schema = parquet.schema(declared)
        overlaps = set(names(columns.VERSIONS)) <= set(self.schema.names)
        self.status = list(STATUS) if overlaps else list(STATUS[:UNFINISHED])

    def __call__(self, parts: list[dict[str, Array]]) -> pa.Table:
        """Return the columns of tasks, of which there is one part or none, as a table."""
        if not parts:
            return self.schema.empty_table()
        (arrays,) = parts
        return parquet.table(arrays | {"status": (arrays["status"], self.status)}, self.schema)


def _with_unfinished(make: EventsTable, unfinished: CountedTasks, content: pa.Table) -> pa.Table:
    """Add the works that are left unfinished; applying it twice changes nothing."""
    return pa.concat_tables([_ended(content), make([events_of([unfinished])])])


def _ended(content: pa.Table) -> pa.Table:
    """Return the works that did not stay unfinished when their run ended."""
    return content.filter(parquet.bools(parquet.values(content, "round") >= 0))


def _before(round: int, content: pa.Table) -> pa.Table:
    """Return the rows of earlier rounds."""
    return content.filter(parquet.bools(parquet.values(content, "round") < round))


def _personal_table(parts: list[Mapping[str, Array]]) -> pa.Table:
    if not parts:
        return PERSONAL.empty_table()
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in PERSONAL.names}
    return parquet.table(arrays, PERSONAL)


def _thinned(thinning: Thinning, newest: Mapping[str, Array], content: pa.Table) -> pa.Table:
    """Add the newest evaluation if it is missing, then thin; applying it twice changes nothing."""
    last = int(newest["round"][0])
    if last not in parquet.values(content, "round"):
        content = pa.concat_tables([content, _personal_table([newest])])
    return content.filter(parquet.bools(thinning.of(parquet.values(content, "round"), last)))


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a Parquet file whole or not at all."""
    store.publish(path, lambda file: pq.write_table(table, file))
