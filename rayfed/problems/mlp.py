"""A multilayer perceptron: fully connected layers, ReLU, softmax cross-entropy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from annotated_types import Ge, Lt, MinLen

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import HESSIANS, PRODUCTS, REPRESENTATIONS, Terms
from rayfed.problems.base import Batch, Problem, RowsLoss, Start, StepKey
from rayfed.problems.crossentropy import cross_entropy, sample_losses
from rayfed.problems.layers import Layer

Share: TypeAlias = Annotated[float, Ge(0), Lt(1)]
_LARGE = 2**16
"""Numbers of a layer whose steps form no gradient; for smaller ones SciPy takes long to import."""


@dataclass(frozen=True, kw_only=True)
class MLP(Problem):
    """Multilayer perceptron: ReLU hidden layers, softmax cross-entropy.

    With default settings F_i is the mean over the client's n_i rows of the cross-entropy (natural
    logarithm), and F the mean over all n rows. The model x (p) holds the layers in order, each an
    (inputs, outputs) matrix in row-major order. With ``intercept`` each layer's last row is its
    bias: the first layer's belongs to the column of ones of X, each further layer has one row more
    than it has inputs. The number of classes follows from p and d.

    Parameters
    ----------
    hidden : tuple of int
        Width of each hidden layer; at least one layer.
    dropout : float or tuple of float
        Probability that a hidden unit is dropped in a local step, one for all hidden layers or one
        for each; the units that are kept are scaled by 1 / (1 - dropout). Evaluations, and
        gradients that are no local steps, use every unit.

    Notes
    -----
    Dropout is that of Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, "Dropout: a simple
    way to prevent neural networks from overfitting", JMLR 2014, with units drawn anew for every row
    of every local step; the draws are keyed by client, round and step.

    The normal initialisation is that of He, Zhang, Ren, Sun, "Delving deep into rectifiers", ICCV
    2015: weights N(0, 2 / inputs), biases 0. ``init: uniform`` is that of PyTorch: U(-b, b) with b
    = 1 / sqrt(inputs) for weights and biases. The derivative of ReLU at 0 is taken as 0.

    Examples
    --------
    Images of 784 pixels and a column of ones, 128 hidden units, 10 classes:

    >>> MLP(hidden=(128,)).size(785, 10) == 785 * 128 + 129 * 10
    True
    """

    name: ClassVar[str] = "mlp"
    task: ClassVar[Literal["regression", "binary", "multiclass"]] = "multiclass"
    convex: ClassVar[bool] = False
    gives: ClassVar[Terms] = Problem.gives - {HESSIANS, PRODUCTS} | {REPRESENTATIONS}
    default_init: ClassVar[Start] = "normal"

    hidden: Annotated[tuple[Annotated[int, Ge(1)], ...], MinLen(1)] = (128,)
    dropout: Share | tuple[Share, ...] = 0.0

    def __post_init__(self) -> None:
        """Refuse a list of probabilities of another length than the list of layers."""
        if isinstance(self.dropout, tuple) and len(self.dropout) != len(self.hidden):
            found = f"found {len(self.dropout)} for {len(self.hidden)} hidden layers"
            raise ScenarioError("dropout", f"{found}; give one number, or one for each layer")

    @property
    def random_steps(self) -> bool:
        """Whether local steps drop units."""
        return any(self._dropped)

    @property
    def _dropped(self) -> tuple[float, ...]:
        """The probability of each hidden layer."""
        if isinstance(self.dropout, tuple):
            return self.dropout
        return (self.dropout,) * len(self.hidden)

    def size(self, features: int, classes: int) -> int:
        """Return the number of weights and biases of all layers."""
        return sum(rows * columns for rows, columns in self._shapes(features, classes))

    def layers(self, features: int, classes: int) -> tuple[Layer, ...]:
        """Return weights and biases of hidden1, hidden2, ... and output."""
        modules = [f"hidden{depth + 1}" for depth in range(len(self.hidden))] + ["output"]
        layers, start = [], 0
        for module, (rows, columns) in zip(modules, self._shapes(features, classes), strict=True):
            inputs = rows - self.intercept
            bias, stop = start + inputs * columns, start + rows * columns
            shape = inputs, columns
            layers.append(Layer(f"{module}.weight", start, bias, shape=shape, outputs=1))
            if self.intercept:
                layers.append(Layer(f"{module}.bias", bias, stop))
            start = stop
        return tuple(layers)

    def intercepts(self, features: int, p: int) -> Ints:
        """Return the coordinates of the biases of all layers."""
        if not self.intercept:
            return np.arange(0)
        ends, widths = [], []
        end = 0
        for rows, columns in self._shapes(features, self._classes(features, p)):
            end += rows * columns
            ends.append(end)
            widths.append(columns)
        return np.concatenate([np.arange(e - c, e) for e, c in zip(ends, widths, strict=True)])

    def spread(self, features: int, p: int) -> Floats:
        """Return the standard deviations of He et al. (p,); 0 for biases."""
        spread = np.sqrt(2.0 / self._inputs(features, p))
        spread[self.intercepts(features, p)] = 0.0
        return spread

    def reach(self, features: int, p: int) -> Floats:
        """Return 1 / sqrt(inputs) of the layer of each coordinate (p,), biases included."""
        return np.sqrt(1.0 / self._inputs(features, p))

    def _inputs(self, features: int, p: int) -> Floats:
        """Return the number of inputs of the layer that each coordinate (p,) belongs to."""
        shapes = self._shapes(features, self._classes(features, p))
        return np.concatenate([np.full(r * c, float(r - self.intercept)) for r, c in shapes])

    def predict(self, x: Array, X: Array) -> Array:
        """Return the class of the largest score (K, B); ties go to the first."""
        return np.asarray(self._forward(x, X)[-1].argmax(axis=-1), dtype=np.int64)

    def scores(self, x: Array, X: Array) -> Array:
        """Return the outputs of the last layer (K, B, c)."""
        return self._forward(x, X)[-1]

    def data_value(self, x: Array, batch: Batch) -> Array:
        """Return ``sum_b w_b loss_b`` (K,)."""
        losses = sample_losses(self._forward(x, batch.X, batch.key)[-1], batch.y)
        value: Array = np.vecdot(batch.w, losses)
        return value

    def data_value_and_gradient(self, x: Array, batch: Batch) -> tuple[Array, Array]:
        """Return ``sum_b w_b loss_b`` (K,) and its gradient (K, p)."""
        activations = self._forward(x, batch.X, batch.key)
        value, slope = cross_entropy(activations.pop(), batch.y, batch.w)
        gradient = np.empty((len(batch.X), x.shape[1]), dtype=slope.dtype)
        self._backward(x, activations, slope, gradient, dropped=batch.key is not None)
        return value, gradient

    def descend(self, x: Array, batch: Batch, lr: float) -> Array | None:
        """Subtract lr times the gradient from x (K, p), where a layer is large and l2 is 0.

        The gradient of a large layer would be written and read again for nothing: BLAS multiplies
        its factors and subtracts in one go.
        """
        layers = self._layers(x, batch.X.shape[2])
        if batch.ridge is not None or max(layer[0].size for layer in layers) < _LARGE:
            return None
        activations = self._forward(x, batch.X, batch.key)
        value, slope = cross_entropy(activations.pop(), batch.y, batch.w)
        for depth, a, s in self._slopes(x, activations, slope, dropped=batch.key is not None):
            layer, rows = layers[depth], a.shape[2]
            if layer[0].size < _LARGE:
                layer[:, :rows] -= lr * (a.swapaxes(1, 2) @ s)
            else:
                _subtract_products(layer[:, :rows], a, s, lr)
            if rows < layer.shape[1]:
                layer[:, -1] -= lr * s.sum(axis=1)
        return value

    def representation(self, x: Array, X: Array, key: StepKey | None = None) -> Array:
        """Return the activations of the last hidden layer (K, B, width)."""
        return self._forward(x, X)[-2]

    def data_value_and_gradient_with(
        self, x: Array, batch: Batch, term: RowsLoss
    ) -> tuple[Array, Array]:
        """Return ``sum_b w_b loss_b`` (K,) plus a term, and the gradient (K, p)."""
        activations = self._forward(x, batch.X, batch.key)
        value, slope = cross_entropy(activations.pop(), batch.y, batch.w)
        added, pull = term(activations[-1], slice(None))
        gradient = np.empty((len(batch.X), x.shape[1]), dtype=slope.dtype)
        self._backward(x, activations, slope, gradient, batch.key is not None, pull)
        return value + added, gradient

    def _shapes(self, features: int, classes: int) -> Iterator[tuple[int, int]]:
        """Yield (rows, columns) of each layer's matrix, its bias row included."""
        yield features, self.hidden[0]
        for inputs, outputs in pairwise((*self.hidden, classes)):
            yield inputs + self.intercept, outputs

    def _classes(self, features: int, p: int) -> int:
        """Return the number of classes of a model with p parameters."""
        last = self.hidden[-1] + self.intercept
        return (p - self.size(features, 0)) // last

    def _layers(self, x: Array, features: int) -> list[Array]:
        """Return views of the layers' matrices, (K, rows, columns) each."""
        return [
            x[:, start : start + rows * columns].reshape(len(x), rows, columns)
            for start, rows, columns in _places(self, features, x.shape[1])
        ]

    def _forward(self, x: Array, X: Array, key: StepKey | None = None) -> list[Array]:
        """Return the inputs of every layer (K, B, rows), and last the scores (K, B, c).

        With the key of a local step units are dropped.
        """
        first, *others = self._layers(x, X.shape[2])
        activations = [X, X @ first]
        for depth, layer in enumerate(others):
            a = activations[-1]
            np.maximum(a, 0.0, out=a)
            if key is not None and self._dropped[depth]:
                keep = 1.0 - self._dropped[depth]
                a *= key.keep_mask(keep, a.shape[1], a.shape[2], depth)
                a /= keep
            z = a @ layer[:, : a.shape[2]]
            if self.intercept:
                z += layer[:, -1:]
            activations.append(z)
        return activations

    def _backward(
        self,
        x: Array,
        activations: list[Array],
        slope: Array,
        out: Array,
        dropped: bool = False,
        pull: Array | None = None,
    ) -> None:
        """Write the gradient into out (K, p); see `_slopes`."""
        parts = self._layers(out, activations[0].shape[2])
        for depth, a, s in self._slopes(x, activations, slope, dropped, pull):
            part, rows = parts[depth], a.shape[2]
            np.matmul(a.swapaxes(1, 2), s, out=part[:, :rows])
            if rows < part.shape[1]:
                part[:, -1] = s.sum(axis=1)

    def _slopes(
        self,
        x: Array,
        activations: list[Array],
        slope: Array,
        dropped: bool = False,
        pull: Array | None = None,
    ) -> Iterator[tuple[int, Array, Array]]:
        """Yield depth, inputs (K, B, rows) and slope (K, B, columns) of each layer, the last first.

        The slope is the derivative of the value by what the layer returns; slope (K, B, c) is that
        by the scores. A layer may be written to as soon as it was yielded.

        A unit that was dropped has the activation 0, as one that is off. A term on top of the loss
        has the derivatives pull (K, B, width) in the activations of the last hidden layer.
        """
        layers = self._layers(x, activations[0].shape[2])
        for depth in range(len(layers) - 1, 0, -1):
            a = activations[depth]
            below = slope @ layers[depth][:, : a.shape[2]].swapaxes(1, 2)
            if pull is not None and depth == len(layers) - 1:
                below += pull
            below *= a > 0
            if dropped and self._dropped[depth - 1]:
                below /= 1.0 - self._dropped[depth - 1]
            yield depth, a, slope
            slope = below
        yield 0, activations[0], slope


def _subtract_products(W: Array, A: Array, S: Array, lr: float) -> None:
    """Subtract lr A'S from W (K, rows, columns) in place; A is (K, B, rows), S (K, B, columns)."""
    from scipy.linalg import get_blas_funcs  # here: it takes a quarter of a second

    (gemm,) = get_blas_funcs(("gemm",), (W,))
    for w, a, s in zip(W, A, S, strict=True):  # in Fortran's order: W' - lr S'A
        gemm(-lr, s.T, a.T, beta=1.0, c=w.T, trans_b=True, overwrite_c=True)


@lru_cache(maxsize=64)
def _places(problem: MLP, features: int, p: int) -> tuple[tuple[int, int, int], ...]:
    """Return where each layer begins in x (p,), and its rows and columns."""
    shapes = tuple(problem._shapes(features, problem._classes(features, p)))
    starts = accumulate((rows * columns for rows, columns in shapes), initial=0)
    return tuple((start, *shape) for start, shape in zip(starts, shapes, strict=False))
