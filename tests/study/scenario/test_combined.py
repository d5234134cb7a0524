"""Several scenario files as one study, and cases, which it is made of."""

import pytest

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.report.best import Aim, Best
from rayfed.report.read.results import Results
from rayfed.report.read.settings import tried
from rayfed.study import Study, expand

COMMON = """
rounds: 2
problem: {name: least-squares, dataset: {name: linear, features: 2, samples: 5}}
clients: {count: 6}
participation: {cohort: 3}
executor: serial
"""
FILES = {
    "few": "base: common.yaml\nalgorithms: [fedavg]\nparticipation: {cohort: 2}\n",
    "many": "base: common.yaml\nalgorithms: [fedavg, fedexp]\nparticipation: {cohort: 5}\n",
    "more": "base: common.yaml\nalgorithms: [fedavg, scaffold]\nparticipation: {cohort: 2}\n",
    "grid": "base: few.yaml\ngrid: {algorithms.fedavg.local.lr: [0.1, 0.2]}\n",
    "other": "base: few.yaml\nalgorithms: [{name: fedavg, local: {lr: 0.3}}]\n",
    "same": "base: few.yaml\nname: another name\n",
    "placed": "base: few.yaml\nexecutor: workers\n",
    "cased": "base: few.yaml\ncases: {a: {rounds: 1}, b: {rounds: 2}}\n",
    "searched": "base: few.yaml\nsearch: {algorithms.*.local.lr: {log: [0.1, 1]}}\n",
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Return a function that reads files by their names as one study."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "common.yaml").write_text(COMMON)
    for name, text in FILES.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return lambda *names, **options: api.read([f"{name}.yaml" for name in names], **options)


def test_algorithms_that_alone_differ_are_one_list_each_once(files):
    study = files("few", "more")
    assert (study.name, study.labels, study.cases) == ("few+more", ("fedavg", "scaffold"), {})


def test_whatever_else_differs_makes_a_case_of_each_file(files):
    study = files("few", "many")
    assert list(study.cases) == ["few", "many"]
    assert [case["participation.cohort"] for case in study.cases.values()] == [2, 5]
    assert set(study.cases["few"]) == {"participation.cohort", "algorithms"}
    made = {(name, one.labels, one.participation.cohort) for name, one in expand(study)}
    assert made == {("few", ("fedavg",), 2), ("many", ("fedavg", "fedexp"), 5)}
    again = Study.parse(study.to_dict())  # what the result folder keeps
    assert expand(again) == expand(study)


def test_a_grid_of_one_file_is_that_of_its_case(files):
    """The grid names an algorithm, so the files are cases though only algorithms differ."""
    assert [name for name, _ in expand(files("many", "grid"))] == [
        "many", "grid, lr=0.1", "grid, lr=0.2"
    ]  # fmt: skip


def test_overrides_are_for_all_files(files):
    study = files("few", "many", overrides=["participation.cohort=1"])
    assert (study.participation.cohort, study.cases) == (1, {})


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["few", "other"], "algorithms: 'fedavg' differs in few.yaml and other.yaml (local.lr); "
                           "set label to tell them apart"),
        (["few", "few"], "few.yaml: is given twice; give it once"),
        (["few", "same"], "same.yaml: holds the same study as few.yaml; leave one out"),
        (["few", "placed"], "executor: differs between few.yaml, placed.yaml; "
                            "give one to all, such as --set executor=serial"),
        (["few", "cased"], "cases: stands in cased.yaml; "
                           "such a file cannot be run together with others"),
        (["searched", "few"], "search: stands in searched.yaml; "
                              "such a file cannot be run together with others"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_together_are_one_line(files, names, told):
    with pytest.raises(ScenarioError) as error:
        files(*names)
    assert str(error.value) == told


@pytest.mark.parametrize(
    ("cases", "told"),
    [
        ({"a": {"clients.nothing": 1}}, "cases.a.clients.nothing: "),
        ({"a": {"executor.name": "ray"}}, "cases.a: found 'executor', which is that of the whole"),
        ({"a": {"rounds": 3}, "A": {"rounds": 4}}, "cases.A: is the same as 'a' in names of"),
        ({"a": {"rounds": 3}, "b": {"rounds": 3}}, "cases.b: the settings 'a' and 'b' are the sa"),
    ],
)
def test_cases_that_cannot_be(files, cases, told):
    with pytest.raises(ScenarioError) as error:
        expand(files("few", overrides={"cases": cases}))
    assert str(error.value).startswith(told)


def test_seeds_resume_and_best_work(files, tmp_path, monkeypatch):
    monkeypatch.setattr(api.Result, "report", lambda result, **_: None)
    few = rayfed.run("few.yaml", out="alone", page=False)
    both = rayfed.run(["few.yaml", "many.yaml"], page=False)
    assert both.folder.name == "few+many"
    assert sorted(both.outcome) == ["fedavg-few-seed0", "fedavg-many-seed0", "fedexp-many-seed0"]
    here = both.rounds[both.rounds.setting == "few"]
    assert here.loss.tolist() == few.rounds.loss.tolist()
    assert api.unfinished(both.folder) == []
    assert rayfed.resume(both.folder, page=False).outcome == both.outcome
    results = Results.read(both.folder)
    assert results.names == ("fedavg (few)", "fedavg (many)", "fedexp")
    best = Best(results, Aim.of(results, None, None, None))
    assert {w.best.algorithm: w.tried for w in best.winners} == {"fedavg": 2, "fedexp": 1}
    assert {c.setting for c in best.rivals["fedavg"]} == {"few", "many"}


def test_what_cases_set_is_known_by_their_names():
    scenario = """
    algorithms: [fedavg, fedexp]
    cases:
      a: {rounds: 3}
      b: {rounds: 4, grid: {clients.count: [5, 6]}}
    """
    assert tried(scenario) == {
        "a": {"rounds": 3},
        "b, count=5": {"rounds": 4, "clients.count": 5},
        "b, count=6": {"rounds": 4, "clients.count": 6},
    }
