"""The convergence figure: numbers, crossings and labels."""

import numpy as np
import pytest

from rayfed.report.panels.convergence import convergence
from rayfed.report.read.curves import clocks
from rayfed.report.read.results import Results


@pytest.fixture
def results(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([8, 6, 4, 2]))
    run_writer(tmp_path, "fedavg", 1, rows([8, 4, 2, 1]))
    run_writer(tmp_path, "centralised", 0, rows([8, 1, 1, 1], bytes_up=np.zeros(4, int)))
    return Results.read(tmp_path)


def trace(figure, name, part):
    return next(t for t in figure.data if t.meta == {"name": name, "part": part})


def test_line_and_band_are_mean_and_deviation(results):
    figure = convergence(results)
    assert list(trace(figure, "fedavg", "mean").y) == [8, 5, 3, 1.5]
    band = trace(figure, "fedavg", "band")
    assert list(band.x) == [0, 1, 2, 3, 3, 2, 1, 0]
    assert band.y[1] == 6  # of seeds that end at 4 and 6
    assert band.y[-2] == 4


def test_each_run_has_its_crossing_and_baselines_have_none(results):
    figure = convergence(results, target=2.0)
    assert sorted(trace(figure, "fedavg", "crossing").x) == [2, 3]
    assert list(trace(figure, "fedavg", "crossing").y) == [2, 2]
    assert list(trace(figure, "centralised", "crossing").x) == []
    line = figure.layout.shapes[0]
    assert line.y0 == 2.0
    assert line.label.texttemplate == "target %{y0:.6~g}"  # follows the line where it is moved
    assert line.label.textposition == "start"


@pytest.mark.parametrize(
    ("target", "log", "anchor"),
    [(1.2, False, "bottom"), (3.5, False, "top"), (2.0, True, "top")],
)
def test_the_target_is_named_where_no_curve_starts(results, target, log, anchor):
    """Losses start at 8 and end at 1: below the line, unless that lies at the lower edge."""
    figure = convergence(results, target=target, log=log)
    label = figure.layout.shapes[0].label
    assert (label.textposition, label.yanchor) == ("start", anchor)


def test_a_target_reached_early_is_named_at_the_end_above_the_curves(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([9, 6, 4, 3, 2.5, 2.2, 2, 2, 2, 2, 2]))
    label = convergence(Results.read(tmp_path), target=5.0).layout.shapes[0].label
    assert (label.textposition, label.yanchor) == ("end", "bottom")


def test_the_name_of_the_target_avoids_a_curve_that_grows_again(tmp_path, run_writer, rows):
    """The second line lies on every place but the start, below the line of the target."""
    run_writer(tmp_path, "fedavg", 0, rows([9, 8, 7, 6, 5, 4, 3, 2, 1, 1, 1]))
    run_writer(tmp_path, "fedexp", 0, rows([9, 8, 7, 6, 5, 4, 5, 5.5, 5.3, 4.8, 5.5]))
    label = convergence(Results.read(tmp_path), target=5.0).layout.shapes[0].label
    assert (label.textposition, label.yanchor) == ("start", "top")


def test_the_target_of_an_accuracy_is_named_above_it_where_there_is_room(
    tmp_path, run_writer, rows
):
    frame = rows([8.0, 4.0, 2.0], "a").assign(accuracy=[0.1, 0.5, 0.9])
    run_writer(tmp_path, "a", 0, frame)
    anchors = [
        convergence(Results.read(tmp_path), y="accuracy", target=target)
        .layout.shapes[0]
        .label.yanchor
        for target in (0.5, 0.9)
    ]
    assert anchors == ["bottom", "top"]


def test_a_clock_that_stands_still_is_a_level_line(results):
    figure = convergence(results, x="bytes_up")
    assert list(trace(figure, "centralised", "mean").y) == [1, 1]
    assert list(trace(figure, "centralised", "mean").x) == [0, 300]
    assert figure.layout.xaxis.title.text == "bytes uploaded (B)"


def test_lines_are_smoothed_and_crossings_are_not(results):
    figure = convergence(results, target=2.0, smooth=0.5)
    assert list(trace(figure, "fedavg", "mean").y) == pytest.approx(
        [8, (8 + 2 * 5) / 3, (8 + 2 * 5 + 4 * 3) / 7, (8 + 2 * 5 + 4 * 3 + 8 * 1.5) / 15]
    )
    assert sorted(trace(figure, "fedavg", "crossing").x) == [2, 3]


def test_single_seeds_stand_in_place_of_their_mean(results):
    figure = convergence(results, seeds=True)
    seeds = {(t.meta["name"], t.meta["seed"]): t for t in figure.data if t.meta["part"] == "seed"}
    assert list(seeds["fedavg", 1].y) == [8, 4, 2, 1]
    assert seeds["fedavg", 1].name == "fedavg seed 1"
    assert set(seeds) == {("fedavg", 0), ("fedavg", 1), ("centralised", 0)}
    assert {t.meta["part"] for t in figure.data} == {"seed", "crossing"}


