"""Waypoints: straight legs at speeds within bounds. Gauss-Markov: the recursion that defines it."""

import numpy as np
import pytest
from scipy.stats import kstest

from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.topology import GaussMarkov, Still, Waypoint

KEY = Key(0, "ways")
AREA = (100.0, 50.0)


def test_clients_move_no_faster_than_the_fastest_and_stay_inside():
    tracks = Waypoint(slowest_m_s=1.0, fastest_m_s=3.0).tracks(200, AREA, KEY)
    where = np.stack([tracks(0.1 * k) for k in range(400)])
    assert (where >= 0).all()
    assert (where <= AREA).all()
    speed = np.hypot(*np.moveaxis(np.diff(where, axis=0), 2, 0)) / 0.1
    assert speed.max() <= 3.0 + 1e-9
    turned = np.abs(np.diff(speed, axis=0)) > 1e-6
    assert speed[1:][~turned].min() >= 1.0 - 1e-9  # slower only where a corner lies in between
    assert 0 < turned.mean() < 0.1


def test_a_leg_leads_from_one_point_to_the_next_at_the_speed_drawn():
    """Of a single client, from the same draws by hand."""
    tracks = Waypoint(slowest_m_s=1.0, fastest_m_s=3.0, pause_s=2.0).tracks(1, AREA, KEY)
    points = [KEY.sub("start").uniforms([0], 2)[0] * AREA]
    now = 0.0
    for leg in range(3):
        u = KEY.sub("leg").uniforms([0], 3, round=leg)[0]
        points.append(u[:2] * AREA)
        walk = np.hypot(*(points[-1] - points[-2])) / (1.0 + 2.0 * u[2])
        half = (points[-1] + points[-2]) / 2
        np.testing.assert_allclose(tracks(now + walk / 2)[0], half)
        np.testing.assert_allclose(tracks(now + walk + 1.0)[0], points[-1])
        now += walk + 2.0


def test_the_past_is_as_it_was():
    tracks, other = (Waypoint().tracks(50, AREA, KEY) for _ in range(2))
    seen = [tracks(t) for t in range(0, 3000, 100)]
    for index in (29, 3, 17, 0):
        np.testing.assert_array_equal(other(100.0 * index), seen[index])


@pytest.mark.parametrize("model", [Waypoint(), GaussMarkov(memory=0.8, step_s=2.0)], ids=str)
def test_a_client_alone_moves_as_it_does_among_others(model):
    few, many = model.tracks(3, AREA, KEY), model.tracks(40, AREA, KEY)
    np.testing.assert_array_equal(few(777.0), many(777.0)[:3])


def test_still_clients_stay():
    tracks = Still().tracks(5, AREA, KEY)
    np.testing.assert_array_equal(tracks(0.0), tracks(1e6))


def test_bounds_in_the_wrong_order_are_refused():
    with pytest.raises(ScenarioError, match="fastest_m_s: found 1, below slowest_m_s, 2; exchange"):
        Waypoint(slowest_m_s=2.0, fastest_m_s=1.0)


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
