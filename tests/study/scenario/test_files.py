"""Scenario files that build on others, paths with variables, several files as one study."""

import pytest

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.datasets import Tabular
from rayfed.report.best import Aim, Best
from rayfed.report.read.results import Results
from rayfed.report.read.settings import tried
from rayfed.study import Study, expand, load
from rayfed.study.scenario.files import with_lines

BASE = """\
name: common
rounds: 5
problem: {name: least-squares, dataset: {name: linear, features: 2, samples: 5}}
clients:
  count: 6
  delay: {name: lognormal, mean_s: 2, sigma: 0.5}
  network: {down_mbps: 20, up_mbps: 5}
participation: {cohort: 3}
algorithms: [fedavg, fedexp]
executor: serial
"""


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a scenario beside base.yaml."""
    (tmp_path / "base.yaml").write_text(BASE)

    def write(text, name="own.yaml"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write


def test_mappings_merge_key_by_key_and_all_else_is_replaced(written):
    text = "base: base.yaml\nclients: {network: {up_mbps: 1}, delay: {mean_s: 4}}\n"
    study = load(written(text + "algorithms: [fedprox]\nrounds: 9\n"))
    assert study.name == "own"  # the folder of the results is not that of the base
    assert (study.rounds, study.labels) == (9, ("fedprox",))
    assert (study.clients.network.down_mbps, study.clients.network.up_mbps) == (20, 1)
    assert (study.clients.delay.mean_s, study.clients.delay.sigma) == (4, 0.5)
    assert study.participation.cohort == 3


def test_another_plug_in_takes_nothing_of_the_one_it_replaces(written):
    study = load(written("base: base.yaml\nclients: {delay: {name: constant, mean_s: 4}}\n"))
    assert type(study.clients.delay).name == "constant"
    study = load(written("base: base.yaml\nclients: {delay: constant}\n"))
    assert study.clients.delay.mean_s == 1


def test_overrides_come_last_and_bases_may_have_bases_in_other_folders(written):
    written("base: ../base.yaml\nrounds: 6\nseeds: [4]\n", "inner/middle.yaml")
    written("seeds: [7]\n", "late.yaml")
    path = written("base: [inner/middle.yaml, late.yaml]\n")
    study = load(path, ["participation.cohort=2"])
    assert (study.rounds, study.seeds, study.participation.cohort) == (6, (7,), 2)


def test_a_mistake_is_told_with_the_file_and_the_line_it_stands_on(written):
    written(BASE.replace("cohort: 3", "cohort: -3"), "base.yaml")
    path = written("base: base.yaml\nclients:\n  network: {up_mbps: -1}\n")
    with pytest.raises(ScenarioError) as error:
        load(path)
    lines = str(error.value).splitlines()
    assert lines[0] == "2 mistakes"
    assert lines[1].startswith(f"  {path.parent}/base.yaml:8: participation.cohort: found -3")
    assert lines[2].startswith(f"  {path}:3: clients.network.up_mbps: found -1")
    later = with_lines(ScenarioError("clients.delay.sigma", "is odd"), path)
    assert str(later) == f"{path.parent}/base.yaml:6: clients.delay.sigma: is odd"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("base: none.yaml\n", "none.yaml: cannot be read: No such file"),
        ("base: own.yaml\n", "own.yaml:1: base: 'own.yaml' builds on this file itself"),
        ("rounds: 3\nbase: 5\n", "own.yaml:2: base: found 5; give the path"),
        ("base: loop.yaml\n", "loop.yaml:1: base: 'own.yaml' builds on this file itself"),
        ("base: list.yaml\n", "list.yaml: holds no mapping"),
    ],
)
def test_a_base_that_cannot_be_is_one_line(written, text, told):
    written("base: own.yaml\n", "loop.yaml")
    written("[1, 2]\n", "list.yaml")
    with pytest.raises(ScenarioError) as error:
        load(written(text))
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_base_may_be_where_an_environment_variable_says(written, tmp_path, monkeypatch):
    path = written("base: $OWN_BASES/base.yaml\nrounds: 9\n")
    monkeypatch.setenv("OWN_BASES", str(tmp_path))
    assert load(path).rounds == 9
    monkeypatch.delenv("OWN_BASES")
    with pytest.raises(ScenarioError, match=r"own.yaml:1: base: the environment variable \$OWN_B"):
        load(path)


def test_environment_variables_in_paths_are_filled_in(written, tmp_path, monkeypatch):
    text = "base: base.yaml\nproblem: {dataset: '$OWN_DATA/own.csv'}\n"
    monkeypatch.setenv("OWN_DATA", str(tmp_path / "data"))
    assert load(written(text)).data == Tabular(path=str(tmp_path / "data" / "own.csv"))
    monkeypatch.setenv("OWN_DATA", "data")  # then it is relative to the scenario
    assert load(written(text)).data == Tabular(path=str(tmp_path / "data" / "own.csv"))
    monkeypatch.delenv("OWN_DATA")
    told = r"problem.dataset: the environment variable \$OWN_DATA is not set"
    with pytest.raises(ScenarioError, match=told):
        load(written(text))


def test_the_schema_for_editors_takes_a_base_in_place_of_what_is_required(validator):
    assert validator.is_valid({"base": "base.yaml", "rounds": 3})
    assert not validator.is_valid({"rounds": 3})
    assert not validator.is_valid({"base": 3})


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
