"""Random geometric graphs: clients, possibly moving, linked within a range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import Gt

from rayfed.core.rng import Key
from rayfed.topology.base import Policy, Series, Topology
from rayfed.topology.graph import Graph, Near
from rayfed.topology.mobility import Mobility, Waypoint


@dataclass(frozen=True, kw_only=True)
class Geometric(Topology):
    """Clients in a rectangle, linked if they are within range (a random geometric graph).

    Away from the edges the expected degree is ``(N - 1) pi range_m^2 / area``.

    Parameters
    ----------
    range_m : float
        Largest distance of linked clients, in metres.
    area_m : list of float
        Width and height of the rectangle, in metres.
    mobility : name or mapping
        How clients move.
    every_s : float
        Seconds between updates of the graph.
    round_s : float, optional
        Seconds of movement per round; if null, clients move with the virtual clock.
    """

    name: ClassVar[str] = "geometric"

    range_m: Annotated[float, Gt(0)]
    area_m: tuple[Annotated[float, Gt(0)], Annotated[float, Gt(0)]] = (1000.0, 1000.0)
    mobility: Mobility = field(default_factory=Waypoint)
    every_s: Annotated[float, Gt(0)] = 1.0
    round_s: Annotated[float, Gt(0)] | None = None
    disconnected: Policy = "repair"

    @classmethod
    def example(cls, folder: Path) -> Geometric:
        """Return a range that links some of 12 clients; see `rayfed.testing.examples`."""
        return cls(range_m=400.0)

    def named(self, names: Sequence[str]) -> Geometric:
        """Return the topology of clients with these names."""
        return replace(self, mobility=self.mobility.named(names))

    def series(self, count: int, seed: int) -> Series:
        """Return the graphs of N = count clients."""
        self.mobility.check_clients(count)
        return _Snapshots(self, count, seed)


class _Snapshots(Series):
    """Graphs at the multiples of ``every_s``."""

    def __init__(self, settings: Geometric, count: int, seed: int) -> None:
        self._settings = settings
        self.frames = None if settings.mobility.moving or settings.loss else 1
        self._tracks = settings.mobility.tracks(
            count, settings.area_m, Key(seed, "topology/positions")
        )

    def epoch(self, round: int, time_s: float) -> int:
        if self.frames == 1:
            return 0
        step = self._settings.round_s
        now = time_s if step is None else (round - 1) * step
        return int(now // self._settings.every_s)

    def draw(self, epoch: int, attempt: int) -> Graph:
        return Near(self._tracks(epoch * self._settings.every_s), self._settings.range_m)
