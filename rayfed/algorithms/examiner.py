"""What the theory of a method says about a run: numbers in evaluated rows, and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from rayfed.core.columns import Column
from rayfed.messages import Probe, State

if TYPE_CHECKING:
    from rayfed.datasets.shards import Shards
    from rayfed.population import Population
    from rayfed.problems.objective import Objective


@dataclass(frozen=True, kw_only=True)
class Examiner:
    """Base of examiners: values that compare a run with what is proven about its algorithm.

    `Algorithm.examiner` makes one from the settings, and `bound` makes it fit the clients. At every
    evaluation the engine calls `examine`. It may ask the evaluated clients for anything, also for
    what no real server could know, and takes no simulated time. The client halves it asks for
    (`rayfed.messages.Probe`) are methods of the examiner. They see the clients' state, and may not
    change it.

    Attributes
    ----------
    columns : tuple of Column
        Columns of evaluated rows that `examine` fills. If there are none, it is not called.
    needs_optimum : bool
        Whether `examine` needs F*.
    """

    columns: ClassVar[tuple[Column, ...]] = ()
    needs_optimum: ClassVar[bool] = False

    def bound(self, shards: Shards, population: Population, objective: Objective) -> Self:
        """Return the examiner for clients that are known, before a run begins.

        The arguments are those of `Algorithm.bound`.
        """
        return self

    def init(self) -> State:
        """Return what is known before the first evaluation, as named arrays.

        What `examine` returns in its place is part of the checkpoint.
        """
        return {}

    def examine(
        self, known: State, server: State, probe: Probe
    ) -> tuple[Mapping[str, float], State]:
        """Return the columns of an evaluated row, and what is known from now on.

        Parameters
        ----------
        known : mapping of str to array
            What the evaluation before left, or `init`.
        server : mapping of str to array
            The state of the server that is evaluated.
        probe : Probe
            Asks the evaluated clients.
        """
        raise NotImplementedError

    def warnings(self) -> list[str]:
        """Return what readers of the results should beware of."""
        return []
