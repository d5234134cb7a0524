"""Seals of texts: this user's alone."""

import os
import stat

import pytest

from rayfed.core import seals

pytestmark = pytest.mark.guard


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def test_a_text_is_sealed_by_this_user_alone(state, monkeypatch, tmp_path):
    sealed = seals.seal("text")
    assert seals.is_sealed("text", sealed)
    assert not seals.is_sealed("texts", sealed)
    for wrong in (None, 3, "", "ß", sealed[:-1], [sealed]):
        assert not seals.is_sealed("text", wrong)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of another"))
    assert not seals.is_sealed("text", sealed)


def test_the_key_is_private(state):
    seals.seal("text")
    key = state / "rayfed" / "key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    assert len(set(key.read_bytes())) > 16
    assert [path.name for path in key.parent.iterdir()] == ["key"]


def test_a_key_that_others_may_have_read_or_written_is_not_used(state):
    sealed = seals.seal("text")
    key = state / "rayfed" / "key"
    for mode in (0o644, 0o660):
        key.chmod(mode)
        assert not seals.is_sealed("text", sealed)
    key.chmod(0o600)
    assert seals.is_sealed("text", sealed)
    key.write_bytes(b"short")
    assert not seals.is_sealed("text", sealed)


def test_without_a_place_for_it_a_key_lasts_as_long_as_the_process(state):
    (state / "rayfed").write_text("")
    sealed = seals.seal("text")
    assert seals.is_sealed("text", sealed)
    seals._of_process.cache_clear()
    assert not seals.is_sealed("text", sealed)


def test_a_relative_folder_is_not_taken(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(tmp_path))
    seals.seal("text")
    assert (tmp_path / ".local" / "state" / "rayfed" / "key").is_file()
    assert not os.path.exists("state")
