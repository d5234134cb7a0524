"""Cells of files: identities as they are written, numbers as numbers, and bad rows in one line."""

import gzip
from datetime import datetime
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.core.files import read_frame
from rayfed.core.frames import Form, of_arrow


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a CSV file and returns its columns, None for empty cells."""

    def cells(text, texts=(), encoding="utf-8", **form):
        path = tmp_path / "it.csv"
        path.write_bytes(text.encode(encoding))
        return held(read_frame(path, texts, Form(encoding=encoding, **form)))

    return cells


def held(frame):
    return {name: [None if pd.isna(c) else c for c in frame[name]] for name in frame}


WORDS = ["06037", "NA", "None", "null", "nan", "1e5", "TRUE", "12345678901234567890", "1.0", "inf"]


def test_texts_are_read_as_they_are_written(read):
    rows = "".join(f"{word},{word}\n" for word in WORDS)
    assert read(f"who,kind\n{rows}", {"who", "kind", "elsewhere"}) == {"who": WORDS, "kind": WORDS}


def test_only_cells_without_text_and_the_words_that_are_named_are_empty(read):
    text = 'who,x\n,1\n"",2\n ,3\n?,4\nNA,5\n-999,?\n'
    assert read(text, {"who"}, missing=("?", "-999")) == {
        "who": [None, None, None, None, "NA", None],
        "x": [1, 2, 3, 4, 5, None],
    }


def test_numbers_may_say_that_there_is_none(read):
    assert read("x,y\n1.5,NA\nNaN,2\nnull,\n") == {"x": [1.5, None, None], "y": [None, 2, None]}
    assert read("x,y\n-999,-999.0\n1,2\n", missing=("-999",)) == {"x": [None, 1], "y": [None, 2]}


def test_a_column_with_words_is_text_as_it_is_written(read):
    assert read("a,b\nNone,007\nMild,NA\n,x\n") == {
        "a": ["None", "Mild", None],
        "b": ["007", "NA", "x"],
    }
    assert read("a,b\nTrue,1\n,2\n") == {"a": [True, None], "b": [1, 2]}


def test_blanks_around_names_and_before_cells_are_layout(read):
    text = " a, b, b , c\n1, x, 2, y z \n"
    with pytest.raises(ScenarioError, match=r"it\.csv: has two columns 'c'; rename one"):
        read("c;d\n1;2\n", columns=("c", "c"))
    assert read(text) == {"a": [1], "b": ["x"], "b.1": [2], "c": ["y z "]}


def test_the_header_may_be_elsewhere(read):
    assert read("1\t2\n3\t4\n", columns=("a", "b")) == {"a": [1, 3], "b": [2, 4]}
    for text, line in {
        "1,2\n": r"line 1 has 2 cells, but columns has 3 names; give one for each",
        "a,b,c\n1,2,3\n": "line 1 is a header that holds these names; leave columns out",
        "1,2,3\n1,2,3,4\n": "line 2 has 4 cells, but columns has 3 names; drop what is too much",
    }.items():
        with pytest.raises(ScenarioError, match=line):
            read(text, columns=("a", "b", "c"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a,b\n1,2,3\n4,5,6\n", "line 2 has 3 cells, but the header has 2; drop what is too much"),
        ("a,b\n1,2,\n4,5,\n", "line 2 has 3 cells, but the header has 2"),
        ("a,b\n1,2\n3,4\n5,6,7\n", "line 4 has 3 cells, but the header has 2"),
        ("a,b\n1\n3,4,5\n", "line 3 has 3 cells, but the header has 2"),
    ],
)
def test_a_row_with_more_cells_than_the_header_is_named(read, text, line):
    with pytest.raises(ScenarioError, match=rf"it\.csv: {line}"):
        read(text)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("a  b\n 1.5   x\n2.5 y \n", {}),
        ("a b\n1.5 x\n2.5 y\n", {"separator": "blanks"}),
        ("a|b\n1.5|x\n2.5|y\n", {"separator": "|"}),
        ("a|b\n1,5|x\n2,5|y\n", {"separator": "|"}),
        ('a,b\n"1,5",x\n"2,5",y\n', {"decimal": ","}),
        ("a;b\n1,5;x\n2,5;y\n3.0;z\n", {"decimal": ","}),
    ],
)
def test_how_cells_and_numbers_are_written(read, text, form):
    cells = read(text, **form)
    assert cells["b"][:2] == ["x", "y"]
    assert cells["a"][:2] == ([1.5, 2.5] if "3.0" not in text else ["1,5", "2,5"])


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig", "latin-1"])
def test_other_encodings(read, encoding, tmp_path):
    assert read("größe,b\n1,é\n", {"b"}, encoding) == {"größe": [1], "b": ["é"]}
    (tmp_path / "it.csv").write_bytes(b"a,b\n1,Web \x96 Force\n")
    line = r"is not written in utf-8 \(byte 0x96\); save it as UTF-8, or give its encoding, such as"
    with pytest.raises(ScenarioError, match=line):
        read_frame(tmp_path / "it.csv")


def test_packed_files_are_read_alike(tmp_path):
    path = tmp_path / "it.csv.gz"
    path.write_bytes(gzip.compress(b"who x\n01 NA\n1 2\n"))
    assert held(read_frame(path, {"who"})) == {"who": ["01", "1"], "x": [None, 2]}


COLUMNS = {
    "ints": (pa.array([2**60 + 1, None, 7]), [str(2**60 + 1), None, "7"]),
    "unsigned": (pa.array([2**64 - 1, 0, 7], pa.uint64()), [str(2**64 - 1), "0", "7"]),
    "floats": (pa.array([1.0, None, 2.5]), ["1", None, "2.5"]),
    "gaps": (pa.array([1.0, float("nan"), 1e20]), ["1", None, "1" + 20 * "0"]),
    "decimals": (pa.array([Decimal("7.00"), None, Decimal("2.50")]), ["7", None, "2.5"]),
    "long decimals": (pa.array([Decimal(38 * "9"), Decimal(30)]), [38 * "9", "30"]),
    "words": (pa.array(["06037", "NA", ""]), ["06037", "NA", None]),
    "views": (pa.array(["06037", "NA", ""], pa.string_view()), ["06037", "NA", None]),
    "codes": (pa.array(["x", None, "x"]).dictionary_encode(), ["x", None, "x"]),
    "numbers": (pa.array([3, None, 1]).dictionary_encode(), ["3", None, "1"]),
    "truth": (pa.array([True, None, False]), ["True", None, "False"]),
    "days": (pa.array([datetime(2024, 3, 1).date()] * 3), ["2024-03-01"] * 3),
    "times": (
        pa.array([datetime(2024, 3, 1), datetime(2024, 3, 1, 7, 30), None], pa.timestamp("us")),
        ["2024-03-01 00:00:00", "2024-03-01 07:30:00", None],
    ),
    "keys": (pa.array([UUID(int=1).bytes] * 3, pa.uuid()), [str(UUID(int=1))] * 3),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_what_identities_of_other_types_are_called(tmp_path, name):
    column, expected = COLUMNS[name]
    path = tmp_path / "it.parquet"
    try:
        pq.write_table(pa.table({name: column}), path)
    except pa.ArrowNotImplementedError:
        pytest.skip("this pyarrow writes no such column")
    assert held(read_frame(path, {name})) == {name: expected}


def test_parquet_files_have_words_for_empty_cells_and_no_index(tmp_path):
    path = tmp_path / "it.parquet"
    frame = pd.DataFrame({" x": [1, -999], "z": [0.5, -999.0], "w": ["?", "v"], "i": [-999, 3]})
    frame.set_index(pd.Index([5, 3])).to_parquet(path)
    cells = {"x": [1, None], "z": [0.5, None], "w": [None, "v"], "i": [None, "3"]}
    assert held(read_frame(path, {"i"}, Form(missing=("?", "-999")))) == cells
    frame.set_index(pd.Index(["a", "b"], name="who")).to_parquet(path)
    assert held(read_frame(path, {"who"}))["who"] == ["a", "b"]


def test_cells_that_identify_nothing_and_names_that_are_there_twice():
    with pytest.raises(ScenarioError, match="here: column 'a', row 2 holds a bytes; turn it into"):
        of_arrow("here", pa.table({"a": [None, b"x"]}), {"a"}, Form())
    twice = pa.table([np.arange(2), np.arange(2)], names=["a", "a "])
    with pytest.raises(ScenarioError, match="here: has two columns 'a'; rename one of them"):
        of_arrow("here", twice, (), Form())
