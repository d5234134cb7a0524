"""Overlapping intervals of clients as states, of which the uppermost is seen."""

import pandas as pd

from rayfed.report.panels.timeline import uppermost


def intervals(*rows):
    return pd.DataFrame(rows, columns=["client", "start_s", "end_s"])


def found(state="idle", **layers):
    states = uppermost(layers)
    return states.loc[states["status"] == state, ["client", "start_s", "end_s"]].to_numpy().tolist()


WHOLE = intervals((1, 0.0, 10.0))


def test_an_interval_hides_those_of_later_layers():
    busy = intervals((1, 2.0, 3.0), (1, 5.0, 10.0))
    assert found(busy=busy, idle=WHOLE) == [[1, 0, 2], [1, 3, 5]]
    assert found("busy", busy=busy, idle=WHOLE) == busy.to_numpy().tolist()


def test_a_client_without_other_intervals_has_all_the_time():
    idle = intervals((1, 0.0, 10.0), (4, 0.0, 10.0))
    assert found(busy=WHOLE, idle=idle) == [[4, 0, 10]]


def test_intervals_may_overlap_hold_each_other_and_come_in_any_order():
    busy = intervals((1, 6.0, 7.0), (1, 1.0, 5.0), (1, 2.0, 3.0), (1, 4.0, 6.0))
    assert found(busy=busy, idle=WHOLE) == [[1, 0, 1], [1, 7, 10]]
    assert found("busy", busy=busy, idle=WHOLE) == [[1, 1, 7]]


def test_intervals_after_the_end_or_of_other_clients_hide_nothing():
    busy = intervals((1, 8.0, 14.0), (1, 15.0, 16.0), (2, 0.0, 9.0))
    assert found(busy=busy, idle=WHOLE) == [[1, 0, 8]]


def test_three_layers_and_one_that_is_empty():
    layers = {"away": intervals(), "busy": intervals((1, 1.0, 2.0)),
              "finished": intervals((1, 1.5, 4.0)), "idle": WHOLE}  # fmt: skip
    assert found("finished", **layers) == [[1, 2, 4]]
    assert found("idle", **layers) == [[1, 0, 1], [1, 4, 10]]
