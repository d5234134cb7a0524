"""Base class of problems: kernels over stacks of clients.

Every kernel works on K clients at once. Parameters are flat vectors ``x`` (K, p), or (1, p) if
all clients share one model; a `Batch` holds one block of rows for each client. The result of a
client does not depend on K, bit for bit: clients are batch axes of 3-D ``matmul``, and sums run
over C-contiguous arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from annotated_types import Ge

from rayfed.core.arrays import Array, Bools, Floats, Ints, inner, to_numpy
from rayfed.core.columns import Better
from rayfed.core.errors import RayfedError, ScenarioError
from rayfed.core.needs import ADAPTERS, BY_PROBLEMS, NOTHING, REPRESENTATIONS, Terms, refuse_flags
from rayfed.core.plugins import FilePath
from rayfed.core.rng import Draw, Key, part_of
from rayfed.core.targets import Targets
from rayfed.problems.layers import Layer
from rayfed.problems.picture import Picture

Oracle: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Maps x (K, p) to value (K,) and gradient (K, p)."""
RowsLoss: TypeAlias = Callable[[Array, slice], tuple[Array, Array]]
"""Maps representations (k, B, r) of rows to a value (k,) and its derivatives (k, B, r).

The second argument holds the places of their clients among the batch's K: some, or all.
"""
Start: TypeAlias = Literal[
    "zeros", "ones", "normal", "standard-normal", "uniform", "torch", "own"
]  # fmt: skip
STARTS: tuple[Start, ...] = get_args(Start)
"""Initial models that need no file."""


@dataclass(frozen=True)
class StepKey:
    """Coordinates of the random numbers of one local step of K clients.

    Parameters
    ----------
    ids : (K,) array of int
        Client ids.
    seed, ask, step, stream : int
        Seed of the run, Ask within the round, local step, and which of several minibatches of the
        step.
    draw : int or (K,) array of int
        The round, for all clients, or the number of each client's own tasks.
    """

    ids: Ints
    seed: int
    draw: Draw
    ask: int
    step: int
    stream: int = 0

    def head(self, k: int) -> StepKey:
        """Return the key of the first k clients."""
        return replace(self, ids=self.ids[:k], draw=part_of(self.draw, slice(k)))

    def only(self, k: int) -> StepKey:
        """Return the key of client number k alone."""
        one = slice(k, k + 1)
        return replace(self, ids=self.ids[one], draw=part_of(self.draw, one))

    def keep_mask(self, share: float, rows: int, width: int, layer: int) -> Bools:
        """Draw which units of a layer are kept, (K, rows, width), each with a probability `share`.

        What is drawn for a client depends on no other client, and for a row on no row after it.
        """
        words = self.words(f"dropout/{self.stream}/{self.step}/{layer}", rows * width)
        drawn = words < np.uint64(round(share * 2.0**32))
        return np.asarray(drawn.reshape(len(self.ids), rows, width))

    def seeds(self) -> Ints:
        """Draw a seed (K,) for a generator of each client's own, below 2**63."""
        words = self.words(f"module/{self.stream}/{self.step}", 2)
        return np.asarray((words[:, 0] << np.uint64(31)) ^ words[:, 1], dtype=np.int64)

    def words(self, purpose: str, count: int) -> npt.NDArray[np.uint64]:
        """Draw 32-bit words (K, count) for a purpose within the step."""
        return Key(self.seed, purpose).bits(self.ids, count, round=self.draw, ask=self.ask)


