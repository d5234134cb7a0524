"""Models of which some layers are shared and the others stay with their clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rayfed.core.arrays import Array, namespace
from rayfed.problems.layers import Layer


@dataclass(frozen=True)
class LayerSplit:
    """Which coordinates of a model (p,) are shared, and which are a client's own.

    Parameters
    ----------
    runs : tuple of (slice, bool)
        Coordinates one after the other, each run with whether it is a client's own.

    Examples
    --------
    The second of two layers is a client's own:

    >>> import numpy as np
    >>> a, b = Layer("a.weight", 0, 2), Layer("b.weight", 2, 3)
    >>> split = LayerSplit.of([a, b], [b])
    >>> x = np.array([[1.0, 2.0, 3.0]])
    >>> split.shared(x), split.own(x)
    (array([[1., 2.]]), array([[3.]]))
    >>> split.join(np.array([[4.0, 5.0]]), np.array([[6.0]]))
    array([[4., 5., 6.]])
    """

    runs: tuple[tuple[slice, bool], ...]

    @classmethod
    def of(cls, layers: Sequence[Layer], own: Sequence[Layer]) -> LayerSplit:
        """Return the split of all layers of a model, of which some are a client's own."""
        runs: list[tuple[slice, bool]] = []
        for layer in layers:
            is_own = layer in own
            if runs and runs[-1][1] == is_own:
                runs[-1] = (slice(runs[-1][0].start, layer.stop), is_own)
            else:
                runs.append((layer.slice, is_own))
        return cls(tuple(runs))

    def shared(self, x: Array) -> Array:
        """Return the shared coordinates (K, s) of models (K, p)."""
        return self._part(x, False)

    def own(self, x: Array) -> Array:
        """Return the clients' own coordinates (K, p - s) of models (K, p)."""
        return self._part(x, True)

    def join(self, shared: Array, own: Array) -> Array:
        """Return models (K, p) of shared coordinates, (K, s) or (1, s), and own ones (K, p - s)."""
        xp = namespace(own)
        at = {False: 0, True: 0}
        pieces = []
        for run, is_own in self.runs:
            start = at[is_own]
            at[is_own] = stop = start + run.stop - run.start
            piece = (own if is_own else shared)[:, start:stop]
            pieces.append(xp.broadcast_to(piece, (len(own), stop - start)))
        joined: Array = xp.concat(pieces, axis=1)
        return joined

    def _part(self, x: Array, own: bool) -> Array:
        pieces = [x[:, run] for run, is_own in self.runs if is_own == own]
        part: Array = namespace(x).concat(pieces or [x[:, :0]], axis=1)
        return part
