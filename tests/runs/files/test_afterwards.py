"""What is written after a run: which rows are drawn, whose labels are counted, a full disk."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed import api
from rayfed.core.run_state import read_record
from rayfed.problems import LeastSquares
from rayfed.runs.files import afterwards
from rayfed.runs.files.afterwards import complete
from rayfed.testing.studies import drive, mixed
from tests.fakes.disk import Disk


def test_what_a_full_disk_does_not_take_is_made_by_a_resume(tmp_path):
    plan = api.prepare(api.read(mixed(rounds=2)))
    (run,) = plan.runs
    drive(plan, tmp_path)
    folder = tmp_path / run.folder
    for first in range(1, 12):  # at each of its file operations
        with Disk(full=range(first, 100)).patched():
            complete(run, plan.tables, folder)
        assert read_record(folder)["status"] == "finished"
    complete(run, plan.tables, folder)
    assert "labels.npz" in read_record(folder)["files"]


def study(dataset, problem="least-squares", algorithms=("fedavg",), **more):
    return {
        "rounds": 1,
        "problem": {"name": problem, "dataset": dataset, "test": 0.25, **more},
        "clients": {"count": 5},
        "participation": {"cohort": 2},
        "algorithms": [{"name": name, "local": {"steps": 1, "lr": 0.1}} for name in algorithms],
        "executor": "serial",
    }


LINE = {"name": "line", "samples": 40}


def rows_of(given):
    """X and y of a plan's first run, and the plan."""
    plan = api.prepare(api.read(given))
    return *afterwards.some_rows(plan.runs[0], plan.tables), plan


def table_of(plan, part):
    run = plan.runs[0]
    view = run.federation.views.evaluation
    rows, table = getattr(view.shards.split, part).rows, plan.tables[view.table]
    return table.X[rows], table.y[rows]


def same_rows(one, other):
    (X, y), (A, b) = one, other
    left, right = np.column_stack([X, y]), np.column_stack([A, b])
    np.testing.assert_array_equal(left[np.lexsort(left.T)], right[np.lexsort(right.T)])


def test_few_rows_are_all_drawn_and_are_those_held_out():
    X, y, plan = rows_of(study(LINE))
    assert len(y) == 10
    same_rows((X, y), table_of(plan, "test"))


def test_of_clients_that_hold_out_no_rows_nothing_is_drawn(tmp_path):
    made = study(LINE) | {"partition": {"name": "sizes", "mean": 2, "seed": 3}}
    made |= {"clients": {"count": 20}}
    folder = rayfed.run(made, out=tmp_path / "o", page=False).folder / "fedavg-seed0"
    (folder / "fit.npz").unlink()
    plan = api.prepare(api.read(made))
    (run,) = plan.runs
    without = np.flatnonzero(
        run.federation.views.evaluation.shards.sizes(np.arange(20), "test") == 0
    )
    assert len(without)
    run = replace(run, measuring=replace(run.measuring, evaluated=without))
    assert afterwards.some_rows(run, plan.tables) is None
    assert afterwards.fit(run, plan.tables, folder) is None
    assert not (folder / "log.txt").exists()


def test_without_held_out_rows_the_training_rows_are_drawn():
    X, y, plan = rows_of(study(LINE, test=0))
    assert len(y) == 40
    same_rows((X, y), table_of(plan, "train"))


def test_many_rows_are_a_sample_without_repeats(monkeypatch):
    monkeypatch.setattr(afterwards, "MOST_ROWS", 25)
    X, y, plan = rows_of(study(LINE, test=0))
    assert len(y) == 25
    everything = {tuple(row) for row in np.column_stack(table_of(plan, "train"))}
    drawn = {tuple(row) for row in np.column_stack([X, y])}
    assert len(drawn) == 25
    assert drawn < everything


def test_the_server_s_rows_go_first():
    given = study({"name": "fedhybrid-mushroom"}, "logistic-regression")
    del given["problem"]["test"], given["clients"]["count"]
    X, y, plan = rows_of(given)
    held = plan.tables[plan.runs[0].federation.views.server.table]
    assert len(y) == 1694
    same_rows((X, y), (held.X, held.y))


def test_rows_that_are_made_on_demand():
    X, y, plan = rows_of(study({"name": "linear", "features": 3, "samples": 8}))
    shards = plan.runs[0].federation.views.evaluation.shards
    A, b = shards.rows(np.arange(5), 2, "test")  # a quarter of 8
    same_rows((X, y), (A.reshape(10, 4), b.ravel()))


