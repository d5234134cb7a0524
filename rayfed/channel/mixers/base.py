"""Base class of what mixes vectors before a robust rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rayfed.core.arrays import Array, Ints
from rayfed.core.rng import Key


@dataclass(frozen=True, kw_only=True)
class Mixer:
    """Base of all mixers: they make vectors of vectors.

    One that needs sums alone says beforehand who belongs together (`labels`), and its server gets
    the means of these groups.

    Attributes
    ----------
    sees_vectors : bool
        Whether a real server would see single vectors.
    """

    name: ClassVar[str]
    sees_vectors: ClassVar[bool] = True

    def labels(self, ids: Ints, key: Key) -> Ints | None:
        """Return the group (K,) of each client that is asked; None if vectors are mixed one by one.

        Parameters
        ----------
        ids : (K,) array of int
            Distinct clients, ascending.
        key : Key
            Of the run and the round.
        """
        return None

    def mixed(self, vectors: Array) -> Array:
        """Return what the rule sees (L, p) of vectors (K, p)."""
        return vectors

    def together(self, clients: int) -> int:
        """Return how many of so many clients are in a group at most: all, where there is none."""
        return clients

    def count(self, clients: int) -> int:
        """Return the number L of what the rule sees if so many clients reply."""
        return clients
