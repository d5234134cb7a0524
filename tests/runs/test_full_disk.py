"""A full disk: one line, an exit status, no temporary files; with space again all goes on."""

import os

import pytest

import rayfed
from rayfed import api
from rayfed.cli.main import main
from rayfed.core.errors import RayfedError, RunFailed
from rayfed.testing.studies import mixed

pytestmark = pytest.mark.guard

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
    monkeypatch.setattr("rayfed.runs.files.afterwards.log", full)
    monkeypatch.setattr("rayfed.problems.base.Problem.picture", full)
    assert set(rayfed.run(made, out=tmp_path / "out", page=False).outcome.values()) == {"finished"}


def test_a_folder_without_space_for_its_scenario_is_one_line(tmp_path, monkeypatch):
    plan = api.prepare(api.read(mixed(rounds=3)))
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RayfedError, match=r"cannot be written \(no space left"):
        api.begin(plan, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]


def test_a_disk_that_gets_full_is_one_message_with_what_is_safe(tmp_path, monkeypatch):
    """The second of two runs finds no space; later there is some, and the study goes on."""
    local = {"steps": 2}
    made = mixed(rounds=3, algorithms=[{"name": n, "local": local} for n in ("fedavg", "fedexp")])
    replace, out = os.replace, tmp_path / "out"

    def full_for_the_second(source, target, *args):
        if "fedexp-" in str(target) or str(target).endswith(("summary.csv", "report.html")):
            raise FULL
        replace(source, target, *args)

    monkeypatch.setattr(os, "replace", full_for_the_second)
    for page in (True, False):  # with a page it cannot be written either
        with pytest.raises(RunFailed, match="the disk is full") as stopped:
            rayfed.run(made, out=out, page=page)
        line = str(stopped.value)
        assert "1 of 2 runs have finished and are safe" in line
        assert line.endswith(f"resume with: rayfed resume {out}")
    monkeypatch.undo()
    assert set(rayfed.resume(out, page=False).outcome.values()) == {"finished"}


def test_a_page_that_a_full_disk_does_not_take_leaves_the_runs_safe(tmp_path, monkeypatch):
    made = mixed(rounds=3, algorithms=[{"name": "fedavg", "local": {"steps": 2}}])
    out = tmp_path / "out"
    monkeypatch.setattr(rayfed.Result, "report", full)
    with pytest.raises(RunFailed, match=rf"all runs have finished .* by: rayfed report {out}$"):
        rayfed.run(made, out=out)


def test_what_is_no_full_disk_is_raised_as_it_is(tmp_path, monkeypatch):
    made = mixed(rounds=3, algorithms=[{"name": "fedavg", "local": {"steps": 2}}])

    def broken(self, **_):
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(rayfed.Result, "report", broken)
    with pytest.raises(PermissionError):
        rayfed.run(made, out=tmp_path / "out")
