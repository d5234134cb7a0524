"""The scatter plot of runs: its dots, axes and key."""

from dataclasses import replace

import pytest

import rayfed
from rayfed.core.notes import Notes
from rayfed.dashboard.catalogue import Catalogue
from rayfed.dashboard.overview import Goal, Layout, Overview
from rayfed.dashboard.scatter import MOST_KEYS, Scatter


@pytest.fixture
def drawn(folder):
    """Draw the studies of the folder in a layout."""

    def draw(**layout):
        catalogue = Catalogue([folder])
        catalogue.look()
        return Scatter(Overview.of(catalogue, 0.0, Goal(), Layout(**layout)))

    return draw


def test_each_run_is_a_dot(drawn):
    scatter = drawn()
    (trace,) = scatter.figure().data
    runs = {row.run.key: row for row in scatter.overview.runs}
    assert set(trace.customdata) == set(runs)
    for key, x, y in zip(trace.customdata, trace.x, trace.y, strict=True):
        assert (x, y) == (runs[key].run.last["time_s"], runs[key].best("loss"))
    assert scatter.key == []  # of one algorithm


def test_groups_have_colours_and_symbols_of_their_own(drawn):
    scatter = drawn(group="seed", x="seed")
    traces = scatter.figure().data
    assert [set(trace.x) for trace in traces] == [{3.0}, {4.0}]
    assert len({trace.marker.color for trace in traces}) == 2
    assert len({trace.marker.symbol for trace in traces}) == 2
    assert [(symbol, text) for _, symbol, text in scatter.key] == [("●", "3"), ("◆", "4")]


def test_axes_are_of_numbers_dates_or_names(drawn, folder):
    Notes(tags=("<b>",)).write(folder / "first")
    layout = drawn(x="started", y="study").figure().layout
    assert (layout.xaxis.type, layout.yaxis.type) == ("date", "category")
    layout = drawn(x="rounds").figure().layout
    assert (layout.xaxis.type, layout.xaxis.title.text) == ("linear", "rounds")
    assert drawn(x="duration").figure().layout.xaxis.title.text == "duration (s)"
    (trace,) = drawn(x="tags").figure().data
    assert set(trace.x) == {"&lt;b>"}  # and no dot of a run without
    assert len(trace.x) == 2


def test_axes_span_the_dots_alone(drawn, folder):
    """A run without a value of one column does not widen the axis of the other."""
    losses = rayfed.load(folder / "first").rounds.groupby("seed")["loss"].min()
    scatter = drawn(x="time to target")
    scatter.overview = replace(
        scatter.overview,
        runs=tuple(replace(row, target=losses.min() + 1e-9) for row in scatter.overview.runs),
    )
    figure = Scatter(scatter.overview).figure()
    (y,) = (value for trace in figure.data for value in trace.y)
    assert sum(figure.layout.yaxis.range) / 2 == pytest.approx(y)


def test_a_long_key_is_cut_and_counted(drawn):
    scatter = drawn()
    style = next(iter(scatter.styles.values()))
    scatter.styles = dict.fromkeys(map(str, range(MOST_KEYS + 3)), style)
    assert (len(scatter.key), scatter.more) == (MOST_KEYS, 3)
