"""Random waypoints: straight legs at speeds within bounds, the same whenever they are asked for."""

import numpy as np
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.topology.mobility import Still, Waypoint

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


def test_a_client_alone_moves_as_it_does_among_others():
    few, many = Waypoint().tracks(3, AREA, KEY), Waypoint().tracks(40, AREA, KEY)
    np.testing.assert_array_equal(few(777.0), many(777.0)[:3])


def test_still_clients_stay():
    tracks = Still().tracks(5, AREA, KEY)
    np.testing.assert_array_equal(tracks(0.0), tracks(1e6))


def test_bounds_in_the_wrong_order_are_refused():
    with pytest.raises(ScenarioError, match="fastest_m_s: found 1, below slowest_m_s, 2; exchange"):
        Waypoint(slowest_m_s=2.0, fastest_m_s=1.0)
