"""Checks of mobilities."""

from __future__ import annotations

from collections.abc import Sequence

from rayfed.core.rng import Key
from rayfed.testing.checks.common import require, require_equal
from rayfed.testing.examples import COUNT
from rayfed.topology.mobility import Mobility

AREA = (80.0, 30.0)
TIMES = (0.0, 500.0, 12.5, 12.5, 0.25, 2000.0, 3.0)


def check_pure(mobility: Mobility, times: Sequence[float] = TIMES) -> None:
    """Check that positions may be asked for at any times in any order."""
    tracks = mobility.tracks(COUNT, AREA, Key(3, "ways"))
    forwards = [tracks(time_s).copy() for time_s in times]
    for time_s, before in zip(reversed(times), reversed(forwards), strict=True):
        text = f"{mobility} at {time_s:g} s"
        require_equal(tracks(time_s), before, f"{text}: earlier questions matter")
        fresh = mobility.tracks(COUNT, AREA, Key(3, "ways"))(time_s)
        require_equal(fresh, before, f"{text}: fresh tracks lead elsewhere")


def check_area(mobility: Mobility) -> None:
    """Check that clients stay in the area, with paths independent of each other."""
    many, few = (mobility.tracks(n, AREA, Key(0, "ways")) for n in (COUNT, 2))
    for time_s in TIMES:
        where = many(time_s)
        text = f"{mobility} at {time_s:g} s"
        require(where.shape == (COUNT, 2), f"{text}: positions {where.shape}, not (N, 2)")
        require((where >= 0) & (where <= AREA), f"{text}: a client left the area")
        require_equal(few(time_s), where[:2], f"{text}: the number of clients matters")


def check_moving(mobility: Mobility) -> None:
    """Check that clients move if and only if the class declares it."""
    tracks = mobility.tracks(COUNT, AREA, Key(0, "ways"))
    moved = bool((tracks(0.0) != tracks(1000.0)).any())
    require(moved == mobility.moving, f"{mobility}: moving is {mobility.moving}")
