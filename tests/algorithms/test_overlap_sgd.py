"""Overlap Local SGD: the update by hand, and the clock of transfers that overlap with computing."""

import numpy as np
import pytest

from rayfed import api, testing
from rayfed.core.errors import ScenarioError
from rayfed.engine.tasks import DROPPED
from rayfed.runs.files.checkpoints import MANIFESTS, Checkpoints
from tests.fakes.stepping import step

LINE = {
    "name": "overlap",
    "rounds": 4,
    "problem": {"name": "quadratic", "dataset": {"name": "quadratic", "clients": 3}},
    "clients": {"delay": {"name": "constant", "mean_s": 1.0}},
    "algorithms": [{
        "name": "overlap-sgd", "alpha": 0.25, "beta": 0.5,
        "local": {"steps": 4, "batch": "full", "lr": 0.05},
    }],
    "executor": "serial",
}  # fmt: skip
BYTES = 1000  # of a model with 125 parameters


def made(**changes):
    scenario = {**LINE, **changes}
    data = {"name": "quadratic", "clients": 3, "features": 125}
    return {**scenario, "problem": {"name": "quadratic", "dataset": data}}


def steps_of(scenario):
    """Return the states of a run, row by row, its events and its population."""
    loop = testing.loop(scenario)
    states, events = [loop.start()[0]], []
    for _ in range(loop.run.ending.rounds):
        state, _, parts = step(loop, states[-1])
        states.append(state)
        events += parts
    return states, events, loop.run


def network(down_s=0.0, up_s=0.0, **more):
    """Return a network that takes so many seconds for a model."""
    mbit = 8e-6 * BYTES
    speeds = {"down_mbps": mbit / down_s if down_s else None, "up_mbps": mbit / up_s}
    return {k: v for k, v in speeds.items() if v is not None} | more


def test_three_rounds_by_hand(tmp_path):
    """Two clients F_i = (x - c_i)^2 / 2 with c = (0, 8), one step of 1/2, alpha 1/2, beta 1/2.

    A step halves the distance to c_i. From x_i = z = 0, v = 0:
    round 1: steps to (0, 4), pulled to z = 0: (0, 2); the mean is 1, v = 1, z = 1;
    round 2: (0, 5), pulled to 1: (1/2, 3); 7/4; v = 1/2 + 3/4 = 5/4, z = 9/4;
    round 3: (1/4, 11/2), pulled to 9/4: (5/4, 31/8); 41/16; v = 5/8 + 5/16 = 15/16, z = 51/16.
    """
    (tmp_path / "line.csv").write_text("client,a,y\n0,1,0\n1,1,8\n")
    problem = {"name": "least-squares", "dataset": str(tmp_path / "line.csv"), "intercept": False}
    local = {"steps": 1, "batch": "full", "lr": 0.5}
    method = {"name": "overlap-sgd", "alpha": 0.5, "beta": 0.5, "local": local}
    states, _, _ = steps_of(
        {
            "name": "hand", "rounds": 3, "problem": problem, "algorithms": [method],
            "clients": {}, "executor": "serial",
        }
    )  # fmt: skip
    assert [state.state["x"].tolist() for state in states] == [[0], [1], [9 / 4], [51 / 16]]
    assert [state.state["velocity"].item() for state in states] == [0, 1, 5 / 4, 15 / 16]


def expected_times(population, compute, down_s, up_s, rounds):
    """Return when each round closes: the recursion of clients that compute without waiting."""
    free, closed, times = np.zeros(population), 0.0, []
    for number in range(1, rounds + 1):
        free = np.maximum(free + compute(number), closed + down_s)
        closed = float((free + up_s).max())
        times.append(closed)
    return times


@pytest.mark.parametrize(
    ("down_s", "up_s", "times"),
    [
        (2.0, 1.0, [5.0, 9.0, 13.0, 17.0]),  # hidden behind 4 s of computing
        (3.0, 4.0, [8.0, 15.0, 22.0, 29.0]),  # 7 s of communication hide 4 s of computing
    ],
)
def test_a_round_takes_the_longer_of_computing_and_communication(down_s, up_s, times):
    clients = {**LINE["clients"], "network": network(down_s, up_s)}
    states, events, _ = steps_of(made(clients=clients))
    assert [state.time_s for state in states[1:]] == times
    assert events[0]["start_s"].tolist() == [0.0] * 3
    assert events[1]["start_s"].tolist() == [times[0] - up_s] * 3


def test_agrees_with_the_recursion_where_clients_differ():
    delay = {"name": "lognormal", "mean_s": 1.0, "sigma": 0.8}
    rng = np.random.default_rng(0)
    for _ in range(8):
        down_s, up_s = rng.uniform(0.1, 5.0, 2)
        clients = {"delay": delay, "network": network(down_s, up_s)}
        seed = int(rng.integers(1000))
        states, _, run = steps_of(made(clients=clients, rounds=9, seeds=[seed]))
        population, ids = run.federation.population, np.arange(3)

        def compute(number, population=population, ids=ids):
            return 4 * population.seconds_per_step(ids, number, 0)

        wanted = expected_times(3, compute, down_s, up_s, 9)
        np.testing.assert_allclose([s.time_s for s in states[1:]], wanted, rtol=1e-12)


