"""Participation against data, and over rounds."""

import numpy as np
import pandas as pd
import pytest

from rayfed.report.panels.base import PageSource
from rayfed.report.panels.participation import (
    ParticipationOverRoundsPanel,
    ParticipationPanel,
    participation,
    participation_over_rounds,
)
from rayfed.report.read.results import Results


@pytest.fixture
def results(tmp_path, run_writer, rows):
    clients = pd.DataFrame(
        {
            "client": [5, 6, 7],
            "samples": [10, 30, 60],
            "speed_s": [0.2, 0.1, 0.9],
            "selected": [2, 2, 2],
            "used": [2, 1, 1],
        }
    )
    base = {"ask": 0, "start_s": 0.0, "compute_s": 1.0, "end_s": 1.0, "loss": 1.0, "steps": 1}
    events = pd.DataFrame(
        {
            "round": [1, 1, 2, 2, 2],
            "client": [5, 6, 5, 6, 7],
            "status": ["used", "used", "used", "late", "used"],
        }
    ).assign(**base)
    run_writer(tmp_path, "fedavg", 0, rows([3, 2, 1]), events, clients)
    return Results.read(tmp_path)


def test_faulty_clients_are_crosses_and_named(tmp_path, run_writer, rows):
    clients = pd.DataFrame(
        {"client": [5, 6, 7, 8], "samples": 10, "speed_s": [0.1, 0.2, 0.3, 0.4],
         "selected": 2, "used": [2, 2, 1, 5], "fault": ["alie", "", "", "noise"]}
    )  # fmt: skip
    events = pd.DataFrame({"round": [1], "client": [5], "status": ["used"]}).assign(
        ask=0, start_s=0.0, compute_s=1.0, end_s=1.0, loss=1.0, steps=1
    )
    run_writer(tmp_path, "fedavg", 0, rows([3, 2]), events, clients)
    run_writer(tmp_path, "honest", 0, rows([3, 2]), events, clients.drop(columns="fault"))
    results = Results.read(tmp_path)
    _, dots = participation(results, "fedavg", 0).data
    assert list(dots.y) == [20, 20, 10, 50]
    assert [row[0] for row in dots.customdata] == ["5 (alie)", 6, 7, "8 (noise)"]
    assert dots.marker.symbol == ("x-thin", "circle", "circle", "x-thin")
    assert results.run("fedavg", 0).called([5, 6]) == ["5 (alie)", 6]


def test_dots_are_shares_of_data_and_of_updates(results):
    diagonal, dots = participation(results, "fedavg", 0).data
    # The fastest first: client 6, then 5; client 7 is the slowest fifth.
    assert (list(dots.x), list(dots.y)) == ([30, 10, 60], [25, 50, 25])
    assert dots.marker.symbol == ("circle", "circle", "circle-open")
    assert dots.marker.line.width == (0, 0, 2)
    assert list(diagonal.x) == list(diagonal.y)


def test_cells_show_who_was_used_when(results):
    figure = participation_over_rounds(results, "fedavg", 0)
    assert figure.data[0].z.tolist() == [[100, 0], [100, 100], [0, 100]]
    assert list(figure.data[0].x) == [1, 2]
    assert list(figure.layout.yaxis.ticktext) == ["6", "5", "7"]


def test_a_client_that_always_takes_part_is_in_full_colour(tmp_path, run_writer, rows):
    events = pd.DataFrame({"round": [1, 2], "ask": 0, "client": 4, "status": "used"})
    events = events.assign(start_s=0.0, compute_s=1.0, end_s=1.0, loss=1.0, steps=1)
    run_writer(tmp_path, "fedavg", 0, rows([3, 2, 1]), events)
    heat = participation_over_rounds(Results.read(tmp_path), "fedavg", 0).data[0]
    assert heat.z.tolist() == [[100, 100]]
    assert (heat.zmin, heat.zmax) == (0, 100)
    assert not heat.showscale


