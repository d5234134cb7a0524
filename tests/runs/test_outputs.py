"""What a run says at its end of the rounds that it had."""

import numpy as np
import pytest

from rayfed.runs import outputs
from rayfed.testing.toy import tiny_run


def said(tmp_path, *algorithms, **changes):
    return tiny_run(tmp_path / "out", *algorithms, **changes).warnings


def test_rounds_without_replies_are_a_warning(tmp_path):
    """A step takes 1 s: replies of round 1 come at 3 s, and the deadline is at 2 s."""
    local = {"name": "fedavg", "local": {"steps": 3, "batch": 1}}
    clients = {"count": 3, "delay": {"name": "constant", "mean_s": 1.0}}
    (line,) = said(tmp_path, local, clients=clients, rounds=3, participation={"deadline_s": 2.0})
    assert line.startswith("3 of 3 rounds used no reply: ")
    assert "participation.deadline_s" in line
    assert said(tmp_path, local, clients=clients, rounds=3, participation={"deadline_s": 4.0}) == ()


@pytest.mark.parametrize(
    ("empty", "rounds", "warned"),
    [(1, 9, False), (2, 9, True), (2, 20, False), (3, 20, True), (1, 1, True), (0, 0, False)],
)
def test_a_tenth_of_the_rounds_may_be_empty(empty, rounds, warned):
    lines = outputs._empty(np.repeat([0, 2], [empty, rounds - empty]))
    assert lines == ([f"{empty} of {rounds} rounds used no reply: {outputs.WHY_EMPTY}"] * warned)
