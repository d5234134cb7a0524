"""Final values of each seed, and the verdict on them."""

import pytest

from rayfed.report.panels.ends import MOST, final_values, finals
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
    assert list(final_values(results, "loss")) == [f"a{k:02}" for k in range(2, MOST + 2)]


def test_what_failed_has_no_final_value(study, run_writer, rows, tmp_path):
    run_writer(tmp_path, "lost", 0, rows([9, 1], "lost"), status="failed")
    assert list(final_values(study(a=[3]), "loss")) == ["a"]
