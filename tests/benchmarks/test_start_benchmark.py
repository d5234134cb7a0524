"""The benchmark of the start, on a short run in one process."""

import pytest

from benchmarks.start import seconds

SHORT = ["--set", "rounds=2", "--set", "seeds=[0]", "--no-page"]


def test_the_first_row_comes_before_the_end():
    first, end = seconds(["--set", "executor=serial", *SHORT])
    assert 0.1 < first <= end


def test_a_run_that_never_begins_is_an_error(capfd):
    with pytest.raises(RuntimeError, match="quickstart ended with status 2"):
        seconds(["--set", "executor=nothing", *SHORT])
