"""Seals of texts by a key that stays on this user's account."""

from __future__ import annotations

import hmac
import os
import secrets
from contextlib import suppress
from functools import cache
from pathlib import Path

from rayfed.core.machine import private_file

_BYTES = 32  # of a key


def seal(text: str) -> str:
    """Return this user's seal of a text, 64 characters; no other user can compute it."""
    return hmac.new(_key(), text.encode(), "sha256").hexdigest()


def is_sealed(text: str, given: object) -> bool:
    """Return whether a seal is this user's of a text."""
    return isinstance(given, str) and hmac.compare_digest(seal(text).encode(), given.encode())


def _key() -> bytes:
    """Return the key of this user; where none can be kept, one that ends with this process."""
    folder = _folder()
    return _of_process() if folder is None else _stored(folder / "key") or _of_process()


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


def _stored(path: Path) -> bytes | None:
    """Return the key in a file, made if it is not there; None if it cannot be relied on."""
    with suppress(OSError):
        private_file(path, secrets.token_bytes(_BYTES))
        held, status = path.read_bytes(), path.stat()
        private = os.name != "posix" or (
            status.st_uid == os.getuid() and not status.st_mode & 0o077
        )
        return held if private and len(held) == _BYTES else None
    return None
