"""Files in result folders are opened, replaced and deleted through no link."""

import os
import socket

import pytest

from rayfed.core.inside import APPENDED, NotRegular, check_tree, opened, real, replacing


@pytest.fixture
def mine(tmp_path):
    """A file of the user's, and a result folder of somebody's with a run."""
    (tmp_path / "theirs" / "run").mkdir(parents=True)
    (tmp_path / "mine").write_text("mine")
    return tmp_path / "mine"


@pytest.mark.parametrize("flags", [os.O_RDONLY, APPENDED, os.O_RDWR | os.O_CREAT])
def test_links_and_what_never_ends_are_not_opened(mine, tmp_path, flags):
    run = tmp_path / "theirs" / "run"
    (run / "link").symlink_to(mine)
    (run / "nowhere").symlink_to(tmp_path / "new")
    os.mkfifo(run / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(run / "socket"))
        for name in ("link", "nowhere"):
            with pytest.raises(NotRegular, match="is a link"):
                opened(run / name, flags)
        for name in ("pipe", "socket"):
            with pytest.raises(NotRegular, match="is not a regular file"):
                opened(run / name, flags)
    assert mine.read_text() == "mine"
    assert not (tmp_path / "new").exists()


def test_a_folder_on_the_way_may_not_be_a_link(mine, tmp_path):
    (tmp_path / "away").symlink_to(tmp_path)
    (tmp_path / "theirs" / "run" / "table").symlink_to(tmp_path)
    for place in (tmp_path / "away", tmp_path / "theirs" / "run" / "table"):
        with pytest.raises(NotRegular, match="is a link"):
            opened(place / "mine")
    assert real(tmp_path / "away") == tmp_path.resolve()
    with opened(real(tmp_path / "away") / "mine") as file:
        assert file.read() == b"mine"


def test_a_draft_is_written_through_no_link_and_leaves_nothing_behind(mine, tmp_path):
    draft = tmp_path / "theirs" / ".run.json.tmp"
    draft.symlink_to(mine)
    with replacing(tmp_path / "theirs" / "run.json") as file:
        file.write(b"new")
    assert (tmp_path / "theirs" / "run.json").read_bytes() == b"new"
    with pytest.raises(OSError, match="full"), replacing(tmp_path / "theirs" / "run.json"):
        raise OSError("full")
    assert (tmp_path / "theirs" / "run.json").read_bytes() == b"new"
    assert mine.read_text() == "mine"
    assert not os.path.lexists(draft)


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/"), os.mkfifo])
def test_a_tree_with_a_link_or_a_pipe_is_refused_by_its_name(mine, tmp_path, make):
    check_tree(tmp_path / "theirs")
    check_tree(tmp_path / "none")
    make(tmp_path / "theirs" / "run" / "odd")
    with pytest.raises(NotRegular, match="run/odd: is "):
        check_tree(tmp_path / "theirs")
