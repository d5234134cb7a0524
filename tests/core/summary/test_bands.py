"""Bands of clients, by hand."""

import numpy as np

from rayfed.core.summary.bands import BANDS, Ranking, banded, ranked


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
