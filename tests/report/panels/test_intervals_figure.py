"""What is left of a run between intervals."""

import pandas as pd

from rayfed.report.panels.timeline import gaps


def taken(*rows):
    return pd.DataFrame(rows, columns=["client", "start_s", "end_s"])


def found(frame, clients, end=10.0):
    return gaps(frame, pd.Index(clients), end).to_numpy().tolist()


def test_gaps_are_what_intervals_leave():
    assert found(taken((1, 2.0, 3.0), (1, 5.0, 10.0)), [1]) == [[1, 0, 2], [1, 3, 5]]


def test_a_client_without_an_interval_has_all_the_time():
    assert found(taken((1, 0.0, 10.0)), [1, 4]) == [[4, 0, 10]]


def test_intervals_may_overlap_hold_each_other_and_come_in_any_order():
    mine = taken((1, 6.0, 7.0), (1, 1.0, 5.0), (1, 2.0, 3.0), (1, 4.0, 6.0))
    assert found(mine, [1]) == [[1, 0, 1], [1, 7, 10]]


def test_what_lies_after_the_end_or_belongs_to_others_does_not_count():
    mine = taken((1, 8.0, 14.0), (1, 15.0, 16.0), (2, 0.0, 9.0))
    assert found(mine, [1]) == [[1, 0, 8]]
