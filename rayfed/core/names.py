"""Clients, categories and classes by the names that the user's data give them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.errors import ScenarioError, unknown

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
_INTEGER = re.compile(r"([+-]?\d+)\.0*", re.ASCII)


def canonical(name: str) -> str:
    """Return a name, and of 1.0 the whole number.

    Whole numbers in a column with gaps are written as 1.0 by many programs, and as 1 without gaps,
    so that both are one name. Any other difference is one: 01 and 1 are two names.

    Examples
    --------
    >>> canonical("1.0"), canonical("01"), canonical("1.50"), canonical("v1.0")
    ('1', '01', '1.50', 'v1.0')
    """
    found = _INTEGER.fullmatch(name)
    return name if found is None else found[1]


def as_numbers(names: Iterable[str]) -> list[Decimal] | None:
    """Return names as numbers, or None if one of them is none.

    Examples
    --------
    >>> as_numbers(["10", "9.5"]), as_numbers(["10", "x"])
    ([Decimal('10'), Decimal('9.5')], None)
    """
    given = list(names)
    return list(map(Decimal, given)) if all(map(_NUMBER.fullmatch, given)) else None


def distinct(cells: Array | Sequence[str | None]) -> tuple[tuple[str, ...], Ints]:
    """Return the names in a column and the number of each cell's.

    Parameters
    ----------
    cells : (n,) array or sequence of str
        None or NaN where a cell is empty.

    Returns
    -------
    names : tuple of str
        As they are first written in the order of texts; numbers, if all are, in the order of
        numbers, others in that of texts.
    index : (n,) array of int64
        Place of each cell in `names`; -1 of empty ones.

    Examples
    --------
    >>> distinct(np.array(["10", "9", None, "9.0"], dtype=object))
    (('9', '10'), array([ 1,  0, -1,  0]))
    """
    import pandas as pd  # imported late: client actors do not need it

    index, found = pd.factorize(np.asarray(cells, dtype=object))
    texts = sorted(found.tolist())
    spelled: dict[str, str] = {}
    for text in texts:
        spelled.setdefault(canonical(text), text)
    names = list(spelled.values())
    numbers = as_numbers(names)
    if numbers is not None:
        names = [name for _, name in sorted(zip(numbers, names, strict=True))]
    places = {canonical(name): place for place, name in enumerate(names)}
    order = np.array([*(places[canonical(text)] for text in found.tolist()), -1], dtype=np.int64)
    return tuple(names), order[index]


def numbered(clients: Iterable[int | str], names: Sequence[str]) -> tuple[int, ...]:
    """Return the ids of clients that are given by id or by name.

    Parameters
    ----------
    clients : iterable of int or str
    names : sequence of str
        Of all N clients by id; empty if the data do not name them.

    Raises
    ------
    ScenarioError
        If no client has such a name.

    Examples
    --------
    >>> numbered([2, "hospital-03"], ["hospital-03", "hospital-07", "hospital-11"])
    (2, 0)
    """
    ids = {name: number for number, name in enumerate(names)}
    found = []
    for client in clients:
        if isinstance(client, str) and not names:
            text = f"found '{client}', but the data do not name their clients; give ids"
            raise ScenarioError("", text)
        if isinstance(client, str) and client not in ids:
            raise ScenarioError("", unknown("client", client, names))
        found.append(ids[client] if isinstance(client, str) else client)
    return tuple(found)


def in_column(
    cells: Sequence[object], numbers: Floats, names: Sequence[str] | None
) -> tuple[Floats, int | None]:
    """Return the ids (R,) of clients in a column of a file, which holds ids or names.

    Where every cell is the name of a client, also a number such as 7, names are meant.

    Parameters
    ----------
    cells : sequence
        The cells (R,).
    numbers : (R,) array of float
        What they are as numbers; NaN where they are none.
    names : sequence of str, optional
        Of all N clients by id; empty if the data do not name them. If None, the data are not read
        yet: any name is taken for a client's.

    Returns
    -------
    ids : (R,) array of float
        Numbers as they are where they are no names; NaN where a cell is neither.
    bad : int, optional
        The first row, from 0, that is neither.

    Examples
    --------
    >>> in_column(["b", "a"], np.array([np.nan, np.nan]), ("a", "b"))
    (array([1., 0.]), None)
    >>> in_column([7, 9], np.array([7.0, 9.0]), ("7", "8", "9"))[0]
    array([0., 2.])
    """
    texts, back = np.unique([canonical(str(cell).strip()) for cell in cells], return_inverse=True)
    known = dict.fromkeys(texts.tolist()) if names is None and np.isnan(numbers).any() else names
    ids = {canonical(name): float(number) for number, name in enumerate(known or ())}
    found = np.array([ids.get(text, np.nan) for text in texts.tolist()])[back.ravel()]
    if not np.isnan(found).any():
        return found, None
    either = np.where(np.isnan(numbers), found, numbers)
    bad = np.flatnonzero(np.isnan(either))
    return either, int(bad[0]) if len(bad) else None


def called(ids: Ints, names: Sequence[str] = (), most: int = 6) -> str:
    """Return some clients as text: by names, or by ranges of ids.

    Parameters
    ----------
    ids : (K,) array of int
        At least one, ascending.
    names : sequence of str
        Of all N clients by id; empty if the data do not name them.
    most : int
        Names or ranges that are given; "..." stands for the others.

    Examples
    --------
    >>> called(np.array([0, 1, 2, 7])), called(np.array([4]))
    ('clients 0-2, 7', 'client 4')
    >>> called(np.array([0, 2]), ["hospital-03", "hospital-07", "hospital-11"])
    'clients hospital-03, hospital-11'
    """
    words = [names[client] for client in ids.tolist()] if names else _ranges(ids)
    listed = ", ".join(words[:most]) + (", ..." if len(words) > most else "")
    return f"{'client' if len(ids) == 1 else 'clients'} {listed}"


def _ranges(ids: Ints) -> list[str]:
    """Return ids as ranges of neighbours."""
    breaks = np.flatnonzero(np.diff(ids) != 1) + 1
    ends = [(part[0], part[-1]) for part in np.split(ids, breaks)]
    return [f"{a}" if a == b else f"{a}-{b}" for a, b in ends]
