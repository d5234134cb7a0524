import numpy as np
import pytest

from rayfed.datasets import Synthetic
from rayfed.datasets.sizes import LognormalSizes
from rayfed.datasets.synthetic import labels

IDS = np.arange(400)


def draw(count=50, **settings):
    return Synthetic(**settings).draw(0, IDS, count, "train")


def test_shapes_and_defaults_of_the_recipe():
    made = Synthetic()
    assert (made.features, made.classes, made.samples) == (60, 10, LognormalSizes(mean=4, sigma=2))
    X, y = draw(count=3)
    assert (X.shape, y.shape) == ((400, 3, 60), (400, 3))
    assert set(np.unique(y)) == set(range(10))


def test_labels_are_those_of_the_client_s_own_model():
    X, y = draw(alpha=0.5, beta=0.5)
    _, W, b = Synthetic(alpha=0.5, beta=0.5).client(0, IDS)
    for client in (0, 1, 399):  # client by client, as the recipe is written
        scores = X[client] @ W[client].T + b[client]
        np.testing.assert_array_equal(scores.argmax(axis=1), y[client])


def test_scores_as_close_as_rounding_decide_as_those_of_single_rows():
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((5, 40, 60)), rng.standard_normal((5, 3, 60))
    # two classes apart by some units in the last place, above the third
    W[:, 1] = W[:, 0] * (1 + rng.integers(-2, 3, (5, 60)) * 2.0**-52)
    b = np.tile([100.0, 100.0, 0.0], (5, 1))
    decided = [
        [(np.array([np.dot(w, x) for w in W[k]]) + b[k]).argmax() for x in X[k]] for k in range(5)
    ]
    assert {0, 1} == set(np.ravel(decided))
    np.testing.assert_array_equal(labels(X, W, b), decided)
    for k, row in np.ndindex(5, 40):
        assert labels(X[k : k + 1, row : row + 1], W[k : k + 1], b[k : k + 1]) == decided[k][row]


def test_feature_variances_fall_as_the_recipe_says():
    X, _ = draw()
    within = X.var(axis=1, ddof=1).mean(axis=0)  # 400 x 49 degrees of freedom: error 1 %
    np.testing.assert_allclose(within, np.arange(1, 61) ** -1.2, rtol=0.04)


def test_alpha_is_the_spread_of_models_and_beta_of_features():
    v, W, b = Synthetic(alpha=3.0, beta=2.0).client(0, IDS)
    # client means: of 600 weights variance alpha^2 + 1/600, of 60 features beta^2 + 1/60
    assert W.mean(axis=(1, 2)).std() == pytest.approx(3.0, rel=0.15)
    assert v.mean(axis=1).std() == pytest.approx(np.sqrt(4 + 1 / 60), rel=0.15)
    assert np.corrcoef(W.mean(axis=(1, 2)), b.mean(axis=1))[0, 1] > 0.95
    assert (W - W.mean(axis=(1, 2), keepdims=True)).std() == pytest.approx(1.0, rel=0.01)


def test_alpha_and_beta_zero_leave_no_common_shift():
    v, W, _ = Synthetic(alpha=0.0, beta=0.0).client(0, IDS)
    assert W.mean(axis=(1, 2)).std() == pytest.approx(1 / np.sqrt(600), rel=0.15)
    assert v.mean(axis=1).std() == pytest.approx(1 / np.sqrt(60), rel=0.15)
