"""The clients' timeline as bars: who computed, waited, came late, was lost, was away."""

import pandas as pd
import pytest

from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.figures.palette import LIGHT
from rayfed.report.panels.timeline import timeline
from rayfed.report.read.results import Results


def event(number, client, start, end, status="used"):
    return {
        "round": number,
        "ask": 0,
        "client": client,
        "start_s": start,
        "compute_s": 0.8 * (end - start),
        "end_s": end,
        "status": status,
        "loss": 1.0,
        "steps": 10,
    }


@pytest.fixture
def folder(tmp_path, run_writer, rows):
    """Rounds end at 2, 4 and 6 s; client 7 is fast, client 3 slow."""
    events = pd.DataFrame(
        [
            event(1, 7, 0.0, 0.5),
            event(1, 3, 0.0, 2.0),
            event(2, 7, 2.0, 2.5, "dropped"),
            event(2, 3, 2.0, 5.0, "late"),
            event(3, 7, 4.0, 6.0),
        ]
    )
    clients = pd.DataFrame({"client": [3, 7], "samples": [1, 1], "speed_s": [0.4, 0.1]})
    run_writer(tmp_path, "fedavg", 0, rows([4, 3, 2, 1]), events, clients)
    return tmp_path


@pytest.fixture
def figure(folder):
    return timeline(Results.read(folder), "fedavg", 0)


@pytest.fixture
def with_away(folder):
    """Client 7 is away from 2.5 s, when it drops out, to 3 s, client 3 never."""
    away = pd.DataFrame({"client": [7], "start_s": [2.5], "end_s": [3.0]})
    away.to_parquet(folder / "fedavg-seed0" / "away.parquet", index=False)
    return timeline(Results.read(folder), "fedavg", 0)


def bars_of(figure, part):
    return next(t for t in figure.data if t.meta["part"] == part)


def bars(figure, part):
    trace = bars_of(figure, part)
    return sorted(zip(trace.y, trace.base, trace.x, strict=True))


def test_a_bar_reaches_from_asking_to_the_reply(figure):
    # Row 0 is client 7, the fastest; row 1 is client 3.
    assert bars(figure, "used") == [(0, 0, 0.5), (0, 4, 2), (1, 0, 2)]
    assert bars(figure, "late") == [(1, 2, 3)]
    assert bars(figure, "dropped") == [(0, 2, 0.5)]


def test_who_has_answered_waits_for_the_end_of_the_round(figure):
    assert bars(figure, "finished") == [(0, 0.5, 1.5)]
    assert bars(figure, "idle") == []


def test_a_step_of_gossip_ends_where_its_wait_for_neighbours_begins(tmp_path, run_writer, rows):
    """Client 3 needs all of its two steps; client 7 waits 1.5 s for it in the first one."""
    steps = [
        (1, 7, 0.0, 2.0, 1.5),
        (1, 3, 0.0, 2.0, 0.0),
        (2, 7, 2.0, 2.5, 0.0),
        (2, 3, 2.0, 4.0, 0.0),
    ]
    events = pd.DataFrame([event(*step[:4]) | {"wait_s": step[4], "awaited": -1} for step in steps])
    clients = pd.DataFrame({"client": [3, 7], "samples": [1, 1], "speed_s": [0.4, 0.1]})
    run_writer(tmp_path, "d-psgd", 0, rows([4, 3, 2], time_s=[0, 2, 4]), events, clients)
    figure = timeline(Results.read(tmp_path), "d-psgd", 0)
    assert bars(figure, "used") == [(0, 0, 0.5), (0, 2, 0.5), (1, 0, 2), (1, 2, 2)]
    assert bars(figure, "finished") == [(0, 0.5, 1.5), (0, 2.5, 1.5)]


def test_who_leaves_after_its_reply_waits_no_longer(folder):
    """Client 7 has answered at 0.5 s, leaves at 1 s and is back at 1.5 s; the round ends at 2 s."""
    away = pd.DataFrame({"client": [7], "start_s": [1.0], "end_s": [1.5]})
    away.to_parquet(folder / "fedavg-seed0" / "away.parquet", index=False)
    figure = timeline(Results.read(folder), "fedavg", 0)
    assert bars(figure, "finished") == [(0, 0.5, 0.5), (0, 1.5, 0.5)]


def test_it_is_said_that_nobody_knows_who_was_away(figure):
    assert figure.layout.meta["blank"] == "idle, or away (not recorded for this run)"


def test_who_has_answered_is_told_from_who_is_not_asked_and_who_is_away_is_blank(with_away):
    # Client 7: has answered at 0.5, dropped out from 2 to 2.5, away to 3, asked again at 4.
    # Client 3 has answered late at 5 s and is there to the end; its reply is not used.
    assert bars(with_away, "finished") == [(0, 0.5, 1.5)]
    assert bars(with_away, "idle") == [(0, 3, 1), (1, 5, 1)]
    assert bars(with_away, "used") == [(0, 0, 0.5), (0, 4, 2), (1, 0, 2)]
    assert with_away.layout.meta["blank"] == "away"


def test_colours_tell_the_states(with_away):
    colours = {trace.meta["part"]: trace.marker.color for trace in with_away.data}
    assert tuple(colours[part] for part in ("finished", "idle", "late", "dropped")) == (
        LIGHT["strip"],
        LIGHT["waiting"],
        LIGHT["late"],
        LIGHT["dropped"],
    )


def test_a_bar_tells_its_times_in_the_unit_of_the_axis(tmp_path, run_writer, rows):
    events = pd.DataFrame([event(1, 7, 0.0, 1800.0)])
    run_writer(tmp_path, "fedavg", 0, rows([2, 1], time_s=[0.0, 3600.0]), events)
    trace = bars_of(timeline(Results.read(tmp_path), "fedavg", 0), "used")
    # client, round, start, end and computing time: 0.8 of 30 min
    assert trace.customdata[0].tolist() == [7, 1, 0, 30, 24]
    assert "min" in trace.hovertemplate


def test_the_strip_shows_the_rounds_of_the_server(figure):
    assert bars(figure, "rounds") == [(0.5, 0, 2), (0.5, 2, 2), (0.5, 4, 2)]


def test_the_fastest_is_at_the_top(figure):
    assert list(figure.layout.yaxis.ticktext) == ["7", "3"]
    low, high = figure.layout.yaxis.range
    assert low > high


def test_what_is_left_out_is_said(tmp_path, run_writer, rows):
    events = pd.DataFrame(
        [event(k, c, 2.0 * k - 2, 2.0 * k - 1) for k in range(1, 9) for c in (0, 1)]
    )
    run_writer(tmp_path, "fedavg", 0, rows(list(range(9, 0, -1))), events)
    short = timeline(Results.read(tmp_path), "fedavg", 0, most=12)
    assert short.layout.meta["note"] == "Drawn: rounds 1 to 3 of 8."
    assert len(bars(short, "used")) == 6


def test_no_events_is_said_instead_of_drawn(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]))
    with pytest.raises(NothingToDraw, match="the run of fedavg, seed 0, has no record of what"):
        timeline(Results.read(tmp_path), "fedavg", 0)


def test_faulty_clients_have_their_fault_behind_their_number(folder):
    path = folder / "fedavg-seed0" / "clients.parquet"
    clients = pd.read_parquet(path)
    clients.assign(fault=["", "mimic"]).to_parquet(path, index=False)
    assert list(timeline(Results.read(folder), "fedavg", 0).layout.yaxis.ticktext) == [
        "7 (mimic)",
        "3",
    ]
