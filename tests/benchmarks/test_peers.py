"""The comparison with pfl: where there is none, who is asked, and what counts as behind."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import peers
from rayfed.core.errors import RayfedError


@pytest.mark.parametrize("given", [[], ["--pfl", "nowhere"]])
def test_without_pfl_nothing_is_measured(given, capsys):
    assert peers.main(["W3", *given]) == 0
    assert capsys.readouterr().out.startswith("skipped: no environment with pfl")


@pytest.mark.parametrize(("seconds", "status"), [(3.0, 0), (1.5, 1)])
def test_the_status_is_1_where_pfl_is_faster(seconds, status, monkeypatch, capsys):
    monkeypatch.setattr(peers, "_has_pfl", lambda python: True)
    monkeypatch.setattr(peers, "measured", lambda *given: [[2.0, 4.0, seconds]] * 3)
    environment = Path(sys.prefix)
    assert peers.main(["W3", "--pfl", str(environment)]) == status
    assert f"{seconds / 2:.2f}" in capsys.readouterr().out


def child(code):
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_each_block_is_asked_for():
    code = "print(0.5, flush=True); print(2 * float(input()), flush=True)"
    with child(code) as process:
        assert peers.Pfl(process).seconds(3.0) == 6.0


def test_an_end_before_the_first_round_is_told():
    with child("") as process, pytest.raises(RayfedError, match="pfl ended"):
        peers.Pfl(process)
