"""The fit: a curve among points, predictions against targets, classes against classes."""

import numpy as np
import pytest

from rayfed.problems.picture import Picture
from rayfed.report.page.report import page
from rayfed.report.panels.predictions import fit
from rayfed.report.read.results import Results
from tests.fakes.pages import data_of

POINTS = np.array([[0.0, 1.0], [1.0, 2.5], [2.0, 5.0]])
CURVE = Picture.of_curve(POINTS, np.array([[0.0, 1.0], [2.0, 5.0]]), "the line y = 2 x + 1")
NUMBERS = Picture.of_numbers(np.array([0.0, 3.0]), np.array([3.0, 7.0]))
CLASSES = Picture.of_classes(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]))


@pytest.fixture
def read(tmp_path, run_writer, rows):
    """Return a function that writes one run with a picture and reads the study."""

    def write(picture):
        folder = run_writer(tmp_path, "fedavg", 0, rows([2, 1]), scored="held-out")
        if picture is not None:
            np.savez(folder / "fit.npz", allow_pickle=False, **picture.arrays())
        return Results.read(tmp_path)

    return write


def part(figure, name):
    return next(trace for trace in figure.data if trace.meta["part"] == name)


def test_a_curve_lies_among_its_points(read):
    results = read(CURVE)
    figure = fit(results, "fedavg", 0)
    assert part(figure, "points").y.tolist() == [1, 2.5, 5]
    assert part(figure, "curve").x.tolist() == [0, 2]
    assert figure.layout.yaxis.scaleanchor is None
    assert figure.layout.meta["note"] == "The model is the line y = 2 x + 1."


def test_a_circle_is_round(read):
    picture = Picture.of_curve(POINTS, POINTS, "the circle", square=True)
    assert fit(read(picture), "fedavg", 0).layout.yaxis.scaleanchor == "x"


def test_predictions_are_compared_with_the_diagonal(read):
    results = read(NUMBERS)
    figure = fit(results, "fedavg", 0)
    assert part(figure, "points").x.tolist() == [0, 3]
    diagonal = part(figure, "diagonal")
    assert diagonal.x == diagonal.y
    # errors 3 and 4: sqrt(25 / 2)


def test_classes_are_as_dark_as_their_share_and_tell_their_count(read):
    results = read(CLASSES)
    cells = part(fit(results, "fedavg", 0), "classes")
    np.testing.assert_allclose(cells.z, [[200 / 3, 100 / 3], [0, 100]])
    assert list(cells.text) == [["2", "1"], ["", "1"]]


def test_many_classes_are_cells_without_numbers(read):
    y = np.arange(13)
    assert part(fit(read(Picture.of_classes(y, y)), "fedavg", 0), "classes").texttemplate is None


def test_a_run_without_a_fit(read):
    results = read(None)
    assert results.runs_found[0].fit is None
    with pytest.raises(ValueError, match="the run of fedavg, seed 0, has no picture of its model"):
        fit(results, "fedavg", 0)


def test_the_page_asks_what_was_learned_only_where_a_run_tells(study_writer, tmp_path):
    folder = study_writer(tmp_path / "study", labels=["fedavg", "b"], seeds=1, rounds=5)
    assert "What was learned?" not in page(Results.read(folder))
    np.savez(folder / "fedavg-seed0" / "fit.npz", allow_pickle=False, **CURVE.arrays())
    text = page(Results.read(folder))
    assert "What was learned?" in text
    note = data_of(text)["panels"]["fit"]["runs"][0]["figure"]["layout"]["meta"]["note"]
    assert note == "The model is the line y = 2 x + 1."


def test_classes_have_the_names_of_the_data_where_all_were_seen(tmp_path, run_writer, rows):
    for label, names in (("a", ["cat", "dog"]), ("b", ["cat", "dog", "cow"])):
        folder = run_writer(tmp_path, label, 0, rows([2, 1]), classes=names)
        np.savez(folder / "fit.npz", allow_pickle=False, **CLASSES.arrays())
    results = Results.read(tmp_path)
    assert list(part(fit(results, "a", 0), "classes").x) == ["cat", "dog"]
    assert list(part(fit(results, "b", 0), "classes").x) == ["0", "1"]
