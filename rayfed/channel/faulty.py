"""Faulty clients of a population, and their effect on uploads at hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rayfed.channel.base import Draws
from rayfed.channel.faults import Fault, UploadFault
from rayfed.core.arrays import Array, Bools, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.names import numbered
from rayfed.core.rng import Key
from rayfed.population import Population

PREFIX = "fault."
"""What names of client state begin with that faults keep."""
MOST = 10_000_000
"""Clients of a population of which some may be drawn."""


@dataclass(frozen=True)
class Faulty:
    """Some clients with a fault.

    Parameters
    ----------
    fault : Fault
    clients : (F,) array of int
        Ascending.
    number : int
        Place of the fault in the scenario, by which draws are keyed.
    """

    fault: Fault
    clients: Ints
    number: int

    def among(self, ids: Ints, round: int | None = None) -> Bools:
        """Return a mask (K,) of faulty clients: in a round, or at any time."""
        if round is not None and not self.fault.active(round):
            return np.zeros(len(ids), np.bool_)
        return np.isin(ids, self.clients)

    def state_name(self, name: str) -> str:
        """Return under which name the client keeps something for a vector."""
        return f"{PREFIX}{self.number}.{name}"

    def initial(self, up: Mapping[str, int], dtype: np.dtype[np.floating]) -> dict[str, Array]:
        """Return the first rows of stored uploads: NaN."""
        if not isinstance(self.fault, UploadFault) or not self.fault.keeps:
            return {}
        return {self.state_name(name): np.full(n, np.nan, dtype) for name, n in up.items()}


def faulty(faults: Sequence[Fault], population: Population) -> tuple[Faulty, ...]:
    """Return the clients of each fault, at most one for each client.

    Those that are named come first; the others are drawn by the seed of the population, of those
    that have none yet.

    Raises
    ------
    ScenarioError
        If a client or group does not exist, is named twice, or there are too few clients.
    """
    taken: Ints = np.empty(0, dtype=np.int64)
    found: dict[int, Ints] = {}
    for number in sorted(range(len(faults)), key=lambda k: not faults[k].ids):
        try:
            members = _members(faults[number], number, population, taken)
        except ScenarioError as error:
            place = f"clients.faults.{number}"
            raise error.under(place) from None
        found[number], taken = members, np.union1d(taken, members)
    return tuple(Faulty(fault, found[k], k) for k, fault in enumerate(faults))


def honest(every: Sequence[Faulty], ids: Ints) -> Bools:
    """Return a mask (K,) of clients that are never faulty."""
    wrong = np.concatenate([np.empty(0, dtype=np.int64), *(each.clients for each in every)])
    return ~np.isin(ids, wrong)


def fault_names(every: Sequence[Faulty], ids: Ints) -> list[str]:
    """Return the name of the fault of each of some clients (K,), empty for the honest."""
    names = np.full(len(ids), "", dtype=object)
    for each in every:
        names[each.among(ids)] = each.fault.name
    return list(names)


def _members(fault: Fault, number: int, population: Population, taken: Ints) -> Ints:
    """Return the clients (F,) with a fault, ascending."""
    count = population.count
    if fault.ids:
        ids = np.unique(numbered(fault.ids, population.names)).astype(np.int64)
        outside = ids[(ids < 0) | (ids >= count)]
        if len(outside):
            raise ScenarioError("ids", f"found {outside[0]}, but there are {count} clients")
        if np.isin(ids, taken).any():
            raise ScenarioError("ids", "names a client that has another fault; give it one")
        return ids
    if count > MOST:
        raise ScenarioError("", f"of more than {MOST:,} clients none are drawn; give ids")
    pool = np.setdiff1d(_group(fault, population), taken)
    wanted = fault.chosen(len(pool))
    if not wanted:
        key, found = (
            ("group", fault.group) if fault.fraction is None else ("fraction", fault.fraction)
        )
        raise ScenarioError(key, f"found {found}, none of {len(pool)} clients without a fault")
    if wanted > len(pool):
        raise ScenarioError("count", f"found {wanted}, but {len(pool)} clients are left")
    place = Key(population.seed, f"faults/{number}").permutation(len(pool))
    return np.asarray(np.sort(pool[place(np.arange(len(pool))) < wanted]))


def _group(fault: Fault, population: Population) -> Ints:
    """Return the clients with a share of faulty ones."""
    everyone = np.arange(population.count)
    if fault.group is None:
        return everyone
    names = [group.name for group in population.groups]
    if fault.group not in names:
        known = ", ".join(name for name in names if name) or "none has a name"
        raise ScenarioError("group", f"found '{fault.group}'; the groups are {known}")
    return np.flatnonzero(population.group_of(everyone) == names.index(fault.group) + 1)


def sent(
    faults: Sequence[Faulty],
    values: Mapping[str, Array],
    state: Mapping[str, Array],
    draws: Draws,
    round: int,
) -> Iterator[tuple[Ints, dict[str, Array], dict[str, Array]]]:
    """Yield the places of faulty clients of a stack, their uploads and their next state.

    Parameters
    ----------
    faults : sequence of Faulty
    values : mapping of str to (K, ...) array
        What the server would decode of K clients.
    state : mapping of str to (K, p) array
        What these keep.
    draws : Draws
        Of these clients, of the seed.
    round : int
        By which faults begin.
    """
    for each in faults:
        fault = each.fault
        if not isinstance(fault, UploadFault):
            continue
        at = np.flatnonzero(each.among(draws.ids, None if fault.keeps else round))
        if not len(at):
            continue
        members = draws.part(at).sub(str(each.number))
        out, now = {}, {}
        for name, rows in values.items():
            if rows.ndim < 2:
                continue
            v, stored = rows[at].reshape(len(at), -1), each.state_name(name)
            before = state[stored][at] if stored in state else v[:, :0]
            wrong, after = fault.sent(v, members.sub(name), before, round)
            out[name] = wrong.reshape(rows[at].shape)
            if stored in state:
                now[stored] = after
        yield at, out, now
