"""Targets of rows in other shapes than one label or number."""

from __future__ import annotations

from dataclasses import dataclass

from rayfed.core.arrays import Array

IGNORED = -100
"""Class of positions that no loss or score counts, as in PyTorch's cross-entropy."""


@dataclass(frozen=True)
class Targets:
    """Targets with several values for each row, or with none.

    Parameters
    ----------
    shape : tuple of int
        Shape of the target of one row; ``(0,)`` if rows have no targets.
    values : int
        Number of classes of each value, which is 0, 1, ... or `IGNORED`; 0 for numbers.
    ignores : bool
        Whether a value is `IGNORED`.
    """

    shape: tuple[int, ...]
    values: int = 0
    ignores: bool = False

    @classmethod
    def of(cls, y: Array) -> Targets | None:
        """Return the description of targets (n, ...); None for one label or number a row."""
        if y.ndim == 1:
            return None
        whole = y.dtype.kind in "iu" and y.size > 0
        values = int(y.max()) + 1 if whole else 0
        return cls(tuple(y.shape[1:]), values, whole and bool((y == IGNORED).any()))

    @property
    def none(self) -> bool:
        """Whether rows have no targets."""
        return self.shape == (0,)

    def __str__(self) -> str:
        """Return a phrase for messages."""
        if self.none:
            return "no targets"
        return f"targets of shape {self.shape}, {'classes' if self.values else 'numbers'}"
