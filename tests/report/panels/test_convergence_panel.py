"""What the page gets to draw any clock against any column."""

import numpy as np

from rayfed.report.panels.convergence import curve_data
from rayfed.report.read.results import Results


def test_curve_data_is_thinned_and_keeps_both_ends(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows(list(np.linspace(2, 1, 5001))))
    data = curve_data(Results.read(tmp_path), numbers=100)["runs"][0]["data"]
    assert len(data["loss"]) == 200
    assert (data["round"][0], data["round"][-1]) == (0, 5000)
    assert data["bytes_up"][-1] == 500_000


def test_curve_data_keeps_the_evaluated_rows(tmp_path, run_writer, rows):
    loss = np.full(5000, np.nan)
    loss[::50] = np.linspace(2, 1, 100)
    run_writer(tmp_path, "fedavg", 0, rows(list(loss)))
    data = curve_data(Results.read(tmp_path), numbers=100)["runs"][0]["data"]
    assert len(data["loss"]) == 100
    assert None not in data["loss"]
