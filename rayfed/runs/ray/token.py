"""The token that Ray's servers ask for: made and kept so that no other user reads it."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from rayfed.core.errors import RayfedError
from rayfed.runs.logger import logger


def keep_private() -> None:
    """Make the token if there is none, and let this user alone read it.

    Ray writes it so that all users of the machine read it, unless the folder above keeps them out.

    Raises
    ------
    RayfedError
        If it cannot be made, or others may read it and this user cannot change that.
    """
    if os.environ.get("RAY_AUTH_TOKEN"):
        return
    given = os.environ.get("RAY_AUTH_TOKEN_PATH")
    try:
        path = Path(given) if given else Path.home() / ".ray" / "auth_token"
        if not given:
            _make(path)
        if path.exists() and path.stat().st_mode & 0o077:
            path.chmod(0o600)
            logger.warning("%s was open to others; delete it if they used this machine", path)
    except (OSError, RuntimeError) as error:
        why = str(getattr(error, "strerror", None) or error).lower()
        text = "set RAY_AUTH_TOKEN_PATH to a file of mode 0600, or take executor: workers"
        raise RayfedError(f"Ray's token cannot be kept from others ({why}); {text}") from error


def _make(path: Path) -> None:
    """Make a token if there is none; of two processes one is first, and its token is whole."""
    if path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    whole = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    file = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(file, "w", encoding="ascii") as token:
            token.write(secrets.token_hex(32))
        with suppress(FileExistsError):
            os.link(whole, path)
    finally:
        whole.unlink()
