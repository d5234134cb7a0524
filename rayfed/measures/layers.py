"""The drift of layers: distance of the clients' local layers from their mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rayfed.core.arrays import Floats
from rayfed.core.columns import Column
from rayfed.core.needs import FIXED_ROWS, Terms
from rayfed.core.rng import Key
from rayfed.measures.base import Measure, MeasureView
from rayfed.measures.local import LocalWork, next_tasks
from rayfed.messages import State
from rayfed.population.availability.base import Availability
from rayfed.problems.layers import Layer

_PREFIX = "layer_drift."


def column(layer: str) -> Column:
    """Return the column of the drift of a layer, of which each problem has others."""
    return Column(
        f"{_PREFIX}{layer}", f"drift of {layer}",
        about="Root mean square distance of the layer in local models from its mean over clients, "
        "over the norm of that mean; NaN where the local solver moves a part of the model.",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Layers(Measure):
    """Drift of each layer: distance of the local models from their mean.

    As many clients as a round has run its local steps in each evaluation. Weights and biases of one
    module are one layer. The clients are the same in every evaluation and for all algorithms of a
    study. With m the mean of their models x_i by the weights of F, the drift of a layer is
    ``sqrt(mean_i ||x_i - m||^2) / ||m||``. The server sees two sums.
    """

    name: ClassVar[str] = "layers"
    needs: ClassVar[Terms] = frozenset({FIXED_ROWS})
    columns: ClassVar[tuple[Column, ...]] = (column("*"),)

    def columns_of(
        self, availability: Availability, layers: Sequence[Layer] = ()
    ) -> tuple[Column, ...]:
        """Return a column for each layer."""
        return tuple(column(name) for name in modules(layers))

    def functions(self, algorithm: Any) -> LocalWork:
        """Return the client functions of the measure."""
        return LocalWork(algorithm)

    def measure(self, view: MeasureView, known: State) -> tuple[Mapping[str, float], State]:
        """Return the drift of each layer in the round that comes next."""
        tasks = next_tasks(view)
        if tasks is None:
            return {}, known
        x, layers, ids = view.model, modules(view.layers), _asked(view)
        ends = np.array([at.stop for at in layers.values()])
        send = {"start": x, "ends": ends, **tasks}
        up = {"moved": x.size, "squares": len(ends)}
        mean = view.mean("moved", send, up, ids, view.steps(ids)).mean
        row = {
            f"{_PREFIX}{name}": drift(x[at], mean["moved"][at], square)
            for (name, at), square in zip(layers.items(), mean["squares"], strict=True)
        }
        return row, known


def _asked(view: MeasureView) -> Any:
    """Return as many evaluated clients (K,) as a round has."""
    if view.size is None or view.size >= len(view.clients):
        return view.clients
    order = Key(view.seed, "layers").permutation(len(view.clients))
    return np.sort(view.clients[order(np.arange(view.size))])


def modules(layers: Sequence[Layer]) -> Mapping[str, slice]:
    """Return the coordinates of each module, statistics left out.

    Examples
    --------
    >>> modules([Layer("a.weight", 0, 4), Layer("a.bias", 4, 6), Layer("b.weight", 6, 9)])
    {'a': slice(0, 6, None), 'b': slice(6, 9, None)}
    """
    found: dict[str, slice] = {}
    for layer in layers:
        name = layer.module or layer.name
        if layer.kind != "statistics":
            found[name] = slice(found.get(name, layer.slice).start, layer.stop)
    return found


def drift(x: Floats, moved: Floats, square: float) -> float:
    """Return the drift of a layer that starts at x (q,).

    Parameters
    ----------
    moved : (q,) array
        Mean over clients of how it moved.
    square : float
        Mean over clients of the squared norm of that.

    Examples
    --------
    Two clients that move one number from 3 to 4 and to 6: 1 from the mean 5.

    >>> drift(np.array([3.0]), np.array([2.0]), (1.0 + 9.0) / 2)
    0.2
    """
    norm = float(np.linalg.norm(x + moved))
    apart = math.sqrt(max(0.0, float(square - np.sum(moved * moved))))
    return apart / norm if norm else math.nan
