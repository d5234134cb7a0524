"""The docstring reader: shared entries, inherited ones, sections that end."""

from rayfed.study.scenario.settings import described, summary


class Parent:
    """Says something.

    Parameters
    ----------
    a, b : int
        Two numbers
        on two lines.
    c : str
        Of the parent.
    """


class Child(Parent):
    """Says more, on one line.

    And more below it.

    Parameters
    ----------
    c : str
        Of the child.
    d : "x" or "y"

    Raises
    ------
    ValueError
        Never.
    """


class Plain:
    pass


def test_entries_are_joined_and_inherited():
    assert described(Child) == {
        "a": "Two numbers on two lines.",
        "b": "Two numbers on two lines.",
        "c": "Of the child.",
        "d": '"x" or "y"',
    }


def test_the_summary_is_the_first_line():
    assert summary(Child) == "Says more, on one line."


def test_nothing_to_read():
    assert described(Plain) == {}
    assert summary(Plain) == ""
