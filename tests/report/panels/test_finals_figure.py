"""Final values of each seed, and the verdict on them."""

import pytest

from rayfed.report.panels.base import PageSource
from rayfed.report.panels.ends import MOST, FinalsPanel, final_values, finals
from rayfed.report.read.results import Results


@pytest.fixture
def study(tmp_path, run_writer, rows):
    """Return a function that writes runs with these last losses of each seed."""

    def write(**ends):
        for label, values in ends.items():
            for seed, end in enumerate(values):
                run_writer(tmp_path, label, seed, rows([9, end], label, seed))
        return Results.read(tmp_path)

    return write


def dots(figure, name, part):
    found = next(t for t in figure.data if t.meta == {"name": name, "part": part})
    return list(found.x)


def test_a_dot_a_seed_and_a_stroke_at_their_mean(study):
    figure = finals(study(a=[1, 2, 6], b=[4, 5, 6]))
    assert dots(figure, "a", "seeds") == [1, 2, 6]
    assert (dots(figure, "a", "mean"), dots(figure, "b", "mean")) == ([3], [5])
    assert figure.layout.xaxis.title.text == "final loss"


def test_of_many_algorithms_the_best_are_drawn(study):
    results = study(**{f"a{k:02}": [100 - k] for k in range(MOST + 2)})
    figure = finals(results, "loss")
    assert list(figure.layout.yaxis.ticktext) == [f"a{k:02}" for k in range(2, MOST + 2)]
    assert figure.layout.meta["note"] == f"The best {MOST} of {MOST + 2} algorithms are drawn."


def test_what_failed_has_no_final_value(study, run_writer, rows, tmp_path):
    run_writer(tmp_path, "lost", 0, rows([9, 1], "lost"), status="failed")
    assert list(final_values(study(a=[3]), "loss")) == ["a"]


def test_names_that_are_cut_alike_have_rows_of_their_own(tmp_path, run_writer, rows):
    names = [f"a method with a long name, lr={lr}, and a long end of it" for lr in (1, 2)]
    for name, end in zip(names, (3, 4), strict=True):
        run_writer(tmp_path, name, 0, rows([9, end], name), folder=f"run-{end}")
    figure = finals(Results.read(tmp_path), "loss")
    assert len(set(figure.layout.yaxis.ticktext)) == 1
    assert [list(t.y) for t in figure.data if t.meta["part"] == "mean"] == [[0], [1]]


def test_each_column_has_the_algorithms_with_values_of_it(tmp_path, run_writer, rows):
    """FedAvg has no models of clients' own, which the page shows first; its loss is drawn."""
    own = {"personal_accuracy": [0.1, 0.6, 0.9]}
    for seed in (0, 1):
        run_writer(tmp_path, "fedavg", seed, rows([9, 5, 4]))
        for name in ("ditto", "apfl"):
            run_writer(tmp_path, name, seed, rows([9, 5, 3], **own))
    panel = FinalsPanel(PageSource.of(Results.read(tmp_path)))
    assert panel.source.y == "personal_accuracy"
    first, loss = panel.shown["figure"], panel.payload["columns"]["loss"]["figure"]
    assert set(first["layout"]["yaxis"]["ticktext"]) == {"apfl", "ditto"}
    assert set(loss["layout"]["yaxis"]["ticktext"]) == {"apfl", "ditto", "fedavg"}
    assert not first["layout"]["meta"]["note"]
