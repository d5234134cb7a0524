"""Seconds away, by hand."""

import numpy as np
import pytest

from rayfed.core.summary.absence import AWAY_CLIENTS, Absence

AWAY = {
    "client": np.array([7, 3, 3]),
    "start_s": np.array([0.0, 10.0, 2.0]),
    "end_s": np.array([5.0, 12.0, 4.0]),
}


@pytest.mark.parametrize(
    ("client", "start", "end", "seconds"),
    [(3, 0, 20, 4), (3, 3, 11, 2), (3, 4, 10, 0), (7, 1, 2, 1), (7, 6, 9, 0), (5, 0, 20, 0)],
)
def test_intervals_count_as_far_as_they_are_inside(client, start, end, seconds):
    found = Absence(AWAY).seconds(np.array([client]), np.array([float(start)]), np.array([end]))
    assert found.tolist() == [seconds]


def test_what_is_not_recorded_is_not_known():
    ids = np.arange(AWAY_CLIENTS + 5)
    assert not Absence(None).covers(ids).any()
    assert Absence(None).seconds(ids[:1], np.zeros(1), np.ones(1)).tolist() == [0]
    nobody = {name: values[:0] for name, values in AWAY.items()}
    assert Absence(nobody).covers(ids).all()
    assert Absence(AWAY).covers(ids[:10]).all()
    assert np.flatnonzero(Absence(AWAY).covers(ids)).tolist() == list(range(8))  # the lowest ids
