"""Hosts: runs begin and end there, state is kept, and work is done ahead."""

from dataclasses import replace

import numpy as np
import pytest

from rayfed.clients.host import NotKept, UnknownRun
from tests.clients.toy_host import host_with, request


def test_what_was_computed_ahead_is_used_once_and_counts_as_if_computed_now():
    x = {"x": np.array([1.0, 2.0])}
    wanted = host_with([2, 5, 2, 2, 9])[0].exchange("run", request([4, 0, 2]), x)
    host, _ = host_with([2, 5, 2, 2, 9])
    ahead = host.work_ahead("run", replace(request([0, 4]), serials=np.array([11, 12])), x)
    assert (ahead.branches, ahead.each) == ([], {})
    asked = replace(request([4, 0, 2]), serials=np.array([12, 11, 0]))
    found = host.exchange("run", asked, x)
    ((*place, sums),), ((*known, totals),) = found.branches, wanted.branches
    assert place == known
    for a, b in ((sums, totals), (found.each, wanted.each)):
        assert a.keys() == b.keys()
        assert all(a[name].tolist() == b[name].tolist() for name in a)
    with pytest.raises(NotKept):
        host.exchange("run", asked, x)


def test_where_a_half_fails_ahead_of_time_nothing_is_kept():
    host, _ = host_with([2, 5, 2, 2])
    asked = replace(request([0, 3]), serials=np.array([1, 2]))
    assert host.work_ahead("run", asked, {"x": np.ones(2)}).client == 3
    with pytest.raises(NotKept):
        host.exchange("run", asked, {"x": np.ones(2)})


def test_state_is_committed_and_given_back_as_it_changes():
    host, setup = host_with([2] * 5)
    for _ in range(2):
        host.exchange("run", request([0, 2]), {"x": np.ones(2)})
    host.exchange("run", request([4]), {"x": np.ones(2)})
    changed, more = host.snapshot("run")
    assert not more
    assert changed["ids"].tolist() == [0, 2, 4]
    assert changed["calls"].ravel().tolist() == [2, 2, 1]
    assert host.snapshot("run")[0]["ids"].size == 0
    host.open("run", setup, [(0, 1)])
    host.restore("run", changed)
    host.exchange("run", request([0]), {"x": np.ones(2)})
    again, _ = host.snapshot("run")
    assert again["ids"].tolist() == [0]
    assert again["calls"].ravel().tolist() == [3]


def test_a_run_that_is_not_open_is_unknown():
    host, _ = host_with([2])
    host.close("run")
    with pytest.raises(UnknownRun):
        host.exchange("run", request([0]), {"x": np.ones(2)})
