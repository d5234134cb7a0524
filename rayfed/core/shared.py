"""Arrays in memory that other processes of this user on this machine can read, without copies.

The memory is that of an anonymous file, which has no name and vanishes with the last process that
uses it. Linux lets others open it by the number that it has in the process that made it.
"""

from __future__ import annotations

import mmap
import os
import sys
import weakref
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rayfed.core.arrays import Array


class Place(NamedTuple):
    """Where other processes find an array.

    Parameters
    ----------
    pid : int
        Process that made it.
    number : int
        Of its file there.
    inode : int
        Of the file, which tells it from a later one with the same number.
    shape : tuple of int
    dtype : str
    """

    pid: int
    number: int
    inode: int
    shape: tuple[int, ...]
    dtype: str


class SharedArray:
    """An array that other processes can read while this object lives.

    Parameters
    ----------
    shape : tuple of int
    dtype : dtype

    Attributes
    ----------
    array : array
        Its values are arbitrary at first.
    place : Place

    Raises
    ------
    OSError
        If the system has no such memory.
    """

    def __init__(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        _check()
        wanted = np.dtype(dtype)
        number = os.memfd_create("rayfed")
        weakref.finalize(self, os.close, number)
        os.ftruncate(number, max(1, wanted.itemsize * int(np.prod(shape))))
        self.array: Array = np.ndarray(shape, wanted, buffer=mmap.mmap(number, 0))
        self.place = Place(os.getpid(), number, os.fstat(number).st_ino, shape, wanted.str)


def read(place: Place) -> Array:
    """Return an array of another process, which cannot be written to here.

    It remains readable after that process has ended.

    Raises
    ------
    OSError
        If that process does not have it any more, or this one may not read it.
    """
    _check()
    number = os.open(f"/proc/{place.pid}/fd/{place.number}", os.O_RDONLY | os.O_NONBLOCK)
    try:
        if os.fstat(number).st_ino != place.inode:
            raise OSError(f"process {place.pid} has dropped that memory")
        # all pages at once: a fault for each costs more
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        memory = mmap.mmap(number, 0, flags=flags, prot=mmap.PROT_READ)
    finally:
        os.close(number)
    return np.ndarray(place.shape, place.dtype, buffer=memory)


def _check() -> None:
    if sys.platform != "linux":
        raise OSError("only Linux shows the files of one process to others")
