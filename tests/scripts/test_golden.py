"""What small scenarios record is, bit for bit, what the list that is kept with the code says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import golden

HERE = dict.fromkeys(("OpenBLAS", "C library", "rounding"), "same")
LISTED = {"solvers/serial/a": "finished model=1", "wide/serial/b": "finished model=2"}
QUICK = ("availability", "control_variates", "interruptions", "perceptron", "wide")


def compare(names):
    """Compare scenarios in a process that computes by the lowest means."""
    command = [sys.executable, "-m", "scripts.golden", "--only", ",".join(names)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode == golden.INCOMPARABLE:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.guard
def test_no_bit_of_quick_scenarios_changed():
    compare(QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_no_bit_of_the_other_scenarios_changed(part):
    compare(sorted(set(golden.scenarios()) - set(QUICK))[part::2])


@pytest.fixture
def listed(tmp_path, monkeypatch):
    """Let a list of two runs stand for the real one, and this process for the lowest means."""
    file = tmp_path / "golden.json"
    file.write_text(json.dumps({"with": HERE, "digests": LISTED}))
    monkeypatch.setattr(golden, "LIST", file)
    monkeypatch.setattr(golden, "LOWEST", {})
    monkeypatch.setattr(golden, "circumstances", lambda: HERE)
    monkeypatch.setattr(golden, "computed", lambda chosen: {
        run: said for run, said in LISTED.items() if run.split("/")[0] in chosen
    })  # fmt: skip
    return file


def test_the_same_bits_are_no_difference(listed, capsys):
    assert golden.main(["--only", "solvers,wide"]) == 0
    assert golden.main(["--only", "wide"]) == 0
    assert "1 runs, 0 differ" in capsys.readouterr().out


def test_changed_bits_are_named_with_what_to_do(listed, capsys):
    changed = LISTED | {"wide/serial/b": "finished model=3"}
    listed.write_text(json.dumps({"with": HERE, "digests": changed}))
    assert golden.main(["--only", "solvers,wide"]) == golden.CHANGED
    told = capsys.readouterr().out
    assert "wide/serial/b: model" in told
    assert "solvers" not in told
    assert "make digests" in told
    assert "CHANGELOG.md" in told


def test_a_run_that_the_list_lacks_is_a_difference(listed, capsys):
    listed.write_text(json.dumps({"with": HERE, "digests": {}}))
    assert golden.main(["--only", "wide"]) == golden.CHANGED
    assert "wide/serial/b: only here" in capsys.readouterr().out


def test_an_unknown_name_is_told_with_the_known_ones(listed, capsys):
    with pytest.raises(SystemExit, match="2"):
        golden.main(["--only", "wide,gossip100"])
    told = capsys.readouterr().err.splitlines()[-1]
    assert "--only: found 'gossip100'; choose from " in told
    assert {"gossip", "solvers", "wide"} <= set(told.split("choose from ")[1].split(", "))


def test_other_libraries_are_not_compared_and_another_c_library_is(listed, monkeypatch, capsys):
    monkeypatch.setattr(golden, "circumstances", lambda: HERE | {"OpenBLAS": "newer"})
    assert golden.main(["--only", "wide"]) == golden.INCOMPARABLE
    assert "OpenBLAS: newer, not same" in capsys.readouterr().out
    monkeypatch.setattr(golden, "circumstances", lambda: HERE | {"C library": "newer"})
    assert golden.main(["--only", "wide"]) == 0


def test_what_is_written_is_what_is_compared(listed):
    assert golden.main(["--write"]) == 0
    assert json.loads(listed.read_text()) == {"with": HERE, "digests": LISTED}
    assert golden.main(["--only", "solvers,wide"]) == 0


def test_every_scenario_but_networks_is_compared():
    assert set(QUICK) < set(golden.scenarios())
    assert "modules" not in golden.scenarios()
    assert len(golden.scenarios()) > 35
