"""Low-rank adapters of a model, and masks of their ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rayfed.core.arrays import Array, Bools, Ints, namespace
from rayfed.core.errors import ScenarioError
from rayfed.problems.layers import Layer


@dataclass(frozen=True)
class Adapters:
    """Pairs of matrices A (r, d) and B (e, r), which add B A to a matrix (e, d) of a model.

    They are the trained parameters called ``lora_A`` and ``lora_B``, as peft calls them.

    Examples
    --------
    >>> A, B = Layer("a.lora_A", 0, 6, shape=(2, 3)), Layer("a.lora_B", 6, 8, shape=(1, 2))
    >>> adapters = Adapters.of([A, B])
    >>> adapters.hidden
    (2,)
    >>> adapters.part([np.array([0])]).astype(int)
    array([1, 1, 1, 0, 0, 0, 1, 0])
    >>> adapters.norms(np.array([[3.0, 0, 0, 0, 4.0, 0, 1.0, 1.0]]))
    array([[5.]])
    """

    pairs: tuple[tuple[Layer, Layer], ...]

    @classmethod
    def of(cls, layers: Sequence[Layer]) -> Adapters:
        """Return the adapters that the layers of a model are.

        Raises
        ------
        ScenarioError
            If a trained parameter is no matrix of an adapter.
        """
        by_name = {layer.name: layer for layer in layers}
        pairs = [
            (layer, by_name[other])
            for name, layer in by_name.items()
            if (other := name.replace("lora_A", "lora_B")) != name and other in by_name
            if len(layer.shape) == len(by_name[other].shape) == 2
        ]
        paired = {layer.name for pair in pairs for layer in pair}
        for name in by_name:
            if name not in paired:
                text = f"'{name}' is no matrix lora_A or lora_B of an adapter"
                raise ScenarioError("", f"{text}; freeze it, or choose a method that trains it")
        return cls(tuple(pairs))

    @property
    def hidden(self) -> tuple[int, ...]:
        """Rank of each adapter."""
        return tuple(A.shape[0] for A, _ in self.pairs)

    def part(self, channels: Sequence[Ints]) -> Bools:
        """Return the mask (p,) of the parameters of some ranks of each adapter."""
        mask = np.zeros(sum(layer.size for pair in self.pairs for layer in pair), bool)
        for (A, B), chosen in zip(self.pairs, channels, strict=True):
            mask[A.slice].reshape(A.shape)[chosen] = True
            mask[B.slice].reshape(B.shape)[:, chosen] = True
        return mask

    def norms(self, x: Array) -> Array:
        """Return the Frobenius norms (K, number of adapters) of B A in models x (K, p)."""
        xp = namespace(x)
        changes = (
            x[:, B.slice].reshape((-1, *B.shape)) @ x[:, A.slice].reshape((-1, *A.shape))
            for A, B in self.pairs
        )
        squares: Array = xp.stack([xp.sum(W * W, axis=(1, 2)) for W in changes], axis=1)
        return squares**0.5

    def spread(self, values: Array) -> Array:
        """Return values (..., number of adapters) for each of their parameters (..., p)."""
        owner = np.empty(sum(layer.size for pair in self.pairs for layer in pair), np.int64)
        for k, pair in enumerate(self.pairs):
            for layer in pair:
                owner[layer.slice] = k
        return values[..., owner]
