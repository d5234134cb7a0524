"""Array types, by the kind of number they hold, and arrays of other libraries than NumPy.

The kernels of a problem may compute with arrays of another library, PyTorch's tensors for networks.
What handles models and gradients of clients then uses operators and the functions of `namespace`,
as the array API standard (https://data-apis.org/array-api) has them. Numbers by client that are no
models (ids, sizes, steps, losses) are NumPy arrays always.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

_CPU = 1  # the device type of the DLPack protocol
_SPREAD = 2  # times as many ids as there are: beyond, counting takes as long as sorting

Array: TypeAlias = npt.NDArray[Any]
"""A NumPy array, or where models of clients are handled an array of the problem's library."""
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Texts: TypeAlias = npt.NDArray[np.str_]


def namespace(array: Array) -> Any:
    """Return the functions for an array: NumPy, or those of its library in the standard's form.

    Examples
    --------
    >>> namespace(np.ones(3)) is np
    True
    """
    if isinstance(array, (np.ndarray, np.generic)):
        return np
    from array_api_compat import array_namespace

    return array_namespace(array)


def like(values: npt.ArrayLike, array: Array) -> Array:
    """Return NumPy's numbers in the type, library and device of an array.

    Examples
    --------
    >>> like([1, 2], np.ones(3, dtype=np.float32))
    array([1., 2.], dtype=float32)
    """
    if isinstance(array, (np.ndarray, np.generic)):
        return np.asarray(values, dtype=array.dtype)
    from array_api_compat import device

    made: Array = namespace(array).asarray(values, dtype=array.dtype, device=device(array))
    return made


def to_numpy(array: Array) -> Array:
    """Return an array as a NumPy array, which shares its memory where it can."""
    if isinstance(array, (np.ndarray, np.generic)):
        return np.asarray(array)
    if array.__dlpack_device__()[0] != _CPU:
        from array_api_compat import to_device

        array = to_device(array, "cpu")
    return np.from_dlpack(array)


def all_to_numpy(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return named arrays as NumPy arrays."""
    return {name: to_numpy(array) for name, array in arrays.items()}


def inner(a: Array, b: Array) -> Array:
    """Return the inner products over the last axis.

    Those of a row have the same bits whatever other rows there are. NumPy's `vecdot` takes row by
    row; PyTorch's is a product of matrices, whose bits depend on the number of rows.
    """
    if isinstance(a, np.ndarray):
        return np.asarray(np.vecdot(a, b))
    products: Array = namespace(a).sum(a * b, axis=-1)
    return products


def copied(array: Array) -> Array:
    """Return a copy of an array."""
    copy: Array = namespace(array).asarray(array, copy=True)
    return copy


def as_matrix(x: Array) -> Array:
    """Return a model (p,) as models (1, p), and models (K, p) as they are."""
    return x if x.ndim == 2 else x[None, :]


def located(ids: Ints, listed: Ints) -> tuple[Ints, Ints]:
    """Return the places of the ids (K,) that a list has, and where they are in the list.

    Parameters
    ----------
    ids : (K,) array of int
    listed : (N,) array of int
        Ascending.

    Examples
    --------
    >>> located(np.array([7, 2, 9]), listed=np.array([2, 5, 7]))
    (array([0, 1]), array([2, 0]))
    """
    at = np.searchsorted(listed, ids)
    present = np.flatnonzero(at < len(listed))
    present = present[listed[at[present]] == ids[present]]
    return present, at[present]


def under(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """Return the arrays with names that begin with a prefix, without the prefix.

    Examples
    --------
    >>> under({"a.x": np.ones(1), "b.x": np.zeros(1)}, "a.")
    {'x': array([1.])}
    """
    return {k.removeprefix(prefix): array for k, array in arrays.items() if k.startswith(prefix)}


def unique_inverse(ids: Ints) -> tuple[Ints, Ints]:
    """Return the distinct ids (K,) among some (n,), ascending, and the place of each (n,) there.

    It is what `numpy.unique_inverse` returns; ids that are close to each other are counted, which
    takes less time than sorting them.

    Examples
    --------
    >>> unique_inverse(np.array([7, 2, 7, 5]))
    (array([2, 5, 7]), array([2, 0, 2, 1]))
    """
    if ids.max(initial=0) > _SPREAD * len(ids):
        distinct, places = np.unique(ids, return_inverse=True)
        return distinct, places
    present = np.bincount(ids) > 0
    return np.flatnonzero(present), (np.cumsum(present) - 1)[ids]
