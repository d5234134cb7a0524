"""Runs and cases of views that are read once."""

import json
import os

import pytest

import rayfed
from rayfed.core.entries import sealed
from rayfed.dashboard.catalogue import Catalogue
from rayfed.dashboard.views import Chosen, results_of
from rayfed.report.read.run import RunRecord
from rayfed.testing.studies import LOCAL, mixed


@pytest.fixture
def by_cases(tmp_path):
    """The folder of two algorithms at two levels of regularisation."""
    algorithms = [{"name": name, "local": LOCAL} for name in ("fedavg", "fedexp")]
    changes = {"grid": {"problem.l2": [0.01, 0.1]}, "rounds": 3}
    rayfed.run(mixed(algorithms=algorithms, **changes), out=tmp_path / "cases", page=False)
    return tmp_path / "cases"


@pytest.fixture
def read(monkeypatch):
    """The folders that are read, in their order."""
    read, of = [], RunRecord.read.__func__

    def noted(cls, folder, info, name):
        read.append(folder.name)
        return of(cls, folder, info, name)

    monkeypatch.setattr(RunRecord, "read", classmethod(noted))
    return read


def results(catalogue):
    catalogue.look()
    return results_of(Chosen(("cases",), ()).found(catalogue))


def test_results_of_unchanged_files_are_the_same_object(by_cases, read):
    catalogue = Catalogue([by_cases])
    first = results(catalogue)
    assert len(read) == 4
    assert results(catalogue) is first
    assert len(read) == 4


def test_only_a_changed_run_is_read_again_and_other_cases_stay(by_cases, read):
    catalogue = Catalogue([by_cases])
    first = results(catalogue)
    (low, high) = first.cases.values()
    changed = low.runs_found[0].folder
    held = json.loads((changed / "run.json").read_text())
    (changed / "run.json").write_text(json.dumps(sealed({**held, "wall_s": 99.0})))
    del read[:]
    second = results(catalogue)
    assert read == [changed.name]
    assert [part is high for part in second.cases.values()] == [False, True]
    wall = {run.folder: run.info["wall_s"] for run in second.runs_found}
    assert wall[changed] == 99.0


def test_cases_without_a_new_run_stay(by_cases, tmp_path):
    catalogue = Catalogue([by_cases])
    name = results(catalogue).cases.popitem()[1].runs_found[0].folder.name
    (by_cases / name).rename(tmp_path / name)
    before = results(catalogue)
    (tmp_path / name).rename(by_cases / name)
    after = results(catalogue)
    assert len(after.runs_found) == len(before.runs_found) + 1
    assert [part is before.cases.get(case) for case, part in after.cases.items()] == [True, False]


def test_a_listed_file_that_changes_is_checked_again(by_cases):
    catalogue = Catalogue([by_cases])
    run = results(catalogue).runs_found[0]
    (part,) = (run.folder / "rounds.parquet").iterdir()
    os.truncate(part, 10)
    assert [one.folder for one in results(catalogue).damaged] == [run.folder]
