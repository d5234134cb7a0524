"""Charts shared by panels: bars with parts, and distributions as steps."""

import numpy as np
import pandas as pd

from rayfed.report.figures import charts
from rayfed.report.read.results import Results


def test_each_part_of_a_bar_has_its_fill_its_pattern_and_its_hover():
    figure = charts.rows(["a", "b<c"], 30)
    assert list(figure.layout.yaxis.ticktext) == ["a", "b&lt;c"]
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]
    lengths = pd.DataFrame({"late": [1.0, 2.0], "used": [3.0, 4.0]})
    about = lengths.map(lambda value: f"{value:.0f} s")
    fills = {"used": ["#0072b2", "#c25600"], "late": "#eea21a"}
    names = {"used": "used", "late": "too late"}
    charts.parts(figure, [0, 1], lengths, fills, "{part}: %{customdata}", names, about)
    used, late = figure.data
    assert (list(used.x), list(used.customdata)) == ([3, 4], ["3 s", "4 s"])
    assert (used.marker.pattern.shape, late.marker.pattern.shape) == (None, "/")
    assert late.hovertemplate.startswith("too late: %{customdata}")


def test_steps_rise_from_the_least_value_and_the_axis_leaves_out_the_ends(
    tmp_path, run_writer, rows
):
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]))
    values = {"fedavg": np.append(np.arange(999.0), 1e6)}
    figure = charts.steps(Results.read(tmp_path), values, False, "%{y}", "time (s)", "rounds")
    (line,) = figure.data
    assert (line.x[0], line.y[0], line.y[-1]) == (0, 0, 100)
    assert figure.layout.xaxis.range[1] < 2000
    assert figure.layout.yaxis.title.text == "share of rounds (%)"
