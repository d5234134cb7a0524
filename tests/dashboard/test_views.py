"""Runs and cases of views that are read once."""

import json
import os
import shutil

import pytest

import rayfed
from rayfed.core.entries import sealed
from rayfed.dashboard.catalogue import Catalogue
from rayfed.dashboard.views import Chosen, asked, panels_of, results_of, saved, shown
from rayfed.report.page.report import content
from rayfed.report.panels.base import Asked, PageSource, find
from rayfed.report.read.results import Results
from rayfed.report.read.run import RunRecord
from rayfed.testing.studies import LOCAL, mixed
from tests.fakes.pages import data_of


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


def payload_of(catalogue, view, opened):
    catalogue.look()
    found = Chosen(("cases",), ()).found(catalogue)
    return shown(view, results_of(found), find(), found, opened)["payload"]


def drawn_of(part, columns):
    """The curves, runs and properties of some columns in a payload of the convergence figure."""
    held = part["curves"]
    curves = {
        (y, x, name): [held["grids"][place], *lines]
        for y in columns
        for x, by_name in held["curves"][y].items()
        for name, (place, *lines) in by_name.items()
    }
    runs = [{y: run["data"][y] for y in ("round", "bytes_up", *columns)} for run in held["runs"]]
    return curves, runs, [held["columns"][y] for y in columns], part["figure"], part["names"]


def of_case(payload, case, columns):
    """The content of a figure of one case, with the figures of some columns."""
    held = payload["cases"][case]
    by_column = held.get("columns", {})
    return held | {"columns": {y: by_column[y] for y in columns if y in by_column}}


@pytest.mark.parametrize("case", [0, 1])
@pytest.mark.parametrize("view", ["compare", "clients"])
def test_what_a_reader_opens_is_that_of_the_whole_page(by_cases, view, case):
    catalogue, y = Catalogue([by_cases]), ("loss", "accuracy")
    catalogue.look()
    found = Chosen(("cases",), ()).found(catalogue)
    whole = data_of(saved(view, found, find(), ""))["panels"]
    sections = frozenset(kind.section for kind in panels_of(view, find()))
    names = [*results_of(found).cases]
    made = payload_of(catalogue, view, Asked("accuracy", names[case], sections))
    assert made["view"]["case"] == case
    panels = json.loads(json.dumps(made["panels"]))
    assert panels.keys() == whole.keys()
    # The histories of a timeline are asked of the server one by one.
    panels, whole = (
        {**held, "timeline": held.get("timeline", {}) | {"histories": 0}}
        for held in (panels, whole)
    )
    columns = {"headline": "answers", "cases": ""}
    for name, payload in panels.items():
        expected = whole[name]
        if name == "convergence":
            pairs = zip(payload["parts"], expected["parts"], strict=True)
            assert all([*part["curves"]["curves"]] == [*y] for part in payload["parts"])
            assert all(drawn_of(part, y) == drawn_of(every, y) for part, every in pairs)
        elif name in columns:
            held, every = (one.get(columns[name], one) for one in (payload, expected))
            assert held == {column: every[column] for column in y}
        elif "cases" in payload:
            assert of_case(payload, case, y) == of_case(expected, case, y)
            assert payload["cases"][1 - case] is None
        else:
            assert payload == expected


def test_a_closed_fold_is_not_made(by_cases):
    catalogue = Catalogue([by_cases])
    assert {"headline", "cases", "convergence", "costs"} == payload_of(
        catalogue, "compare", Asked()
    )["panels"].keys()
    opened = payload_of(catalogue, "compare", Asked(opened=frozenset({"The results"})))
    assert opened["panels"].keys() - {"headline", "cases", "convergence", "costs"} == {"against"}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("study=a", Asked()),
        ("y=loss&case=l2+%3D+0.1&open=A&open=B", Asked("loss", "l2 = 0.1", frozenset("AB"))),
    ],
)
def test_an_address_names_what_is_open(query, found):
    assert asked(query) == found


@pytest.mark.parametrize("opened", [Asked("no_such", "no such"), Asked("name"), Asked("round")])
def test_what_is_not_there_opens_the_first_view(by_cases, opened):
    catalogue = Catalogue([by_cases])
    assert payload_of(catalogue, "compare", opened) == payload_of(catalogue, "compare", Asked())


def test_a_change_of_equal_size_and_time_is_seen(by_cases):
    """As by a copy that takes the times along, or within one tick of the file system's clock."""
    catalogue = Catalogue([by_cases])
    first = results(catalogue)
    path = first.runs_found[0].folder / "run.json"
    before = path.stat()
    held = json.loads(path.read_text())
    changed = sealed({**held, "label": held["label"].upper()})
    text = path.read_text().replace(held["digest"], changed["digest"])
    path.write_text(text.replace('"label": "fedavg"', '"label": "FEDAVG"', 1))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    found = {run.folder: run.info["label"] for run in results(catalogue).runs_found}
    assert found[path.parent] == "FEDAVG"


def test_claims_that_are_checked_again_are_shown(by_cases):
    catalogue = Catalogue([by_cases])
    claims = by_cases / "claims.json"
    claim = {"claim": "a", "text": "a", "status": "holds", "measured": "1", "where": "here"}
    assert "claims" not in payload_of(catalogue, "compare", Asked())["panels"]
    first = results(catalogue)
    claims.write_text(json.dumps({"source": "here", "claims": [claim]}))
    assert results(catalogue) is not first


def test_a_view_after_changes_is_that_of_a_fresh_reader(by_cases, tmp_path):
    """A run that comes back, a shorter one, and one that is damaged; with all that is cached."""
    catalogue, opened = Catalogue([by_cases]), Asked(opened=frozenset({"The results"}))
    every = sorted(path.name for path in by_cases.glob("*-seed*"))

    def check():
        catalogue.look()
        found = Chosen(("cases",), ()).found(catalogue)
        made = shown("compare", results_of(found), find(), found, opened)
        fresh = PageSource.of(Results.read(by_cases), asked=opened)
        expected = content(fresh, panels_of("compare", find()))
        assert made["sections"] == expected["sections"]
        assert made["payload"]["panels"] == expected["payload"]["panels"]
        return str(made["sections"])

    (by_cases / every[0]).rename(tmp_path / every[0])
    texts = [check()]
    (tmp_path / every[0]).rename(by_cases / every[0])
    texts.append(check())
    shutil.rmtree(by_cases / every[1])
    changes = {"grid": {"problem.l2": [0.01, 0.1]}, "rounds": 2}
    algorithms = [{"name": name, "local": LOCAL} for name in ("fedavg", "fedexp")]
    rayfed.run(mixed(algorithms=algorithms, **changes), out=tmp_path / "short", page=False)
    shutil.copytree(tmp_path / "short" / every[1], by_cases / every[1])
    texts.append(check())
    (part,) = (by_cases / every[2] / "rounds.parquet").iterdir()
    part.write_bytes(part.read_bytes()[:-1])
    texts.append(check())
    assert len(set(texts)) == 4
