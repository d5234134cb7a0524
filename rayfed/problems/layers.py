"""Layers: which coordinates of the flat model are which parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from rayfed.core.errors import ScenarioError, listed

Kind: TypeAlias = Literal["weights", "normalisation", "statistics"]
"""Weights and biases; scales and shifts of a normalisation layer; its running means and variances.

Statistics are no parameters: the loss of a local step does not depend on them. In the place of a
gradient a kernel returns what is to be subtracted from them after the step.
"""


Normalisation: TypeAlias = Literal["average", "local", "frozen"]
"""Handling of running statistics.

They are averaged as the parameters are, stay at the clients, which an algorithm has to do, or stay
as they are at first.
"""


@dataclass(frozen=True)
class Layer:
    """A named block of parameters: the coordinates ``start`` to ``stop - 1`` of a model (p,).

    Parameters
    ----------
    name : str
        The module and the parameter, as in PyTorch: ``fc1.weight``. Parameters with the same
        module belong together.
    start, stop : int
        Its first coordinate, and the one after its last.
    kind : "weights", "normalisation" or "statistics"
        What it is for; see `Kind`.
    shape : tuple of int
        Its shape, where it is no vector.
    outputs : int, optional
        Which of the first two axes of the weights of a fully connected or convolutional layer
        counts outputs; the other one counts inputs. None for all other parameters, and where a part
        of the model is frozen.

    Examples
    --------
    >>> layer = Layer("fc1.weight", 0, 12)
    >>> layer.size, layer.module
    (12, 'fc1')
    """

    name: str
    start: int
    stop: int
    kind: Kind = "weights"
    shape: tuple[int, ...] = ()
    outputs: int | None = None

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.stop - self.start

    @property
    def slice(self) -> slice:
        """Its coordinates."""
        return slice(self.start, self.stop)

    @property
    def module(self) -> str:
        """The name without its last part; empty if it has one part."""
        return self.name.rpartition(".")[0]


def head(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Return the parameters of the last module.

    Examples
    --------
    >>> [layer.name for layer in head([Layer("a.weight", 0, 2), Layer("b.weight", 2, 4)])]
    ['b.weight']
    """
    return tuple(layer for layer in layers if layer.module == layers[-1].module)


def matching(layers: Sequence[Layer], patterns: Sequence[str]) -> tuple[Layer, ...]:
    """Return the layers with names that match any of some patterns, in the order of the model.

    Parameters
    ----------
    layers : sequence of Layer
    patterns : sequence of str
        Names, or patterns of names with ``*`` and ``?``.

    Raises
    ------
    ScenarioError
        If a pattern matches no layer.

    Examples
    --------
    >>> layers = [Layer("a.weight", 0, 2), Layer("a.bias", 2, 4), Layer("b.weight", 4, 6)]
    >>> [layer.name for layer in matching(layers, ["*.weight"])]
    ['a.weight', 'b.weight']
    """
    names = [layer.name for layer in layers]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            text = f"no layer is called '{pattern}'; the layers are {listed(names)}"
            raise ScenarioError("", text)
    return tuple(
        layer for layer in layers if any(fnmatchcase(layer.name, pattern) for pattern in patterns)
    )
