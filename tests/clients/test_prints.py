"""What client functions print gets a label, line by line."""

import io
from contextlib import redirect_stdout

import pytest

from rayfed.clients.prints import MOST, Captured, Labelled


def test_every_line_has_its_label_also_one_printed_in_pieces_or_without_an_end():
    out = io.StringIO()
    with redirect_stdout(out), Labelled().labelled("client 3"):
        print("a", "b", sep="\n")
        print("c", end="")
        print("d")
        print("e", end="")
    assert out.getvalue() == "".join(f"client 3: {text}\n" for text in ("a", "b", "cd", "e"))


def test_what_is_printed_before_an_error_is_shown():
    prints = Captured()

    def half():
        print("last words", end="")
        raise KeyError

    with pytest.raises(KeyError), prints.labelled("x"):
        half()
    assert prints.captured == ("x: last words",)


def test_of_many_lines_the_number_is_said():
    prints = Captured()
    with prints.labelled("x"):
        print("\n" * (MOST + 1))
    assert len(prints.captured) == MOST + 1
    assert prints.captured[-1] == "... and 2 more lines"
