"""Work that actors compute before it is asked for."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rayfed.clients.request import Request
from rayfed.core.arrays import Array

Send = Mapping[str, Array]


@dataclass
class Ahead:
    """What the actors were given to compute ahead for one run.

    Parameters
    ----------
    prepared : list of (Request, mapping of str to array)
        What they are given after the next exchange.
    begun : list of Reply or object reference
        Calls of which nobody has asked yet how they ended.
    known : set of int
        The pieces of work that were in such calls.
    """

    prepared: list[tuple[Request, Send]] = field(default_factory=list)
    begun: list[Any] = field(default_factory=list)
    known: set[int] = field(default_factory=set)


def numbers(request: Request) -> set[int]:
    """Return the numbers of the pieces of work of a request, if it names them."""
    return set() if request.serials is None else set(request.serials.tolist())


def needed(part: Request, send: Send, known: Container[int]) -> tuple[Request, Send]:
    """Return what a host gets: what its clients download, but for what it has computed ahead.

    Parameters
    ----------
    part : Request
        For the clients of one host.
    send : mapping of str to array
        What all clients of all hosts download; stacks, if the request names their rows.
    known : container of int
        Pieces of work that hosts compute ahead.

    Examples
    --------
    A host that has computed the first of two works needs the model of the second alone:

    >>> none = np.zeros(2, dtype=np.int64)
    >>> part = Request("algorithm", "train", {}, np.array([4, 7]), np.ones(2), none, none, 1, 0,
    ...     rows=np.array([0, 2]), serials=np.array([11, 12]))
    >>> part, send = needed(part, {"x": np.array([[0.0], [1.0], [2.0]])}, {11})
    >>> part.serials.tolist(), part.rows.tolist(), send["x"].tolist()
    ([11, 0], [0, 0], [[2.0]])
    """
    if part.serials is None and part.rows is None:
        return part, send
    missing = np.ones(len(part.ids), dtype=np.bool_)
    if part.serials is not None:
        missing = np.array([serial not in known for serial in part.serials.tolist()])
        if not missing.any():
            return part, {}
        part = replace(part, serials=np.where(missing, 0, part.serials))
    if part.rows is None:
        return part, send
    versions, place = np.unique(part.rows[missing], return_inverse=True)
    rows = np.zeros(len(part.ids), dtype=np.int64)
    rows[missing] = place.ravel()
    return replace(part, rows=rows), {name: stack[versions] for name, stack in send.items()}
