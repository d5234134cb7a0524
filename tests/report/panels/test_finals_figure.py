"""Final values of each seed, and the verdict on them."""

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
        ({"a": [1, 2], "b": [3, 4]}, "a ends at loss 1 to 2: better over 2 seeds"),
        (
            {"a": [1, 2, 3], "b": [3, 4, 6], "c": [8, 9, 9]},
            "a ends at loss 1 to 3: better than all others over 3 seeds",
        ),
        (
            {"a": [1, 2, 3], "b": [1.5, 4, 3.2]},
            "a ends at loss 1 to 3: better with every seed over 3 seeds (about 7 seeds would "
            "separate them)",
        ),
        (
            {"a": [1, 4], "b": [3, 4], "c": [6, 9]},
            "a ends at loss 1 to 4: over 2 seeds better than c and undecided against b (about 11 "
            "seeds would separate them)",
        ),
        ({"a": [1, 4]}, "a ends at loss 1 to 4"),
    ],
)
def test_the_title_has_the_verdict_on_the_best(study, ends, said):
    assert finals_title(study(**ends), "loss") == said


def test_of_many_algorithms_the_best_are_drawn(study):
    results = study(**{f"a{k:02}": [100 - k] for k in range(MOST + 2)})
    assert list(final_values(results, "loss")) == [f"a{k:02}" for k in range(2, MOST + 2)]


def test_what_failed_has_no_final_value(study, run_writer, rows, tmp_path):
    run_writer(tmp_path, "lost", 0, rows([9, 1], "lost"), status="failed")
    assert list(final_values(study(a=[3]), "loss")) == ["a"]
