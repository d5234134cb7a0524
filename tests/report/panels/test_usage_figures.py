"""Figures of clients' time, of what was in vain, of energy, round times and staleness."""

import numpy as np
import pandas as pd
import pytest

from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.panels import usage
from rayfed.report.panels.base import PageSource
from rayfed.report.read.results import Results


def events_of(rows, **columns):
    names = ["round", "client", "start_s", "compute_s", "end_s", "status"]
    return pd.DataFrame(rows, columns=names).assign(ask=0, loss=1.0, steps=1, **columns)


def joules(every, radio):
    return {"energy_j": every, "energy_radio_j": radio, "energy_wasted_j": 0.0, "carbon_g": 0.5}


def clients_of(count, **columns):
    ids = np.arange(count)
    frame = pd.DataFrame({"client": ids, "samples": 1, "speed_s": 1.0 + ids, "selected": 1})
    return frame.assign(used=1, **columns)


WHOLE = [
    (1, 0, 0.0, 1.0, 1.0, "used"),
    (1, 1, 0.0, 2.0, 2.0, "used"),
    (2, 0, 2.0, 1.0, 3.0, "used"),
    (2, 1, 2.0, 3.0, 5.0, "late"),
]
"""Two rounds of 2 s without a network: client 0 works for half of them, client 1 always."""


@pytest.fixture
def folder(tmp_path, run_writer, rows):
    """Seeds of which the second wastes nothing, an asynchronous algorithm and a baseline."""
    better = [*WHOLE[:3], (2, 1, 2.0, 2.0, 4.0, "used")]
    clients = clients_of(2)
    wasted = {"bytes_wasted": [0, 0, 250], **joules([np.nan, 9, 12], [np.nan, 1, 2])}
    none = {"bytes_wasted": 0, **joules([0, 9, 10], [0, 1, 4])}
    run_writer(tmp_path, "fedavg", 0, rows([4, 2, 1], **wasted), events_of(WHOLE), clients)
    run_writer(tmp_path, "fedavg", 1, rows([4, 2, 1], **none), events_of(better), clients)
    versions = {"version": 0, "staleness": [0, 1, 1, -1]}
    run_writer(
        tmp_path, "fedasync", 0, rows([4, 2, 1], in_flight=[0.0, 2.0, 2.0], time_s=[0.0, 1.0, 4.0]),
        events_of(WHOLE, **versions), clients_of(2),
    )  # fmt: skip
    run_writer(tmp_path, "centralised", 0, rows([4, 2, 1]), events_of(WHOLE), clients)
    return tmp_path


def bars(figure):
    return {t.meta["part"]: t.x.tolist() for t in figure.data if t.type == "bar"}


def test_bars_of_algorithms_are_means_over_seeds(folder):
    figure = usage.utilisation(Results.read(folder))
    found = bars(figure)
    assert list(figure.layout.yaxis.ticktext) == ["fedavg", "fedasync"]
    assert found["computing"][0] == 75
    assert found["finished"][0] == 25
    assert "away" not in found  # it was not recorded
    np.testing.assert_allclose(np.sum(list(found.values()), axis=0), 100)


def test_bars_of_clients_add_up_and_the_fastest_is_at_the_top(folder):
    figure = usage.utilisation_of_clients(Results.read(folder), "fedavg", 0)
    assert bars(figure)["computing"] == [50, 100]
    assert bars(figure)["finished"] == [50, 0]
    assert list(figure.layout.yaxis.ticktext) == ["0", "1"]
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]
    with pytest.raises(NothingToDraw, match="the run of centralised, seed 0, has no record of"):
        usage.utilisation_of_clients(Results.read(folder), "centralised", 0)


def test_many_clients_are_tenths(tmp_path, run_writer, rows):
    """Of 125 clients the 25 slowest compute all the time, of 130 there are."""
    events = events_of([(1, k, 0.0, 2.0 if k >= 100 else 1.0, 2.0, "used") for k in range(125)])
    scenario = {"scenario": {"clients": {"count": 130}}}
    run_writer(tmp_path, "fedavg", 0, rows([2, 1]), events, clients_of(125), **scenario)
    results = Results.read(tmp_path)
    figure = usage.utilisation_of_clients(results, "fedavg", 0)
    assert bars(figure)["computing"] == [50] * 8 + [100] * 2
    said = "125 clients are taken together in tenths of equal speed rank. 5 of 130 clients were"
    assert figure.layout.meta["note"].startswith(said)


def test_what_was_in_vain(folder):
    """2 of 7 s with seed 0, as client 1 stops at the end of the run; 250 of 1,000 bytes."""
    results = Results.read(folder)
    figure = usage.waste(results)
    found = bars(figure)
    # Seeds: 2 of 6 s late, and 0 of 6 s.
    assert found["late"][0] == pytest.approx(100 * 1 / 6, abs=1e-6)
    assert found["dropped"] == found["unfinished"] == [0, 0]
    assert found["bytes"][0] == pytest.approx(12.5)


def test_energy_is_that_of_computing_and_of_transfers(folder):
    """Seeds of 21 and 19 J, of which transfers take 3 and 5 J."""
    figure = usage.energy(Results.read(folder))
    found = bars(figure)
    assert (found["computing"], found["communicating"]) == ([16], [4])
    (text,) = [t.text[0] for t in figure.data if t.type != "bar" and t.text]
    assert text.strip().startswith("20 J, 0")
    assert text.endswith("1.5 g CO2e")


def test_lines_rise_to_all_rounds_and_replies(folder):
    results = Results.read(folder)
    lines = {trace.name: trace for trace in usage.round_times(results).data}
    assert set(lines) == {"fedavg", "fedasync"}
    assert lines["fedasync"].x.tolist() == [1, 1, 3]
    assert lines["fedasync"].y.tolist() == [0, 50, 100]
    (line,) = usage.staleness(results).data
    assert line.x.tolist() == [0, 0, 1, 1]
    np.testing.assert_allclose(line.y, [0, 100 / 3, 200 / 3, 100], atol=1e-3)
    assert list(usage.StalenessPanel(PageSource(results)).names) == ["fedasync"]


PANELS = (
    usage.UtilisationPanel, usage.ClientsUtilisationPanel, usage.WastePanel,
    usage.EnergyPanel, usage.RoundTimesPanel, usage.StalenessPanel,
)  # fmt: skip


def test_old_folders_without_columns_still_have_their_panels(folder):
    assert all(panel(PageSource(Results.read(folder))).applies for panel in PANELS)
    for path in folder.glob("*/rounds.parquet/*.parquet"):
        pd.read_parquet(path).drop(
            columns=["bytes_wasted", *joules(0, 0)], errors="ignore"
        ).to_parquet(path)
    source = PageSource(Results.read(folder))
    for panel in PANELS:
        if panel is not usage.EnergyPanel:
            assert panel(source).applies
            assert panel(source).payload
    assert not usage.EnergyPanel(source).applies


def test_nothing_recorded_is_nothing_drawn(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([2, 1], time_s=[0.0, 0.0]))
    results = Results.read(tmp_path)
    assert not any(panel(PageSource(results)).applies for panel in PANELS)
    drawn = (
        usage.utilisation,
        usage.waste,
        usage.energy,
        usage.round_times,
        usage.staleness,
    )
    for draw in drawn:
        with pytest.raises(ValueError, match="no "):
            draw(results)
