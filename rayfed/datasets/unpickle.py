"""Reading of pickles that hold arrays and plain values, and of no others."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from rayfed.core.arrays import Array
from rayfed.core.errors import ScenarioError


def plain_values(data: bytes, place: str) -> Any:
    """Return the content of a pickle: mappings, lists, numbers, texts, and arrays of numbers.

    A pickle is a program that can call any function. Here it can only make arrays: any other
    name that it asks for is refused before anything is called.

    Parameters
    ----------
    data : bytes
        The pickle. Texts of Python 2 are returned as bytes.
    place : str
        Its file, for messages.

    Raises
    ------
    ScenarioError
        If it is no pickle, is truncated, or asks for more than arrays.

    Examples
    --------
    >>> plain_values(pickle.dumps({"labels": [3, 1]}), "batch")
    {'labels': [3, 1]}
    """
    try:
        return _values(_Plain(io.BytesIO(data), encoding="bytes").load())
    except _Foreign as error:
        text = f"is a pickle that calls '{error}', which is not done; get the published file"
        raise ScenarioError(place, text) from None
    except Exception as error:  # a pickle is a program: damaged ones fail in any way
        text = f"cannot be read as a pickle ({type(error).__name__}); replace the file"
        raise ScenarioError(place, text) from error


class _Foreign(Exception):
    """A name that is neither an array nor its type."""


class _Type:
    """A pickled array type; only numbers have one here."""

    def __init__(self, code: str | bytes, *options: bool) -> None:
        self.dtype = np.dtype(code.decode("ascii") if isinstance(code, bytes) else code)
        if self.dtype.kind not in "biuf":
            raise ValueError("no array of numbers")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order: Any = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        self.dtype = self.dtype.newbyteorder(order)


class _Array:
    """A pickled array, in place of NumPy's own functions."""

    def __init__(self, *options: Any) -> None:
        self.values: Array = np.empty(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, by_columns, raw = state
        values = np.frombuffer(raw, kind.dtype)
        self.values = values.reshape(shape, order="F" if by_columns else "C")


def _buffered(
    raw: bytes, kind: _Type, shape: tuple[int, ...], order: Any, axes: tuple[int, ...] = ()
) -> Array:
    """Return an array of protocol 5, the default since Python 3.14."""
    values = np.frombuffer(raw, kind.dtype)
    return values.reshape(shape).transpose(axes) if axes else values.reshape(shape, order=order)


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        if (module, name) not in _ALLOWED:
            raise _Foreign(f"{module}.{name}")
        return _ALLOWED[module, name]


def _latin1(text: str, encoding: str | bytes) -> bytes:
    """Return bytes that were written as a text, as Python 3 writes them for Python 2."""
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.numeric", "_frombuffer"): _buffered,
    ("numpy._core.numeric", "_frombuffer"): _buffered,
    ("_codecs", "encode"): _latin1,
}


def _values(held: Any) -> Any:
    """Return unpickled values with arrays in place of placeholders."""
    if isinstance(held, _Array):
        return held.values
    if isinstance(held, dict):
        return {key: _values(value) for key, value in held.items()}
    return [_values(item) for item in held] if isinstance(held, list | tuple) else held
