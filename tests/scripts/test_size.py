"""Lines of code, counted by hand."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.size import size, sizes

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("", 0),
        ("# only a comment\n\n", 0),
        ('"""A document,\n\nthree lines."""\n', 0),
        ('x = """a value,\nnot a document"""\n', 2),
        ("x = 1  # why\n", 1),
        ("f(\n    1,\n\n    # why\n    2,\n)\n", 4),
        ('def f():\n    """Say."""\n    return 1\n', 2),
        ('x = 1; y = 2\n"""What they are."""\n', 1),
    ],
)
def test_lines_with_a_token_that_is_no_document(source, lines):
    assert size(source) == lines


def test_folders_add_up(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name, count in (("x.py", 1), ("a/y.py", 2), ("a/b/z.py", 3)):
        (tmp_path / name).write_text("n = 1\n" * count)
    assert sizes(tmp_path) == {".": 1, "a": 5}
    assert sizes(tmp_path, deep=2) == {".": 1, "a": 2, "a/b": 3}


def test_the_command_prints_a_table(tmp_path):
    (tmp_path / "x.py").write_text("n = 1\n")
    command = [sys.executable, "scripts/size.py", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stdout == "      1  .\n      1  in all, 1 files\n"
