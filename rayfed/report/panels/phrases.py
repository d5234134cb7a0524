"""Parts of sentences of several panels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rayfed.core.columns import Column
from rayfed.report.read import units

MOST_NAMED = 3  # most algorithms that a sentence names


def quoted(name: object) -> str:
    """Return an algorithm's name for a sentence, in quotes if it has a comma.

    Examples
    --------
    >>> quoted("FedExP"), quoted("FedAvg, server step 10")
    ('FedExP', '“FedAvg, server step 10”')
    """
    return f"“{name}”" if "," in str(name) else str(name)


def joined(parts: Sequence[str]) -> str:
    """Return the first of some names or clauses as a list in a sentence.

    Examples
    --------
    >>> joined(["A", "B", "C"]), joined(["A", "B", "C", "D", "E"])
    ('A, B and C', 'A, B, C and 2 others')
    """
    shown = list(parts[:MOST_NAMED])
    if rest := len(parts[MOST_NAMED:]):
        shown.append("1 other" if rest == 1 else f"{rest} others")
    return listed(shown)


def named(names: Iterable[object]) -> str:
    """Return the first of some algorithms as a list in a sentence.

    Examples
    --------
    >>> named(["FedAvg", "FedAvg, server step 10"])
    'FedAvg and “FedAvg, server step 10”'
    """
    return joined([quoted(name) for name in names])


def listed(parts: Sequence[str]) -> str:
    """Return all parts as a list in a sentence.

    Examples
    --------
    >>> listed(["0"]), listed(["0", "1", "2", "3"])
    ('0', '0, 1, 2 and 3')
    """
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def goal(column: Column, value: float) -> str:
    """Return a target for a sentence.

    Examples
    --------
    >>> gap = Column("loss_gap", "gap to the optimum")
    >>> goal(Column("loss"), 0.05), goal(gap, 2.06e-9)
    ('loss 0.05', 'a gap to the optimum of 2.06e-9')
    """
    title, number = column.title, units.target(value)
    return f"a {title} of {number}" if " to " in title else f"{title} {number}"
