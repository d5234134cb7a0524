"""What a column says of itself."""

import pytest

from rayfed.core.columns import Column, by_name, names


def test_a_name_is_enough():
    assert Column("momentum_norm") == Column(
        "momentum_norm", "momentum norm", unit="", better=None, about="", dtype="float64"
    )


def test_the_label_is_the_title_with_its_unit():
    assert Column("wait_s", "longest wait", "s").label == "longest wait (s)"
    assert Column("loss").label == "loss"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": "a", "better": "less"}, "a: better is 'lower', 'higher' or None, not less"),
        ({"name": "a", "dtype": "float32"}, "a: dtype is one of float64, .*, not float32"),
    ],
)
def test_a_declaration_that_means_nothing_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        Column(**wrong)


def test_of_two_columns_with_one_name_the_first_counts():
    first, second = Column("a", "first"), Column("a", "second")
    assert by_name([first, Column("b"), second]) == {"a": first, "b": Column("b")}


@pytest.mark.parametrize("use", [names, by_name])
def test_a_bare_name_is_refused_with_what_to_write(use):
    with pytest.raises(TypeError, match=r"'mood' is not a Column; declare it as Column\('mood'\)"):
        use(["mood"])
