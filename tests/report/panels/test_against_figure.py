"""Two columns against each other: means over seeds, round by round."""

import pytest

from rayfed.report.gallery import figure as named
from rayfed.report.panels.against import against
from rayfed.report.read.results import Results

NAN = float("nan")


@pytest.fixture
def results(tmp_path, run_writer, rows):
    """Two seeds; the second is evaluated in rounds 0 and 2 alone."""
    run_writer(tmp_path, "a", 0, rows([8, 4, 2], "a", accuracy=[0.1, 0.5, 0.7]))
    run_writer(tmp_path, "a", 1, rows([6, NAN, 4], "a", 1, accuracy=[0.3, NAN, 0.9]))
    return Results.read(tmp_path)


def line(figure):
    trace = next(t for t in figure.data if t.meta["part"] == "path")
    return trace.customdata.tolist(), trace.x.tolist(), trace.y.tolist()


def test_means_are_over_the_rounds_that_every_seed_has(results):
    assert line(against(results, "loss", "accuracy")) == ([0, 2], [7, 3], pytest.approx([0.2, 0.8]))


def test_a_clock_is_in_its_unit(results):
    figure = against(results, "bytes_up", "accuracy")  # 100 bytes a round
    assert line(figure)[1] == [0, 200]
    assert figure.layout.xaxis.title.text == "bytes uploaded (B)"


def test_the_dot_is_the_last_round(results):
    end = next(t for t in against(results).data if t.meta["part"] == "end")
    assert (list(end.x), list(end.y)) == ([3], [pytest.approx(0.8)])


def test_it_is_drawn_by_name_for_any_two_columns(results):
    assert line(named(results, "against", {"x": "accuracy", "y": "loss"}))[2] == [7, 3]


def test_columns_that_no_round_has_together_are_refused(results):
    with pytest.raises(ValueError, match="no run has test_loss and loss in the same rounds"):
        against(results, "test_loss", "loss")


def test_seeds_that_time_evaluates_come_together_by_number(tmp_path, run_writer, rows):
    """They have round 0 in common alone; the third evaluation of the first seed has no partner."""
    run_writer(tmp_path, "a", 0, rows([8, 6, NAN, 4, 2], "a", accuracy=[0.1, 0.3, NAN, 0.5, 0.7]))
    run_writer(
        tmp_path, "a", 1, rows([6, NAN, 2, NAN, NAN], "a", 1, accuracy=[0.3, NAN, 0.7, NAN, NAN])
    )
    figure = against(Results.read(tmp_path), "loss", "accuracy")
    assert line(figure) == ([0, 1], [7, 4], pytest.approx([0.2, 0.5]))
    assert "evaluation %{customdata}" in figure.data[0].hovertemplate


def test_each_algorithm_counts_its_own_points(tmp_path, run_writer, rows):
    for seed, losses in enumerate(([8, 6, NAN, 4], [6, NAN, 2, NAN])):
        accuracy = [NAN if loss != loss else loss / 10 for loss in losses]
        run_writer(tmp_path, "a", seed, rows(losses, "a", seed, accuracy=accuracy))
    run_writer(tmp_path, "b", 0, rows([8, 6], "b", accuracy=[0.1, 0.3]))
    run_writer(tmp_path, "none", 0, rows([8, 6], "none"))
    hovers = {t.meta["name"]: t.hovertemplate for t in against(Results.read(tmp_path)).data[:2]}
    assert hovers["a"].startswith("a, evaluation %{customdata}")
    assert hovers["b"].startswith("b, round %{customdata}")
