"""Seals: texts of this user, signed with a key that stays on this user's account."""

from __future__ import annotations

import hmac
import os
import secrets
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile

_BYTES = 32


def seal(text: str) -> str:
    """Return what only this user can return for a text, 64 characters."""
    return hmac.new(_key(), text.encode(), "sha256").hexdigest()


def is_sealed(text: str, given: object) -> bool:
    """Return whether this user has sealed a text, by what `seal` may have returned."""
    return isinstance(given, str) and hmac.compare_digest(seal(text).encode(), given.encode())


def _key() -> bytes:
    """Return the key of this user; where none can be kept, one that ends with this process."""
    folder = _folder()
    return _of_process() if folder is None else _kept(folder / "key") or _of_process()


@cache
def _of_process() -> bytes:
    return secrets.token_bytes(_BYTES)


def _folder() -> Path | None:
    """Return rayfed's folder in the user's folder for state, if there is any such folder."""
    given = os.environ.get("XDG_STATE_HOME", "")
    with suppress(RuntimeError):  # the user has no home
        home = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
        return home / "rayfed"
    return None


def _kept(path: Path) -> bytes | None:
    """Return the key in a file, which is made if it is not there; None if it cannot be relied on.

    Of two processes that make it one is first: a file gets its name when it is whole.
    """
    with suppress(OSError):
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=path.parent) as made:  # its mode is 0600
                made.write(secrets.token_bytes(_BYTES))
                made.flush()
                os.fsync(made.fileno())
                with suppress(FileExistsError):
                    os.link(made.name, path)
        held, status = path.read_bytes(), path.stat()
        private = os.name != "posix" or (
            status.st_uid == os.getuid() and not status.st_mode & 0o077
        )
        return held if private and len(held) == _BYTES else None
    return None
