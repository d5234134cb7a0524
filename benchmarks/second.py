"""The bare loop in two processes at once: what a second process is worth on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.bare import Array, Bare, Model, bare_seconds

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


class PlainActors:
    """The bare loop on two Ray actors, each with half of the cohort: what one writes with Ray.

    Parameters
    ----------
    make : callable
        Makes the bare loop, which has a `cohort`.
    """

    def __init__(self, make: Callable[[], Bare]) -> None:
        self._make = make
        self._actors: list[Any] = []

    def start(self) -> Model:
        """Start the actors, if that is to be done; return the first model."""
        import ray

        make = self._make

        class Half:
            def __init__(self) -> None:
                loop: Any = make()
                loop.cohort = max(1, loop.cohort // 2)
                self.loop: Bare = loop

            def start(self) -> Model:
                model: Model = self.loop.start()
                return model

            def round(self, *model: Array) -> Model:
                with threadpool_limits(1):
                    mean: Model = self.loop.round(list(model))
                return mean

        if not self._actors:
            half = ray.remote(num_cpus=0)(Half)
            self._actors = [half.remote() for _ in range(2)]
        model: Model = ray.get(self._actors[0].start.remote())
        return model

    def round(self, model: Model) -> Model:
        """Return the mean of the local models."""
        import ray

        sent = [ray.put(array) for array in model]
        halves = ray.get([actor.round.remote(*sent) for actor in self._actors])
        return [(a + b) / 2 for a, b in zip(*halves, strict=True)]


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
