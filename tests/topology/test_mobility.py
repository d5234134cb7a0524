"""Waypoints: legs at speeds within bounds. Gauss-Markov: its recursion. Traces: interpolation."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.topology import GaussMarkov, Geometric, Graphs, MobilityTrace, Still, Waypoint

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


# -- traces ---------------------------------------------------------------------------------------


def trace(folder, text):
    (folder / "positions.csv").write_text(text)
    return MobilityTrace(file=str(folder / "positions.csv"))


@pytest.mark.parametrize("form", ["csv", "parquet", "ms"])
def test_positions_of_a_trace_are_interpolated(tmp_path, form):
    """Client by client with np.interp; some have one row, and rows come in any order."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"time": draw.integers(0, 50, 40), "id": draw.integers(0, 6, 40)})
    frame = frame.drop_duplicates()
    frame = pd.concat([frame, pd.DataFrame({"time": [20], "id": [6]})], ignore_index=True)
    frame["x"], frame["y"] = draw.random((2, len(frame))) * 50
    expected = frame.sort_values("time").groupby("id")
    if form == "ms":
        frame = frame.rename(columns={"time": "time_ms", "id": "client"})
        frame["time_ms"] *= 1000
    file = tmp_path / ("positions.parquet" if form == "parquet" else "positions.csv")
    (frame.to_parquet if form == "parquet" else frame.to_csv)(file, index=False)
    tracks = MobilityTrace(file=str(file)).tracks(7, AREA, KEY)
    for now in (0.0, 3.5, 20.0, 49.0, 1e9):
        by_hand = [
            [np.interp(now, rows["time"], rows[way]) for way in "xy"] for _, rows in expected
        ]
        np.testing.assert_allclose(tracks(now), by_hand, rtol=1e-13)


def test_the_graph_follows_a_trace(tmp_path):
    """Client 1 walks from client 0 to client 2, 10 m in 10 s."""
    rows = "0,0,0,0\n0,1,1,0\n10,1,11,0\n0,2,11,0\n"
    mobility = trace(tmp_path, "time,id,x,y\n" + rows)
    graphs = Graphs(Geometric(range_m=3.5, mobility=mobility, disconnected="allow"), 3, 0)
    times_s = (0.0, 2.9, 5.9, 7.0, 99.0)  # the graph changes every second
    assert [graphs.at(1, t).neighbours(1).tolist() for t in times_s] == [[0], [0], [], [2], [2]]


def test_a_trace_may_name_clients(tmp_path):
    mobility = trace(tmp_path, "time,id,x,y\n0,south,1,2\n0,north,3,4\n")
    named = Geometric(range_m=3.0, mobility=mobility).named(["north", "south"])
    assert named.mobility.tracks(2, AREA, KEY)(0.0).tolist() == [[3, 4], [1, 2]]


WRONG = {
    "has the columns time, x, y; give time, id, x and y": "time,x,y\n0,1,1\n",
    "has the columns id, x, y; give time_s (or time_ms)": "id,x,y\n0,1,1\n",
    "begins at 1.7e+09 s, which looks like seconds since": "time,id,x,y\n1.7e9,0,1,1\n",
    "begins at 1.7e+12 s, which looks like milliseconds": "time_s,id,x,y\n1.7e12,0,1,1\n",
    "row 2: x is 'far'; give a number": "time,id,x,y\n0,0,1,1\n1,0,far,1\n",
    "row 1: time is '-1'; give a number of at least 0": "time,id,x,y\n-1,0,1,1\n",
    "row 1: time is '12:30'; give a number": "time,id,x,y\n12:30,0,1,1\n",
    "row 2: (1, -1) is outside of area_m, 100 by 50": "time,id,x,y\n0,0,1,1\n0,1,1,-1\n",
    "row 2: client 0 has time 5 twice; keep one": "time,id,x,y\n5,0,1,1\n5,0,2,2\n0,1,1,1\n",
    "has no row of client 1; add one, or give fewer clients": "time,id,x,y\n0,0,1,1\n",
    "found client 2; ids go from 0 to 1": "time,id,x,y\n0,0,1,1\n0,1,1,1\n0,2,1,1\n",
    "row 1: client is 'north', but the data do not name": "time,id,x,y\n0,north,1,1\n",
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_traces_are_one_line(tmp_path, message):
    topology = Geometric(range_m=3.0, area_m=AREA, mobility=trace(tmp_path, WRONG[message]))
    with pytest.raises(ScenarioError) as caught:
        Graphs(topology.named([]), 2, 0).at(1)
    assert caught.value.place == "topology.mobility.file"
    assert caught.value.problem.startswith(f"positions.csv: {message}")
    assert "\n" not in str(caught.value)
