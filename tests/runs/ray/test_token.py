"""Nobody else reads the token that Ray asks for."""

import stat
from pathlib import Path

import pytest

from rayfed.core.errors import RayfedError
from rayfed.runs.ray.token import keep_private


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_token_is_made_for_this_user_alone_and_kept(home):
    keep_private()
    token = home / ".ray" / "auth_token"
    assert (mode(token), mode(token.parent)) == (0o600, 0o700)
    first = token.read_text()
    assert len(bytes.fromhex(first)) == 32
    assert [path.name for path in token.parent.iterdir()] == ["auth_token"]
    keep_private()
    assert token.read_text() == first


def test_a_token_that_was_open_is_closed(home, caplog):
    token = home / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text("ab" * 32)
    token.chmod(0o644)  # as Ray writes it
    keep_private()
    assert (mode(token), token.read_text()) == (0o600, "ab" * 32)
    assert f"{token} was open to others" in caplog.text


def test_the_file_that_is_given_is_looked_at(home, monkeypatch):
    given = home / "given"
    given.write_text("ab" * 32)
    given.chmod(0o640)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(given))
    keep_private()
    assert mode(given) == 0o600
    assert not (home / ".ray").exists()


def test_what_cannot_be_kept_is_one_line(home):
    (home / ".ray").write_text("")
    with pytest.raises(RayfedError, match=r"^Ray's token cannot be kept from others \(.*\); set"):
        keep_private()