def test_it_shares_the_link_of_the_server():
    """4 s of computing hide 3 s of download, and then 3 s of upload of the round before.

    Round 1 sends from 4 s to 7 s. Its anchor is at the clients at 10 s, who compute until 8 s.
    """
    server = {"downloads_mbps": 8e-6 * BYTES, "uploads_mbps": 8e-6 * BYTES}
    states, _, _ = steps_of(made(server=server))
    assert [state.time_s for state in states[1:]] == [7.0, 13.0, 19.0, 25.0]


def test_who_was_late_or_away_has_no_head_start():
    """Client 2 needs 8 s, is late at 6 s in each round, and begins anew when it is asked again."""
    slow = {"ids": [2], "local": {"steps": 8}}
    clients = {**LINE["clients"], "groups": [slow], "network": network(0.0, 1.0)}
    _, events, _ = steps_of(made(clients=clients, participation={"deadline_s": 6.0}))
    assert [part["start_s"].tolist() for part in events[:3]] == [
        [0.0, 0.0, 0.0], [4.0, 4.0, 6.0], [8.0, 8.0, 12.0],
    ]  # fmt: skip


def test_who_leaves_meanwhile_begins_when_it_is_asked():
    """Clients are free at 4 s; client 0 is away from 5 s to 15 s, while client 1 sends to 15.5."""
    turns = {"name": "cyclic", "groups": 3, "period_s": 5.0}  # client 0 in [0, 5), [15, 20)
    groups = [{"ids": [0], "availability": turns, "network": network(0.0, 0.5)},
              {"ids": [1], "network": network(0.0, 11.5)}]  # fmt: skip
    clients = {**LINE["clients"], "groups": groups, "network": network(0.0, 0.5)}
    _, events, _ = steps_of(made(clients=clients))
    assert events[0]["end_s"].tolist() == pytest.approx([4.5, 15.5, 4.5])
    assert events[1]["start_s"].tolist() == pytest.approx([15.5, 4.0, 4.0])


def test_work_that_stands_still_is_refused():
    scenario = made(participation={"interrupted": "resume"})
    with pytest.raises(ScenarioError, match="computes while it sends; use drop"):
        api.prepare(api.read(scenario))


@pytest.mark.parametrize("late", ["partial", "stale"])
def test_late_work_is_refused(late):
    scenario = made(participation={"deadline_s": 9.0, "late": late})
    with pytest.raises(ScenarioError, match=r"^participation.late: .*'overlap-sgd'"):
        api.prepare(api.read(scenario))


def test_who_crashes_and_gives_up_is_not_used():
    clients = {**LINE["clients"], "crash": {"probability": 1.0}}
    _, events, _ = steps_of(made(clients=clients))
    assert (events[0]["status"] == DROPPED).all()
    assert (events[0]["end_s"] < 4.5).all()


def test_a_checkpoint_holds_since_when_clients_are_free(tmp_path):
    clients = {**LINE["clients"], "network": network(2.0, 1.0)}
    states, _, _ = steps_of(made(clients=clients))
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(states[2], [], {})
    held = checkpoints.read(MANIFESTS[0], tmp_path)
    assert held.moment.ahead["clients"].tolist() == [0, 1, 2]
    assert held.moment.ahead["free_s"].tolist() == [8.0] * 3  # and the round ends at 9 s


def test_time_outs_count_from_the_ask_and_stop_who_is_late():
    """Clients 0 and 1 need 4 s and a second to send; client 2 needs 8 s and is stopped after 6 s.

    In round 2, from 6 s on, the first two have computed since 4 s; in round 3, from 12 s on, since
    8 s: 4 s before they are asked, which do not count.
    """
    slow = {"ids": [2], "local": {"steps": 8}}
    clients = {**LINE["clients"], "groups": [slow], "network": network(0.0, 1.0)}
    states, events, _ = steps_of(made(clients=clients, participation={"timeout_s": 6.0}))
    assert [state.time_s for state in states[1:4]] == [6.0, 12.0, 18.0]
    assert [part["start_s"].tolist() for part in events[:3]] == [
        [0.0, 0.0, 0.0], [4.0, 4.0, 6.0], [8.0, 8.0, 12.0],
    ]  # fmt: skip
    assert [part["end_s"].tolist() for part in events[:3]] == [
        [5.0, 5.0, 6.0], [9.0, 9.0, 12.0], [13.0, 13.0, 18.0],
    ]  # fmt: skip


def test_who_is_asked_again_has_no_head_start():
    """Client 2 is stopped at 6 s and at 12 s; in round 2 the others send from 12 s on."""
    slow = {"ids": [2], "local": {"steps": 8}}
    clients = {**LINE["clients"], "groups": [slow], "network": network(0.0, 1.0)}
    how = {"timeout_s": 6.0, "retries": 1}
    states, events, _ = steps_of(made(clients=clients, participation=how))
    assert [state.time_s for state in states[1:3]] == [12.0, 24.0]
    assert [part["start_s"].tolist() for part in events[:2]] == [
        [0.0, 0.0, 0.0, 6.0], [4.0, 4.0, 12.0, 18.0],
    ]  # fmt: skip
    assert [part["end_s"].tolist() for part in events[:2]] == [
        [5.0, 5.0, 6.0, 12.0], [13.0, 13.0, 18.0, 24.0],
    ]  # fmt: skip
