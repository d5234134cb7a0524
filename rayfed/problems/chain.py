"""Chains of fully connected and convolutional layers, and masks of their channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise

import numpy as np

from rayfed.core.arrays import Bools, Ints
from rayfed.core.errors import ScenarioError
from rayfed.problems.layers import Layer

_REMEDY = (
    "choose a model of such layers in a row, none of them frozen, or a method that trains all of it"
)
_CACHED = 16
"""Masks of a model; a round needs one for each class of clients."""


@dataclass(frozen=True)
class Link:
    """A fully connected or convolutional layer.

    Parameters
    ----------
    weight : Layer
    bias : Layer, optional
    """

    weight: Layer
    bias: Layer | None

    @property
    def outputs(self) -> int:
        """Number of output channels."""
        return self.weight.shape[self.weight.outputs or 0]

    @property
    def inputs(self) -> int:
        """Number of input channels."""
        return self.weight.shape[1 - (self.weight.outputs or 0)]


@dataclass(frozen=True)
class Chain:
    """A model of which each layer reads the outputs of the one before, in the order of its modules.

    Inputs of a fully connected layer after a convolution are its channels, each with the same
    number of neighbouring places.

    Examples
    --------
    >>> from rayfed.problems.mlp import MLP
    >>> chain = Chain.of(MLP(hidden=(2,)).layers(2, 3))
    >>> chain.hidden
    (2,)
    >>> chain.part([np.array([0])]).astype(int)  # (1 + 1) x 2 and (2 + 1) x 3 numbers
    array([1, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1])
    """

    links: tuple[Link, ...]

    @classmethod
    def of(cls, layers: Sequence[Layer]) -> Chain:
        """Return the chain of the layers of a model.

        Raises
        ------
        ScenarioError
            If a layer is of another kind, does not fit the one before, or there is only one.
        """
        links = []
        for _, group in groupby(layers, key=lambda layer: layer.module):
            weight, *others = group
            link = Link(weight, others[0] if others else None)
            unknown = others[1:]
            if weight.outputs is None:
                unknown = [weight]
            elif link.bias is not None and link.bias.size != link.outputs:
                unknown = others
            for layer in unknown:
                text = f"'{layer.name}' is in no chain of fully connected and convolutional layers"
                raise ScenarioError("", f"{text}; {_REMEDY}")
            links.append(link)
        for before, link in pairwise(links):
            if link.inputs % before.outputs:
                text = f"'{link.weight.name}' has {link.inputs} inputs after '{before.weight.name}'"
                raise ScenarioError("", f"{text} with {before.outputs} outputs; {_REMEDY}")
        if len(links) < 2:
            raise ScenarioError("", f"the model has no hidden layers; {_REMEDY}")
        return cls(tuple(links))

    @property
    def hidden(self) -> tuple[int, ...]:
        """Number of channels of each hidden layer."""
        return tuple(link.outputs for link in self.links[:-1])

    def part(self, channels: Sequence[Ints]) -> Bools:
        """Return the mask (p,) of the parameters between some channels of the hidden layers.

        Parameters
        ----------
        channels : sequence of array of int
            Channels of each hidden layer. All inputs and outputs of the model belong to each part.
        """
        return _mask(self, tuple(tuple(chosen.tolist()) for chosen in channels))


@lru_cache(maxsize=_CACHED)
def _mask(chain: Chain, channels: tuple[tuple[int, ...], ...]) -> Bools:
    """Return what `Chain.part` does; read-only."""
    last = chain.links[-1]
    mask = np.zeros((last.bias or last.weight).stop, bool)
    read = np.ones(1, bool)
    for link, chosen in zip(chain.links, (*channels, range(last.outputs)), strict=True):
        read = read.repeat(link.inputs // len(read))
        written = np.zeros(link.outputs, bool)
        written[list(chosen)] = True
        between = np.outer(written, read) if link.weight.outputs == 0 else np.outer(read, written)
        kernel = link.weight.size // between.size
        mask[link.weight.slice] = between.ravel().repeat(kernel)
        if link.bias is not None:
            mask[link.bias.slice] = written
        read = written
    mask.flags.writeable = False
    return mask
