"""What a better end costs: dots of settings, and the front of those that none beats at less."""

import pytest

from rayfed.report.figures.marks import NothingToDraw
from rayfed.report.panels.against import TradeoffPanel, tradeoff
from rayfed.report.panels.base import PageSource
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


def test_what_it_cost_is_what_it_cost_until_the_last_evaluation(tmp_path, run_writer, rows):
    nan = float("nan")
    for label, losses in (("a", [8, 3, nan, nan]), ("b", [8, 4, nan, 2])):
        run_writer(tmp_path, label, 0, costing(rows, losses, label))
    ends = {t.meta["name"]: t.x[0] for t in part(tradeoff(Results.read(tmp_path)), "mean")}
    assert ends["b"] == pytest.approx(2 * ends["a"])


def test_of_accuracies_the_higher_is_better(tmp_path, run_writer, rows):
    for label, size, last in (("a", 100, 0.9), ("b", 10, 0.5), ("c", 50, 0.4)):
        made = costing(rows, [8, 3], label, 0, size, accuracy=[0.1, last])
        run_writer(tmp_path, label, 0, made)
    found = Results.read(tmp_path)
    (front,) = part(tradeoff(found, "accuracy"), "front")
    assert front.y.tolist() == [0.5, 0.9]


def test_a_setting_that_failed_is_not_on_the_front(results, tmp_path, run_writer, rows):
    made = costing(rows, [8, 0.1], "d", 0, 1)
    run_writer(tmp_path, "d", 0, made, status="failed", reason="round 2: gone")
    assert {t.meta["name"] for t in part(tradeoff(Results.read(tmp_path)), "mean")} == {*"abc"}


def test_costs_that_differ_by_a_twentieth_are_one(tmp_path, run_writer, rows):
    for size, drawn in ((104, False), (106, True)):
        study = tmp_path / str(size)
        run_writer(study, "a", 0, costing(rows, [8, 2], "a", 0, 100))
        run_writer(study, "b", 0, costing(rows, [8, 3], "b", 0, size))
        if drawn:
            assert len(part(tradeoff(Results.read(study)), "mean")) == 2
        else:
            with pytest.raises(NothingToDraw):
                tradeoff(Results.read(study))


def test_more_uploads_of_one_size_are_no_trade(tmp_path, run_writer, rows):
    """Twice the bytes for twice the clients: nothing is compressed, and the page leaves it out."""
    for label, count in (("a", 5), ("b", 10)):
        made = costing(rows, [8, 4, 2], label, 0, [0, 20 * count, 20 * count])
        run_writer(tmp_path, label, 0, made.assign(participants=[0, count, count]))
    assert not TradeoffPanel(PageSource(Results.read(tmp_path))).applies