def test_the_scale_of_single_seeds_is_that_of_their_mean(tmp_path, run_writer, rows):
    """The means fall from 8 to 1, a factor of 8; one seed falls to 0.5, a factor of 16."""
    for seed, last in ((0, 0.5), (1, 1.5)):
        run_writer(tmp_path, "a", seed, rows([8, last]))
    found = Results.read(tmp_path)
    assert convergence(found).layout.yaxis.type == "linear"
    figure = convergence(found, seeds=True)
    assert figure.layout.yaxis.type == "linear"
    assert figure.layout.yaxis.range[0] < 0.5


def test_epsilon_is_a_clock_of_private_runs_alone(tmp_path, run_writer, rows):
    run_writer(tmp_path, "private", 0, rows([8, 6, 4], "private", epsilon=[0, 1.5, 2]))
    run_writer(tmp_path, "open", 0, rows([8, 2, 1], "open"))
    found = Results.read(tmp_path)
    assert "epsilon" in clocks(found)
    figure = convergence(found, x="epsilon", target=4.0)
    assert list(trace(figure, "private", "mean").x) == [0, 1.5, 2]
    assert list(trace(figure, "private", "crossing").x) == [2]
    assert len(trace(figure, "open", "mean").x) == 0
    run_writer(tmp_path / "other", "open", 0, rows([8, 2, 1], "open"))
    assert "epsilon" not in clocks(Results.read(tmp_path / "other"))


def test_single_seeds_are_faint_where_they_are_few(results, tmp_path, run_writer, rows):
    seeds = [t for t in convergence(results).data if t.meta["part"] == "seed"]
    mine = {t.meta["seed"]: list(t.y) for t in seeds if t.meta["name"] == "fedavg"}
    assert mine == {0: [8, 6, 4, 2], 1: [8, 4, 2, 1]}
    assert all(line.opacity < 0.5 for line in seeds)
    parts = [t.meta["part"] for t in convergence(results).data]
    assert set(parts[: len(seeds)]) == {"seed"}  # below all others
    for seed in range(6):
        run_writer(tmp_path / "six", "fedavg", seed, rows([8, 6]))
    run_writer(tmp_path / "one", "fedavg", 0, rows([8, 6]))
    for folder in ("six", "one"):
        parts = {t.meta["part"] for t in convergence(Results.read(tmp_path / folder)).data}
        assert "seed" not in parts


@pytest.mark.parametrize(("end", "scale"), [(0.11, "linear"), (0.09, "log")])
def test_a_log_axis_from_a_factor_of_ten(tmp_path, run_writer, rows, end, scale):
    run_writer(tmp_path, "fedavg", 0, rows([1.0, end]))
    assert convergence(Results.read(tmp_path)).layout.yaxis.type == scale


def test_log_only_where_it_helps(results, tmp_path, run_writer, rows):
    assert convergence(results).layout.yaxis.type == "linear"
    assert convergence(results, log=True).layout.yaxis.type == "log"
    run_writer(tmp_path / "deep", "fedavg", 0, rows([1, 1e-3, 1e-9]))
    deep = convergence(Results.read(tmp_path / "deep"))
    assert deep.layout.yaxis.type == "log"
    assert deep.layout.yaxis.dtick == 2
    assert deep.layout.yaxis.range[0] == pytest.approx(-9 - 0.04 * 9)


def test_names_stand_at_line_ends_in_their_colour(results):
    figure = convergence(results)
    labels = {label.text: label for label in figure.layout.annotations}
    assert set(labels) == {"fedavg", "centralised"}
    assert labels["fedavg"].font.color == trace(figure, "fedavg", "mean").line.color


def test_many_algorithms_get_a_legend(tmp_path, run_writer, rows):
    for i in range(9):
        run_writer(tmp_path, f"a{i}", 0, rows([2, 1]))
    figure = convergence(Results.read(tmp_path))
    assert figure.layout.showlegend
    assert not figure.layout.annotations
    assert sum(bool(t.showlegend) for t in figure.data) == 9


def test_a_run_that_failed_before_its_first_round_is_a_cross_with_its_reason(
    results, tmp_path, run_writer, rows
):
    reason = "round 1, time 0 s, client 0, 'train' failed: KeyError: '<x>' (own.py:3)"
    run_writer(tmp_path, "broken", 0, rows([7]), status="failed", reason=reason)
    figure = convergence(Results.read(tmp_path))
    parts = {t.meta["part"] for t in figure.data if t.meta["name"] == "broken"}
    assert parts == {"failed", "crossing"}
    cross = trace(figure, "broken", "failed")
    assert (list(cross.x), list(cross.y), cross.marker.symbol) == ([0], [7], "x")
    assert cross.text[0].replace("<br>", " ") == reason.replace("<x>", "&lt;x&gt;").replace(
        "'", "&#x27;"
    )


def test_names_are_no_markup(tmp_path, run_writer, rows):
    for seed in (0, 1):
        run_writer(tmp_path, "a<b>", seed, rows([8, 4], "a<b>", seed))
    run_writer(tmp_path, "c<d>", 0, rows([8]), status="failed")
    for seeds in (False, True):
        drawn = convergence(Results.read(tmp_path), seeds=seeds).data
        shown = {trace.name for trace in drawn if trace.name}
        own = {"a&lt;b> seed 0", "a&lt;b> seed 1"} if seeds else {"a&lt;b>"}
        assert shown == own | {"c&lt;d>"}
