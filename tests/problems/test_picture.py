import io

import numpy as np
import pytest

from rayfed.problems import Circle, LeastSquares, LogisticRegression, Quadratic
from rayfed.problems.picture import Picture


def test_classes_are_counted_by_class_and_by_where_they_are_put():
    picture = Picture.of_classes(np.array([0, 0, 0, 2, 2]), np.array([0, 1, 1, 2, 0]))
    assert picture.counts.tolist() == [[1, 2, 0], [0, 0, 0], [1, 0, 1]]


def test_arrays_fill_a_file_without_pickles():
    picture = Picture.of_curve(np.ones((3, 2)), np.zeros((2, 2)), "a curve", square=True)
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **picture.arrays())
    file.seek(0)
    with np.load(file, allow_pickle=False) as held:
        assert held["kind"].item() == "curve"
        assert held["text"].item() == "a curve"
        assert held["square"].item() is True
        assert (held["points"].shape, held["counts"].shape) == ((3, 2), (0, 0))


@pytest.mark.parametrize(("offset", "text"), [(3.0, "2 x + 3"), (-0.25, "2 x - 0.25")])
def test_one_feature_makes_a_line(offset, text):
    X, y = np.array([[1.0, 1.0], [-1.0, 1.0], [0.5, 1.0]]), np.array([7.0, 8.0, 9.0])
    picture = LeastSquares().picture(np.array([2.0, offset]), X, y)
    assert picture.kind == "curve"
    assert picture.text == f"the line y = {text}"
    assert picture.points.tolist() == [[1, 7], [-1, 8], [0.5, 9]]
    assert picture.curve.tolist() == [[-1, offset - 2], [1, offset + 2]]


def test_a_line_through_the_origin():
    X, y = np.array([[1.0], [3.0]]), np.array([7.0, 8.0])
    picture = LeastSquares(intercept=False).picture(np.array([2.0]), X, y)
    assert picture.text == "the line y = 2 x"
    assert picture.curve.tolist() == [[1, 2], [3, 6]]


def test_more_features_make_targets_beside_predictions():
    X, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([7.0, 8.0])
    picture = LeastSquares(intercept=False).picture(np.array([1.0, 1.0]), X, y)
    assert picture.kind == "numbers"
    assert picture.points.tolist() == [[7, 3], [8, 7]]


def test_a_circle_among_its_points():
    X = np.array([[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]])
    picture = Circle().picture(np.array([1.0, 2.0, -0.5]), X, np.zeros(3))
    assert picture.text == "the circle around (1, 2) with radius 0.5"
    assert picture.square
    np.testing.assert_array_equal(picture.points, X)
    np.testing.assert_allclose(np.linalg.norm(picture.curve - [1, 2], axis=1), 0.5)
    np.testing.assert_allclose(picture.curve[0], picture.curve[-1])
    assert Circle().picture(np.ones(4), np.ones((2, 3)), np.zeros(2)) is None


def test_a_classifier_is_counted():
    X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([1, 0, 0])
    picture = LogisticRegression(intercept=False).picture(np.array([1.0]), X, y)
    assert picture.kind == "classes"
    assert picture.counts.tolist() == [[1, 1], [0, 1]]


def test_rows_that_are_objectives_have_no_picture():
    assert Quadratic().picture(np.ones(2), np.ones((3, 2)), np.ones(3)) is None
