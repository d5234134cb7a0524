"""Bands of clients, and cells of heat maps, by hand."""

import numpy as np
import pytest

from rayfed.core.summary.grid import BANDS, STATUS, STEPS, Grid, Ranking, banded, ranked


def test_stragglers_are_last_then_speed_decides_then_what_was_seen_then_the_id():
    slow = np.array([True, False, False, False, False])
    speed = np.array([0.1, np.nan, 0.3, 0.3, 0.3])
    seen = np.array([0.1, 0.1, 2.0, 1.0, 1.0])
    assert ranked(slow, speed, seen, np.arange(5)).tolist() == [3, 4, 2, 1, 0]


def test_few_clients_have_a_band_each_and_many_share_forty():
    assert banded(np.array([2, 0, 1])).tolist() == [1, 2, 0]
    assert banded(np.empty(0, np.int64)).tolist() == []
    many = banded(np.arange(100))
    assert (many[0], many[99], len(set(many.tolist()))) == (0, BANDS - 1, BANDS)


def test_others_are_ranked_among_some():
    some = Ranking(np.zeros(4, bool), np.array([4.0, 1.0, 3.0, 2.0]), np.array([0, 10, 20, 30]))
    # Each of them has its own place; others that of whom they would displace.
    own = some.of(np.zeros(4, bool), np.array([4.0, 1.0, 3.0, 2.0]), np.array([0, 10, 20, 30]))
    assert own.tolist() == [3, 0, 2, 1]
    slow, speeds = np.array([False, False, False, True]), np.array([0.5, 2.0, 9.0, 0.1])
    assert some.of(slow, speeds, np.array([5, 31, 6, 7])).tolist() == [0, 2, 3, 3]


USED, LATE = STATUS.index("used"), STATUS.index("late")


def ints(*values):
    return np.array(values, dtype=np.int64)


def sums(grid, band, status=USED):
    return grid.cells[band, :, status]


def test_steps_are_the_shortest_powers_of_two_that_reach_the_end():
    for end, width in ((160.0, 1.0), (161.0, 2.0), (80.0, 0.5), (79.0, 0.5), (5e-3, 2.0**-14)):
        grid = Grid(0.0)
        grid.reach(end)
        assert grid.width == width, end


def test_an_interval_is_spread_over_the_steps_that_it_touches():
    grid = Grid(10.0)
    grid.reach(10.0 + 4 * STEPS)  # steps of 4
    grid.spread(ints(2, 2, 0), np.array([11.0, 18.0, 19.0]), np.array([23.0, 18.0, 20.5]),
                ints(USED, USED, LATE))  # fmt: skip
    assert sums(grid, 2)[:5].tolist() == [3, 4, 4, 1, 0]  # of 10 to 14, 14 to 18, ...
    assert sums(grid, 0, LATE)[:4].tolist() == [0, 0, 1.5, 0]
    assert grid.cells.sum() == 13.5


def test_steps_become_twice_as_long_and_keep_what_was_counted():
    grid = Grid(0.0)
    grid.reach(160.0)
    grid.spread(ints(0), np.array([0.5]), np.array([3.0]), ints(USED))
    grid.reach(200.0)
    grid.spread(ints(0), np.array([159.0]), np.array([162.0]), ints(USED))
    assert grid.width == 2
    assert sums(grid, 0)[:3].tolist() == [1.5, 1.0, 0]
    assert sums(grid, 0)[79:82].tolist() == [1, 2, 0]
    grid.reach(1000.0)
    assert grid.width == 8
    assert sums(grid, 0)[:1].tolist() == [2.5]
    assert grid.cells.sum() == 5.5


def test_whole_numbers_are_counted_one_by_one_while_there_is_room():
    grid = Grid(1, 1.0)
    grid.reach(161)
    grid.count(ints(0, 0, 1), ints(1, 160, 160), ints(USED, USED, LATE))
    assert sums(grid, 0)[[0, 159]].tolist() == [1, 1]
    grid.reach(162)  # a round 161
    grid.count(ints(0), ints(161), ints(USED))
    assert sums(grid, 0)[[0, 79, 80]].tolist() == [1, 1, 1]
    assert sums(grid, 1, LATE)[79] == 1


def test_only_cells_that_hold_anything_are_returned():
    grid = Grid(0.0)
    assert len(grid.filled()["band"]) == 0
    grid.spread(ints(0), np.zeros(1), np.zeros(1), ints(USED))  # no time has passed
    grid.reach(160.0)
    grid.spread(ints(3), np.array([7.25]), np.array([7.5]), ints(LATE))
    cells = {name: values.tolist() for name, values in grid.filled().items()}
    assert cells == {
        "band": [3], "start": [7], "width": [1], "used": [0], "late": [0.25], "dropped": [0],
        "unfinished": [0],
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_of_many_intervals(seed):
    rng = np.random.default_rng(seed)
    grid, ends = Grid(0.0), np.sort(rng.uniform(0, 500, 300))
    starts = ends * rng.uniform(0, 1, 300)
    expected = np.zeros(STEPS)
    for part in np.array_split(np.arange(300), 7):
        grid.reach(float(ends[part[-1]]))
        grid.spread(part % 5, starts[part], ends[part], part % 4)
    for start, end in zip(starts, ends, strict=True):
        low = grid.width * np.arange(STEPS)
        expected += np.clip(np.minimum(end, low + grid.width) - np.maximum(start, low), 0, None)
    np.testing.assert_allclose(grid.cells.sum(axis=(0, 2)), expected, atol=1e-9)
