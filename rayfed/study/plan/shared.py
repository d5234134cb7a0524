"""Values that runs with equal settings and data share, computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np

Found = TypeVar("Found")


class Shared:
    """Values by keys, each of which is found when it is asked for first."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Any] = {}

    def get(self, key: Hashable, find: Callable[[], Found]) -> Found:
        """Return the value of a key; an error of ``find`` passes, and nothing is kept."""
        if key not in self._found:
            self._found[key] = find()
        value: Found = self._found[key]
        return value


def identity(value: Any) -> Any:
    """Return something hashable that is equal for two values only if all that they hold is.

    Dataclasses are taken apart into their fields (but those that do not compare), arrays are
    digested. Of what is unknown and cannot be hashed, nothing is equal to anything.
    """
    if isinstance(value, np.ndarray):
        digest = sha256(np.ascontiguousarray(value).tobytes()).digest()
        return (str(value.dtype), value.shape, digest)
    if isinstance(value, tuple | list):
        return (type(value), *map(identity, value))
    if is_dataclass(value) and not isinstance(value, type):
        held = (identity(getattr(value, f.name)) for f in fields(value) if f.compare)
        return (type(value), *held)
    return value if isinstance(value, Hashable) else object()
