"""Many clients over time as a density, with shares worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from rayfed.report.panels.timeline import timeline
from rayfed.report.read.results import Results

HALF = 40


@pytest.fixture
def folder(tmp_path, run_writer, rows):
    """Eighty clients, rounds of 2 s.

    In round 1 the fastest twenty compute and the next twenty are late, all the time; nobody does
    anything in round 2.
    """
    events = pd.DataFrame(
        {
            "round": 1,
            "ask": 0,
            "client": np.arange(HALF),
            "start_s": 0.0,
            "compute_s": 2.0,
            "end_s": 2.0,
            "status": np.repeat(["used", "late"], HALF // 2),
            "loss": 1.0,
            "steps": 10,
        }
    )
    speed = np.linspace(0.1, 0.2, 2 * HALF)
    clients = pd.DataFrame({"client": np.arange(2 * HALF), "samples": 1, "speed_s": speed})
    run_writer(tmp_path, "fedavg", 0, rows([3, 2, 1]), events, clients)
    return tmp_path


def shares(figure, part):
    return next(t for t in figure.data if t.meta["part"] == part).z


def test_each_cell_holds_the_share_of_its_clients(folder):
    figure = timeline(Results.read(folder), "fedavg", 0)
    # Forty bands of two clients each, 128 steps of 1/32 s.
    used, late = shares(figure, "used"), shares(figure, "late")
    assert used.shape == (40, 128)
    assert np.allclose(used[:10, :64], 100)
    assert np.allclose(late[10:20, :64], 100)
    assert used.sum() == pytest.approx(late.sum())
    assert used.sum() == pytest.approx(100 * 10 * 64)
    assert not shares(figure, "dropped").any()


def test_it_is_said_what_is_drawn(folder):
    meta = timeline(Results.read(folder), "fedavg", 0).layout.meta
    assert "80 clients" in meta["note"]
    assert "not recorded" in meta["blank"]


def test_available_clients_are_grey_and_absent_ones_blank(folder):
    # The slowest band (clients 78 and 79) is away for the last half second, one of them for one
    # second more.
    away = pd.DataFrame({"client": [78, 79], "start_s": [3.5, 2.5], "end_s": [4.0, 4.0]})
    away.to_parquet(folder / "fedavg-seed0" / "away.parquet", index=False)
    figure = timeline(Results.read(folder), "fedavg", 0)
    available = shares(figure, "available")
    assert np.allclose(available[:39], 100)
    assert np.allclose(available[39, :80], 100)
    assert np.allclose(available[39, 80:112], 50)
    assert np.allclose(available[39, 112:], 0)
    hovers = next(t for t in figure.data if t.meta["part"] == "used").customdata
    assert hovers[39, 96].tolist() == [0, 0, 50]
    assert hovers[15, 10].tolist() == [100, 0, 0]
    assert figure.layout.meta["blank"] == "away"


def test_only_clients_with_recorded_absences_count_as_available_or_away(folder):
    """Away is recorded for the smallest ids: here 0 and 1, the first band, away all the time."""
    away = pd.DataFrame({"client": [0, 1], "start_s": [0.0, 0.0], "end_s": [4.0, 4.0]})
    away.to_parquet(folder / "fedavg-seed0" / "away.parquet", index=False)
    available = shares(timeline(Results.read(folder), "fedavg", 0), "available")
    assert np.allclose(available[0], 0)
    assert np.allclose(available[1:], 100)
