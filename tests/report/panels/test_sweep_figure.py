"""The figures of a sweep: a line over one key, a heat map over two."""

import numpy as np
import pytest

from rayfed.report.figures.palette import LIGHT
from rayfed.report.panels.base import PageSource
from rayfed.report.panels.swept import (
    SweepPanel,
    colour_scale,
    sensitivity,
    sweep_line,
    sweep_map,
)
from rayfed.report.read import sweeps
from rayfed.report.read.results import Results


@pytest.fixture
def swept(tmp_path, run_writer, rows):
    """Return a function that writes a run for each loss, by its settings, and reads them."""

    def write(losses, labels=("A",), failed=()):
        for label in labels:
            for number, (settings, loss) in enumerate(losses.items()):
                name = ", ".join(f"{key}={value}" for key, value in settings)
                run_writer(
                    tmp_path, label, 0, rows([1.0, loss], label), folder=f"{label}{number}",
                    setting=name, settings=dict(settings), scenario={}, algorithm="fedavg",
                    status="failed" if settings in failed else "finished",
                )  # fmt: skip
        results = Results.read(tmp_path)
        return results, sweeps.find(results)

    return write


LINE = {(("lr", 1.0),): 0.5, (("lr", 10.0),): 1e-6, (("lr", 100.0),): 0.1}
MAP = {
    (("lr", lr), ("tau", tau)): loss
    for (lr, tau), loss in {(1, 2): 1.0, (1, 4): 1e-3, (10, 2): 10.0, (10, 4): 1e-4}.items()
}


def test_a_line_goes_over_the_key_in_order_and_on_log_axes_where_they_help(swept):
    results, found = swept(LINE, ("A", "B"))
    figure = sweep_line(results, found, "loss")
    assert [trace.name for trace in figure.data] == ["A", "B"]
    assert figure.data[0].x.tolist() == [1, 10, 100]
    assert figure.data[0].y.tolist() == [0.5, 1e-6, 0.1]
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    assert figure.layout.xaxis.title.text == "lr"
    assert figure.layout.yaxis.title.text == "final loss"
    low, high = figure.layout.yaxis.range
    assert low < -6 < np.log10(0.5) < high
    assert figure.data[0].line.color != figure.data[1].line.color


def test_a_map_has_the_first_key_across_and_the_better_in_full_colour(swept):
    results, found = swept(MAP)
    scale = colour_scale(results, found, "loss")
    assert scale == (1e-4, 10.0, True)
    figure = sweep_map(results, found, "A", "loss", scale)
    cells = figure.data[0]
    assert np.array(cells.z).tolist() == [[0, 1], [-3, -4]]  # tau 2 and 4 down, lr 1 and 10 across
    assert (cells.zmin, cells.zmax) == (-4, 1)
    assert [list(row) for row in cells.text] == [["1", "10"], ["0.001", "1e-4"]]
    assert (cells.colorscale[0][1], cells.reversescale) == (LIGHT["background"], True)
    assert list(figure.layout.xaxis.ticktext) == ["1", "10"]
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("lr", "tau")


def test_a_small_range_is_not_drawn_in_logarithms_nor_is_one_with_zeros(swept):
    results, found = swept({key: 1 + loss for key, loss in MAP.items()} | {next(iter(MAP)): 0.0})
    low, high, log = colour_scale(results, found, "loss")
    assert (low, high, log) == (0.0, 11.0, False)
    z = np.array(sweep_map(results, found, "A", "loss", (low, high, log)).data[0].z)
    assert z.tolist() == [[0, 11], [1.001, 1.0001]]


def test_a_cell_that_failed_says_so_and_one_that_was_not_run_is_empty(swept):
    more = {(("lr", 100), ("tau", 2)): 5.0}  # and none with tau 4
    lost = (("lr", 10), ("tau", 2))
    results, found = swept(MAP | more, failed=[lost])
    figure = sweep_map(results, found, "A", "loss", colour_scale(results, found, "loss"))
    z = np.array(figure.data[0].z, float)
    assert np.isnan(z).tolist() == [[False, True, False], [False, False, True]]
    assert (figure.data[1].x.tolist(), figure.data[1].y.tolist()) == ([1], [0])


def test_the_page_gets_a_map_for_each_algorithm_with_one_scale(swept):
    results, _ = swept(MAP, ("A", "B"))
    made = SweepPanel(PageSource(results)).payload["loss"]
    *maps, keys = made["figures"]
    scales = {(f["data"][0]["zmin"], f["data"][0]["zmax"]) for f in maps}
    assert (len(maps), scales) == (2, {(-4, 1)})
    assert {trace["meta"]["part"] for trace in keys["data"]} == {"along"}


def test_what_each_key_does_is_drawn_along_the_best_point(swept):
    results, found = swept(MAP)  # the best has lr 10 and tau 4
    figure = sensitivity(results, found, "loss")
    rows = dict(zip(figure.layout.yaxis.ticktext, figure.data, strict=True))
    assert list(rows) == ["lr, A", "tau, A"]
    assert [set(trace.y) for trace in figure.data] == [{0}, {1}]
    assert (rows["lr, A"].x.tolist(), list(rows["lr, A"].customdata)) == ([1e-4, 1e-3], ["10", "1"])
    assert rows["tau, A"].x.tolist() == [1e-4, 10]
    assert rows["tau, A"].hovertemplate.startswith("tau %{customdata}, A: ")


def test_powers_of_two_are_written_as_such_and_digits_tell_cells_apart(swept):
    keys = [(("lr", lr), ("tau", tau)) for lr in (2.0**-5, 0.5) for tau in (2, 4)]
    results, found = swept(dict(zip(keys, (0.6012, 0.6049, 0.61, 0.62), strict=True)))
    figure = sweep_map(results, found, "A", "loss", colour_scale(results, found, "loss"))
    assert list(figure.layout.xaxis.ticktext) == ["2<sup>-5</sup>", "2<sup>-1</sup>"]
    assert [list(row) for row in figure.data[0].text] == [["0.601", "0.61"], ["0.605", "0.62"]]


def test_accuracies_are_read_between_0_and_1_as_in_curves(tmp_path, run_writer, rows):
    for lr, end in ((1, 0.9), (2, 0.5), (4, 0.05)):
        run_writer(
            tmp_path, "A", 0, rows([1, 1], "A", accuracy=[0.1, end]), folder=f"A{lr}",
            setting=f"lr={lr}", settings={"lr": lr}, scenario={}, algorithm="fedavg",
        )  # fmt: skip
    results = Results.read(tmp_path)
    found = sweeps.find(results)
    assert sweep_line(results, found, "accuracy").layout.yaxis.type == "linear"
    assert not colour_scale(results, found, "accuracy")[2]
