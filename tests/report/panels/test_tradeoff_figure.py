"""What a better end costs: dots of settings, and the front of those that none beats at less."""

import pytest

from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.panels.base import PageSource
from rayfed.report.panels.tradeoff import TradeoffPanel, title, tradeoff
from rayfed.report.read.results import Results


def costing(rows, losses, label, seed=0, size=100, **columns):
    return rows(losses, label, seed, **columns).assign(bytes_up=size)


@pytest.fixture
def results(tmp_path, run_writer, rows):
    """Three rounds: "a" uploads 100 bytes in each, "b" 10, "c" 50; "c" ends worst of all."""
    for label, size, losses in (
        ("a", 100, [[8, 3, 2], [8, 3, 1]]),
        ("b", 10, [[8, 6, 5]]),
        ("c", 50, [[8, 7, 6]]),
    ):
        for seed, each in enumerate(losses):
            run_writer(tmp_path, label, seed, costing(rows, each, label, seed, size))
    return Results.read(tmp_path)


def part(figure, what):
    return [t for t in figure.data if t.meta["part"] == what and t.xaxis in (None, "x")]


def test_a_dot_is_the_mean_of_the_last_values_over_what_they_cost(results):
    figure = tradeoff(results)
    ends = {t.meta["name"]: (t.x[0], t.y[0]) for t in part(figure, "mean")}
    total = {name: x for name, (x, _) in ends.items()}
    assert total["a"] == pytest.approx(10 * total["b"]) == pytest.approx(2 * total["c"])
    assert {name: y for name, (_, y) in ends.items()} == {"a": 1.5, "b": 5, "c": 6}
    seeds = {t.meta["name"]: sorted(t.y) for t in part(figure, "seeds")}
    assert seeds["a"] == [1, 2]


def test_the_front_leaves_out_whom_another_beats_at_less(results):
    (front,) = part(tradeoff(results), "front")
    assert front.y.tolist() == [5, 1.5]
    assert title(results, "loss") == (
        "From b, which costs least, to a, which ends best: loss against bytes uploaded"
    )


def test_what_costs_the_same_has_no_axes(tmp_path, run_writer, rows):
    for label, last in (("a", 2), ("b", 3)):
        run_writer(tmp_path, label, 0, costing(rows, [8, 4, last], label))
    found = Results.read(tmp_path)
    with pytest.raises(NothingToDraw):
        tradeoff(found)
    assert not TradeoffPanel(PageSource(found)).applies


def test_epsilon_has_axes_of_its_own_with_the_private_alone(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, costing(rows, [8, 4, 2], "a", epsilon=[0, 1, 2]))
    run_writer(tmp_path, "b", 0, costing(rows, [8, 4, 3], "b", epsilon=[0, 2, 4]))
    run_writer(tmp_path, "c", 0, costing(rows, [8, 4, 1], "c"))
    found = Results.read(tmp_path)
    figure = tradeoff(found)
    assert figure.layout.xaxis.title.text == "privacy spent (epsilon)"
    assert {t.meta["name"]: list(t.x) for t in part(figure, "mean")} == {"a": [2], "b": [4]}
    (front,) = part(figure, "front")
    assert front.y.tolist() == [2]
    assert TradeoffPanel(PageSource(found)).applies
