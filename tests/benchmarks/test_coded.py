"""Rounds with coded uplinks beside plain ones: every code runs, and what counts as too slow."""

import numpy as np
import pytest

from benchmarks import coded
from benchmarks.workloads import Size


def test_every_code_and_none_are_timed():
    taken = coded.measured(Size(clients=0.02, rounds=0.01), processes=0, repeats=2)
    assert taken.shape == (2, 1 + len(coded.CODES))
    assert (taken > 0).all()


@pytest.mark.parametrize(("seconds", "status"), [(1.9, 0), (2.1, 1)])
def test_the_status_is_1_where_the_first_code_takes_too_long(seconds, status, monkeypatch, capsys):
    others = [5.0] * (len(coded.CODES) - 1)
    monkeypatch.setattr(coded, "measured", lambda *given: np.array([[1.0, seconds, *others]] * 3))
    assert coded.main([]) == status
    assert f"{seconds:.2f}" in capsys.readouterr().out
