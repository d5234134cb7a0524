"""Tests under other ways of computing: which there are, what is printed, and the exit status."""

import platform

import pytest

from scripts import kernels
from scripts.kernels import LOWEST, Outcome, counted, effect, main, table, ways

intel = pytest.mark.skipif(platform.machine() != "x86_64", reason="kernels for x86-64")


@pytest.fixture(autouse=True)
def native(monkeypatch):
    """These tests may run under one of the ways themselves."""
    for name in LOWEST:
        monkeypatch.delenv(name, raising=False)


@intel
def test_the_lowest_way_has_no_wide_instructions_and_computes_otherwise():
    native, lowest = effect({}), effect(LOWEST)
    assert lowest[0] == "Nehalem"
    assert lowest[1] == "baseline"
    assert native != lowest


def test_ways_that_compute_alike_are_run_once(monkeypatch):
    seen = {"as it is": ("A", "x", "1"), "lowest": ("B", "y", "2"), "Haswell": ("A", "x", "1")}
    monkeypatch.setattr(kernels, "candidates", lambda: ((name, {"NAME": name}) for name in seen))
    monkeypatch.setattr(kernels, "effect", lambda environment: seen[environment["NAME"]])
    found, left_out = ways()
    assert [way.name for way in found] == ["as it is", "lowest"]
    assert left_out == ["Haswell: computes like 'as it is' here"]


def test_of_the_first_ways_no_other_is_looked_at(monkeypatch, capsys):
    seen = {"as it is": "1", "lowest": "2", "Haswell": "2", "Zen": "3", "Cooperlake": "4"}
    looked_at = []

    def effect(environment):
        looked_at.append(environment["NAME"])
        return "A", "x", seen[environment["NAME"]]

    monkeypatch.setattr(kernels, "candidates", lambda: ((name, {"NAME": name}) for name in seen))
    monkeypatch.setattr(kernels, "effect", effect)
    assert main(["--list", "--first", "2"]) == 0
    told = capsys.readouterr().out.splitlines()[1:]
    assert [line.partition(":")[0] for line in told] == ["lowest", "Zen", "not run"]
    assert looked_at == ["as it is", "lowest", "Haswell", "Zen"]


def test_a_way_that_the_processor_cannot_run_is_listed(monkeypatch, capsys):
    monkeypatch.setattr(kernels, "_PROBE", "import os; os.abort()")
    assert main(["--list", "--only", "SkylakeX"]) == 0
    assert "not run: SkylakeX: this processor cannot run it" in capsys.readouterr().out


def test_a_test_that_fails_in_one_way_is_named_and_fails_the_command(tmp_path, capsys):
    file = tmp_path / "test_one.py"
    file.write_text(
        "import os\n"
        "def test_always(): pass\n"
        "def test_of_a_kernel(): assert os.environ.get('OPENBLAS_CORETYPE') != 'Nehalem'\n"
    )
    given = ["--", str(file), "-n", "0", "--rootdir", str(tmp_path), "-c", "/dev/null"]
    assert main(["--only", "as it is,Nehalem", *given]) == 1
    told = capsys.readouterr().out
    assert "as it is: 2 passed, 0 failed" in told
    assert "Nehalem: 1 passed, 1 failed" in told
    assert "test_of_a_kernel" in told
    assert main(["--only", "as it is", *given]) == 0


def test_an_unknown_way_is_refused(capsys):
    assert main(["--only", "Hazwell"]) == 2
    assert "Hazwell" in capsys.readouterr().err


def test_counts_are_those_of_the_last_line():
    assert counted("3 passed\n1 failed, 12 passed, 3 errors in 4.05s\n") == {
        "failed": 1, "passed": 12, "errors": 3,
    }  # fmt: skip
    assert counted("") == {}


def test_the_table_says_where_pytest_could_not_run():
    one = table({"lowest": Outcome(0, 0, 2.6, 4)}).splitlines()[1]
    assert one.split() == ["lowest", "0", "0", "3", "pytest", "ended", "with", "4"]
