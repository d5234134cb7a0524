"""Own training code compared with a bare loop: both are timed, and what counts as too slow."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

from benchmarks import own_code


@pytest.mark.parametrize("name", own_code.CODES)
def test_both_are_timed(name):
    taken = own_code.measured(own_code.CODES[name], steps=1, rounds=2, repeats=1)
    assert taken.shape == (1, 2)
    assert (taken > 0).all()


@pytest.mark.parametrize(("seconds", "status"), [(0.0029, 0), (0.0031, 1)])
def test_the_status_is_1_where_an_update_takes_too_long(seconds, status, capsys):
    assert own_code.main([], lambda *given: np.array([[seconds, 0.001]] * 3)) == status
    assert f"{1e3 * seconds - 1:.3f}" in capsys.readouterr().out
