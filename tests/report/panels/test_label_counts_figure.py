"""Which labels clients hold, of few and of many."""

import numpy as np
import pandas as pd
import pytest

from rayfed.report.panels.participation import labels
from rayfed.report.panels.timeline import with_labels
from rayfed.report.read.results import Results


@pytest.fixture
def study(tmp_path, run_writer, rows):
    """Return a function that writes a run whose clients hold so many rows of each label."""

    def write(counts, ids=None, **info):
        counts = np.array(counts)
        ids = np.arange(len(counts)) if ids is None else ids
        clients = pd.DataFrame({"client": ids, "samples": counts.sum(axis=1), "used": 1})
        clients["speed_s"] = 1.0 + np.arange(len(ids))
        folder = run_writer(tmp_path, "fedavg", 0, rows([2, 1]), None, clients, **info)
        np.savez(folder / "labels.npz", allow_pickle=False, clients=ids, counts=counts)
        return Results.read(tmp_path)

    return write


def test_a_row_a_client_with_shares_of_its_rows(study):
    results = study([[3, 1], [0, 5]], ids=[7, 4], classes=["cat", "dog"])
    heat = labels(results, "fedavg", 0).data[0]
    assert heat.z.tolist() == [[75, 25], [0, 100]]
    assert list(heat.x) == ["cat", "dog"]
    assert [list(row) for row in heat.text] == [["3", "1"], ["", "5"]]
    assert list(heat.customdata[1][0]) == [4, 0]


def test_many_clients_are_counted_by_the_share_of_each_label(study):
    """Of 80 clients 20 hold label 0 alone, the others a tenth of it."""
    heat = labels(study([[10, 0]] * 20 + [[1, 9]] * 60), "fedavg", 0).data[0]
    assert heat.z[0].tolist() == [0, 75, 0, 0, 0, 0, 0, 0, 0, 0, 25]
    assert heat.z[1].tolist() == [25, 0, 0, 0, 0, 0, 0, 0, 0, 75, 0]
    assert list(heat.x)[:2] == ["0", "10"]


def test_the_history_of_a_client_knows_its_commonest_label(study):
    clients = with_labels(study([[3, 1], [0, 5]]).run("fedavg", 0))
    assert clients["label"].tolist() == [0, 1]
    assert clients["label_share"].tolist() == [0.75, 1]


def test_a_run_without_labels_is_refused(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]))
    with pytest.raises(ValueError, match="no record of its clients' labels"):
        labels(Results.read(tmp_path), "fedavg", 0)
