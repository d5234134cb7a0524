"""The commands `studies` and `note`."""

import pytest

import rayfed
from rayfed.core.notes import FILE, Notes
from rayfed.testing.studies import mixed


@pytest.fixture
def study(tmp_path):
    out = tmp_path / "results" / "first"
    rayfed.run(mixed(rounds=2), out=out, page=False)
    return out


def test_notes_are_written_printed_and_listed(command, study):
    noted = command("note", "results/first", "Too [b]steep", "--tag", "paper", "--tag", "old")
    assert noted == (0, "Too [b]steep\nold paper\n", "")
    assert command("note", "results/first", "--untag", "old")[1] == "Too [b]steep\npaper\n"
    assert Notes.read(study) == Notes("Too [b]steep", ("paper",))
    for arguments in ((), ("results", "--tag", "paper")):
        status, said, _ = command("studies", *arguments)
        assert status == 0
        assert "results/first  1 finished" in said
        assert "paper  Too [b]steep" in said
    assert command("studies", "--tag", "old")[1] == "no study with old\n"
    assert command("note", "results/first", "", "--archive")[1] == "paper\narchived\n"
    assert command("studies")[1] == "All studies are archived\n"
    assert "paper (archived)" in command("studies", "--archived")[1]
    assert command("note", "results/first", "--restore")[1] == "paper\n"


def test_what_is_wrong_is_one_line(command, study, tmp_path):
    for arguments, text in (
        (("note", "results"), "results: is no result folder; it holds no runs"),
        (("note", "results/first", "--tag", "a b"), "tags: found 'a b'; give words"),
        (("studies", "nowhere"), "nowhere: is no folder; give one with results below it"),
    ):
        status, _, errors = command(*arguments)
        assert (status, text in errors) == (2, True), errors
    (study / FILE).symlink_to(tmp_path / "mine")
    status, _, errors = command("note", "results/first", "x")
    assert status == 2
    assert "is a link" in errors
    assert not (tmp_path / "mine").exists()
