"""Rounds to a goal over the relaxation time of the walk."""

import numpy as np
import pytest

from rayfed.report.panels.mixing import mixing
from rayfed.report.read.results import Results

WALKS = {"complete": (0.0, 10), "grid": (0.75, 30), "ring": (0.9375, 40)}


@pytest.fixture
def results(tmp_path, run_writer, walk_writer, rows):
    """Three walks whose servers reach loss 0.5 and one whose server did not."""
    for topology, (eigenvalue, taken) in (WALKS | {"path": (0.99, 50)}).items():
        last = 0.6 if topology == "path" else 0.5
        folder = run_writer(
            tmp_path, "A", 0, rows(np.linspace(1, last, taken + 1), "A"), folder=topology,
            setting=f"topology={topology}", stopped_by="rounds" if last > 0.5 else "loss",
            scenario={"stop": {"loss": 0.5}, "topology": {"name": topology}},
        )  # fmt: skip
        walk_writer(folder, [0] * taken, [[(0, 1)]], lambda_2=[eigenvalue])
    return Results.read(tmp_path)


def part(figure, name):
    return next(trace for trace in figure.data if trace.meta["part"] == name)


def test_a_dot_a_point_and_a_line_on_two_log_axes(results):
    figure = mixing(results)
    dots, missed = part(figure, "dots"), part(figure, "missed")
    assert list(zip(dots.x, dots.y, dots.text, strict=True)) == [
        (1, 10, "complete"), (4, 30, "grid"), (16, 40, "ring"),
    ]  # fmt: skip
    assert missed.x == pytest.approx([100])
    assert missed.customdata[0].endswith("50 rounds, not reached")
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    assert figure.layout.yaxis.title.text == "rounds to loss 0.5"
    # Least squares in logs to base 4: x 0, 1, 2 and y 0, log 3, 1 above log 10: slope 1/2.
    (x0, x1), (y0, y1) = part(figure, "line").x, part(figure, "line").y
    assert np.log(y1 / y0) / np.log(x1 / x0) == pytest.approx(0.5)
    assert x0 < 1 < 16 < x1
    assert y0 / x0**0.5 == pytest.approx((10 * 30 / 2 * 40 / 4) ** (1 / 3))


def test_texts_stand_on_the_far_side_of_the_line(results):
    dots = part(mixing(results), "dots")
    below = ["bottom right", "top left", "bottom right"]
    assert list(dots.textposition) == below


def test_a_study_that_does_not_tell_has_no_figure(tmp_path, run_writer, rows):
    run_writer(tmp_path, "A", 0, rows([2, 1]))
    with pytest.raises(ValueError, match="no walks that differ"):
        mixing(Results.read(tmp_path))
