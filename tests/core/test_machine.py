"""Folders for sockets are private, and their paths short enough."""

import socket
import stat
import tempfile

from rayfed.core.machine import private_folder


def test_a_socket_fits_wherever_temporary_files_are(tmp_path, monkeypatch):
    long = tmp_path / ("long" * 20)
    long.mkdir()
    for place in (None, str(long)):
        monkeypatch.setattr(tempfile, "tempdir", place)
        folder = private_folder("wire")
        try:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(str(folder / "wire"))
            (folder / "wire").unlink()
        finally:
            folder.rmdir()
        assert str(folder).startswith(tempfile.gettempdir() if place is None else "/tmp/rayfed-")


def test_the_folder_is_where_temporary_files_are_if_it_fits(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", "/var/tmp")
    folder = private_folder("wire")
    folder.rmdir()
    assert folder.parent.as_posix() == "/var/tmp"
