"""Notes in the folder of a study: written, read, and refused."""

import json

import pytest

from rayfed.core.errors import ScenarioError
from rayfed.core.notes import FILE, LONGEST, MOST_TAGS, Notes


def test_notes_are_read_as_written(tmp_path):
    assert Notes.read(tmp_path) == Notes()
    made = Notes.of("Too steep.\r\nTry lr 0.1. ", "b, a  a", True)
    assert made == Notes("Too steep.\nTry lr 0.1.", ("a", "b"), True)
    made.write(tmp_path)
    made.write(tmp_path)
    assert Notes.read(tmp_path) == made
    assert json.loads((tmp_path / FILE).read_text())["tags"] == ["a", "b"]
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize(
    ("text", "tags", "found"),
    [
        ("x" * (LONGEST + 1), [], "found 10,001 characters; give at most 10,000"),
        ("bell \a", [], "control characters"),
        ("", ["two words"], "'two words'; give words"),
        ("", ["x" * 41], "at most 40"),
        ("", ["half \ud800"], "give words"),
        ("", [f"t{k}" for k in range(MOST_TAGS + 1)], "found 21; give at most 20"),
        (3, [], "other values than texts"),
        ("", [3], "other values than texts"),
        ("", None, "other values than texts"),
    ],
)
def test_unfit_notes_are_refused(text, tags, found):
    with pytest.raises(ScenarioError, match=found):
        Notes.of(text, tags)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"tags": 3}', b"\xff", b"x" * 200_000])
def test_another_file_of_that_name_is_refused(tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(ScenarioError, match=r"notes.json: cannot be read .*; remove it"):
        Notes.read(tmp_path)


def test_a_link_is_neither_read_nor_written(tmp_path):
    target = tmp_path / "mine.json"
    target.write_text('{"text": "secret"}')
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / FILE).symlink_to(target)
    with pytest.raises(ScenarioError, match="is a link"):
        Notes.read(folder)
    with pytest.raises(OSError, match="is a link"):
        Notes("x").write(folder)
    assert target.read_text() == '{"text": "secret"}'
    (tmp_path / "alias").symlink_to(folder)
    with pytest.raises(OSError, match="is a link"):
        Notes("x").write(tmp_path / "alias")
