"""The benchmark of walks runs, in a small size."""

from benchmarks import walk


def test_a_small_table():
    found = list(walk.rows(sizes=(60,), steps=3))
    assert [row[:2] for row in found] == [("60", "waypoint"), ("60", "gauss-markov")]
    assert all(float(cell) >= 0 for row in found for cell in row[2:])
