"""Processes that end with the one that started them, not some time later."""

from __future__ import annotations

import os
import threading
import time

_EVERY_S = 1.0


def end_with_parent(parent: int | None = None) -> None:
    """End this process soon after its parent has ended; at once if it has ended already.

    Ray ends orphaned actors too, but later: until then they would hold memory, and a driver would
    go on to write.

    Parameters
    ----------
    parent : int, optional
        Process id of the parent, which may have ended while this process started. If None, the
        parent of now: Ray's raylet, or whoever has taken its place.
    """
    parent = os.getppid() if parent is None else parent

    def end_if_alone() -> None:
        if os.getppid() != parent:
            os._exit(1)

    def watch() -> None:
        while True:
            time.sleep(_EVERY_S)
            end_if_alone()

    end_if_alone()
    threading.Thread(target=watch, name="end_with_parent", daemon=True).start()
