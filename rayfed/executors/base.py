"""The seam between the engine and where clients live."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from rayfed.clients.request import Failure, Partial, Request
from rayfed.clients.setup import Setup
from rayfed.clients.store import StateRows
from rayfed.core.arrays import Array, Bools, Ints
from rayfed.core.errors import RayfedError
from rayfed.core.tree import EVERY, Class, Sums, join_within
from rayfed.executors.profile import Profile


class HostLost(RayfedError):
    """A host died, or came back without its clients: roll back to the checkpoint and replay."""


class ClientFailed(RayfedError):
    """A client function raised.

    Parameters
    ----------
    client : int
        The client's id.
    trace : str
        Its original traceback.
    reason : str
        The error in one line, with the user's file and line.
    """

    def __init__(self, client: int, trace: str, reason: str) -> None:
        super().__init__(f"client {client}: {reason}")
        self.client, self.trace, self.reason = client, trace, reason


class Gathered(NamedTuple):
    """The answer to a request: sums over its clients, and scalars in the order of its ids."""

    sums: Sums
    each: Mapping[str, Array]


class Executor(Protocol):
    """Where the clients of a run live."""

    @property
    def moves(self) -> bool:
        """Whether a run that is opened again, from a checkpoint, gets other hosts."""
        return False

    def open(self, key: str, setup: Setup, pieces: Iterable[StateRows] = ()) -> None:
        """Begin a run, or begin it again from the client state of a checkpoint.

        Parameters
        ----------
        key : str
            Of the run.
        setup : Setup
        pieces : iterable of dict
            State of disjoint clients, which is taken piece by piece.
        """
        ...

    def change(self, key: str, setup: Setup) -> None:
        """Continue a run with another setup; clients keep their rows and their state.

        Raises
        ------
        HostLost
            If a host died.
        """
        ...

    def exchange(self, key: str, request: Request, send: Mapping[str, Array]) -> Gathered:
        """Run the client functions of an Ask.

        Raises
        ------
        HostLost
            If a host died.
        ClientFailed
            If a client function raised.
        ScratchError
            If client state fits neither memory nor disk; also from `open`.
        """
        ...

    def snapshot(self, key: str) -> Iterator[StateRows]:
        """Yield client state that changed since the last snapshot, in pieces.

        Pieces are of disjoint clients, and each has about `PIECE` bytes or a single client.
        """
        ...

    def close(self, key: str) -> None:
        """Forget a run."""
        ...

    def profile(self, profile: Profile) -> None:
        """Measure exchanges from now on."""
        ...


def gather(request: Request, parts: Sequence[tuple[Array | None, Partial | Failure]]) -> Gathered:
    """Join the answers of the hosts.

    Parameters
    ----------
    parts : sequence of (index, partial)
        Which of the request's clients each host had; None where one host had them all.

    Raises
    ------
    ClientFailed
        If a client function raised.
    """
    answer = combined(request, parts, EVERY)
    if isinstance(answer, Failure):
        raise ClientFailed(answer.client, answer.trace, answer.reason)
    ((_, _, sums),) = answer.branches
    return Gathered(sums, answer.each)


def combined(
    request: Request,
    parts: Sequence[tuple[Array | None, Partial | Failure]],
    within: Sequence[Class],
) -> Partial | Failure:
    """Join the answers of hosts into that of one host with all their clients.

    Parameters
    ----------
    parts : sequence of (index, partial)
        As for `gather`.
    within : sequence of (residue, modulus)
        The classes of the request; their branches are joined.
    """
    branches = []
    each: dict[str, Array] = {}
    printed = tuple(line for _, part in parts for line in part.printed)
    failures = [part for _, part in parts if isinstance(part, Failure)]
    if failures:  # one host names the first of its clients
        first = min(failures, key=lambda failure: failure.client)
        return replace(first, printed=printed)
    for index, part in parts:
        assert isinstance(part, Partial)
        branches.extend(part.branches)
        for name, rows in part.each.items():
            if index is None:
                each[name] = rows
                continue
            if name not in each:
                each[name] = np.empty((len(request.ids), *rows.shape[1:]), rows.dtype)
            each[name][index] = rows
    seconds = tuple(s for _, part in parts if isinstance(part, Partial) for s in part.seconds)
    return Partial(join_within(branches, within), each, printed, seconds)


def merged(rows: Iterable[Mapping[str, Array]]) -> StateRows:
    """Put the state rows of disjoint clients together, ids ascending."""
    touched = [part for part in rows if len(part["ids"])]
    if not touched:
        return {"ids": np.empty(0, dtype=np.int64)}
    if len(touched) == 1 and (np.diff(touched[0]["ids"]) > 0).all():
        return dict(touched[0])  # not copied
    together = {name: np.concatenate([part[name] for part in touched]) for name in touched[0]}
    order = np.argsort(together["ids"])
    return {name: values[order] for name, values in together.items()}


def share(rows: Mapping[str, Array], index: Ints | Bools) -> StateRows:
    """Return the chosen state rows."""
    return {name: values[index] for name, values in rows.items()}
