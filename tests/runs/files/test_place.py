"""Of which URL a result folder is the local copy."""

import json

import pytest

from rayfed.runs.files.place import NOTE, home_of, read_note

URL = "s3://bucket/study"


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def noted(home, url=URL, copy="study"):
    (home / copy).mkdir(parents=True)
    (home / NOTE).write_text(json.dumps({"url": url, "copy": copy}))
    return home / copy


def test_a_note_counts_where_copies_of_its_url_are_kept(tmp_path):
    assert home_of(URL).is_relative_to(tmp_path / "cache")
    assert read_note(noted(home_of(URL)))["url"] == URL


def test_a_note_that_somebody_left_elsewhere_is_none(tmp_path):
    assert read_note(noted(tmp_path / "archive")) == {}
    assert read_note(noted(home_of("s3://other"))) == {}  # of another URL


def test_a_folder_that_is_linked_to_the_cache_takes_no_note_along(tmp_path):
    (tmp_path / "study").symlink_to(noted(home_of(URL)))
    (tmp_path / NOTE).symlink_to(home_of(URL) / NOTE)
    assert read_note(tmp_path / "study") == {}
