"""Setup of a run at a host: client functions and data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from rayfed.channel.faulty import Faulty
from rayfed.channel.uplink import Uplink
from rayfed.clients.request import Owner
from rayfed.core.arrays import Array
from rayfed.datasets.drifting import DriftingShards
from rayfed.datasets.shards import Shards
from rayfed.problems.base import Problem
from rayfed.problems.objective import Objective
from rayfed.solvers.base import Solver


def with_table(shards: Any, table: Any) -> Shards:
    """Return shards with another table, or with None to travel without."""
    if isinstance(shards, DriftingShards):
        return replace(shards, base=with_table(shards.base, table))
    bound: Shards = replace(shards, table=table)
    return bound


@dataclass(frozen=True)
class DataView:
    """One view of the data.

    Parameters
    ----------
    shards : Shards
        Its rows, by client.
    objective : Objective
        What is averaged over what.
    table : str
        Name of the table that the shards travel without; empty if they need none.
    """

    shards: Shards
    objective: Objective
    table: str = ""

    def with_table(self, tables: Mapping[str, Any]) -> DataView:
        """Return the view with its table, if it is among these."""
        if tables.get(self.table) is None:
            return self
        return replace(self, shards=with_table(self.shards, tables[self.table]))

    def at(self, round: int) -> DataView:
        """Return the view of a round, from 1, where rows change; this one where they do not."""
        shards = self.shards.at(round)
        if shards is self.shards:
            return self
        samples, mass = shards.totals
        objective = replace(self.objective, samples=samples, mass=mass)
        return replace(self, shards=shards, objective=objective)


@dataclass(frozen=True)
class DataViews:
    """The data of a run as the owners of client functions see it.

    Parameters
    ----------
    training : DataView
        What the algorithm and the selection see: the clients' rows, or those of the one machine
        that has all rows of a centralised baseline.
    evaluation : DataView
        The clients' rows.
    server : DataView, optional
        The server's own test rows.
    unseen : DataView, optional
        The clients' rows followed by those of clients that never train.
    """

    training: DataView
    evaluation: DataView
    server: DataView | None = None
    unseen: DataView | None = None

    def of(self, owner: Owner) -> DataView:
        """Return the view of an algorithm or a measure."""
        if owner in ("algorithm", "selection", "optimum", "mixing"):
            return self.training
        if owner == "server" and self.server is not None:
            return self.server
        if owner == "unseen" and self.unseen is not None:
            return self.unseen
        return self.evaluation

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that the views travel without, each once."""
        views = (self.training, self.evaluation, self.server, self.unseen)
        return tuple(dict.fromkeys(view.table for view in views if view and view.table))

    def with_tables(self, tables: Mapping[str, Any]) -> DataViews:
        """Return the views with their tables."""
        views = {f.name: getattr(self, f.name) for f in fields(self)}
        return DataViews(**{name: v and v.with_table(tables) for name, v in views.items()})


@dataclass(frozen=True)
class Setup:
    """All that a host needs to know of a run.

    Parameters
    ----------
    owners : mapping of str to object
        Whose methods are client functions.
    views : DataViews
        The data as each owner sees it.
    problem : Problem
    solvers : tuple of Solver
        The local solver of each client group.
    initial : mapping of str to array
        First row of each array of client state, that of the uplink included.
    seed : int
        Seed of the run.
    p : int
        Numbers of the model.
    block : int
        Clients to a stack.
    uplink : Uplink, optional
        What the algorithm's uploads go through.
    faults : tuple of Faulty
        Whose uploads are wrong.
    """

    owners: Mapping[Owner, Any]
    views: DataViews
    problem: Problem
    solvers: tuple[Solver, ...]
    initial: Mapping[str, Array]
    seed: int
    p: int
    block: int
    uplink: Uplink | None = None
    faults: tuple[Faulty, ...] = ()

    def with_tables(self, tables: Mapping[str, Any]) -> Setup:
        """Return the setup with the tables that its views travel without."""
        return replace(self, views=self.views.with_tables(tables))
