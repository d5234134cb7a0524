"""Clients that know the honest replies of a round, and what they send in their place.

The honest are asked first, for sums of their vectors and of the squares of these; the others in a
second exchange. What colluding clients send is the same vector for all of them, which is added to
the sums here: a host need not know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from rayfed.channel.faults.base import Collusion, Knowledge
from rayfed.channel.faulty import Faulty
from rayfed.channel.uplink import total_name
from rayfed.clients.request import Request, group_name
from rayfed.core.arrays import Array, Bools, Floats, Ints, under
from rayfed.core.rng import Key
from rayfed.core.tree import add
from rayfed.engine.run import Run
from rayfed.executors.base import Gathered

State = Mapping[str, Array]
Compute: TypeAlias = Callable[[Request], Gathered]


class Colluders:
    """The colluding clients of one run.

    Their state is ``fault.<number>.<client function>.<name>`` in that of the channel.

    Parameters
    ----------
    run : Run
    """

    def __init__(self, run: Run) -> None:
        self.every = run.faults
        self.known = [faulty for faulty in self.every if isinstance(faulty.fault, Collusion)]
        self.key = Key(run.seed, "faults")

    def answered(self, request: Request, compute: Compute, state: State) -> tuple[Gathered, State]:
        """Return the answer to a request of the algorithm, and the state after it.

        Parameters
        ----------
        request : Request
        compute : callable
            Computes a request for some of its clients.
        state : mapping of str to array
            Of the channel.
        """
        ids, round = request.ids, request.round
        active = [(each, np.flatnonzero(each.among(ids, round))) for each in self.known]
        active = [(each, at) for each, at in active if len(at)]
        honest = ~_any(self.every, ids)
        if not active or not honest.any():
            return compute(request), state
        sees = any(each.fault.sees_vectors for each, _ in active)  # type: ignore[attr-defined]
        first = np.flatnonzero(honest)
        asked = replace(request.part(first), squares=True, vectors=request.vectors or sees)
        heard = compute(asked)
        rest = np.flatnonzero(~honest)
        wrong = compute(_unheard(request, rest, active))
        gathered = _joined(request, (first, heard), (rest, wrong))
        now = dict(state)
        for each, at in active:
            gathered, now = self._added(request, gathered, heard, first, each, at, now)
        return gathered, now

    def _added(
        self, request: Request, gathered: Gathered, heard: Gathered, first: Ints, faulty: Faulty,
        at: Ints, state: State,
    ) -> tuple[Gathered, dict[str, Array]]:  # fmt: skip
        """Return an answer with what some colluding clients at these places send."""
        fault, now = faulty.fault, dict(state)
        assert isinstance(fault, Collusion)
        sums, each = dict(gathered.sums), dict(gathered.each)
        total = float(request.weights[first].sum())
        for name in [name for name in request.up if f"{name}^2" in heard.sums]:
            shape = heard.sums[name].shape
            mean, square = (
                (heard.sums[key] / total).astype(heard.sums[key].dtype).reshape(-1)
                for key in (name, f"{name}^2")
            )
            vectors = heard.each[name].reshape(len(first), -1) if name in heard.each else None
            known = Knowledge(mean, square, len(first), len(at), vectors, request.ids[first])
            mine = f"fault.{faulty.number}.{request.work}.{name}."
            kept = under(state, mine)
            key = self.key.sub(f"{faulty.number}/{request.work}/{name}")
            first_state = kept or fault.init(mean.size, key.uniforms([0], mean.size)[0])
            vector, after = fault.sent(known, first_state)
            now |= {mine + k: v for k, v in after.items()}
            wrong = vector.reshape(shape)
            for key_name, weight in _shares(request, name, at):
                share = wrong * wrong.dtype.type(weight)
                sums[key_name] = sums[key_name] + share if key_name in sums else share
            if name in each:
                each[name] = each[name].copy()
                each[name][at] = wrong
        return Gathered(sums, each), now


def _any(every: tuple[Faulty, ...], ids: Ints) -> Bools:
    """Return who (K,) is faulty at any time."""
    found = np.zeros(len(ids), np.bool_)
    for each in every:
        found |= each.among(ids)
    return found


def _unheard(request: Request, rest: Ints, active: list[tuple[Faulty, Ints]]) -> Request:
    """Return the request for those who are not honest, in which colluding ones weigh nothing."""
    weights = request.weights.copy()
    shares = None if request.shares is None else request.shares.copy()
    for _, at in active:
        weights[at] = 0
        if shares is not None:
            shares[at] = 0
    return replace(request, weights=weights, shares=shares).part(rest)


def _joined(request: Request, *parts: tuple[Ints, Gathered]) -> Gathered:
    """Return the answers to parts of a request as one."""
    sums: dict[str, Array] = {}
    for _, gathered in parts:
        new = {k: v for k, v in gathered.sums.items() if k not in sums}
        both = {k: v for k, v in gathered.sums.items() if k in sums}
        sums |= add({k: sums[k] for k in both}, both) if both else {}
        sums |= new
    each: dict[str, Array] = {}
    for name in parts[-1][1].each:
        rows = [gathered.each[name] for _, gathered in parts]
        each[name] = np.empty((len(request.ids), *rows[0].shape[1:]), rows[0].dtype)
        for (at, _), values in zip(parts, rows, strict=True):
            each[name][at] = values
    return Gathered(sums, each)


def _shares(request: Request, name: str, at: Ints) -> Iterator[tuple[str, float]]:
    """Yield the sums that clients at these places enter, and with which weight."""
    weights: Floats = request.weights[at]
    yield name, float(weights.sum())
    if request.shares is not None:
        yield total_name(name), float(request.shares[at].sum())
    if request.labels is not None:
        for label in np.unique(request.labels[at]).tolist():
            yield group_name(name, label), float(weights[request.labels[at] == label].sum())
