"""Clients on an axis: by their names, which are neither cut off nor lie over each other."""

import numpy as np
import pytest

from rayfed.report.figures.clients import clients_down, named
from rayfed.report.figures.style import canvas
from rayfed.report.panels.timeline import timeline
from rayfed.report.panels.usage import utilisation_of_clients
from rayfed.report.read.results import Results

LONG = "Llanfairpwllgwyngyll practice"


def test_names_get_room_and_long_ones_are_cut_in_the_middle():
    axis = clients_down(figure := canvas(200), ["north", LONG], 2) or figure.layout.yaxis
    assert axis.automargin
    assert axis.ticktext == ("north", "Llanfair… practice")


def test_across_long_names_are_turned_and_short_ids_are_not():
    assert named(["north", "south"], across=True)["tickangle"] == -90
    assert "tickangle" not in named([1, 22, 333], across=True)
    assert "tickangle" not in named(["north", "south"])


def test_an_axis_of_no_clients():
    assert named([])["ticktext"] == []


@pytest.fixture
def towns(tmp_path, study_writer):
    """A run of 40 clients, more than ids would be shown of, all of which have names."""
    study_writer(tmp_path, ("fedavg",), seeds=1, rounds=12, clients=40, cohort=10)
    path = next(tmp_path.glob("*/clients.parquet"))
    clients = Results.read(tmp_path).runs_found[0].clients
    clients.assign(name=[f"town {k}" for k in clients["client"]]).to_parquet(path, index=False)
    return Results.read(tmp_path)


@pytest.mark.parametrize("draw", [timeline, utilisation_of_clients])
def test_where_rows_have_room_every_name_is_shown(towns, draw):
    axis = draw(towns, "fedavg", 0).layout.yaxis
    assert len(axis.ticktext) > 30
    assert set(axis.ticktext) <= {f"town {k}" for k in range(40)}
    assert axis.automargin
    assert axis.showticklabels is not False


def test_sentences_and_hovers_say_names(towns):
    bars = utilisation_of_clients(towns, "fedavg", 0).data
    assert all(name.startswith("town ") for name in np.ravel(bars[0].customdata))
