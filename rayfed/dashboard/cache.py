"""A bounded cache of values by key, each made again once its stamp has changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class Cache(Generic[_T]):
    """Values with the stamps of the files that they were made from.

    Parameters
    ----------
    most : float
        The largest total size. Values that were not asked for longest leave first; the newest stays
        whatever its size.
    size : callable
        The size of a value, when it is put in; 1 by default.
    """

    def __init__(self, most: float, size: Callable[[_T], float] = lambda _: 1.0) -> None:
        self._most, self._size = most, size
        self._held: OrderedDict[Hashable, tuple[Any, _T, float]] = OrderedDict()
        self._total = 0.0
        self._lock = Lock()

    def get(self, key: Hashable, stamp: Any, make: Callable[[_T | None], _T]) -> _T:
        """Return the value of a key; `make` receives the outdated one, None without."""
        with self._lock:
            known, value, _ = self._held.get(key, (None, None, 0.0))
            if value is not None and known == stamp:
                self._held.move_to_end(key)
                return value
        made = make(value)  # unlocked: others need not wait for it
        size = self._size(made)
        with self._lock:
            *_, before = self._held.pop(key, (0.0,))
            self._held[key] = stamp, made, size
            self._total += size - before
            while len(self._held) > 1 and self._total > self._most:
                _, (*_, oldest) = self._held.popitem(last=False)
                self._total -= oldest
        return made