def test_many_clients_are_taken_together_in_tenths(tmp_path, run_writer, rows):
    """The slowest 500 of 5,000 clients hold three rows each and gave nothing."""
    slow = np.arange(5000) >= 4500
    clients = pd.DataFrame({"client": np.arange(5000), "samples": np.where(slow, 3, 1)})
    clients = clients.assign(speed_s=1.0 + slow, selected=1, used=np.where(slow, 0, 1))
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]), None, clients)
    figure = participation(Results.read(tmp_path), "fedavg", 0)
    bars = {trace.meta["part"]: trace.y.tolist() for trace in figure.data}
    assert bars["data"] == pytest.approx([100 * 500 / 6000] * 9 + [25], abs=1e-4)
    assert bars["updates"] == pytest.approx([100 / 9] * 9 + [0], abs=1e-4)
    assert figure.layout.meta["note"].startswith("5,000 clients are taken together in tenths")


def test_rounds_of_many_clients_are_taken_together(tmp_path, run_writer, rows):
    """Of 400 clients in 60 rounds the slowest 40 are used in the second half of the rounds."""
    who = np.tile(np.arange(360, 400), 30)
    events = pd.DataFrame({"round": np.repeat(np.arange(31, 61), 40), "client": who})
    events = events.assign(ask=0, status="used", start_s=0.0, compute_s=1.0, end_s=1.0)
    clients = pd.DataFrame({"client": np.arange(400), "samples": 5, "used": 0})
    clients["speed_s"] = 1.0 + clients["client"]
    run_writer(tmp_path, "fedavg", 0, rows([2.0] * 61), events.assign(steps=1, loss=1.0), clients)
    figure = participation_over_rounds(Results.read(tmp_path), "fedavg", 0)
    assert figure.data[0].z.tolist() == [[0] * 30] * 9 + [[0] * 15 + [100] * 15]
    assert figure.layout.meta["note"] == "400 clients are drawn in 10 bands of equal speed."


def test_nobody_was_used(tmp_path, run_writer, rows):
    clients = pd.DataFrame({"client": [0, 1], "samples": 5, "speed_s": 1.0, "used": 0})
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]), None, clients)
    figure = participation(Results.read(tmp_path), "fedavg", 0)
    assert np.allclose(np.concatenate([t.y for t in figure.data if t.mode == "markers"]), 0)


def briefs(results):
    source = PageSource.of(results)
    return [panel(source).brief for panel in (ParticipationPanel, ParticipationOverRoundsPanel)]


@pytest.mark.parametrize("late", [0, 1])
def test_full_participation_with_equal_data_is_two_sentences(tmp_path, run_writer, rows, late):
    events = pd.DataFrame({"round": [1, 1, 2, 2], "client": [4, 5] * 2, "status": "used"})
    events = events.assign(ask=0, start_s=0.0, compute_s=1.0, end_s=1.0, loss=1.0, steps=1)
    events["status"] = ["used"] * (4 - late) + ["late"] * late
    clients = pd.DataFrame({"client": [4, 5], "samples": 10, "speed_s": 1.0, "selected": 2})
    run_writer(tmp_path, "fedavg", 0, rows([3, 2, 1]), events, clients.assign(used=[2, 2 - late]))
    found = briefs(Results.read(tmp_path))
    if late:
        assert found == ["", ""]
    else:
        same, every = found
        assert same.endswith("each client has the same share of the updates as of the data.")
        assert every.endswith("every client took part in every round.")


@pytest.mark.parametrize("last", [2, 4])
def test_shares_of_many_clients_are_compared_with_the_largest(tmp_path, run_writer, rows, last):
    ids = np.arange(400)
    clients = pd.DataFrame({"client": ids, "samples": 10, "speed_s": 1.0, "selected": 4, "used": 2})
    clients.loc[200:, "used"] = last  # a share is 0.0025 at most
    events = pd.DataFrame({"round": [1], "client": [0], "status": ["used"]})
    events = events.assign(ask=0, start_s=0.0, compute_s=1.0, end_s=1.0, loss=1.0, steps=1)
    run_writer(tmp_path, "fedavg", 0, rows([3, 2, 1]), events, clients)
    same, _ = briefs(Results.read(tmp_path))
    assert bool(same) == (last == 2)
