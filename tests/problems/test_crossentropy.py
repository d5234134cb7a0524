"""The cross-entropy of scores: three ways to the same numbers."""

import numpy as np

from rayfed.problems.crossentropy import cross_entropy, probabilities, sample_losses


def test_losses_probabilities_and_slopes_belong_together():
    rng = np.random.default_rng(0)
    z, y, w = rng.standard_normal((3, 4, 5)), rng.integers(0, 5, (3, 4)), rng.random((3, 4))
    q = np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)
    picked = np.take_along_axis(q, y[:, :, None], axis=-1)[:, :, 0]
    value, slope = cross_entropy(z.copy(), y, w)
    np.testing.assert_allclose(probabilities(z.copy()), q, rtol=1e-14)
    np.testing.assert_allclose(sample_losses(z.copy(), y), -np.log(picked), rtol=1e-13)
    np.testing.assert_allclose(value, -(w * np.log(picked)).sum(axis=1), rtol=1e-13)
    np.testing.assert_allclose(slope, w[:, :, None] * (q - np.eye(5)[y]), rtol=1e-12)


def test_a_constant_added_to_the_scores_of_a_row_changes_nothing():
    z = np.array([[[1.0, 2.0, 4.0]]])
    y = np.array([[0]])
    np.testing.assert_array_equal(sample_losses(z.copy(), y), sample_losses(z + 512.0, y))
