"""Accuracy per client as a sorted curve."""

import numpy as np
import pandas as pd
import pytest

from rayfed.report.panels.fairness import fairness
from rayfed.report.read.results import Results


def clients(accuracy, loss=0.0):
    return pd.DataFrame(
        {"client": range(len(accuracy)), "samples": 1, "loss": loss, "accuracy": accuracy}
    )


def test_the_curve_is_the_mean_of_sorted_clients(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]), None, clients([0.9, 0.5, 0.7]))
    run_writer(tmp_path, "fedavg", 1, rows([2, 1]), None, clients([0.3, 0.9, 0.5]))
    line = fairness(Results.read(tmp_path)).data[0]
    # Sorted 0.5, 0.7, 0.9 and 0.3, 0.5, 0.9; at 0, 50 and 100 % their means.
    assert line.y[[0, 100, 200]] == pytest.approx([0.4, 0.6, 0.9])


def test_faulty_clients_are_crosses_where_they_stand(tmp_path, run_writer, rows):
    """In each run by itself, as others are faulty there."""
    faulty = [clients([0.9, 0.5, 0.7]), clients([0.3, 0.9, 0.4])]
    for seed, fault in enumerate((["", "scale", ""], ["", "scale", ""])):
        frame = faulty[seed].assign(fault=fault)
        run_writer(tmp_path, "fedavg", seed, rows([2, 1]), None, frame)
    run_writer(tmp_path, "krum", 0, rows([2, 1]), None, clients([0.6, 0.6, 0.6]))
    results = Results.read(tmp_path)
    crosses = [trace for trace in fairness(results).data if trace.meta["part"] == "faulty"]
    assert [trace.meta["name"] for trace in crosses] == ["fedavg"]
    assert list(zip(crosses[0].x, crosses[0].y, strict=True)) == [(0, 0.5), (100, 0.9)]
    assert list(map(list, crosses[0].customdata)) == [["1 (scale)", 0], ["1 (scale)", 1]]
    losses = clients([np.nan] * 2, [0.1, 0.4]).assign(fault=["scale", ""])
    run_writer(tmp_path / "loss", "fedavg", 0, rows([2, 1]), None, losses)
    figure = fairness(Results.read(tmp_path / "loss"))
    assert list(figure.data[1].x) == [100]  # the best served has the least loss


def test_without_accuracy_the_losses_are_drawn_worst_first(tmp_path, run_writer, rows):
    frame = clients([np.nan] * 3, [0.1, 0.4, 0.2])
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]), None, frame)
    figure = fairness(Results.read(tmp_path))
    assert figure.data[0].y[[0, 100, 200]] == pytest.approx([0.4, 0.2, 0.1])
    assert figure.layout.yaxis.title.text == "loss of the client"


@pytest.mark.parametrize(("best", "scale"), [(0.11, "linear"), (0.09, "log")])
def test_losses_over_decades_are_drawn_on_a_log_axis(tmp_path, run_writer, rows, best, scale):
    run_writer(tmp_path, "a", 0, rows([2, 1]), None, clients([np.nan] * 2, [1.0, 0.5]))
    run_writer(tmp_path, "b", 0, rows([2, 1]), None, clients([np.nan] * 2, [0.2, best]))
    assert fairness(Results.read(tmp_path)).layout.yaxis.type == scale


def test_accuracies_are_drawn_on_a_linear_axis(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([2, 1]), None, clients([0.01, 0.9]))
    assert fairness(Results.read(tmp_path)).layout.yaxis.type == "linear"

    # A loss counts from its largest: the worst two of twenty.


def test_the_worst_tenth_is_shaded(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]), None, clients([0.5, 0.6]))
    shape = fairness(Results.read(tmp_path)).layout.shapes[0]
    assert (shape.x0, shape.x1) == (0, 10)
