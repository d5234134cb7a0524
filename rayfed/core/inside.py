"""Files in result folders: regular ones alone, which are reached through no link.

A result folder may be somebody else's. A link in it could name any file or folder of the user's, a
pipe never ends. So what is in it is opened, replaced and deleted by what is here, or after
`check_place`. The result folder itself may be reached through links; `real` goes through them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

DRAFT = ".tmp"
APPENDED = os.O_WRONLY | os.O_APPEND | os.O_CREAT
"""Flags of a file that grows."""
_LINK = "is a link, not followed in a result folder; replace it by its target, or remove it"
_MODES = {os.O_RDONLY: "rb", os.O_WRONLY: "wb", os.O_RDWR: "r+b"}


class NotRegular(OSError):
    """A path names a pipe, a device or a socket, which may never end, or a link."""

    def __init__(self, path: Path | None = None, why: str = "is not a regular file") -> None:
        super().__init__(errno.EINVAL, why, *filter(None, [path and str(path)]))

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}" if self.filename else str(self.strerror)


def check_kind(path: Path, mode: int) -> None:
    """Raise OSError unless a mode, as from `os.stat`, is that of a regular file."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise NotRegular(path)


def real(folder: Path) -> Path:
    """Return the path of a result folder; that behind the link, where it or its parent is one.

    A path that no file can have stays as it is, for who opens it to refuse.
    """
    with suppress(OSError, RuntimeError):  # too long; links that lead to each other
        return folder.resolve() if folder.is_symlink() or folder.parent.is_symlink() else folder
    return folder


def check_place(path: Path) -> None:
    """Raise NotRegular if the folder of a file, or the one above, is a link.

    Files of results lie one or two folders deep in a result folder.
    """
    for folder in path.parents[:2]:
        check_folder(folder)


def check_folder(folder: Path) -> None:
    """Raise NotRegular if a folder is a link."""
    if folder.is_symlink():
        raise NotRegular(folder, _LINK)


def check_tree(folder: Path) -> None:
    """Raise NotRegular if anything in a folder is a link, a pipe, a device or a socket."""
    check_folder(folder)
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                raise NotRegular(Path(entry.path), _LINK)
            if entry.is_dir():
                check_tree(Path(entry.path))
            elif not entry.is_file():
                raise NotRegular(Path(entry.path))


def opened(path: Path, flags: int = os.O_RDONLY) -> BinaryIO:
    """Open a file of a result folder in binary mode, with flags as `os.open` takes them.

    Raises
    ------
    NotRegular
        If it, or a folder on the way to it, is a link, or it is a pipe, a device or a socket.
    OSError
        If it is a folder, or cannot be opened.
    """
    check_place(path)
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if path.is_symlink():
            raise NotRegular(path, _LINK) from error
        if error.errno == errno.ENXIO:  # a pipe without a reader, a socket
            raise NotRegular(path) from error
        raise
    try:
        check_kind(path, os.fstat(handle).st_mode)
        mode = "ab" if flags & os.O_APPEND else _MODES[flags & os.O_ACCMODE]
        return cast(BinaryIO, os.fdopen(handle, mode))
    except BaseException:
        os.close(handle)
        raise


def check(path: Path) -> None:
    """Raise OSError unless `opened` would open a file to read it."""
    opened(path).close()


@contextmanager
def replacing(path: Path, draft: str = DRAFT) -> Iterator[BinaryIO]:
    """Give a new file to write, which gets its name when it is whole.

    It is written under a hidden name that ends in `draft`. What has that name already, a link too,
    is not written to.
    """
    hidden = path.with_name(f".{path.name}{draft}")
    try:
        with suppress(FileNotFoundError):
            hidden.unlink()
        made = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        with os.fdopen(made, "wb") as file:
            yield cast(BinaryIO, file)
        os.replace(hidden, path)
    except BaseException:
        with suppress(OSError):
            hidden.unlink()
        raise
