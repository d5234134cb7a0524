"""What compression left out is drawn where it was recorded."""

import pytest

from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.panels.against import LeftOutPanel, left_out
from rayfed.report.panels.base import PageSource
from rayfed.report.read.results import Results

NAN = float("nan")


def means(figure):
    return {t.meta["name"]: (list(t.x), list(t.y)) for t in figure.data if t.meta["part"] == "mean"}


@pytest.fixture
def results(tmp_path, run_writer, rows):
    """Two seeds of "a", one of "b", whose second round used no reply, and "c" has no memory."""
    for label, seed, norms in (
        ("a", 0, [NAN, 2, 6]),
        ("a", 1, [NAN, 4, 4]),
        ("b", 0, [NAN, NAN, 9]),
        ("c", 0, None),
    ):
        more = {} if norms is None else {"left_out": norms}
        run_writer(tmp_path, label, seed, rows([8, 3, 2], label, seed, **more))
    return Results.read(tmp_path)


def test_a_line_is_the_mean_over_seeds_of_those_that_recorded_it(results):
    figure = left_out(results)
    assert means(figure) == {"a": ([1, 2], [3, 5]), "b": ([2], [9])}
    assert figure.layout.yaxis.title.text == "norm of compression errors"
    panel = LeftOutPanel(PageSource(results))
    assert panel.applies
    assert panel.names == {"a", "b"}


def test_a_study_that_did_not_record_it_has_no_figure(tmp_path, run_writer, rows):
    run_writer(tmp_path, "c", 0, rows([8, 3, 2], "c", 0))
    found = Results.read(tmp_path)
    with pytest.raises(NothingToDraw, match=r"set evaluate\.left_out"):
        left_out(found)
    assert not LeftOutPanel(PageSource(found)).applies
