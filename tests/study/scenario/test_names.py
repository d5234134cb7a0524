"""Run folders differ wherever runs do, and their names fit every file system."""

import itertools

import pytest

from rayfed.core.errors import ScenarioError
from rayfed.study import Study, expand, slug
from rayfed.study.plan.plan import make
from rayfed.study.scenario.names import LONGEST_FOLDER_BYTES, check_runs, comparable, run_folder

CJK = "聯邦學習" * 75  # 300 characters of 3 bytes each

RAW = {
    "rounds": 1,
    "executor": "serial",
    "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 2}},
    "clients": {"count": 2},
    "algorithms": [{"name": "fedavg", "label": f"a{k}"} for k in range(4)],
}


def swept(grid, **changes):
    return expand(RAW | {"grid": grid} | changes)


def folders(raw):
    study = Study.parse(raw)
    return [run.folder for run in make(study, expand(study)).runs]


def test_settings_that_differ_only_behind_the_cut_have_folders_of_their_own():
    # The name of a setting is over 100 characters, and the last key stands behind the cut.
    grid = {f"algorithms.{k}.local.lr": [0.1, 0.2] for k in range(4)}
    assert len(folders(RAW | {"grid": grid})) == 4 * 2**4
    assert len({comparable(name) for name in folders(RAW | {"grid": grid})}) == 4 * 2**4


def test_settings_whose_signs_a_folder_cannot_hold_have_folders_of_their_own():
    grid = {"clients.groups": [[{"ids": [0, 1]}], [{"ids": [1], "name": "0"}]]}
    names = [name for name, _ in swept(grid)]
    assert len(set(names)) == 2
    paths = {"name": ["a b", "a/b", "A-b"]}
    swept_names = [name for name, _ in swept(paths)]
    assert len({comparable(slug(name)) for name in swept_names}) == 3
    assert all(name.startswith("name=") for name in swept_names)


@pytest.mark.parametrize(
    ("grid", "place"),
    [
        ({"rounds": [1, 1]}, "grid.rounds"),
        ({"algorithms.*.local.lr": [0.1, "1e-1"]}, "grid.algorithms.*.local.lr"),
        ({"clients.delay": ["constant", {"name": "constant", "mean_s": 1}]}, "grid.clients.delay"),
        ({"rounds": [1, 2], "seeds": [[0], (0,)]}, "grid"),
    ],
)
def test_equal_settings_are_refused(grid, place):
    with pytest.raises(ScenarioError, match=r"are the same; give each value once") as error:
        swept(grid)
    assert error.value.place == place


@pytest.mark.parametrize(
    ("label", "setting"),
    list(itertools.product(["fedavg", CJK, "x" * 300], ["", "lr=0.1", CJK])),
)
def test_a_folder_fits_a_file_system(label, setting, tmp_path):
    folder = run_folder(label, setting, 2**53)
    assert len(folder.encode()) <= LONGEST_FOLDER_BYTES
    assert folder.endswith(f"-seed{2**53}")
    (tmp_path / f"{folder}.parquet.new.tmp").mkdir()


def test_long_labels_differ_in_their_folders():
    assert run_folder(CJK + "a", "", 0) != run_folder(CJK + "b", "", 0)
    assert run_folder("x" * 101, "", 0) != run_folder("x" * 102, "", 0)


def test_short_names_are_what_they_were():
    assert run_folder("fedavg", "", 3) == "fedavg-seed3"
    label = "FedExP eps=1e-3"
    assert run_folder(label, "lr=0.1, cohort=5", 0) == "FedExP-eps=1e-3-lr=0.1-cohort=5-seed0"
    assert run_folder("聯邦" * 33, "", 0) == "聯邦" * 33 + "-seed0"


def test_runs_that_would_share_a_folder_are_refused():
    # "a-x=1" with "x=2", and "a" with "x=1-x=2"
    runs = [("a-x=1", "x=2", 0), ("a", "x=1-x=2", 0)]
    named = [(*run, run_folder(*run)) for run in runs]
    assert named[0][-1] == named[1][-1]
    with pytest.raises(ScenarioError, match=r"would share the folder 'a-x=1-x=2-seed0'; set label"):
        check_runs(named)


def test_folders_that_differ_in_case_alone_are_refused():
    with pytest.raises(ScenarioError, match="would share the folder"):
        check_runs([("a", "", 0, "a-seed0"), ("A", "", 0, "A-seed0")])


def test_labels_of_equal_beginnings_are_told_apart():
    algorithms = [{"name": "fedavg", "label": "x" * 100 + end} for end in "ab"]
    assert len(set(folders(RAW | {"algorithms": algorithms}))) == 2