@dataclass(frozen=True)
class Batch:
    """A block of rows for each of K clients, with weights and regularisation.

    Parameters
    ----------
    X : (K, B, d) array of float
        Features; the last column is 1 if the problem has an intercept.
    y : (K, B) array, (K, B, ...) for several targets a row
        Targets: float, or class numbers 0, 1, ... as int64.
    w : (K, B) array of float
        Sample weights; the objective is ``sum_b w_b loss_b + ridge/2 ||x||^2``. Rows of weight 0
        are padding. For all rows of client i w = 1/D_i, for a minibatch of B rows n_i/(B D_i).
    ridge : (K, 1) or (K, p) array of float, or None
        The l2 coefficient of each client, per coordinate if some are not regularised.
    key : StepKey or None
        Of a local step, for problems whose objective is random there; None in evaluations.
    """

    X: Array
    y: Array
    w: Array
    ridge: Array | None
    key: StepKey | None = None

    @cached_property
    def gram(self) -> Array:
        """``sum_b w_b a_b a_b'`` (K, d, d), cached because later rounds use it again."""
        return gram(self.w, self.X)

    def head(self, k: int) -> Batch:
        """Return the rows of the first k clients, as views."""
        if k == len(self.w):
            return self
        ridge = None if self.ridge is None else self.ridge[:k]
        key = None if self.key is None else self.key.head(k)
        head = Batch(self.X[:k], self.y[:k], self.w[:k], ridge, key)
        if "gram" in vars(self):
            vars(head)["gram"] = self.gram[:k]
        return head


class Scores(NamedTuple):
    """Sums over scored rows of each of K clients.

    Parameters
    ----------
    loss, right, rows : (K,) array of float64
        Summed losses, number of right predictions (NaN for regression), and number of rows.
    metrics : mapping of str to (K,) array of float64
        Sums of further metrics of the problem.
    """

    loss: Floats
    right: Floats
    rows: Floats
    metrics: Mapping[str, Floats] = MappingProxyType({})


