"""Final values, seed by seed, and what is said of them."""

import pytest

from rayfed.report.panels.ends import MOST, final_values, finals, finals_title
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


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        (
            {"a": [1, 2], "b": [3, 4]},
            "The final loss of a, 1 to 2, is better than b's with every seed: it has 3 to 4",
        ),
        (
            {"a": [1, 2], "b": [3, 4], "c": [8, 9]},
            "The final loss of a, 1 to 2, is better than all others' with every seed: next is b "
            "with 3 to 4",
        ),
        (
            {"a": [1, 4], "b": [3, 4], "c": [8, 9]},
            "The final loss of a, 1 to 4, is the best on average, but its seeds overlap with those "
            "of b",
        ),
        ({"a": [1, 4]}, "a ends at loss 1 to 4"),
    ],
)
def test_whether_the_best_is_best_with_every_seed(study, ends, said):
    assert finals_title(study(**ends), "loss") == said


def test_of_many_algorithms_the_best_are_drawn(study):
    results = study(**{f"a{k:02}": [100 - k] for k in range(MOST + 2)})
    assert list(final_values(results, "loss")) == [f"a{k:02}" for k in range(2, MOST + 2)]


def test_what_failed_has_no_final_value(study, run_writer, rows, tmp_path):
    run_writer(tmp_path, "lost", 0, rows([9, 1], "lost"), status="failed")
    assert list(final_values(study(a=[3]), "loss")) == ["a"]
