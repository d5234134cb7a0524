"""One Ask on one host: computed in stacks of clients, and added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rayfed.channel import faulty
from rayfed.channel.base import Draws
from rayfed.channel.faulty import PREFIX as FAULTS
from rayfed.channel.uplink import LEFT_OUT, NORM, PREFIX, Uplink, WeightKind, total_name
from rayfed.clients.arrangement import arrangement, together
from rayfed.clients.clients import Clients
from rayfed.clients.function import ClientFunction
from rayfed.clients.near import Messages
from rayfed.clients.prints import Prints
from rayfed.clients.request import GROUP, STATISTICS, Request, group_name
from rayfed.clients.setup import Setup
from rayfed.clients.stacks import Stacks
from rayfed.clients.store import StateOnUse, Store
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.rng import Key, part_of
from rayfed.core.tree import Branch, Class, Sums, class_sums, tree_sum
from rayfed.messages import Upload
from rayfed.solvers.own_train import METRIC


@dataclass(frozen=True)
class HostedRun:
    """State of one run at a host.

    Parameters
    ----------
    setup : Setup
    classes : sequence of (residue, modulus)
        Residue classes of the ids of the clients that live here.
    store : Store
        The clients' state.
    stacks : Stacks
        Stacks of rows.
    messages : Messages
        Messages of nodes between a step and its mixing.
    """

    setup: Setup
    classes: Sequence[Class]
    store: Store
    stacks: Stacks = field(default_factory=Stacks)
    messages: Messages = field(default_factory=Messages)


class Task:
    """One Ask on one host.

    Parameters
    ----------
    run : HostedRun
        In whose store rows that a client function returns are committed at once.
    key : str
        Of the run.
    request : Request
        The Ask.
    send : mapping of str to array
        What every client downloads.
    prints : Prints
        Where what client functions print goes.

    Attributes
    ----------
    each : dict of str to (K, ...) array
        Scalars of the clients, in the order of the request's ids.
    """

    def __init__(
        self, run: HostedRun, key: str, request: Request, send: Mapping[str, Array],
        prints: Prints,
    ) -> None:  # fmt: skip
        self.run, self.setup, setup = run, run.setup, run.setup
        self.request = request
        self.round = request.round if request.data_round is None else request.data_round
        self.view = setup.views.of(request.owner).at(self.round)
        self.norm = float(send[NORM]) if NORM in send else None
        sent = {name: values for name, values in send.items() if name != NORM}
        self.function = ClientFunction(setup, request, sent, key, prints)
        self.uplink = setup.uplink if request.owner == "algorithm" else None
        self.faults = setup.faults if request.owner == "algorithm" else ()
        channels = (PREFIX, FAULTS)
        self.own = [name for name in setup.initial if not name.startswith(channels)]
        self.arrangement = arrangement(request, self.view.shards, run.stacks.arranged)
        self.each: dict[str, Array] = {}

    @cached_property
    def together(self) -> int:
        """Number of clients per stack."""
        return together(self.request, self.setup, self.view.shards)

    def branch(self, residue: int, modulus: int) -> list[Branch]:
        """Return the branch of a class, or nothing where none of its clients was asked."""
        ids = self.request.ids
        own_ids = ids if modulus == 1 else ids[ids % modulus == residue]
        if not len(own_ids):
            return []
        sums = class_sums(own_ids, self._leaf, self.together, residue, modulus)
        return [(residue, modulus, sums)]

    def _leaf(self, ids: Ints) -> Sums:
        """Return the sums over some clients of a class."""
        index = self.arrangement.places(ids)
        if len(self.request.ids) > self.together:
            stacked = self._stacked(index)
        else:  # clients of different classes share a stack
            stacked = self._unsplit
            if len(index) < len(self.request.ids):
                stacked = {name: rows[index] for name, rows in stacked.items()}
        if not self.request.sums:
            return {}
        residuals = stacked.get(LEFT_OUT)
        stacked = {name: rows for name, rows in stacked.items() if name != LEFT_OUT}
        sums = self._sums(ids, index, stacked, slice(None))
        if residuals is not None:
            sums[LEFT_OUT] = tree_sum(ids, residuals)
        if self.request.squares:
            for name, rows in stacked.items():  # in float64: their difference may be small
                exact = rows.astype(np.float64)
                powers = {f"{name}^1": exact, f"{name}^2": exact * exact}
                sums |= self._sums(ids, index, powers, slice(None))
        if self.request.shares is not None:
            sums |= self._totals(self.request.shares, ids, index, stacked)
        groups = self.each[GROUP] if GROUP in self.request.up else self.request.labels
        if groups is not None:
            labels = groups[index]
            for label in np.unique(labels).tolist():
                of_group = self._sums(ids, index, stacked, np.flatnonzero(labels == label))
                sums |= {group_name(name, label): total for name, total in of_group.items()}
        return sums

    def _sums(
        self, ids: Ints, index: Ints, stacked: Mapping[str, Array], members: slice | Ints
    ) -> dict[str, Array]:
        """Add up the vectors of some of these clients."""
        weights, ids, index = self.request.weights[index][members], ids[members], index[members]
        sums = {}
        for name, rows in stacked.items():
            if self._estimated(name):  # the memory's total is all that the server needs
                continue
            plain = name in self.request.plain
            w = np.ones(len(ids)) if plain else weights
            sums[name] = self._sum(name, "plain" if plain else "raw", ids, index, rows[members], w)
        return sums

    def _sum(
        self, name: str, kind: WeightKind, ids: Ints, index: Ints, rows: Array, weights: Floats
    ) -> Array:
        """Add up weighted vectors of some clients, in fixed point where sums are secure."""
        if self.uplink is not None and self.uplink.secure is not None:
            draws = self._draws(self.uplink, ids, index)
            return tree_sum(ids, self.uplink.fixed(name, rows, weights, kind, draws))
        return tree_sum(ids, rows, weights.astype(rows.dtype, copy=False))

    def _estimated(self, name: str) -> bool:
        memory = None if self.uplink is None else self.uplink.memory
        return memory is not None and memory.estimates and f"{PREFIX}{name}" in self.setup.initial

    def _totals(
        self, shares: Floats, ids: Ints, index: Ints, stacked: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Add up by the weights of all clients, for memories at the server."""
        return {
            total_name(name): self._sum(name, "shares", ids, index, rows, shares[index])
            for name, rows in stacked.items()
            if f"{PREFIX}{name}" in self.setup.initial
        }

    @cached_property
    def _unsplit(self) -> dict[str, Array]:
        return self._stacked(np.arange(len(self.request.ids)))

    def _stacked(self, index: Ints) -> dict[str, Array]:
        """Return the vectors that some clients upload, computed stack by stack."""
        stacked: dict[str, Array] = {}
        for members in self.arrangement.stacks(index):
            chosen = index[members]
            self._collect(self._computed(chosen), chosen, stacked, len(index), members)
        return stacked

    def _computed(self, index: Ints) -> dict[str, Array]:
        """Run the client function for one stack; commit its state, return its other uploads."""
        clients = self._clients(index)
        upload = self.function.call(clients, index)
        values, state = dict(upload.values), upload.state
        left = clients.left if self.request.owner == "algorithm" else {}
        left_out: dict[str, Array] = {}
        if self.uplink is not None:
            values, stored = self._through(self.uplink, values, clients.ids, index)
            decoded = self._found(self.uplink, upload, values, clients.ids, index)
            state = {**state, **mirrored(upload, decoded), **stored}
            left_out = {LEFT_OUT: values.pop(LEFT_OUT)} if self.uplink.left_out else {}
        for name, vector in upload.squares.items():
            values[name] = np.sum(values[vector] * values[vector], axis=1)
        if state or left:  # metrics stay at the client, too: `clients` has those of its last reply
            self.run.store.put(clients.ids, {**state, **left})
        if self.faults:
            values = self._wrong(values, clients.ids, index)
        if upload.group is not None:
            values[GROUP] = upload.group
        if upload.loss is not None:
            values.setdefault("loss", upload.loss)
        metrics = {name: rows for name, rows in left.items() if name.startswith(METRIC)}
        return values | left_out | metrics

    def _through(
        self, uplink: Uplink, values: Mapping[str, Array], ids: Ints, index: Ints
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the decoded upload at the server, and the channel's next client state."""
        request = self.request
        stored = self.run.store.get(ids, uplink.initial) if uplink.initial else {}
        draws = self._draws(uplink, ids, index)
        first = np.zeros(len(ids), bool) if request.first is None else request.first[index]
        sent, now = uplink.sent(values, stored, draws, first, self.norm)
        memory = uplink.memory
        if uplink.secure is not None and memory is not None and request.shares is not None:
            for name in uplink.up:  # the server's memory takes what is rounded in its sum
                found = uplink.found(name, sent[name], request.shares[index], "shares", draws)
                change = found.astype(sent[name].dtype) - sent[name]
                now[f"{PREFIX}{name}"] += sent[name].dtype.type(memory.step) * change
        return sent, now

    def _found(
        self, uplink: Uplink, upload: Upload, values: Mapping[str, Array], ids: Ints, index: Ints
    ) -> Mapping[str, Array]:
        """Return the decoded upload, with the rounding of secure sums for mirrored vectors."""
        if uplink.secure is None or not upload.mirrors:
            return values
        found, draws = dict(values), self._draws(uplink, ids, index)
        for name, _ in upload.mirrors.values():
            plain = name in self.request.plain
            weights = np.ones(len(ids)) if plain else self.request.weights[index]
            kind: WeightKind = "plain" if plain else "raw"
            found[name] = uplink.found(name, values[name], weights, kind, draws)
        return found

    def _wrong(self, values: Mapping[str, Array], ids: Ints, index: Ints) -> dict[str, Array]:
        """Return the uploads of faulty clients, and store their state."""
        request, out = self.request, dict(values)
        names = [name for name in self.setup.initial if name.startswith(FAULTS)]
        stored = self.run.store.get(ids, names) if names else {}
        draw = part_of(request.round if request.draw is None else request.draw, index)
        draws = Draws(Key(self.setup.seed, "faults"), ids, draw, request.ask, request.round)
        for at, wrong, now in faulty.sent(self.faults, values, stored, draws, request.round):
            for name, rows in wrong.items():
                out[name] = out[name].copy()
                out[name][at] = rows
            if now:
                self.run.store.put(ids[at], now)
        return out

    def _draws(self, uplink: Uplink, ids: Ints, index: Ints) -> Draws:
        request = self.request
        draw = part_of(request.round if request.draw is None else request.draw, index)
        return Draws(uplink.key, ids, draw, request.ask, request.round)

    def _clients(self, index: Ints) -> Clients:
        """Return some of the request's clients as their client function sees them."""
        request, setup, store = self.request, self.setup, self.run.store
        ids = request.ids[index]

        def state(name: str) -> Array:
            return setup.problem.arrays(store.get(ids, [name]))[name]

        held = StateOnUse(self.own, state)
        return Clients(
            problem=setup.problem.at(self.round, ids, held),
            objective=self.view.objective, shards=self.view.shards,
            solver=setup.solvers[int(request.groups[index[0]])], ids=ids,
            sizes=self.view.shards.sizes(ids), steps=request.steps[index], seed=setup.seed,
            round=request.round, ask=request.ask, p=setup.p,
            state=held,
            stacks=self.run.stacks,
            draw=part_of(request.draw, index),
            block=setup.block, apart=request.up.get(STATISTICS, 0),
        )  # fmt: skip

    def _collect(
        self,
        values: Mapping[str, Array],
        index: Ints,
        stacked: dict[str, Array],
        count: int,
        members: Any,
    ) -> None:
        """Collect uploads: vectors with places among `count`, and scalars."""
        for name, rows in values.items():
            if self.request.keeps and name in self.request.up:
                _scatter(self.run.messages.rows, name, rows, len(self.request.ids), index)
                continue
            if rows.ndim > 1 and self.request.sums:
                _scatter(stacked, name, rows, count, members)
            by_client = self.request.vectors and (name != LEFT_OUT or not self.request.sums)
            if rows.ndim == 1 or by_client:
                _scatter(self.each, name, rows, len(self.request.ids), index)


def mirrored(upload: Upload, decoded: Mapping[str, Array]) -> dict[str, Array]:
    """Return the state that clients keep of vectors which the server decodes differently.

    Parameters
    ----------
    upload : Upload
        Of K clients, as their client function returned it.
    decoded : mapping of str to (K, ...) array
        The vectors that the server decodes.
    """
    state = {}
    for name, (vector, factor) in upload.mirrors.items():
        change = decoded[vector] - upload.values[vector]
        state[name] = upload.state[name] + np.asarray(factor, dtype=change.dtype) * change
    return state


def _scatter(into: dict[str, Array], name: str, rows: Array, count: int, at: Any) -> None:
    """Write rows of one stack to their places among `count` clients."""
    if isinstance(at, slice):
        into[name] = rows
        return
    if name not in into:
        into[name] = np.empty((count, *rows.shape[1:]), rows.dtype)
    into[name][at] = rows