def test_every_finished_run_has_a_fit_of_its_own_model(tmp_path):
    result = rayfed.run(
        study(LINE, algorithms=("fedavg", "fedprox")), out=tmp_path / "o", page=False
    )
    for run in result.outcome:
        with np.load(tmp_path / "o" / run / "fit.npz", allow_pickle=False) as held:
            slope = np.diff(held["curve"][:, 1]) / np.diff(held["curve"][:, 0])
            assert slope == pytest.approx(result.model(run)[:1])
            assert held["points"].shape == (10, 2)


def test_a_run_without_a_global_model_has_none_and_one_with_both_has_that_of_the_global(tmp_path):
    result = rayfed.run(
        study(LINE, algorithms=("local-only", "ditto")), out=tmp_path / "o", page=False
    )
    assert set(result.outcome.values()) == {"finished"}
    assert not (tmp_path / "o" / "local-only-seed0" / "fit.npz").exists()
    assert (tmp_path / "o" / "ditto-seed0" / "fit.npz").exists()


def test_a_resume_adds_the_fit_that_a_crash_left_out(tmp_path):
    rayfed.run(study(LINE), out=tmp_path / "o", page=False)
    path = tmp_path / "o" / "fedavg-seed0" / "fit.npz"
    before = path.read_bytes()
    path.unlink()
    rayfed.api.resume(tmp_path / "o", page=False)
    assert path.read_bytes() == before


def test_a_picture_that_fails_is_a_line_in_the_log(tmp_path, monkeypatch):
    def broken(*rows):
        raise ValueError("no colours left")

    monkeypatch.setattr(LeastSquares, "picture", broken)
    result = rayfed.run(study(LINE), out=tmp_path / "o", page=False)
    assert result.outcome == {"fedavg-seed0": "finished"}
    said = (tmp_path / "o" / "fedavg-seed0" / "log.txt").read_text()
    assert "the fit could not be drawn: ValueError: no colours left" in said


def test_a_run_tells_what_the_data_calls_its_classes(tmp_path):
    result = rayfed.run(study("mushroom", "logistic-regression"), out=tmp_path / "o", page=False)
    told = json.loads((result.folder / "fedavg-seed0" / "run.json").read_text())
    assert told["classes"] == ["edible", "poisonous"]


STUDY = {
    "rounds": 1,
    "problem": {"name": "logistic-regression", "dataset": "mushroom", "test": 0.2},
    "partition": {"name": "dirichlet", "alpha": 0.5},
    "clients": {"count": 6},
    "participation": {"cohort": 3},
    "algorithms": [
        {"name": "fedavg", "local": {"steps": 1, "lr": 0.1}},
        {"name": "centralised", "local": {"steps": 1, "lr": 0.1}},
    ],
    "executor": "serial",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return rayfed.run(STUDY, out=tmp_path_factory.mktemp("labels") / "o", page=False).folder


def test_the_training_rows_of_those_who_took_part_are_counted(folder):
    with np.load(folder / "fedavg-seed0" / "labels.npz", allow_pickle=False) as held:
        clients, counts = held["clients"], held["counts"]
    took_part = pd.read_parquet(folder / "fedavg-seed0" / "clients.parquet")
    assert clients.tolist() == took_part["client"].tolist()
    assert counts.sum(axis=1).tolist() == took_part["samples"].tolist()
    plan = api.prepare(api.read(STUDY))
    view = plan.runs[0].federation.views.evaluation
    rows, table = view.shards.split.train, plan.tables[view.table]
    for client, (edible, poisonous) in zip(clients, counts, strict=True):
        y = table.y[rows.of_client(int(client))]
        assert (int((y == 0).sum()), int((y == 1).sum())) == (edible, poisonous)


def test_a_run_on_one_machine_has_none(folder):
    assert not (folder / "centralised-seed0" / "labels.npz").exists()


def test_what_cannot_be_counted_is_a_line_in_the_log(folder, monkeypatch):
    def broken(*shards):
        raise ValueError("no room")

    run = folder / "fedavg-seed0"
    (run / "labels.npz").unlink()
    with monkeypatch.context() as changed:
        changed.setattr(afterwards, "label_counts", broken)
        api.resume(folder, page=False)
    assert "the labels could not be counted: ValueError: no room" in (run / "log.txt").read_text()
    api.resume(folder, page=False)
    assert (run / "labels.npz").exists()
