"""The clients' timeline, bars and density."""

import numpy as np
import pandas as pd
import pytest

from analysis.figures import timeline
from analysis.read import Results


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
def figure(tmp_path, run_writer, rows):
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
    return timeline(Results.read(tmp_path), "fedavg", 0)


def bars(figure, part):
    trace = next(t for t in figure.data if t.meta["part"] == part)
    return sorted(zip(trace.y, trace.base, trace.x, strict=True))


def test_a_bar_reaches_from_asking_to_the_reply(figure):
    # Row 0 is client 7, the fastest; row 1 is client 3.
    assert bars(figure, "used") == [(0, 0, 0.5), (0, 4, 2), (1, 0, 2)]
    assert bars(figure, "late") == [(1, 2, 3)]
    assert bars(figure, "dropped") == [(0, 2, 0.5)]


def test_who_has_answered_waits_for_the_end_of_the_round(figure):
    assert bars(figure, "waiting") == [(0, 0.5, 1.5)]


def test_the_strip_shows_the_rounds_of_the_server(figure):
    assert bars(figure, "server") == [(0.5, 0, 2), (0.5, 2, 2), (0.5, 4, 2)]


def test_the_fastest_is_at_the_top(figure):
    assert list(figure.layout.yaxis.ticktext) == ["7", "3"]
    low, high = figure.layout.yaxis.range
    assert low > high


def test_what_is_left_out_is_said(tmp_path, run_writer, rows):
    events = pd.DataFrame([event(k, c, 2.0 * k, 2.0 * k + 1) for k in range(1, 9) for c in (0, 1)])
    run_writer(tmp_path, "fedavg", 0, rows(list(range(9, 0, -1))), events)
    short = timeline(Results.read(tmp_path), "fedavg", 0, most=12)
    assert short.layout.meta["note"] == "Drawn: rounds 1 to 3 of 8."
    assert len(bars(short, "used")) == 6


def test_many_clients_become_a_density(tmp_path, run_writer, rows):
    """Of 80 clients the faster half computes for all of round 1, the others never."""
    events = pd.DataFrame([event(1, c, 0.0, 2.0) for c in range(40)])
    clients = pd.DataFrame(
        {"client": np.arange(80), "samples": 1, "speed_s": np.linspace(0.1, 0.2, 80)}
    )
    run_writer(tmp_path, "fedavg", 0, rows([3, 2, 1]), events, clients)
    dense = timeline(Results.read(tmp_path), "fedavg", 0)
    cells = next(t for t in dense.data if t.meta["part"] == "density").z
    assert cells.shape == (40, 160)
    assert np.allclose(cells[:20, :80], 100)
    assert np.allclose(cells[20:], 0)
    assert np.allclose(cells[:, 80:], 0)
    assert "80 clients" in dense.layout.meta["note"]


def test_no_events_is_said_instead_of_drawn(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]))
    empty = timeline(Results.read(tmp_path), "fedavg", 0)
    assert "No events" in empty.layout.meta["note"]
