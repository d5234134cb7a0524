"""The checkpoints of one run: the newest one and the one before.

A checkpoint is a manifest, the server's arrays, and parts with the clients' arrays. The manifest is
published last. It holds the sizes and digests of the other files and of all parts of the tables
that were there, so that `Checkpoints.read` can tell a sound checkpoint from a damaged one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rayfed.clients.store import StateRows
from rayfed.core.arrays import Array
from rayfed.core.entries import Damaged, Entry, check, described, entries, is_whole, sealed
from rayfed.core.errors import RunFailed
from rayfed.core.files import read_json
from rayfed.engine.state import Row, RunState
from rayfed.engine.stopping import LastEvaluation
from rayfed.engine.timeline import Timeline
from rayfed.runs.files import store
from rayfed.runs.files.clientparts import PartFile, add_parts, live_rows, read_parts

MANIFESTS = ("manifest.json", "previous.json")
"""The manifest of the newest checkpoint and of the one before."""

Parts: TypeAlias = Mapping[str, Mapping[str, Entry]]
_OLDER = ("flight.", "pending.", "examined.")
_OTHER_WORKS = (
    "the checkpoint holds works or measures as earlier versions of rayfed wrote them; "
    "run the study anew"
)


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds.

    Parameters
    ----------
    moment : RunState
        The state between two rounds.
    clients : iterator of dict
        State of disjoint clients, which is read piece by piece.
    tables : mapping
        The parts of each table, by name.
    row : dict, optional
        Of a run that has ended, its last row without what only the end has added; the tables may
        hold that.
    """

    moment: RunState
    clients: Iterator[StateRows]
    tables: Parts
    row: Row | None = None


