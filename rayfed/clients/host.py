"""The host: keeps some clients, their rows and their state, and runs their halves of an Ask.

It lives in a client actor, one or many clients to an actor, or in the process itself. It imports
little on purpose: what an actor imports decides what an actor costs.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np

from rayfed.clients import Clients
from rayfed.clients.clients import Stacks
from rayfed.clients.solvers import Solver
from rayfed.core.arrays import Array, Ints
from rayfed.core.tree import Branch, Sums, class_sums, tree_sum
from rayfed.datasets.shards import Shards
from rayfed.messages import Upload
from rayfed.problems.base import Problem
from rayfed.problems.objective import Objective

GROUP = "group"
"""Name of the scalar that says which group a client belongs to."""


@dataclass(frozen=True)
class View:
    """One view of the data: its rows and what is averaged over what."""

    shards: Shards
    objective: Objective


def group_name(name: str, label: int) -> str:
    """Return the name of a vector's sum over one group; no vector of an Upload is called so."""
    return f"{name}@{label}"


def with_table(shards: Any, table: Any) -> Shards:
    """Return shards with another table, or with None to travel light."""
    bound: Shards = replace(shards, table=table)
    return bound


@dataclass(frozen=True)
class Setup:
    """All that a host needs to know of a run.

    Parameters
    ----------
    owners : mapping of str to object
        Whose methods are client halves: "algorithm", "selection", "evaluation".
    views : mapping of str to View
        The data as each owner sees it; "" for every owner that is not named.
    solvers : tuple of Solver
        The local solver of each client group.
    initial : mapping of str to array
        First row of each array of client state.
    block : int
        Clients to a stack.
    """

    owners: Mapping[str, Any]
    views: Mapping[str, View]
    problem: Problem
    solvers: tuple[Solver, ...]
    initial: Mapping[str, Array]
    seed: int
    p: int
    block: int

    def with_tables(self, tables: Sequence[Any]) -> Setup:
        """Give the views the tables that their shards travel without (None: it needs none)."""
        views = {
            name: view if table is None else View(with_table(view.shards, table), view.objective)
            for (name, view), table in zip(self.views.items(), tables, strict=True)
        }
        return replace(self, views=views)


@dataclass(frozen=True)
class Request:
    """One Ask as a host gets it: only its own clients, without the broadcast arrays."""

    owner: str
    work: str
    up: Mapping[str, int]
    ids: Ints
    weights: Array
    steps: Ints
    groups: Ints
    round: int
    ask: int
    vectors: bool = False
    sleep_s: Array | None = None
    classes: list[tuple[int, int]] | None = None
    """Residue classes that the clients belong to; the host's own if None."""
    plain: tuple[str, ...] = ()
    """Vectors that are added up without weights."""

    def part(self, index: Array, classes: list[tuple[int, int]] | None = None) -> Request:
        """Return the request for some of its clients, all those of some classes."""
        return Request(
            self.owner, self.work, self.up, self.ids[index], self.weights[index],
            self.steps[index], self.groups[index], self.round, self.ask, self.vectors,
            None if self.sleep_s is None else self.sleep_s[index], classes, self.plain,
        )  # fmt: skip


@dataclass(frozen=True)
class Partial:
    """What one host returns: sums over its classes, and scalars in the order of the ids."""

    branches: list[Branch]
    each: Mapping[str, Array]


@dataclass(frozen=True)
class Failure:
    """A client half that raised: which client, and the original traceback."""

    client: int
    trace: str


class UnknownRun(Exception):
    """The host does not know the run: it was started anew and must be restored."""


@dataclass
class Store:
    """Client state: one growing array a name, a row for every client that was touched."""

    initial: Mapping[str, Array]
    slots: dict[int, int] = field(default_factory=dict)
    rows: dict[str, Array] = field(default_factory=dict)
    dirty: set[int] = field(default_factory=set)

    def get(self, ids: Ints) -> dict[str, Array]:
        """Return the rows of clients, their first value where they were never touched."""
        slots = [self.slots.get(i, -1) for i in ids.tolist()]
        fresh = np.array([s < 0 for s in slots])
        out = {}
        for name, first in self.initial.items():
            shape = (len(ids), *first.shape)
            rows = self.rows[name][slots] if self.slots else np.empty(shape, first.dtype)
            rows[fresh] = first
            out[name] = rows
        return out

    def put(self, ids: Ints, values: Mapping[str, Array]) -> None:
        """Replace the rows of clients; names that are not given keep their value."""
        current = self.get(ids)
        for i in ids.tolist():
            self.slots.setdefault(i, len(self.slots))
        slots = [self.slots[i] for i in ids.tolist()]
        for name, first in self.initial.items():
            self._reserve(name, first)
            self.rows[name][slots] = values.get(name, current[name])
        self.dirty.update(ids.tolist())

    def _reserve(self, name: str, first: Array) -> None:
        held = self.rows.get(name, np.empty((0, *first.shape), first.dtype))
        if len(held) < len(self.slots):
            grown = np.empty((max(8, 2 * len(self.slots)), *first.shape), first.dtype)
            grown[: len(held)] = held
            held = grown
        self.rows[name] = held

    def changed(self) -> dict[str, Array]:
        """Return ids and rows that changed since the last call, ids ascending."""
        ids = np.array(sorted(self.dirty), dtype=np.int64)
        self.dirty.clear()
        return {"ids": ids, **(self.get(ids) if len(ids) else {})}


