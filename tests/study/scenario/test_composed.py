"""Scenarios that build on others, and paths with environment variables."""

import pytest

from rayfed.core.errors import ScenarioError
from rayfed.study import load
from rayfed.study.scenario.study import with_lines

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
    assert load(written(text)).problem.dataset == str(tmp_path / "data" / "own.csv")
    monkeypatch.setenv("OWN_DATA", "data")  # then it is relative to the scenario
    assert load(written(text)).problem.dataset == str(tmp_path / "data" / "own.csv")
    monkeypatch.delenv("OWN_DATA")
    told = r"problem.dataset: the environment variable \$OWN_DATA is not set"
    with pytest.raises(ScenarioError, match=told):
        load(written(text))


def test_the_schema_for_editors_takes_a_base_in_place_of_what_is_required(validator):
    assert validator.is_valid({"base": "base.yaml", "rounds": 3})
    assert not validator.is_valid({"rounds": 3})
    assert not validator.is_valid({"base": 3})
