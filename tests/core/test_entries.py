"""Files are as they were written, or the reader says so."""

import os

import pytest

from rayfed.core import entries
from rayfed.core.entries import Damaged, Entry


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file that has been read, long after it was written."""
    monkeypatch.setattr(entries, "_SETTLED_NS", 0)
    path = tmp_path / "rounds.parquet"
    path.write_bytes(b"as written")
    Entry.of(path).check(path)
    return path


def test_a_file_is_read_again_only_after_it_was_written_again(file, monkeypatch):
    entry = Entry.of(file)
    with monkeypatch.context() as patch:
        patch.setattr(entries.Entry, "of", lambda *_, **__: pytest.fail("it was read again"))
        entry.check(file)
    before = file.stat()
    while file.stat().st_ctime_ns == before.st_ctime_ns:  # before Linux 6.13 it goes by ticks
        file.write_bytes(b"rewritten!")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # as if it were as old
    with pytest.raises(Damaged, match="is not what was written"):
        entry.check(file)
    file.unlink()
    with pytest.raises(Damaged, match="is missing"):
        entry.check(file)


def test_a_file_that_was_written_just_now_is_read_each_time(file, monkeypatch):
    monkeypatch.setattr(entries, "_SETTLED_NS", 10**18)
    read, of = [], Entry.of
    monkeypatch.setattr(entries.Entry, "of", lambda path, **_: read.append(path) or of(path))
    entry = of(file)
    for _ in range(2):
        entry.check(file)
    assert read == [file, file]


def test_a_file_of_another_size_is_not_read(file, monkeypatch):
    entry = Entry.of(file)
    os.truncate(file, 2**40)  # it takes no room
    monkeypatch.setattr(entries.hashlib, "file_digest", lambda *_: pytest.fail("it was read"))
    with pytest.raises(Damaged, match="has 1099511627776 bytes in place of 10"):
        entry.check(file)
