"""The bare loop in two processes at once: what a second process is worth on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.bare import Bare, bare_seconds

_END_S = 5.0  # a round of a bare loop, which it may be in


class Second:
    """Another process with bare loops of its own.

    Parameters
    ----------
    pipe : Connection
        To that process; see `forked`.
    """

    def __init__(self, pipe: Connection[Any, Any]) -> None:
        self._pipe = pipe

    def rate(self, case: int, loop: Bare, block_s: float) -> float:
        """Return how many rounds a second the loops of both processes do at once.

        Parameters
        ----------
        case : int
            Whose loop the other process is to run.
        loop : Bare
            The same in this process.
        block_s : float
            Seconds after which the round is the last.
        """
        self._seconds(case, 0.0)  # so it has made the loop
        self._pipe.send((case, block_s))
        here = bare_seconds(loop, block_s)
        there: float = self._pipe.recv()
        return 1 / here + 1 / there

    def _seconds(self, case: int, block_s: float) -> float:
        self._pipe.send((case, block_s))
        taken: float = self._pipe.recv()
        return taken


@contextmanager
def forked(make: Sequence[Callable[[], Bare]]) -> Iterator[Second | None]:
    """Fork a process that makes bare loops when it is first asked for each.

    Until then it shares its memory with this one: fork before there are tables, and before there
    are threads that may hold locks.

    Parameters
    ----------
    make : sequence of callable
        Make the bare loop of each case. None is yielded where there are none, or no forks.
    """
    if not make or "fork" not in get_all_start_methods():
        yield None
        return
    context = get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(here, there, make), daemon=True)
    process.start()
    there.close()
    try:
        yield Second(here)
    finally:
        here.close()
        process.join(_END_S)
        process.terminate()


def _serve(
    there: Connection[Any, Any], pipe: Connection[Any, Any], make: Sequence[Callable[[], Bare]]
) -> None:
    there.close()  # or this end would keep the other open
    loops: dict[int, Bare] = {}
    while True:
        try:
            case, block_s = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        if case not in loops:
            loops[case] = make[case]()
        pipe.send(bare_seconds(loops[case], block_s))
