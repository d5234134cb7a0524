"""Speed against accuracy, client by client."""

import numpy as np
import pandas as pd
import pytest

from rayfed.report.panels.fairness import pace
from rayfed.report.read.results import Results


@pytest.fixture
def study(tmp_path, run_writer, rows):
    """Return a function that writes a run whose clients have these speeds and accuracies."""

    def write(speeds, accuracy):
        clients = pd.DataFrame({"client": np.arange(len(speeds)), "speed_s": speeds})
        clients = clients.assign(samples=1, used=1, accuracy=accuracy, loss=1.0)
        run_writer(tmp_path, "fedavg", 0, rows([2, 1]), None, clients)
        return Results.read(tmp_path)

    return write


def test_a_dot_a_client_the_fastest_first(study):
    results = study([0.4, 0.1, 0.9], [0.5, 0.8, 0.2])
    (dots,) = pace(results, "fedavg", 0).data
    assert (list(dots.x), list(dots.y)) == ([0.1, 0.4, 0.9], [0.8, 0.5, 0.2])
    assert [list(client) for client in dots.customdata] == [[1], [0], [2]]


def test_many_clients_are_taken_together(study):
    """The slowest 30 of 300 are served with 0.4 to 0.6."""
    accuracy = np.r_[np.full(270, 0.9), np.linspace(0.4, 0.6, 30)]
    figure = pace(study(np.arange(1.0, 301.0), accuracy), "fedavg", 0)
    means = next(trace for trace in figure.data if trace.meta["part"] == "density")
    assert means.y == pytest.approx([0.9] * 9 + [0.5])
    assert list(means.customdata[-1]) == pytest.approx([0.42, 0.58])
    assert figure.layout.meta["note"].startswith("300 clients are taken together in tenths")


def test_a_run_without_speeds_is_refused(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]))
    with pytest.raises(ValueError, match="no client with a recorded speed"):
        pace(Results.read(tmp_path), "fedavg", 0)
