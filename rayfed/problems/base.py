"""What a problem is: stacked kernels over clients.

Every kernel works on K clients at once. Parameters are flat vectors ``x`` (K, p), or (1, p) where
all clients share one model; a `Batch` holds one block of rows for each client. The bits of a
client's result do not depend on K: clients are batch axes of 3-D ``matmul`` and sums run over
C-contiguous arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class Batch:
    """A block of rows for each of K clients, with everything that makes it an objective.

    Parameters
    ----------
    X : (K, B, d) array of float
        Features; the last column is 1 where the problem has an intercept.
    y : (K, B) array
        Targets: float, or class numbers 0, 1, ... as int64.
    w : (K, B) array of float
        Sample weights; the objective is ``sum_b w_b loss_b + ridge/2 ||x||^2``. Rows of weight 0
        are padding. For all rows of client i w = 1/D_i, for a minibatch of B rows n_i/(B D_i).
    ridge : (K, 1) or (K, p) array of float, or None
        The l2 coefficient of each client, per coordinate where some are not regularised.
    """

    X: Array
    y: Array
    w: Array
    ridge: Array | None


@dataclass(frozen=True, kw_only=True)
class Problem:
    """TO BE WRITTEN by the problems helper; the interface that others rely on is this."""

    name: ClassVar[str]
    task: ClassVar[Literal["regression", "binary", "multiclass"]]
    convex: ClassVar[bool]
    has_hessian: ClassVar[bool]

    l2: float = 0.0
    intercept: bool = True
    divide_by: Literal["samples", "all-samples", "none"] = "samples"
    l2_per: Literal["client", "population", "sample"] = "client"
    weighting: Literal["size", "uniform", "sum"] = "size"
    regularise_intercept: bool = True
