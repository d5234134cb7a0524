"""The benchmark of the start, on a short run in one process."""

import pytest
import yaml

from benchmarks.start import _NETWORK, seconds

SHORT = ["--set", "rounds=2", "--set", "seeds=[0]", "--no-page"]


def test_the_first_row_comes_before_the_end():
    first, end = seconds("quickstart", ["--set", "executor=serial", *SHORT])
    assert 0.1 < first <= end


def test_a_run_that_never_begins_is_an_error(capfd):
    with pytest.raises(RuntimeError, match="quickstart ended with status 2"):
        seconds("quickstart", ["--set", "executor=nothing", *SHORT])


@pytest.mark.slow
def test_a_network_has_its_first_row(tmp_path):
    pytest.importorskip("torch")
    file = tmp_path / "network.yaml"
    file.write_text(yaml.safe_dump(_NETWORK))
    first, end = seconds(str(file), ["--set", "executor=serial", *SHORT])
    assert 0.1 < first <= end
