"""Walkers reach everybody on graphs that move, not only on the ring of the walks' own checks."""

import pytest

from rayfed.core.plugins import find
from rayfed.testing.examples import COUNT, example
from rayfed.topology import Geometric, Graphs, Grid, Walker

FREE = {name: cls for name, cls in find("walks").items() if not hasattr(cls, "example")}
"""Walks that fit any graph; the examples of others are for a ring."""


@pytest.mark.parametrize("cls", FREE.values(), ids=FREE)
@pytest.mark.parametrize("topology", [Grid(), Geometric(range_m=500, every_s=60, round_s=60)])
def test_a_walker_reaches_everybody(cls, topology, tmp_path):
    walker = Walker(Graphs(topology, COUNT, 0), example(cls, tmp_path))
    position, seen = walker.first(), set()
    for round in range(1, 250):
        position = walker.step(position, round)
        seen.add(position)
    assert seen == set(range(COUNT))
