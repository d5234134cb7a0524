"""One Ask on one host: split into stacks of clients, computed, checked and added up."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from rayfed.clients import span
from rayfed.clients.clients import Clients
from rayfed.clients.prints import Prints
from rayfed.clients.request import GROUP, Request, group_name
from rayfed.clients.setup import Setup
from rayfed.clients.stacks import Stacks
from rayfed.clients.store import Store
from rayfed.core.arrays import Array, Ints, all_to_numpy, to_numpy
from rayfed.core.errors import listed
from rayfed.core.names import called
from rayfed.core.plugins import defined_at, raised
from rayfed.core.rng import part_of
from rayfed.core.tree import Branch, Sums, class_sums, tree_sum
from rayfed.messages import Upload

_HELD_OUT = {"evaluation": "test", "server": "test", "validation": "validation"}
"""Which held-out rows client halves look at, by their owner."""


class ClientError(Exception):
    """A client half raised, or sent what its Ask does not declare.

    Parameters
    ----------
    client : int
        The client's id.
    trace : str
        The original traceback; empty if nothing was raised.
    reason : str
        The error in one line, with the user's file and line.
    """

    def __init__(self, client: int, trace: str, reason: str) -> None:
        super().__init__(client)
        self.client, self.trace, self.reason = client, trace, reason

    @classmethod
    def of(cls, client: int, error: Exception) -> ClientError:
        """Return the error of a client half that raised."""
        return cls(client, "".join(traceback.format_exception(error)), raised(error))


class NotKept(Exception):
    """A piece of work that was to be computed ahead is not there: it must be asked for anew."""


class Task:
    """One Ask on one host.

    Parameters
    ----------
    setup : Setup
        The run.
    store : Store
        The clients' state; rows that a client half returns are committed at once.
    stacks : Stacks
        Stacks of rows that recur.
    request : Request
        The Ask.
    send : mapping of str to array
        What every client downloads.
    key : str
        Of the run.
    prints : Prints
        Where what client halves print goes.
    kept : mapping of int to mapping of str to array
        What clients send, as far as it was computed ahead, by the number of the piece of work.

    Raises
    ------
    NotKept
        If the request names a piece of work that is not among them.

    Attributes
    ----------
    each : dict of str to (K, ...) array
        Scalars of the clients, in the order of the request's ids.
    """

    def __init__(
        self,
        setup: Setup,
        store: Store,
        stacks: Stacks,
        request: Request,
        send: Mapping[str, Array],
        key: str,
        prints: Prints,
        kept: Mapping[int, Mapping[str, Array]],
    ) -> None:
        self.setup, self.store, self.stacks = setup, store, stacks
        self.key, self.prints = key, prints
        self.request = request
        given = setup.problem.arrays(send)
        self.send = {name: _read_only(rows) for name, rows in given.items()}
        round = request.round if request.data_round is None else request.data_round
        self.view = setup.views.of(request.owner).at(round)
        self.half: Callable[..., Upload] = getattr(setup.owners[request.owner], request.work)
        self.each: dict[str, Array] = {}
        self.keys, self.order, self.sorted_ids = self._arranged()
        self.kept = self._kept(kept)

    def _kept(self, kept: Mapping[int, Mapping[str, Array]]) -> dict[int, Mapping[str, Array]]:
        """Return what was computed ahead of this request, by the place of the client in it."""
        serials = [] if self.request.serials is None else self.request.serials.tolist()
        if any(serial and serial not in kept for serial in serials):
            raise NotKept
        return {k: kept[serial] for k, serial in enumerate(serials) if serial}

    def _arranged(self) -> tuple[Ints, Ints, Ints]:
        """Return the clients' keys (K,), their places by ascending id, and their ids so (K,).

        The same clients may be asked round after round.
        """
        request, arranged = self.request, self.stacks.arranged
        recurs = (self.view.shards.version, request.ids.tobytes(), request.groups.tobytes())
        known = arranged.get(request.owner)
        if known is None or known[0] != recurs:
            order = np.argsort(request.ids, kind="stable")
            known = arranged[request.owner] = recurs, (self._keys(), order, request.ids[order])
        return known[1]

    def _keys(self) -> Ints:
        """Return the number (K,) of each client's stack: same group, same padded widths."""
        request, shards = self.request, self.view.shards
        columns = [request.groups, shards.widths(request.ids)]
        if request.owner in _HELD_OUT:
            columns.append(shards.widths(request.ids, _HELD_OUT[request.owner]))
        if all(len(c) == 0 or (c == c[0]).all() for c in columns):
            return np.zeros(len(request.ids), dtype=np.int64)
        _, keys = np.unique(np.stack(columns), axis=1, return_inverse=True)
        return np.asarray(keys).ravel()

    @cached_property
    def together(self) -> int:
        """How many clients to a stack, as the first one asked for; only speed depends on it."""
        request, setup, shards = self.request, self.setup, self.view.shards
        if request.owner != "algorithm":
            return setup.block
        solver, i = setup.solvers[int(request.groups[0])], request.ids[0]
        fewest = span.fewest(solver, setup.problem, shards, i, setup.p)
        if fewest is None or request.steps[0] < fewest:
            return setup.block
        return max(setup.block, span.block(shards, i, setup.p))

    def branch(self, residue: int, modulus: int) -> list[Branch]:
        """Return the branch of a class, or nothing where none of its clients was asked."""
        ids = self.request.ids
        mine = ids if modulus == 1 else ids[ids % modulus == residue]
        if not len(mine):
            return []
        sums = class_sums(mine, self._leaf, self.together, residue, modulus)
        return [(residue, modulus, sums)]

    def _leaf(self, ids: Ints) -> Sums:
        """Return the sums over some clients of a class."""
        index = self.order[np.searchsorted(self.sorted_ids, ids)]
        if len(self.request.ids) > self.together:
            stacked = self._stacked(index)
        else:  # clients of different classes share a stack
            stacked = self._whole
            if len(index) < len(self.request.ids):
                stacked = {name: rows[index] for name, rows in stacked.items()}
        if not self.request.sums:
            return {}
        sums = self._sums(ids, index, stacked, slice(None))
        if GROUP in self.request.up:
            labels = self.each[GROUP][index]
            for label in np.unique(labels).tolist():
                of_group = self._sums(ids, index, stacked, np.flatnonzero(labels == label))
                sums |= {group_name(name, label): total for name, total in of_group.items()}
        return sums

    @cached_property
    def _whole(self) -> dict[str, Array]:
        return self._stacked(np.arange(len(self.request.ids)))

    def _stacked(self, index: Ints) -> dict[str, Array]:
        """Return the vectors that some clients upload, computed stack by stack."""
        keys = self.keys[index]
        stacked: dict[str, Array] = {}
        if self.kept:
            known = np.array([k in self.kept for k in index.tolist()])
            keys = np.where(known, -1, keys)
            self._take_kept(index, np.flatnonzero(known), stacked)
        for key in range(int(keys.max()) + 1):
            members = slice(None) if (keys == key).all() else np.flatnonzero(keys == key)
            if isinstance(members, slice) or len(members):
                self._stack(index, members, stacked)
        return stacked

    def _sums(
        self, ids: Ints, index: Ints, stacked: Mapping[str, Array], members: slice | Ints
    ) -> dict[str, Array]:
        """Add up the vectors of some of these clients."""
        weights, ids = self.request.weights[index][members], ids[members]
        sums = {}
        for name, rows in stacked.items():
            w = np.ones(len(ids)) if name in self.request.plain else weights
            sums[name] = tree_sum(ids, rows[members], w.astype(rows.dtype, copy=False))
        return sums

    def _take_kept(self, index: Ints, members: Ints, stacked: dict[str, Array]) -> None:
        """Take what was computed ahead of some of these clients."""
        for j in members.tolist():
            for name, row in self.kept[int(index[j])].items():
                rows = np.asarray(row)[None]
                if rows.ndim > 1:
                    _scatter(stacked, name, rows, len(index), [j])
                if rows.ndim == 1 or self.request.vectors:
                    _scatter(self.each, name, rows, len(self.request.ids), index[j : j + 1])

    def _stack(self, index: Ints, members: Any, stacked: dict[str, Array]) -> None:
        """Run the client half for one stack; commit state, keep scalars, collect vectors."""
        chosen = index[members]
        clients = self._clients(chosen)
        upload = self._call(clients, self._sent(chosen))
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
        """Return some of the request's clients as their client half sees them."""
        request, setup = self.request, self.setup
        ids = request.ids[index]
        return Clients(
            problem=setup.problem, objective=self.view.objective, shards=self.view.shards,
            solver=setup.solvers[int(request.groups[index[0]])], ids=ids,
            sizes=self.view.shards.sizes(ids), steps=request.steps[index], seed=setup.seed,
            round=request.round, ask=request.ask, p=setup.p,
            state=setup.problem.arrays(self.store.get(ids)) if setup.initial else {},
            stacks=self.stacks,
            draw=part_of(request.draw, index),
            block=setup.block,
        )  # fmt: skip

    def _sent(self, index: Ints) -> Mapping[str, Array]:
        """Return what some of the request's clients download."""
        if self.request.rows is None:
            return self.send
        rows = self.request.rows[index]
        return {name: stack[rows] for name, stack in self.send.items()}

    def _call(self, clients: Clients, send: Mapping[str, Array]) -> Upload:
        """Call the client half; where it raises, find the client that it raises for."""
        try:
            with (
                np.errstate(all="ignore"),  # a run that diverges is reported by the engine
                self.prints.labelled(_Label(self.key, self.request.round, clients.ids)),
            ):
                before = _versions(send)
                upload = self.half(clients, **send)
                self._check_returned(upload, send, before)
                return _in_numpy(upload) if self.setup.problem.libraries else upload
        except ClientError:
            raise
        except Exception as error:
            whole = error
        if len(clients.ids) == 1:
            raise ClientError.of(int(clients.ids[0]), whole) from whole
        return self._blame(clients, send, whole)

    def _blame(self, clients: Clients, send: Mapping[str, Array], whole: Exception) -> NoReturn:
        """Raise for the first client that a half fails for alone; for the first if none does.

        What a half prints for the others is not shown again.
        """
        for k in range(len(clients.ids)):
            one = send
            if self.request.rows is not None:
                one = {name: rows[k : k + 1] for name, rows in send.items()}
            try:
                with np.errstate(all="ignore"), self.prints.muted():
                    self.half(clients.only(k), **one)
            except Exception as error:
                raise ClientError.of(int(clients.ids[k]), error) from error
        raise ClientError.of(int(clients.ids[0]), whole) from whole

    def _check(self, upload: Upload, k: int) -> None:
        """Refuse an upload that differs from what the Ask declared: traffic must be honest."""
        declared, initial = dict(self.request.up), self.setup.initial
        sent = {name: rows.size // max(k, 1) for name, rows in upload.values.items()}
        if upload.group is not None:
            sent[GROUP] = 1
        if sent != declared:
            self._refuse(
                f"declares the upload {declared} but sends {sent} (numbers per client); "
                "correct `up` of its Ask"
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

    def _check_returned(
        self, upload: Any, send: Mapping[str, Array], before: Mapping[str, Any]
    ) -> None:
        """Refuse what is no upload, and changes of what other clients are sent as well."""
        if not isinstance(upload, Upload):
            self._refuse(f"returns a {type(upload).__name__}; return Upload({{name: rows}})")
        changed = [name for name, version in _versions(send).items() if version != before[name]]
        if changed:
            text = f"changes {listed(changed)} in place, which all clients are sent"
            self._refuse(f"{text}; copy it first")

    def _refuse(self, why: str) -> NoReturn:
        """Blame the client half, under the name of its first client."""
        who = type(self.setup.owners[self.request.owner]).__name__
        at = defined_at(self.half)
        text = f"{who}.{self.request.work} {why}" + (f" ({at})" if at else "")
        raise ClientError(int(self.request.ids[0]), "", text)


def _read_only(rows: Array) -> Array:
    """Return an array that cannot be changed in place: all stacks of clients are sent the same."""
    if isinstance(rows, np.ndarray) and rows.flags.writeable:
        rows = rows.view()
        rows.flags.writeable = False
    return rows


def _versions(send: Mapping[str, Array]) -> dict[str, Any]:
    """Return how often tensors were changed in place; NumPy's arrays are read-only."""
    return {name: getattr(rows, "_version", None) for name, rows in send.items()}


def _in_numpy(upload: Upload) -> Upload:
    """Return an upload as it travels: the server and the sums know NumPy's arrays alone."""
    loss = None if upload.loss is None else to_numpy(upload.loss)
    group = None if upload.group is None else to_numpy(upload.group)
    return Upload(all_to_numpy(upload.values), all_to_numpy(upload.state), loss, group)


@dataclass(frozen=True, slots=True)
class _Label:
    """What stands in front of what a half prints; hardly any does, so it is made when asked for."""

    key: str
    round: int
    ids: Ints

    def __str__(self) -> str:
        return f"{self.key}, round {self.round}, {called(self.ids)}"


def _scatter(into: dict[str, Array], name: str, rows: Array, count: int, at: Any) -> None:
    """Write rows of one stack to their places among `count` clients."""
    if isinstance(at, slice):
        into[name] = rows
        return
    if name not in into:
        into[name] = np.empty((count, *rows.shape[1:]), rows.dtype)
    into[name][at] = rows
