import numpy as np
import pytest

from rayfed.datasets import Linear

IDS = np.arange(200)


def rows(count=200, ids=IDS, **settings):
    settings = {"features": 4, "samples": count, **settings}
    made = Linear(**settings).shards(1000, 0, dtype="float64", intercept=False, test=0.0)
    return made.rows(ids, count)


def weights(X, y):
    return np.stack([np.linalg.lstsq(a, b)[0] for a, b in zip(X, y, strict=True)])


def test_without_drift_and_noise_all_clients_have_one_model():
    X, y = rows(noise=0.0)
    w = weights(X, y)
    np.testing.assert_allclose(w, np.broadcast_to(w[0], w.shape), rtol=1e-9)
    assert abs(w[0]).max() > 0.1


def test_noise_is_what_a_fit_leaves():
    X, y = rows(noise=0.3, drift=2.0)
    residual = y - np.einsum("krd,kd->kr", X, weights(X, y))
    # 4 of 200 degrees of freedom went into the fit
    assert np.sqrt((residual**2).sum() / (200 * 196)) == pytest.approx(0.3, rel=0.02)


def test_drift_is_the_spread_of_the_weights():
    w = weights(*rows(noise=0.0, drift=2.0))
    # 800 numbers around 4 means: standard error of the deviation 2 / sqrt(1600) = 0.05
    assert w.std(axis=0, ddof=1).mean() == pytest.approx(2.0, abs=4 * 0.05)


def test_shift_is_the_spread_of_the_feature_means():
    X, _ = rows(shift=3.0)
    means = X.mean(axis=1)
    # the mean over 200 rows adds a variance of 1/200 to that of 9
    assert means.std() == pytest.approx(np.sqrt(9 + 1 / 200), rel=0.1)
    assert rows(shift=0.0)[0].mean(axis=1).std() == pytest.approx(np.sqrt(1 / 200), rel=0.1)
