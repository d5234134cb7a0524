"""What clients' time, computing and traffic went into, worked out by hand and second by second."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayfed import api
from rayfed.report.read.results import Results
from rayfed.report.read.usage import STATES, Usage, summed

EVENT = ("round", "ask", "client", "start_s", "compute_s", "end_s", "status")


def use_of(rounds, events, clients, *more):
    """The use from the tables of a run, with what `summed` takes besides."""
    return Usage(rounds, clients, summed(rounds, events, clients, *more))


def events_of(*rows, **columns):
    return pd.DataFrame(rows, columns=EVENT).assign(loss=1.0, steps=1, **columns)


def rounds_of(*times, **columns):
    return pd.DataFrame({"round": np.arange(len(times)), "time_s": times} | columns)


def away_of(*rows):
    return pd.DataFrame(rows, columns=["client", "start_s", "end_s"])


def used(events):
    counts = events.groupby("client")["status"].agg(lambda status: (status == "used").sum())
    return counts.rename("used").reset_index()


@pytest.fixture
def tables():
    """Two rounds of 10 s; a transfer takes 1 s down and 1 s up.

    Client 0 answers after 6 s and is not asked again, away from 12 s to 15 s. Client 1 tasks all
    the time. Client 2 is late in round 1 and is asked anew at 10 s. Client 3 leaves at 5 s and is
    back at 9 s.
    """
    events = events_of(
        (1, 0, 0, 0.0, 4.0, 6.0, "used"),
        (1, 0, 1, 0.0, 8.0, 10.0, "used"),
        (1, 0, 2, 0.0, 16.0, 18.0, "late"),
        (1, 0, 3, 0.0, 8.0, 5.0, "dropped"),
        (2, 0, 1, 10.0, 8.0, 20.0, "used"),
        (2, 0, 2, 10.0, 4.0, 16.0, "used"),
    )
    rounds = rounds_of(
        0.0, 10.0, 20.0, bytes_down=[0, 400, 200], bytes_up=[0, 60, 40], bytes_wasted=[0, 220, 0]
    )
    clients = pd.DataFrame({"client": [0, 1, 2, 3], "samples": [10, 20, 30, 40]})
    clients["used"] = [1, 2, 1, 0]
    away = away_of((0, 12.0, 15.0), (3, 5.0, 9.0))
    return SimpleNamespace(rounds=rounds, events=events, clients=clients, away=away)


@pytest.fixture
def by_hand(tables):
    return use_of(tables.rounds, tables.events, tables.clients, tables.away)


def test_every_second_of_each_client_has_a_state(by_hand):
    expected = pd.DataFrame(
        # computing, communicating, finished, idle, away
        [[4, 2, 4, 7, 3], [16, 4, 0, 0, 0], [13, 3, 4, 0, 0], [4, 1, 0, 11, 4]],
        columns=list(STATES), index=range(4),
    )  # fmt: skip
    found = by_hand.activity
    assert found.index.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(found.to_numpy(), expected.to_numpy(), atol=1e-12)
    assert by_hand.shares.to_dict() == pytest.approx(
        {"computing": 37 / 80, "communicating": 10 / 80, "finished": 8 / 80, "idle": 18 / 80,
         "away": 7 / 80}
    )  # fmt: skip


def test_what_is_in_vain_is_late_dropped_or_unfinished(by_hand):
    found = {"used": 24.0, "late": 9.0, "dropped": 4.0, "unfinished": 0.0}
    assert by_hand.computing.to_dict() == pytest.approx(found)
    totals = by_hand.totals
    assert totals["compute_s"] == pytest.approx(37)
    assert totals["wasted_compute_s"] == pytest.approx(13)
    assert totals["wasted_compute_share"] == pytest.approx(13 / 37)
    assert (totals["wasted_bytes"], totals["wasted_bytes_share"]) == (220, 220 / 700)
    assert (totals["round_s_p50"], totals["round_s_p90"]) == (10, 10)
    # Of the updates 1/4, 1/2, 1/4, 0; of the data 1/10, 2/10, 3/10, 4/10.
    assert totals["participation_gap"] == pytest.approx((0.15 + 0.3 + 0.05 + 0.4) / 2)
    assert "energy_j" not in totals
    assert "staleness_p50" not in totals


def test_bytes_in_vain_that_were_not_recorded_follow_from_single_asks(tables):
    old = use_of(tables.rounds.drop(columns="bytes_wasted"), tables.events, tables.clients)
    # 6 tasks download 100 each, 5 answers upload 20 each: late 120, dropped 100.
    assert old.traffic == (700, 220)
    twice = pd.concat([tables.events, tables.events.assign(ask=1)])
    several = use_of(tables.rounds.drop(columns="bytes_wasted"), twice, tables.clients)
    assert several.traffic[0] == 700
    assert np.isnan(several.traffic[1])
    assert "wasted_bytes" not in several.totals


def test_where_it_is_not_recorded_who_was_away_the_rest_is_idle(tables):
    found = use_of(tables.rounds, tables.events, tables.clients).activity
    assert found["away"].isna().all()
    assert found["idle"].tolist() == pytest.approx([10, 0, 0, 15])
    np.testing.assert_allclose(found.sum(axis=1), 20)


def test_energy_is_the_total_of_the_recorded_rows(tables):
    first = [np.nan] + [0.0] * (len(tables.rounds) - 2)
    rounds = tables.rounds.assign(energy_j=[*first, 7.0], energy_wasted_j=[*first, 3.0])
    usage = use_of(rounds, tables.events, tables.clients, tables.away)
    assert usage.totals["energy_j"] == 7
    assert usage.totals["wasted_energy_j"] == 3
    assert "carbon_g" not in usage.totals


def test_the_download_of_work_cut_short_goes_by_the_network():
    """Whole work communicates for 5 s; downloading 1,000,000 bytes at 8 Mbit/s takes 1 s of it."""
    events = events_of(
        (1, 0, 0, 0.0, 5.0, 10.0, "used"),
        (1, 0, 1, 0.0, 5.0, 4.0, "dropped"),
    )
    rounds = rounds_of(0.0, 10.0, bytes_down=[0, 2_000_000], bytes_up=[0, 1_000_000])
    network = {"down_mbps": 8.0, "up_mbps": 2.0, "latency_s": 0.0}
    usage = use_of(rounds, events, pd.DataFrame(), away_of((1, 4.0, 10.0)), network)
    assert usage.activity.loc[1].tolist() == [3, 1, 0, 0, 6]


def test_work_that_was_given_up_is_cut_short_too():
    """As above; client 1 is timed out after 4 s, and again, while it computes."""
    events = events_of(
        (1, 0, 0, 0.0, 5.0, 10.0, "used"),
        (1, 0, 1, 0.0, 5.0, 4.0, "late"),
        (1, 1, 1, 4.0, 5.0, 8.0, "late"),
    )
    rounds = rounds_of(0.0, 10.0, bytes_down=[0, 3_000_000], bytes_up=[0, 1_500_000])
    network = {"down_mbps": 8.0, "up_mbps": 1.0, "latency_s": 0.0}
    usage = use_of(rounds, events, pd.DataFrame(), away_of(), network)
    assert usage.activity.loc[1].tolist() == [6, 2, 0, 2, 0]


def test_work_whose_upload_travels_while_the_next_begins():
    """Down for 2 s, 3 s of computing, and 4 s up, behind the next task but for the last."""
    events = events_of(
        (1, 0, 0, 0.0, 3.0, 9.0, "used"), (2, 0, 0, 5.0, 3.0, 14.0, "used"),
        version=[0, 0], staleness=[0, 1],
    )  # fmt: skip
    rounds = rounds_of(0.0, 9.0, 14.0, bytes_down=[0, 8, 8], bytes_up=[0, 8, 8])
    usage = use_of(rounds, events, pd.DataFrame(), away_of(), {"down_mbps": 4.0, "up_mbps": 2.0})
    assert usage.activity.loc[0].tolist() == [6, 8, 0, 0, 0]


def test_replies_wait_in_a_buffer_until_their_client_is_asked_again():
    """Updates at 8 and 12 s; client 0 answers at 3 s, is asked at 5 s and answers at 9 s."""
    events = events_of(
        (1, 0, 0, 0.0, 2.0, 3.0, "used"),
        (1, 0, 1, 0.0, 6.0, 8.0, "used"),
        (2, 0, 0, 5.0, 3.0, 9.0, "used"),
        (-1, 0, 1, 10.0, 5.0, 12.0, "unfinished"),
        version=[0, 0, 0, 1], staleness=[0, 0, 1, -1],
    )  # fmt: skip
    rounds = rounds_of(0.0, 8.0, 12.0, bytes_down=[0, 30, 10], bytes_up=[0, 8, 4])
    usage = use_of(rounds, events, pd.DataFrame(), away_of())
    # Client 1 downloads for half of its 2 s of transfers, then computes for a second.
    found = usage.activity.to_numpy().tolist()
    assert found == [[5, 2, 5, 0, 0], [7, 3, 0, 2, 0]]
    assert usage.staleness.tolist() == [0, 0, 1]
    assert usage.traffic == (52, 10)
    events["status"] = ["used", "used", "unfinished", "unfinished"]
    waits = use_of(rounds, events, pd.DataFrame(), away_of())  # one of them has sent its reply
    assert waits.traffic == (52, 10 + 14)


def test_work_goes_on_when_its_client_is_back():
    """5 s of computing, interrupted for 4 s, between transfers of 1 s."""
    events = events_of((1, 0, 0, 0.0, 5.0, 11.0, "used"))
    usage = use_of(rounds_of(0.0, 12.0), events, pd.DataFrame(), away_of((0, 3.0, 7.0)))
    assert usage.activity.loc[0].tolist() == [5, 2, 1, 0, 4]


@pytest.mark.parametrize("events", [events_of(), events_of((1, 0, 0, 0.0, 0.0, 0.0, "used"))])
def test_nothing_is_known_of_no_events_and_no_time(events):
    usage = use_of(rounds_of(0.0, 0.0), events, pd.DataFrame())
    assert usage.activity is None
    assert usage.totals.keys() <= {"round_s_p50", "round_s_p90"}
    assert use_of(pd.DataFrame(), pd.DataFrame(), pd.DataFrame()).totals == {}


# -- second by second ----------------------------------------------------------------------

CLIENTS, END = 3, 24


@st.composite
def histories(draw):
    """Rounds that end at whole seconds, whose clients work, come late, leave, and are away."""
    closes = [*sorted(draw(st.sets(st.integers(1, END - 1), max_size=3))), END]
    starts = [0, *closes[:-1]]
    rows, gone = [], []
    for client in range(CLIENTS):
        for number, (start, close) in enumerate(zip(starts, closes, strict=True), 1):
            if not draw(st.booleans()):
                continue
            status = draw(st.sampled_from(["used", "late", "dropped"]))
            at = draw(st.integers(start, close - 1))
            end = draw(st.integers(at, close if status == "used" else END + 5))
            compute = draw(st.integers(0, end - at))
            rows.append((number, 0, client, float(at), float(compute), float(end), status))
        marks = sorted(draw(st.sets(st.integers(0, END), max_size=6)))
        gone += [
            (client, float(a), float(b)) for a, b in zip(marks[::2], marks[1::2], strict=False)
        ]
    return rounds_of(*map(float, [0, *closes])), events_of(*rows), away_of(*gone), closes


def second_by_second(events, away, closes):
    """Return how many whole seconds each client worked, had finished, was idle and away."""
    found = {}
    for client in sorted(events["client"].unique()):
        mine = events[events["client"] == client].sort_values(["start_s", "round"])
        intervals = away[away["client"] == client]
        seconds = dict.fromkeys(("work", "finished", "idle", "away"), 0)
        for t in range(END):
            asked = mine[mine["start_s"] <= t]
            if ((intervals["start_s"] <= t) & (t < intervals["end_s"])).any():
                state = "away"
            elif not len(asked):
                state = "idle"
            else:
                last = asked.iloc[-1]
                if t < last["end_s"]:
                    state = "work"
                elif last["status"] == "used" and t < closes[int(last["round"]) - 1]:
                    state = "finished"
                else:
                    state = "idle"
            seconds[state] += 1
        found[client] = list(seconds.values())
    return pd.DataFrame.from_dict(found, orient="index")


@settings(max_examples=60, deadline=None)
@given(histories())
def test_states_are_those_of_every_second(history):
    rounds, events, away, closes = history
    usage = use_of(rounds, events, pd.DataFrame(), away)
    if not len(events):
        assert usage.activity is None
        return
    found = usage.activity
    worked = found["computing"] + found["communicating"]
    shown = np.column_stack([worked, found["finished"], found["idle"], found["away"]])
    np.testing.assert_allclose(shown, second_by_second(events, away, closes), atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), END, atol=1e-9)
    assert (found.to_numpy() >= 0).all()


# -- runs ----------------------------------------------------------------------------------

LATENCY = 0.5


def scenario(algorithm, **more):
    """Steps of 1, 2 and 5 s; work has two of them; a transfer takes half a second."""
    speeds = [1.0, 2.0, 5.0]
    return {
        "name": "hand",
        "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 3}},
        "clients": {
            "count": 3,
            "network": {"latency_s": LATENCY},
            "groups": [
                {"name": str(k), "ids": [k], "delay": {"name": "constant", "mean_s": seconds}}
                for k, seconds in enumerate(speeds)
            ],
        },
        "algorithms": [{"name": algorithm, "local": {"steps": 2, "batch": 4, "lr": 0.01}}],
        "executor": "serial",
    } | more


def usage_of(study, folder):
    result = api.run(study, out=folder, page=False)
    assert set(result.outcome.values()) == {"finished"}
    (run,) = Results.read(folder).runs_found
    return run


def test_a_deadline_by_hand(tmp_path):
    """Tasks take 3, 5 and 11 s; both rounds close at 6 s, so client 2 is late twice."""
    study = scenario("fedavg", rounds=2, participation={"deadline_s": 6.0})
    run = usage_of(study, tmp_path / "out")
    assert run.rounds["time_s"].tolist() == [0, 6, 12]
    # computing, communicating, finished, idle, away; client 2 downloads for half a second.
    expected = [[4, 2, 6, 0, 0], [8, 2, 2, 0, 0], [11, 1, 0, 0, 0]]
    np.testing.assert_allclose(run.usage.activity.to_numpy(), expected, atol=1e-9)
    assert run.usage.computing.to_dict() == pytest.approx(
        {"used": 12, "late": 11, "dropped": 0, "unfinished": 0}
    )
    rounds = run.rounds.iloc[1:]
    third = (rounds["bytes_down"] + rounds["bytes_up"]) / 3
    assert (third > 0).all()
    assert rounds["bytes_wasted"].tolist() == third.tolist()


def test_an_asynchronous_run_by_hand(tmp_path):
    """Replies arrive at 3 (client 0), 5 (1), 6 (0) and 9 s (0), where the fourth row ends."""
    run = usage_of(scenario("fedasync", rounds=4), tmp_path / "out")
    assert run.rounds["time_s"].tolist() == [0, 3, 5, 6, 9]
    # Client 1 has worked for 4 of 5 s on its second task, client 2 for 9 of 11 on its first.
    expected = [[6, 3, 0, 0, 0], [7.5, 1.5, 0, 0, 0], [8.5, 0.5, 0, 0, 0]]
    np.testing.assert_allclose(run.usage.activity.to_numpy(), expected, atol=1e-9)
    assert run.usage.computing.to_dict() == pytest.approx(
        {"used": 10, "late": 0, "dropped": 0, "unfinished": 12}
    )
    assert sorted(run.usage.staleness) == [0, 0, 1, 1]
    assert run.usage.totals["staleness_p50"] == 0.5
    sent, vain = run.usage.traffic
    assert (run.events["status"].astype(str) == "unfinished").sum() == 2
    model = 4 * 8  # of the six tasks that have downloaded it, four have uploaded as much
    assert (sent, vain) == (10 * model, 2 * model)


def test_devices_with_a_known_power(tmp_path):
    """Steps of 4 rows at 0.25 s: 1 s each; 2 clients, 3 rounds of 2 steps at 4 W are 48 J."""
    (tmp_path / "devices.csv").write_text("compute_s,watts\n0.25,4\n")
    delay = {"name": "trace", "file": str(tmp_path / "devices.csv")}
    study = scenario("fedavg", rounds=3)
    study["clients"] = {"count": 2, "delay": delay, "energy": {}}
    run = usage_of(study, tmp_path / "out")
    assert run.clients["watts"].tolist() == [4.0, 4.0]
    assert run.usage.totals["energy_j"] == pytest.approx(48)
    assert run.usage.totals["wasted_energy_j"] == 0
    other = {"name": "other", "ids": [1], "delay": "constant", "energy": {"compute_w": 1}}
    study["clients"]["groups"] = [other]
    some = usage_of(study, tmp_path / "some")
    assert some.clients["watts"].tolist() == [4.0, 1.0]
    assert some.usage.totals["energy_j"] == pytest.approx(24 + 6)
    assert "watts" not in usage_of(scenario("fedavg", rounds=1), tmp_path / "none").clients


AVAILABILITIES = {
    "markov": {"name": "markov", "mean_on_s": 9.0, "mean_off_s": 4.0},
    "bernoulli": {"name": "bernoulli", "p": 0.6},
    "cyclic": {"name": "cyclic", "groups": 2, "rounds": 1},
}


@pytest.mark.parametrize(
    ("algorithm", "name", "interrupted"),
    [
        ("fedavg", "markov", "drop"), ("fedavg", "markov", "resume"),
        ("fedavg", "bernoulli", "drop"), ("fedavg", "cyclic", "resume"),
        ("fedbuff", "markov", "drop"), ("fedbuff", "markov", "resume"),
    ],
)  # fmt: skip
def test_the_seconds_of_each_client_add_up(tmp_path, algorithm, name, interrupted):
    study = scenario(algorithm, rounds=8)
    limit = "timeout_s" if algorithm == "fedbuff" else "deadline_s"
    study["participation"] = {"cohort": 2, limit: 8.0, "interrupted": interrupted}
    study["clients"]["availability"] = AVAILABILITIES[name]
    study["clients"]["delay"] = {"name": "exponential", "mean_s": 2.0}
    study["clients"] |= {"count": 6, "groups": []}
    if algorithm == "fedbuff":
        study["algorithms"][0]["buffer"] = 2
    run = usage_of(study, tmp_path / "out")
    seconds = run.usage.activity
    np.testing.assert_allclose(seconds.sum(axis=1), run.rounds["time_s"].iloc[-1], rtol=1e-9)
    assert (seconds.to_numpy() >= 0).all()
    recorded = run.away.assign(length=run.away["end_s"] - run.away["start_s"])
    lengths = recorded.groupby("client")["length"].sum().reindex(seconds.index, fill_value=0.0)
    np.testing.assert_allclose(seconds["away"], lengths, atol=1e-9)
    assert seconds["computing"].sum() <= run.events["compute_s"].sum() + 1e-9


def order(folder):
    return list(Results.read(folder).runs_found[0].clients_by_speed.index)


def events(seconds):
    """One event a client, of ten steps that take so many seconds in all."""
    base = {"round": 1, "ask": 0, "start_s": 0.0, "end_s": 9.0, "status": "used", "steps": 10}
    return pd.DataFrame([base | {"client": c, "compute_s": s} for c, s in seconds.items()])


def test_the_recorded_speed_decides_and_stragglers_come_last(tmp_path, run_writer, rows):
    clients = pd.DataFrame(
        {"client": [1, 2, 3], "speed_s": [0.1, 0.3, 0.2], "straggler": [True, False, False]}
    )
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]), None, clients)
    assert order(tmp_path) == [3, 2, 1]


def test_equal_speeds_are_told_apart_by_what_was_seen(tmp_path, run_writer, rows):
    clients = pd.DataFrame({"client": [1, 2, 3], "speed_s": 1.0})
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]), events({1: 8.0, 2: 2.0}), clients)
    assert order(tmp_path) == [2, 1, 3]


def test_without_a_record_of_clients_the_events_tell(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]), events({1: 8.0, 2: 2.0}))
    found = Results.read(tmp_path).runs_found[0].clients_by_speed
    assert list(found["speed_s"]) == [0.2, 0.8]
    assert list(found["used"]) == [1, 1]