class Checkpoints:
    """Writes and reads the checkpoints of a run.

    Parameters
    ----------
    folder : Path
        It is made if it does not exist.
    identities : sequence of str
        Digests of what decides the results of the run, that of now first. Checkpoints with another
        one are damaged; with none, any are read.
    """

    def __init__(self, folder: Path, identities: Sequence[str] = ()) -> None:
        self.folder, self.identities = folder, identities
        self.parts: list[PartFile] = []
        store.make_folder(folder)

    def forget(self) -> None:
        """Delete all checkpoints."""
        for name in (*MANIFESTS, *store.names(self.folder)):
            # Manifests go first: without them, what is left of a checkpoint is never read.
            store.remove(self.folder / name)

    def save(self, moment: RunState, changed: Iterable[StateRows], tables: Parts) -> None:
        """Write a checkpoint and keep the one before; its manifest is published last.

        Parameters
        ----------
        moment : RunState
            The state between two rounds.
        changed : iterable of dict
            State of the clients for which it has changed since the last checkpoint, in pieces.
        tables : mapping
            The parts of each table, which are on the disk already.
        """
        before = self._manifest(MANIFESTS[0]) or {}
        self.parts = add_parts(self.folder, self._parts_of(before), changed, moment.round)
        clients = [part.name for part in self.parts]
        server = f"server-{moment.round}.npz"
        store.publish_npz(self.folder / server, _arrays(moment), durable=True)
        held = before.get("files", {})
        fresh = [server, *(name for name in clients if name not in held)]
        files = {name: held[name] for name in clients if name in held}
        manifest = {
            "round": moment.round, "time_s": moment.time_s, "server": server, "clients": clients,
            "tables": {name: described(parts) for name, parts in tables.items()},
            "files": files | described({name: Entry.of(self.folder / name) for name in fresh}),
            "identity": self.identities[0] if self.identities else None,
            "window": len(moment.window), "last": asdict(moment.last), "updates": moment.updates,
        }  # fmt: skip
        if before and before["round"] != moment.round:
            self._publish(MANIFESTS[1], before)
        self._publish(MANIFESTS[0], manifest)
        self._clean()

    def read(self, name: str, folder: Path) -> Checkpoint | None:
        """Return the checkpoint of a manifest; None if there is none.

        Parameters
        ----------
        name : str
            One of `MANIFESTS`.
        folder : Path
            Of the run, with its tables.

        Raises
        ------
        Damaged
            If something is not as it was written.
        """
        manifest = self._manifest(name)
        if manifest is None:
            return None
        made = manifest.get("identity")
        if made is not None and self.identities and made not in self.identities:
            raise Damaged(f"{name} is of another run")
        try:
            check(self.folder, entries(manifest["files"]))
            compacted = manifest.get("compacted", {})
            tables = {
                table: _sound(folder / f"{table}.parquet", parts, compacted.get(table))
                for table, parts in manifest["tables"].items()
            }
            with np.load(self.folder / manifest["server"], allow_pickle=False) as server:
                moment = _moment(manifest, dict(server))
            clients = live_rows(self.folder, self._parts_of(manifest))
            return Checkpoint(moment, clients, tables, manifest.get("row"))
        except (KeyError, TypeError, AttributeError) as error:
            raise Damaged(f"{name} lacks {error}") from error

    def settle(self, name: str) -> None:
        """Make the checkpoint of a manifest the newest, and delete what belongs to none."""
        if name != MANIFESTS[0]:
            self._publish(MANIFESTS[0], self._manifest(name) or {})
        self._clean()

    def compacted(self, tables: Parts, compacted: Parts, row: Row) -> None:
        """Note that tables are about to be replaced by others.

        Parameters
        ----------
        tables, compacted : mapping
            The parts of each table that are there, and those that will be.
        row : dict
            The last row, without what only the end of the run adds.
        """
        manifest = self._manifest(MANIFESTS[0])
        if manifest is not None:
            now, then = (
                {name: described(parts) for name, parts in found.items()}
                for found in (tables, compacted)
            )
            noted = {"tables": now, "compacted": then, "row": row}
            self._publish(MANIFESTS[0], manifest | noted)

    def round(self) -> int | None:
        """Return the round of the newest checkpoint, None if there is none that can be read."""
        try:
            return (self._manifest(MANIFESTS[0]) or {}).get("round")
        except Damaged:
            return None

    def identity(self) -> str | None:
        """Return the digest of what decides the newest checkpoint's run; None if unknown."""
        try:
            return (self._manifest(MANIFESTS[0]) or {}).get("identity")
        except Damaged:
            return None

    def _manifest(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        try:
            manifest = read_json(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise Damaged(f"{name} is not what was written") from error
        if not isinstance(manifest, dict) or not is_whole(manifest):
            raise Damaged(f"{name} is not what was written")
        return manifest

    def _publish(self, name: str, manifest: Mapping[str, Any]) -> None:
        text = json.dumps(sealed(manifest))
        write_text(self.folder / name, text, durable=True)

    def _clean(self) -> None:
        """Delete the files that belong to no checkpoint."""
        kept = set(MANIFESTS)
        for name in MANIFESTS:
            try:
                kept |= set((self._manifest(name) or {}).get("files", {}))
            except Damaged:
                store.remove(self.folder / name)
        for name in store.names(self.folder):
            if name not in kept:
                store.remove(self.folder / name)

    def _parts_of(self, manifest: Mapping[str, Any]) -> list[PartFile]:
        """Return the parts of the clients' state; read anew if they are not those known."""
        names = manifest.get("clients", [])
        if [part.name for part in self.parts] != names:
            self.parts = read_parts(self.folder, names)
        return self.parts


def _sound(folder: Path, parts: Any, compacted: Any) -> Mapping[str, Entry]:
    """Return the parts of a table that are there: those of the checkpoint, or what became of them.

    Raises
    ------
    Damaged
        If neither are as they were written.
    """
    wanted = entries(parts)
    try:
        check(folder, wanted)
    except Damaged:
        if compacted is None:
            raise
        wanted = entries(compacted)
        check(folder, wanted)
    return wanted


def _arrays(moment: RunState) -> dict[str, Array]:
    arrays = {f"state.{k}": v for k, v in moment.state.items()}
    arrays |= {f"selection.{k}": v for k, v in moment.selection.items()}
    arrays |= {f"lengths.{k}": v for k, v in moment.step_state.items()}
    # the newest iterate is the model itself, which is not written twice
    arrays |= {f"window.{k}": v for k, v in enumerate(moment.window) if v is not moment.state["x"]}
    arrays |= {f"own.{k}": v for k, v in moment.personal.items()}
    arrays |= {f"correction.{k}": v for k, v in moment.correction.items()}
    if moment.timeline is not None:
        arrays |= {f"timeline.{k}": v for k, v in moment.timeline.arrays().items()}
    arrays |= {f"ahead.{k}": v for k, v in moment.ahead.items()}
    arrays |= {f"channel.{k}": v for k, v in moment.channel.items()}
    for name, known in moment.measured.items():
        arrays |= {f"measured.{name}/{k}": v for k, v in known.items()}
    return arrays


def _moment(manifest: Mapping[str, Any], server: Mapping[str, Array]) -> RunState:
    state, window = _with_prefix(server, "state."), _with_prefix(server, "window.")
    iterates = manifest.get("window", len(window))  # earlier versions wrote all of them
    timeline = _with_prefix(server, "timeline.")
    works = [name for name in timeline if name.startswith("works.")]
    unsized = bool(works) and "works.up_bytes" not in works
    if unsized or any(name.startswith(_OLDER) for name in server):
        raise RunFailed(f"round {manifest['round']}: {_OTHER_WORKS}")
    return RunState(
        round=manifest["round"],
        time_s=manifest["time_s"],
        state=state,
        selection=_with_prefix(server, "selection."),
        step_state=_with_prefix(server, "lengths."),
        window=tuple(window.get(str(k), state["x"]) for k in range(iterates)),
        last=LastEvaluation(**manifest["last"]),
        personal=_with_prefix(server, "own."),
        measured=_measured(_with_prefix(server, "measured.")),
        updates=manifest["updates"],
        timeline=Timeline.of(timeline) if timeline else None,
        correction=_with_prefix(server, "correction."),
        ahead=_with_prefix(server, "ahead."),
        channel=_with_prefix(server, "channel."),
    )


def _measured(arrays: Mapping[str, Array]) -> dict[str, dict[str, Array]]:
    """Return the state of each measure."""
    measures = dict.fromkeys(name.partition("/")[0] for name in arrays)
    return {name: _with_prefix(arrays, f"{name}/") for name in measures}


def _with_prefix(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)}


def write_text(path: Path, text: str, *, durable: bool = False) -> None:
    """Write a text file whole or not at all; see `store.publish`."""
    store.publish_text(path, text, durable=durable)
