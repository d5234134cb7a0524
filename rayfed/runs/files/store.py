"""The file operations of runs: publish a file whole, check one, keep it through a crash.

Runs write, list, check and lock files only through this module, so that another kind of store can
stand behind it. A file is written under a hidden name and then renamed, so that neither a reader
nor the death of the process finds half of it. That is not enough where the machine itself goes
down: `sync` is, and `publish` with `durable` does it in the order that counts, the data before the
rename and the folder after it.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from rayfed.core.arrays import Array
from rayfed.core.inside import APPENDED, check_folder, check_place, opened, replacing
from rayfed.core.leases import is_leased as is_leased
from rayfed.core.leases import lease as lease

_NO_SYNC = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF)
"""Of errors of the system: the file system keeps names by itself, or not at all (FUSE, CIFS)."""


def publish(path: Path, write: Callable[[BinaryIO], object], *, durable: bool = False) -> None:
    """Write a file whole or not at all.

    Parameters
    ----------
    path : Path
        What it replaces or makes.
    write : callable
        Is given the open file.
    durable : bool
        Whether it is on the disk when this returns, whatever happens to the machine.
    """
    check_place(path)
    with replacing(path) as file:
        write(file)
        if durable:
            file.flush()
            os.fsync(file.fileno())
        if path.is_dir():  # something else made it; a file cannot replace it
            remove(path)
    if durable:
        sync_folder(path.parent)


def publish_text(path: Path, text: str, *, durable: bool = False) -> None:
    """Write a text file in UTF-8 whole or not at all; see `publish`."""
    publish(path, lambda file: file.write(text.encode()), durable=durable)


def publish_npz(path: Path, arrays: Mapping[str, Array], *, durable: bool = False) -> None:
    """Write named arrays, never pickled objects, whole or not at all; see `publish`."""
    publish(path, lambda file: np.savez(file, allow_pickle=False, **arrays), durable=durable)


def append_text(path: Path, text: str) -> None:
    """Add text in UTF-8 to the end of a file, which is made if it does not exist."""
    with opened(path, APPENDED) as file:
        file.write(text.encode())


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, if it does not exist."""
    check_place(path)
    check_folder(path)
    path.mkdir(parents=True, exist_ok=True)


def move(path: Path, target: Path) -> None:
    """Give a file or a folder another name, which nothing has."""
    check_place(path)
    path.rename(target)


def names(folder: Path) -> list[str]:
    """Return the sorted names in a folder; none if there is no such folder."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def remove(path: Path) -> None:
    """Delete a file, or a folder with all it holds, if it exists; of a link nothing but itself."""
    check_place(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync(paths: Iterable[Path]) -> None:
    """Bring files to the disk, then the folders that name them."""
    folders = {}
    for path in paths:
        with opened(path) as file:
            os.fsync(file.fileno())
        folders[path.parent] = True
    for folder in folders:
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(handle)
