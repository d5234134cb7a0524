"""Gauss-Markov: states found by halving obey the recursion that the model is defined by."""

import numpy as np
import pytest
from scipy.stats import kstest

from rayfed.core.rng import Key
from rayfed.topology.mobility.gauss_markov import GaussMarkov

KEY = Key(0, "ways")
WIDE = (1e6, 1e6)
MODEL = GaussMarkov(speed_m_s=1.5, memory=0.8, step_s=2.0)


@pytest.fixture(scope="module")
def states():
    """Positions and velocities (steps, N, directions, 2) where the area has hardly an edge."""
    tracks = MODEL.tracks(2000, WIDE, KEY)
    return np.stack([tracks._at(n) for n in range(100, 112)])


def test_positions_are_sums_of_velocities(states):
    moved = np.diff(states[..., 0], axis=0)
    np.testing.assert_allclose(moved, 2.0 * states[:-1, ..., 1], atol=1e-7)


def test_what_is_new_in_a_velocity_is_white_noise(states):
    noise = (states[1:, ..., 1] - 0.8 * states[:-1, ..., 1]) / (MODEL.sigma * 0.6)
    assert kstest(noise.ravel(), "norm").pvalue > 1e-3
    flat = noise.reshape(len(noise), -1)
    correlations = np.corrcoef(np.concatenate([flat, states[0, ..., 1].reshape(1, -1)]))
    off = correlations[~np.eye(len(correlations), dtype=bool)]
    assert np.abs(off).max() < 5 / flat.shape[1] ** 0.5


def test_velocities_are_stationary_and_have_the_mean_speed(states):
    speed = np.hypot(*np.moveaxis(states[..., 1], -1, 0))
    assert speed[0].mean() == pytest.approx(1.5, rel=0.04)
    assert speed[-1].mean() == pytest.approx(1.5, rel=0.04)


def test_any_order_of_questions_gets_the_same_positions():
    tracks, other = (MODEL.tracks(30, (100.0, 60.0), KEY) for _ in range(2))
    times = [0.0, 1.0, 2.0, 7.5, 40.0, 1e4, 3e8]
    seen = {t: tracks(t) for t in times}
    for t in (3e8, 2.0, 40.0, 0.0, 1e4, 7.5, 1.0):
        np.testing.assert_array_equal(other(t), seen[t])


def test_a_client_alone_moves_as_it_does_among_others():
    few, many = MODEL.tracks(3, (100.0, 60.0), KEY), MODEL.tracks(40, (100.0, 60.0), KEY)
    np.testing.assert_array_equal(few(777.0), many(777.0)[:3])


def test_between_steps_the_way_is_straight():
    tracks = MODEL.tracks(30, WIDE, KEY)
    np.testing.assert_allclose(tracks(13.0), (tracks(12.0) + tracks(14.0)) / 2, atol=1e-7)


def test_edges_reflect_and_positions_stay_uniform():
    tracks = MODEL.tracks(2000, (10.0, 25.0), KEY)
    where = tracks(5000.0)
    for direction, length in enumerate((10.0, 25.0)):
        assert kstest(where[:, direction] / length, "uniform").pvalue > 1e-3
    jump = np.abs(tracks(5002.0) - where).max()
    assert jump <= 2.0 * np.abs(tracks._at(2500)[..., 1]).max() + 1e-7


def test_velocities_may_forget_at_once():
    tracks = GaussMarkov(memory=0.0).tracks(2000, WIDE, KEY)
    first, second = tracks._at(4)[..., 1].ravel(), tracks._at(5)[..., 1].ravel()
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.08


def test_time_has_an_end():
    with pytest.raises(ValueError, match="more than 2\\*\\*31 steps"):
        MODEL.tracks(1, WIDE, KEY)(2.0**33)
