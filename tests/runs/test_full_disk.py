"""A full disk: one line, an exit status, no temporary files; with space again all goes on."""

import os

import pytest

import rayfed
from rayfed import api
from rayfed.cli.main import main
from rayfed.core.errors import RayfedError
from rayfed.testing.studies import mixed

FULL = OSError(28, "No space left on device")


def full(*args, **how):
    raise FULL


@pytest.fixture
def study(tmp_path):
    out = tmp_path / "out"
    rayfed.run(
        mixed(rounds=3, algorithms=[{"name": "fedavg", "local": {"steps": 2}}]), out=out, page=False
    )
    return out


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")
            if path.is_file()}  # fmt: skip


@pytest.mark.parametrize("words", [("report",), ("best", "--by", "loss")])
def test_a_command_that_cannot_write_is_one_line(study, monkeypatch, capsys, words):
    before = files(study)
    monkeypatch.setattr("sys.argv", ["rayfed", words[0], str(study), *words[1:]])
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(SystemExit) as left:
        main()
    monkeypatch.undo()
    assert left.value.code == 1
    line = capsys.readouterr().err.replace("\n", "")
    assert "cannot be written (no space left on device)" in line
    assert "Traceback" not in line
    assert files(study) == before


def test_a_picture_that_does_not_fit_the_disk_ends_nothing(tmp_path, monkeypatch):
    made = mixed(rounds=3, algorithms=[{"name": "fedavg", "local": {"steps": 2}}])
    monkeypatch.setattr("rayfed.runs.files.fit.log", full)
    monkeypatch.setattr("rayfed.problems.base.Problem.picture", full)
    assert set(rayfed.run(made, out=tmp_path / "out", page=False).outcome.values()) == {"finished"}


def test_a_folder_without_space_for_its_scenario_is_one_line(tmp_path, monkeypatch):
    plan = api.prepare(api.read(mixed(rounds=3)))
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RayfedError, match=r"cannot be written \(no space left"):
        api.begin(plan, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]
