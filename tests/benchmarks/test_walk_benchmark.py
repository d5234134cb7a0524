"""The benchmark of walks runs, in a small size."""

import pytest

from benchmarks import walk


@pytest.mark.parametrize("rows", [walk.step_rows, walk.round_rows])
def test_a_small_table(rows):
    found = list(rows(sizes=(60,), steps=3))
    assert [row[:2] for row in found] == [("60", "waypoint"), ("60", "gauss-markov")]
    assert all(float(cell) >= 0 for row in found for cell in row[2:])
