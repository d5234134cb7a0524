"""Hosts: runs begin and end there, and state is kept."""

import numpy as np
import pytest

from rayfed.clients.host import UnknownRun
from rayfed.core.errors import RunFailed
from tests.clients.toy_host import host_with, request


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


def test_state_of_another_version_is_refused():
    host, setup = host_with([2] * 5)
    host.exchange("run", request([0, 2]), {"x": np.ones(2)})
    changed, _ = host.snapshot("run")
    del changed["calls"]
    host.open("run", setup, [(0, 1)])
    with pytest.raises(RunFailed, match="clients had no 'calls' in the version that began it; run"):
        host.restore("run", changed)


def test_a_run_that_is_not_open_is_unknown():
    host, _ = host_with([2])
    host.close("run")
    with pytest.raises(UnknownRun):
        host.exchange("run", request([0]), {"x": np.ones(2)})