OLD_FLAGS: Mapping[str, str] = {
    "has_hessian": "gives = Problem.gives - {HESSIANS, PRODUCTS}",
    "has_products": "gives = Problem.gives - {HESSIANS}",
    "has_representation": "gives = Problem.gives | {REPRESENTATIONS}",
}
"""Flags of earlier releases, and the declaration in place of each where it is not its default."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Base of all problems: normalisation, l2 term, and the interface of the kernels.

    The objective of client i is ``F_i(x) = (sum over its rows of loss) / D_i + l2_i/2 ||x||^2``,
    the global one ``F = sum_i w_i F_i``, where i runs over all N clients, n_i is the number of
    rows of client i and n that of all clients.

    A subclass implements `data_value_and_gradient`, `size` and `predict`, and `data_hessian` to
    support second-order methods; without it, `gives` leaves `HESSIANS` and `PRODUCTS` out. One
    whose models end in a linear layer may implement `representation` and
    `data_value_and_gradient_with`, and give `REPRESENTATIONS`. The l2 term is added here alone.

    Parameters
    ----------
    l2 : float
        Coefficient of half the squared norm; 0 for none.
    intercept : bool
        Whether a column of ones follows the features (appended by the data layer).
    divide_by : "samples", "all-samples" or "none"
        D_i: n_i (F_i is a mean over the client's rows), n, or 1 (F_i is a sum).
    l2_per : "client", "population" or "sample"
        l2_i: l2, l2 / N, or l2 / n_i.
    weighting : "size", "uniform" or "sum"
        w_i: n_i / n, 1 / N, or 1.
    regularise_intercept : bool
        Whether the l2 term covers the intercepts.
    init : str, optional
        First model: "zeros", "ones", "normal" or "uniform" noise that the problem scales,
        "standard-normal" noise of deviation 1, the initialisation of a network ("torch") or of own
        code ("own"), or the path of a model. If None, the model that comes with the data, or else
        the problem's default.
    """

    name: ClassVar[str]
    task: ClassVar[Literal["regression", "binary", "multiclass", "own"]]
    gives: ClassVar[Terms] = BY_PROBLEMS - {ADAPTERS, REPRESENTATIONS}
    """Terms that others may need, from `rayfed.core.needs`; by default all but representations."""
    convex: ClassVar[bool] = True
    several: ClassVar[bool] = False
    """Whether rows may have several targets, or none; `bound` is then given the targets."""
    libraries: ClassVar[tuple[str, ...]] = ()
    """Packages whose arrays it computes with; none for NumPy's own."""
    default_init: ClassVar[Start] = "zeros"
    starts: ClassVar[tuple[Start, ...]] = (
        "zeros",
        "ones",
        "normal",
        "standard-normal",
        "uniform",
    )
    named_losses: ClassVar[Mapping[str, str]] = {}
    """What is predicted under each value of the setting ``loss``, if the problem has one."""

    l2: Annotated[float, Ge(0)] = 0.0
    intercept: bool = True
    divide_by: Literal["samples", "all-samples", "none"] = "samples"
    l2_per: Literal["client", "population", "sample"] = "client"
    weighting: Literal["size", "uniform", "sum"] = "size"
    regularise_intercept: bool = True
    init: Start | FilePath | None = None

    def __init_subclass__(cls) -> None:
        refuse_flags(cls, OLD_FLAGS)

    @property
    def setting_needs(self) -> Terms:
        """Terms that other parts of a run must not remove."""
        return NOTHING

    @property
    def exact(self) -> str:
        """Level of numerical reproducibility, for ``run.json``."""
        return "the same bytes under every placement"

    @property
    def has_optimum(self) -> bool:
        """Whether the minimiser of F can be found: F is convex."""
        return self.convex

    @property
    def random_steps(self) -> bool:
        """Whether the objective of a local step is random beyond its minibatch."""
        return False

    @property
    def init_file(self) -> Path | None:
        """File of the initial model; None if it needs none."""
        return None if self.init is None or self.init in STARTS else Path(self.init)

    def bound(
        self, shape: tuple[int, ...], classes: int, key: Key, target: Targets | None = None
    ) -> Problem:
        """Return the problem for given data, which computes.

        Parameters
        ----------
        shape : tuple of int
            Shape of the features of a row, the column of ones excluded.
        classes : int
            Number of classes, 0 for regression.
        key : Key
            Of the initial model.
        target : Targets, optional
            Targets that are not one label or number a row; only `several` problems meet them.

        Raises
        ------
        ScenarioError
            If the problem does not fit the rows.
        """
        return self

    @property
    def statistics(self) -> int:
        """Number of running statistics, the last coordinates of a model."""
        return 0

    @property
    def further(self) -> Mapping[str, Better | None]:
        """Names of metrics in addition to loss and accuracy, and their better directions."""
        return {}

    def pooled(self, l2: float, weight: float) -> Problem:
        """Return the problem of one client that has all rows.

        Parameters
        ----------
        l2 : float
            Its l2 coefficient.
        weight : float
            Sum of the weights w_i of the clients in F.
        """
        return replace(self, l2=l2, l2_per="client")

    def on_device(self, device: str) -> Problem:
        """Return the problem on a device: "cpu" or the library's name of another.

        Raises
        ------
        ScenarioError
            If it cannot compute there.
        """
        if device == "cpu":
            return self
        text = f"found '{device}', but problem '{self.name}' computes on the CPU; leave it out"
        raise ScenarioError("executor.device", text)

    def arrays(self, values: Mapping[str, Array]) -> Mapping[str, Array]:
        """Return NumPy arrays of numbers by name as the arrays that the kernels compute with.

        Integers and texts stay what they are.
        """
        return values

    def batch(self, rows: Batch) -> Batch:
        """Return a batch of NumPy arrays as the kernels compute with it."""
        return rows

    def value(self, x: Array, batch: Batch) -> Array:
        """Return the objectives (K,) at x, (K, p) or (1, p)."""
        x = _by_rows(x)
        value = self.data_value(x, batch)
        return value if batch.ridge is None else value + _ridge_value(x, batch.ridge)

    def gradient(self, x: Array, batch: Batch) -> Array:
        """Return the gradients (K, p) at x, (K, p) or (1, p)."""
        x = _by_rows(x)
        gradient = self.data_gradient(x, batch)
        if batch.ridge is not None:
            gradient += batch.ridge * x
        return gradient

    def value_and_gradient(self, x: Array, batch: Batch) -> tuple[Array, Array]:
        """Return `value` (K,) and `gradient` (K, p), computing the common part once."""
        x = _by_rows(x)
        value, gradient = self.data_value_and_gradient(x, batch)
        if batch.ridge is not None:
            value = value + _ridge_value(x, batch.ridge)
            gradient += batch.ridge * x
        return value, gradient

    def value_and_gradient_with(
        self, x: Array, batch: Batch, term: RowsLoss
    ) -> tuple[Array, Array]:
        """Return value (K,) and gradient (K, p) of the objective plus a term.

        Parameters
        ----------
        term : callable
            A function of the representations of the batch's rows under x; see `RowsLoss`. What it
            is given must not be written to.

        Raises
        ------
        RayfedError
            If the problem has no representations.
        """
        x = _by_rows(x)
        value, gradient = self.data_value_and_gradient_with(x, batch, term)
        if batch.ridge is not None:
            value = value + _ridge_value(x, batch.ridge)
            gradient += batch.ridge * x
        return value, gradient

    def linear_scores(self, classes: int) -> int | None:
        """Return the number of scores of a row if they are linear in the model; None otherwise.

        The model then is that many vectors w_c of d coordinates, one after the other, and score c
        of a row a is ``a'w_c``.
        """
        return None

    def value_and_slope(self, z: Array, y: Array, w: Array) -> tuple[Array, Array]:
        """Return the data term (K,) and its derivatives (c, K, B) by scores z (c, K, B).

        Only problems with `linear_scores` have it. Classes come first, so that reductions over
        them add whole rows of memory.

        Parameters
        ----------
        z : (c, K, B) array, contiguous
            Scores; may be overwritten.
        y, w : (K, B) array
            Targets and sample weights.
        """
        raise NotImplementedError

    def near(self, x0: Array, batch: Batch) -> Oracle:
        """Return `value_and_gradient` on one batch, for evaluations near x0 (K, p)."""
        return partial(self.value_and_gradient, batch=batch)

    def descend(self, x: Array, batch: Batch, lr: float) -> Array | None:
        """Subtract lr times the gradient from x (K, p) in place, where it need not be formed.

        Parameters
        ----------
        x : (K, p) array, contiguous
        batch : Batch
        lr : float

        Returns
        -------
        (K,) array or None
            The objectives before the step; None where gradients are formed, and x is as it was.
        """
        return None

    def hessian(self, x: Array, batch: Batch) -> Array:
        """Return the Hessians (K, p, p) at x, (K, p) or (1, p).

        Raises
        ------
        RayfedError
            If the problem has none.
        """
        hessian = self.data_hessian(_by_rows(x), batch)
        if batch.ridge is not None:
            diagonal = np.einsum("kii->ki", hessian)  # a view; adding to it reorders no sum
            diagonal += batch.ridge
        return hessian

    def hvp(self, x: Array, v: Array, batch: Batch) -> Array:
        """Return the Hessians at x times v, (K, p) or (1, p), as (K, p).

        Raises
        ------
        RayfedError
            If the problem has no Hessian.
        """
        product = self.data_hvp(_by_rows(x), _by_rows(v), batch)
        if batch.ridge is not None:
            product += batch.ridge * v
        return product

    def curvature(self, batch: Batch) -> tuple[Array, Array] | None:
        """Return m and l (K,) with ``m_i I <= Hessian of F_i <= l_i I`` at every x.

        Returns None if no such bounds are known.
        """
        bounds = self.data_curvature(batch)
        if bounds is None or batch.ridge is None:
            return bounds
        return bounds[0] + batch.ridge.min(axis=1), bounds[1] + batch.ridge.max(axis=1)

    def smoothness(self, batch: Batch) -> Array | None:
        """Return l (K,) of `curvature`, without matrices (d, d); it may be a little too small.

        Returns None if no such bound is known.
        """
        largest = self.data_smoothness(batch)
        if largest is None or batch.ridge is None:
            return largest
        return np.asarray(largest + batch.ridge.max(axis=1))

    def at(self, round: int, ids: Ints, state: Mapping[str, Array]) -> Problem:
        """Return the problem for clients (K,) with their state in a round; most need neither."""
        return self

    def scored(self, x: Array, batch: Batch) -> Scores:
        """Return the scores of the rows of a batch at x, (K, p) or (1, p), without regularisers."""
        w = to_numpy(batch.w)
        rows = np.asarray(np.sum(w, axis=1, dtype=np.float64))
        loss = np.broadcast_to(to_numpy(self.value(x, batch)), rows.shape).astype(np.float64)
        return Scores(loss, self.right(x, batch), rows)

    def right(self, x: Array, batch: Batch) -> Floats:
        """Return the right predictions (K,) at x, (K, p) or (1, p); NaN for regression."""
        if self.task == "regression":
            return np.full(len(batch.w), np.nan)
        hits = to_numpy(self.predict(x, batch.X) == batch.y) & (to_numpy(batch.w) > 0)
        return np.asarray(np.sum(hits, axis=1, dtype=np.float64))

    def predict(self, x: Array, X: Array) -> Array:
        """Return predicted classes (int64), or values for regression, (K, B) for rows (K, B, d)."""
        raise NotImplementedError

    def named(self, x: Array, features: int, classes: int) -> Mapping[str, Array]:
        """Return the parameters of a model (p,) by name; other arguments are those of `size`."""
        return {layer.name: x[layer.slice] for layer in self.layers(features, classes)}

    def module(self, x: Array) -> Any:
        """Return the module that computes with a model (p,); None where there is no module."""
        return None

    def scores(self, x: Array, X: Array) -> Array | None:
        """Return the scores of all classes (K, B, c) for rows (K, B, d); None if there are none.

        `predict` is the class of the largest score, the first of several.
        """
        return None

    def measured(self, x: Array, X: Array) -> Array:
        """Return what metrics are computed from, (K, B, ...) for rows (K, B, d).

        Scores of classes, the classes last, or predicted numbers.
        """
        scores = self.scores(x, X)
        return self.predict(x, X) if scores is None else scores

    def representation(self, x: Array, X: Array, key: StepKey | None = None) -> Array:
        """Return inputs (K, B, r) of the last layer for rows (K, B, d) and x (K, p) or (1, p).

        Nothing is dropped out. Under the key of a local step it sees the rows as the step changes
        them.

        Raises
        ------
        RayfedError
            If the problem has no representations.
        """
        raise RayfedError(
            f"problem '{self.name}' has no representation of a row; choose a model with layers"
        )

    def picture(self, x: Array, X: Array, y: Array) -> Picture | None:
        """Return a picture of a model (p,) with rows (n, d) and targets (n,), or None."""
        given = self.arrays({"x": x[None], "X": X[None]})
        predicted = to_numpy(self.predict(given["x"], given["X"]))[0]
        if self.task == "regression":
            return Picture.of_numbers(y, predicted)
        return Picture.of_classes(y, predicted)

    def size(self, features: int, classes: int) -> int:
        """Return p for d columns (the column of ones included); classes is 0 for regression."""
        raise NotImplementedError

    def layers(self, features: int, classes: int) -> tuple[Layer, ...]:
        """Return the layers of the model, one after the other, which cover all p coordinates.

        The arguments are those of `size`.
        """
        return (Layer("weight", 0, self.size(features, classes)),)

    def intercepts(self, features: int, p: int) -> Ints:
        """Return which of the p coordinates are intercepts or biases."""
        return np.empty(0, dtype=np.int64)

    def initial(self, kind: Start, features: int, classes: int, key: Key) -> Floats:
        """Return the initial model (p,).

        Zeros, ones, or independent draws: normal with standard deviation `spread` or 1, or uniform
        on ``[-reach, reach]``.
        """
        p = self.size(features, classes)
        if kind in ("zeros", "ones"):
            return np.full(p, float(kind == "ones"))
        if kind == "uniform":
            return np.asarray((2 * key.uniforms([0], p)[0] - 1) * self.reach(features, p))
        spread = 1.0 if kind == "standard-normal" else self.spread(features, p)
        return np.asarray(key.normals([0], p)[0] * spread)

    def read_initial(self, path: Path, key: Key) -> Floats | None:
        """Return the initial model (p,) of a file, in a format of the problem's own.

        None where it has none, and reads the formats that all problems share.
        """
        return None

    def spread(self, features: int, p: int) -> Floats:
        """Return the standard deviation of each coordinate (p,) of a normal initialisation."""
        return np.full(p, 1.0 / np.sqrt(features))

    def reach(self, features: int, p: int) -> Floats:
        """Return the largest absolute value of each coordinate (p,) of a uniform initialisation.

        1 / sqrt(inputs) of its layer for weights and biases, as PyTorch initialises linear layers.
        """
        return np.full(p, 1.0 / np.sqrt(max(1, features - self.intercept)))

    # The data terms, sum_b w_b loss_b, which subclasses implement.

    def data_value_and_gradient(self, x: Array, batch: Batch) -> tuple[Array, Array]:
        """Return the data term (K,) and its gradient (K, p), a new array, without l2."""
        raise NotImplementedError

    def data_value_and_gradient_with(
        self, x: Array, batch: Batch, term: RowsLoss
    ) -> tuple[Array, Array]:
        """Return the data term plus a function of the representations, and the gradient."""
        raise RayfedError(
            f"problem '{self.name}' has no representation of a row; choose a model with layers"
        )

    def data_value(self, x: Array, batch: Batch) -> Array:
        """Return the data term alone (K,)."""
        return self.data_value_and_gradient(x, batch)[0]

    def data_gradient(self, x: Array, batch: Batch) -> Array:
        """Return the gradient of the data term alone (K, p)."""
        return self.data_value_and_gradient(x, batch)[1]

    def data_hessian(self, x: Array, batch: Batch) -> Array:
        """Return the Hessian of the data term (K, p, p), a new array."""
        raise RayfedError(
            f"problem '{self.name}' has no Hessian; choose a first-order method or another problem"
        )

    def data_curvature(self, batch: Batch) -> tuple[Array, Array] | None:
        """Return bounds (K,) of the eigenvalues of the data term's Hessian at every x, or None."""
        return None

    def data_smoothness(self, batch: Batch) -> Array | None:
        """Return the upper one of `data_curvature` (K,), which wide problems find without it."""
        bounds = self.data_curvature(batch)
        return None if bounds is None else bounds[1]

    def data_hvp(self, x: Array, v: Array, batch: Batch) -> Array:
        """Return the Hessian of the data term times v (K, p), a new array."""
        product: Array = (self.data_hessian(x, batch) @ v[:, :, None])[:, :, 0]
        return product


def _by_rows(x: Array) -> Array:
    """Return x with contiguous rows, since strided products round differently."""
    if not isinstance(x, np.ndarray) or x.strides[-1] == x.itemsize:
        return x
    return np.ascontiguousarray(x)


def _ridge_value(x: Array, ridge: Array) -> Array:
    """Return ``1/2 sum_j ridge_j x_j^2`` (K,)."""
    one = ridge.shape[1] == 1
    half: Array = 0.5 * ridge[:, 0] * inner(x, x) if one else 0.5 * inner(ridge, x * x)
    return half


def gram(s: Array, X: Array) -> Array:
    """Return ``sum_b s_b a_b a_b'`` (K, d, d), exactly symmetric, for s (K, B) >= 0."""
    rows = np.sqrt(s)[:, :, None] * X
    product: Array = rows.swapaxes(1, 2) @ rows  # a matrix with itself: BLAS computes one half
    return product
