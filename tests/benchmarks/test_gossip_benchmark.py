"""The benchmark of gossip: its cases are timed, and what counts as too slow or too large."""

import numpy as np
import pytest

from benchmarks import gossip


def test_steps_and_rounds_are_timed_in_one_process(monkeypatch):
    monkeypatch.setattr(gossip, "CASES", gossip.CASES[:2])
    assert gossip.measured(nodes=12, rounds=3, repeats=1).shape == (1, 2)


def test_the_memory_of_a_process_is_at_least_that_of_its_state():
    assert gossip.memory_gb(400) > 400 * 7840 * 4 * 2 / 1e9


@pytest.mark.parametrize(
    ("seconds", "gigabytes", "status"),
    [
        ((1, 1.4, 0.9), 1.9, 0),
        ((1, 1.6, 1), 1.9, 1),
        ((1, 1.4, 1), 1.9, 1),
        ((1, 1.4, 0.9), 2.1, 1),
    ],
)
def test_the_status_is_1_where_a_goal_is_missed(seconds, gigabytes, status, monkeypatch, capsys):
    monkeypatch.setattr(gossip, "measured", lambda *given: np.array([seconds] * 3))
    monkeypatch.setattr(gossip, "memory_gb", lambda nodes: gigabytes)
    assert gossip.main([]) == status
    assert f"{gigabytes:.2f} GB" in capsys.readouterr().out
