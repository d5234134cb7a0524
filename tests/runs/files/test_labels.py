"""The labels of clients, counted at the end of a study."""

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed import api
from rayfed.runs.files import labels

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
        changed.setattr(labels, "label_counts", broken)
        api.resume(folder, page=False)
    assert "the labels could not be counted: ValueError: no room" in (run / "log.txt").read_text()
    api.resume(folder, page=False)
    assert (run / "labels.npz").exists()