class Host:
    """Keeps clients of any number of runs, keyed by run.

    Parameters
    ----------
    classes : list of (residue, modulus)
        Whose clients live here.
    """

    def __init__(self, classes: list[tuple[int, int]]) -> None:
        self.classes = classes
        self.runs: dict[str, tuple[Setup, Store, Stacks]] = {}

    def open(self, key: str, setup: Setup, rows: Mapping[str, Array] | None = None) -> None:
        """Begin a run, or begin it again with the client state of a checkpoint."""
        store = Store(setup.initial)
        if rows is not None and len(rows["ids"]):
            store.put(rows["ids"], {k: v for k, v in rows.items() if k != "ids"})
            store.dirty.clear()
        self.runs[key] = (setup, store, Stacks())

    def close(self, key: str) -> None:
        """Forget a run."""
        self.runs.pop(key, None)

    def snapshot(self, key: str) -> dict[str, Array]:
        """Return the client state that changed since the last snapshot."""
        return self._run(key)[1].changed()

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Partial | Failure:
        """Run the client half of an Ask for the clients that live here."""
        setup, store, stacks = self._run(key)
        work = _Work(setup, store, stacks, request, send)
        try:
            classes = self.classes if request.classes is None else request.classes
            branches = [b for r, m in classes for b in work.branch(r, m)]
        except _Failed as failed:
            return Failure(failed.client, failed.trace)
        except Exception:  # what no client half is to blame for
            return Failure(int(request.ids[0]), traceback.format_exc())
        if request.sleep_s is not None and len(request.ids):
            time.sleep(float(request.sleep_s.max()))
        return Partial(branches, work.each)

    def _run(self, key: str) -> tuple[Setup, Store, Stacks]:
        if key not in self.runs:
            raise UnknownRun(key)
        return self.runs[key]


class _Failed(Exception):
    def __init__(self, client: int, trace: str) -> None:
        super().__init__(client)
        self.client, self.trace = client, trace


