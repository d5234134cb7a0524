"""What clients did, by hand, and against sums over each event by itself."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayfed.core.summary import STATUS, Sums, summarised, whole

NAMES = ("round", "ask", "client", "start_s", "compute_s", "end_s", "status", "steps")


def table(rows, names=NAMES):
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    counts = {"round", "ask", "client", "status", "steps"}
    return {
        name: np.array(values, np.int64 if name in counts else float)
        for name, values in zip(names, columns, strict=True)
    }


def rounds_of(*times):
    return {"round": np.arange(len(times)), "time_s": np.array(times, float)}


# Two rounds of 10 s. Client 4 is used, then late; client 9 drops out, then is used in two Asks.
EVENTS = table([
    (1, 0, 4, 0.0, 4.0, 6.0, 0, 2), (1, 0, 9, 0.0, 8.0, 5.0, 2, 4),
    (2, 0, 4, 10.0, 9.0, 25.0, 1, 3), (2, 0, 9, 10.0, 1.0, 13.0, 0, 1),
    (2, 1, 9, 14.0, 2.0, 18.0, 0, 1),
])  # fmt: skip


def test_the_rows_of_clients_by_hand():
    usage, _ = summarised(rounds_of(0, 10, 20), EVENTS, {})
    found = pd.DataFrame(usage).set_index("client")
    counts = ["asked", "rounds", "first_round", *STATUS, "steps"]
    assert found.loc[4, counts].tolist() == [2, 2, 1, 1, 1, 0, 0, 5]
    assert found.loc[9, counts].tolist() == [3, 2, 1, 2, 0, 1, 0, 6]
    assert found[["first_s", "last_s"]].to_numpy().tolist() == [[0, 20], [0, 18]]
    # Client 4 waited from 6 to 10; client 9 from 18 to 20, and from 13 to 14 between its Asks.
    assert found["finished_s"].tolist() == [4, 3]
    assert found[["waited_s", "round_s"]].to_numpy().tolist() == [[4, 10], [2, 10]]
    assert found["step_s"].tolist() == [(2 + 3) / 2, (2 + 1 + 2) / 3]
    # A transfer of client 9 takes 2 s where it is seen whole, half of it down; of client 4, too.
    assert found[["used_s", "late_s", "dropped_s"]].to_numpy().tolist() == [[4, 9, 0], [3, 0, 4]]
    assert found["communicating_s"].tolist() == [2 + 1, 1 + 2 + 2]
    assert found["away_s"].isna().all()
    assert found["band"].tolist() == [1, 0]  # the faster one is first
    assert (found["time_s"] == 20).all()


def test_a_wait_for_neighbours_is_no_transfer():
    """Two steps of a node: 3 s of computing, then a wait of 5 s; 2 s and 1 s, and no wait."""
    steps = [(1, 0, 4, 0.0, 3.0, 8.0, 5.0, 0, 2), (2, 0, 4, 8.0, 2.0, 11.0, 0.0, 0, 2)]
    names = list(NAMES)
    names.insert(names.index("end_s") + 1, "wait_s")
    usage, cells = summarised(rounds_of(0, 9, 11), table(steps, names), {})
    found = {name: values.tolist() for name, values in usage.items()}
    assert (found["used_s"], found["communicating_s"], found["finished_s"]) == ([5], [1], [5])
    time = pd.DataFrame(cells)
    assert time[time["clock"] == 0]["used"].sum() == pytest.approx(3 + 3)


def test_the_cells_by_hand():
    _, cells = summarised(rounds_of(0, 10, 20), EVENTS, {})
    found = pd.DataFrame(cells)
    time = found[found["clock"] == 0]
    assert set(time["width"]) == {0.125}
    sums = time.groupby("band")[list(STATUS)].sum()
    assert sums.to_numpy().tolist() == [[7, 0, 5, 0], [6, 10, 0, 0]]
    dropped = time[time["dropped"] > 0]
    assert (dropped["start"].min(), dropped["start"].max()) == (0, 4.875)
    rows = found[found["clock"] == 1][["band", "start", *STATUS]].to_numpy().tolist()
    # The client of two Asks in round 2 was used once there.
    assert rows == [[0, 1, 0, 0, 1, 0], [0, 2, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0], [1, 2, 0, 1, 0, 0]]


def test_many_events_are_added_piece_by_piece(monkeypatch):
    expected, cells = summarised(rounds_of(0, 10, 20), EVENTS, {})
    monkeypatch.setattr(whole, "_AT_ONCE", 2)
    rows = [(len(rows["round"]), len(tasks["round"]))
            for rows, tasks in whole.pieces(rounds_of(0, 10, 20), EVENTS)]  # fmt: skip
    assert rows == [(1, 0), (1, 2), (1, 3)]
    found, parts = summarised(rounds_of(0, 10, 20), EVENTS, {})
    for name in expected:
        # Client 9 has no whole work yet where it is cut short; that of client 4 took 2 s, too.
        np.testing.assert_allclose(found[name], expected[name], err_msg=name)
    for name in cells:
        np.testing.assert_allclose(parts[name], cells[name], err_msg=name)


def test_nothing_is_a_row_of_zeros_for_who_is_known_of():
    usage, cells = summarised(rounds_of(0.0), {}, {"client": np.array([3])})
    assert usage["client"].tolist() == [3]
    assert usage["asked"].tolist() == [0]
    assert np.isnan(usage["last_s"]).all()
    assert len(cells["band"]) == 0


# -- random histories ----------------------------------------------------------------------


@st.composite
def histories(draw):
    """Rounds of whole seconds with tasks of five clients; some outlast their round."""
    lengths = draw(st.lists(st.integers(0, 6), min_size=1, max_size=6))
    times = np.concatenate([[0.0], np.cumsum(lengths)])
    rows = []
    for number in range(1, len(times)):
        for client in sorted(draw(st.sets(st.integers(0, 4), max_size=4))):
            start = times[number - 1]
            for ask in range(draw(st.integers(1, 2))):
                start = draw(st.integers(int(start), int(times[number])))
                span, compute = draw(st.integers(0, 8)), draw(st.integers(0, 8))
                row = (number, ask, client, start, min(compute, span), start + span)
                rows.append((*row, draw(st.integers(0, 2)), draw(st.integers(0, 3))))
    return rounds_of(*times), table(rows)


def grouped(rounds, events):
    """Return the counts of each client and the time at work by status, one event after another."""
    frame = pd.DataFrame(events)
    end = rounds["time_s"][-1]
    found = {}
    for client, mine in frame.groupby("client"):
        mine = mine.reset_index(drop=True)
        row = {f"{name}": int((mine["status"] == k).sum()) for k, name in enumerate(STATUS)}
        row |= {"asked": len(mine), "steps": int(mine["steps"].sum())}
        row |= {"rounds": mine["round"].nunique(), "first_round": int(mine["round"].min())}
        row["work"] = [0.0] * len(STATUS)
        for place, task in mine.iterrows():
            after = mine["start_s"].iloc[place + 1] if place + 1 < len(mine) else end
            stop = max(min(task["end_s"], after, end), task["start_s"])
            row["work"][int(task["status"])] += stop - task["start_s"]
        found[client] = row
    return found


@settings(max_examples=80, deadline=None)
@given(histories())
def test_a_summary_is_what_grouping_the_events_gives(history):
    rounds, events = history
    usage, cells = summarised(rounds, events, {})
    expected, frame = grouped(rounds, events), pd.DataFrame(usage).set_index("client")
    assert sorted(expected) == frame.index.tolist()
    for client, row in expected.items():
        for name in ("asked", "steps", "rounds", "first_round", *STATUS):
            assert frame.loc[client, name] == row[name], name
        busy = frame.loc[client, [*(f"{s}_s" for s in STATUS), "communicating_s"]].sum()
        assert busy == pytest.approx(sum(row["work"]))
    time = pd.DataFrame(cells)
    time = time[time["clock"] == 0]
    total = np.sum([row["work"] for row in expected.values()], axis=0) if expected else np.zeros(4)
    np.testing.assert_allclose(time[list(STATUS)].sum(), total, atol=1e-9)
    assert (time[list(STATUS)].sum(axis=1) <= 5 * time["width"] + 1e-9).all()


@settings(max_examples=40, deadline=None)
@given(histories(), st.sets(st.integers(1, 6)))
def test_pieces_give_what_the_whole_gives(history, cuts):
    """But for the downloads of tasks that were cut short, which go by what was seen until then."""
    rounds, events = history
    once, cells = summarised(rounds, events, {})
    sums = Sums(lambda ids: once["band"][np.searchsorted(once["client"], ids)])
    edges = [0, *(cut for cut in sorted(cuts) if cut < len(rounds["round"])), len(rounds["round"])]
    for low, high in pairwise(edges):
        mine = (events["round"] >= low) & (events["round"] < high)
        sums.tables()  # looking at it changes nothing
        sums.add(
            {name: values[low:high] for name, values in rounds.items()},
            {name: values[mine] for name, values in events.items()},
        )
    pieces, parts = sums.tables()
    computing = [f"{status}_s" for status in STATUS]
    for name in set(once) - {*computing, "communicating_s"}:
        np.testing.assert_allclose(pieces[name], once[name], err_msg=name)
    busy = [np.sum([found[n] for n in (*computing, "communicating_s")], axis=0)
            for found in (pieces, once)]  # fmt: skip
    np.testing.assert_allclose(*busy, atol=1e-9)
    for name in cells:
        np.testing.assert_allclose(parts[name], cells[name], atol=1e-9, err_msg=name)