class _Work:
    """One Ask on one host: splits its clients into stacks and adds up what they send."""

    def __init__(
        self,
        setup: Setup,
        store: Store,
        stacks: Stacks,
        request: Request,
        send: Mapping[str, Array],
    ) -> None:
        self.setup, self.store, self.stacks = setup, store, stacks
        self.request, self.send = request, send
        self.view = setup.views.get(request.owner, setup.views[""])
        self.half: Callable[..., Upload] = getattr(setup.owners[request.owner], request.work)
        self.each: dict[str, Array] = {}
        self.keys = self._keys()
        order = np.argsort(request.ids, kind="stable")
        self.sorted_ids, self.order = request.ids[order], order

    def _keys(self) -> Ints:
        """Return the number of each client's stack: same group, same padded widths."""
        request, shards = self.request, self.view.shards
        columns = [request.groups, shards.widths(request.ids)]
        if request.owner in ("evaluation", "server"):  # these look at held-out rows
            columns.append(shards.widths(request.ids, "test"))
        if all(len(c) == 0 or (c == c[0]).all() for c in columns):
            return np.zeros(len(request.ids), dtype=np.int64)
        _, keys = np.unique(np.stack(columns), axis=1, return_inverse=True)
        return np.asarray(keys).ravel()

    def branch(self, residue: int, modulus: int) -> list[Branch]:
        """Return the branch of a class, or nothing where none of its clients was asked."""
        ids = self.request.ids
        mine = ids if modulus == 1 else ids[ids % modulus == residue]
        if not len(mine):
            return []
        sums = class_sums(mine, self._leaf, self.setup.block, residue, modulus)
        return [(residue, modulus, sums)]

    def _leaf(self, ids: Ints) -> Sums:
        index = self.order[np.searchsorted(self.sorted_ids, ids)]
        keys = self.keys[index]
        stacked: dict[str, Array] = {}
        for key in range(int(keys.max()) + 1):
            members = slice(None) if (keys == key).all() else np.flatnonzero(keys == key)
            if isinstance(members, slice) or len(members):
                self._stack(index, members, stacked)
        sums = self._sums(ids, index, stacked, slice(None))
        if GROUP in self.request.up:
            labels = self.each[GROUP][index]
            for label in np.unique(labels).tolist():
                some = self._sums(ids, index, stacked, np.flatnonzero(labels == label))
                sums |= {group_name(name, label): total for name, total in some.items()}
        return sums

    def _sums(
        self, ids: Ints, index: Ints, stacked: Mapping[str, Array], members: slice | Ints
    ) -> dict[str, Array]:
        """Add up the vectors of some of these clients."""
        weights, one = self.request.weights[index], np.ones(len(index))
        sums = {}
        for name, rows in stacked.items():
            w = one if name in self.request.plain else weights
            sums[name] = tree_sum(ids[members], rows[members], w.astype(rows.dtype)[members])
        return sums

    def _stack(self, index: Ints, members: Any, stacked: dict[str, Array]) -> None:
        """Run the client half for one stack; commit state, keep scalars, collect vectors."""
        chosen = index[members]
        clients = self._clients(chosen)
        upload = self._call(clients)
        self._check(upload, len(chosen))
        if upload.state:
            self.store.put(clients.ids, upload.state)
        for name, rows in upload.values.items():
            if rows.ndim > 1:
                _scatter(stacked, name, rows, len(index), members)
            if rows.ndim == 1 or self.request.vectors:
                _scatter(self.each, name, rows, len(self.request.ids), chosen)
        if upload.group is not None:
            _scatter(self.each, GROUP, upload.group, len(self.request.ids), chosen)
        if upload.loss is not None and "loss" not in upload.values:
            _scatter(self.each, "loss", upload.loss, len(self.request.ids), chosen)

    def _clients(self, index: Ints) -> Clients:
        request, setup = self.request, self.setup
        ids = request.ids[index]
        return Clients(
            problem=setup.problem, objective=self.view.objective, shards=self.view.shards,
            solver=setup.solvers[int(request.groups[index[0]])], ids=ids,
            sizes=self.view.shards.sizes(ids), steps=request.steps[index], seed=setup.seed,
            round=request.round, ask=request.ask, p=setup.p,
            state=self.store.get(ids) if setup.initial else {}, stacks=self.stacks,
        )  # fmt: skip

    def _call(self, clients: Clients) -> Upload:
        """Call the client half; where it raises, find the client that it raises for."""
        try:
            with np.errstate(all="ignore"):  # a run that diverges is reported by the engine
                return self.half(clients, **self.send)
        except Exception as error:
            for k in range(len(clients.ids)):
                try:
                    self.half(clients.only(k), **self.send)
                except Exception:
                    raise _Failed(int(clients.ids[k]), traceback.format_exc()) from error
            raise _Failed(int(clients.ids[0]), traceback.format_exc()) from error

    def _check(self, upload: Upload, k: int) -> None:
        """Refuse an upload that differs from what the Ask declared: traffic must be honest."""
        declared, initial = dict(self.request.up), self.setup.initial
        sent = {name: rows.size // max(k, 1) for name, rows in upload.values.items()}
        if upload.group is not None:
            sent[GROUP] = 1
        if sent != declared:
            self._refuse(
                f"declares the upload {declared} but sends {sent} (numbers per client); "
                "mend `up` of its Ask"
            )
        for name, rows in upload.values.items():
            if len(rows) != k:
                self._refuse(f"sends '{name}' {rows.shape} for {k} clients; put clients first")
        for name, rows in upload.state.items():
            if name not in initial:
                self._refuse(f"keeps '{name}', which `client_state` does not make; add it there")
            if rows.shape != (k, *initial[name].shape):
                wanted = (k, *initial[name].shape)
                self._refuse(f"keeps '{name}' {rows.shape}; a row a client is {wanted}")

    def _refuse(self, why: str) -> NoReturn:
        who = type(self.setup.owners[self.request.owner]).__name__
        raise _Failed(int(self.request.ids[0]), f"{who}.{self.request.work} {why}")


def _scatter(into: dict[str, Array], name: str, rows: Array, count: int, at: Any) -> None:
    """Write rows of one stack to their places among `count` clients."""
    if isinstance(at, slice):
        into[name] = rows
        return
    if name not in into:
        into[name] = np.empty((count, *rows.shape[1:]), rows.dtype)
    into[name][at] = rows
