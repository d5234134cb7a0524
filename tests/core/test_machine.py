"""Folders for sockets are private, and their paths short enough; caches are those of a core."""

import os
import platform
import socket
import stat
import subprocess
import sys
import tempfile
import types

import pytest

from rayfed.core import machine
from rayfed.core.machine import Caches, caches, cpus, keep_freed_memory, private_folder


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


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([(2, "1024K", "3"), (3, "32768K", "3"), (1, "32K", "1")], (2**20, 2**24)),
        ([(2, "512K", "1"), (3, "65536K", "0000000f,ffffffff")], (2**19, 2**26 // 36)),
        ([(2, "2048K", "1"), (3, "2048K", "ff")], (2**21, 2**21)),  # others compute there, too
        ([(2, "12288K", "f")], (12 * 2**20, 12 * 2**20)),
        ([(1, "32K", "1")], Caches()),
        ([(2, "what", "1")], Caches()),
        ([], Caches()),
    ],
)
def test_a_core_has_a_cache_of_its_own_and_a_share_of_the_last(listed, expected, tmp_path):
    cpu = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    rows = [*listed, (2, "9K", "1")] if listed else []
    for number, (level, size, shared) in enumerate(rows):
        folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{number}"
        folder.mkdir(parents=True)
        kind = "Instruction" if size == "9K" else "Unified"
        said = {"level": str(level), "type": kind, "size": size, "shared_cpu_map": shared}
        for name, text in said.items():
            (folder / name).write_text(f"{text}\n", encoding="ascii")
    assert caches(tmp_path) == expected


FAULTS = """
import resource, sys, threading
from rayfed.core.machine import keep_freed_memory
from rayfed.core.threads import own_process
{"give": str, "keep": keep_freed_memory, "own": own_process}[sys.argv[1]]()
def work():
    model = bytearray(b"x") * (48 << 20)  # in a thread the next array has no room beside it
    for round in range(6):
        if round == 1:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        block = bytearray(b"x") * (48 << 20)
        del block
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
if sys.argv[1] == "own":  # actors compute in a thread
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
else:
    work()
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or float(platform.libc_ver()[1]) < 2.36,
    reason="needs glibc 2.36, which keeps arrays beyond 32 MiB",
)
def test_what_is_freed_is_there_for_the_next_array():
    """48 MiB are 12,288 pages of 4 KiB; five times over they are faulted in again, or not."""
    given, kept, own = (
        int(subprocess.check_output([sys.executable, "-c", FAULTS, said]))
        for said in ("give", "keep", "own")
    )
    assert max(kept, own) < 1000
    assert max(kept, own) < given / 3


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (2**31, {-3: 2**28, -1: 2**28}),
        (2**25, {-3: 2**25, -1: 2**28}),  # glibc 2.34 and older ones
        (2**19, {}),  # and that of 32 bits
    ],
)
def test_an_older_glibc_keeps_what_it_can(most, expected, monkeypatch):
    """It takes no larger arrays; without them the other threshold would stop its own rule."""
    said = {}

    def mallopt(which, size):
        if which == -3 and size > most:
            return 0
        said[which] = size
        return 1

    library = types.SimpleNamespace(mallopt=mallopt)
    monkeypatch.setattr(machine.ctypes, "CDLL", lambda name: library)
    keep_freed_memory()
    assert said == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("max 100000", 4), ("250000 100000", 2), ("50000 100000", 1), ("900000 100000", 4), ("", 4),
        ("-1 100000", 4),
    ],
)  # fmt: skip
@pytest.mark.parametrize("version", [1, 2])
def test_cpus_are_those_that_the_process_is_tied_to_and_its_container_has(
    said, expected, version, tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 2, 5, 7}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    if version == 2:
        (tmp_path / "cpu.max").write_text(f"{said}\n")
    else:
        (tmp_path / "cpu").mkdir()
        for name, text in zip(("quota", "period"), said.split(), strict=False):
            (tmp_path / "cpu" / f"cpu.cfs_{name}_us").write_text(f"{text}\n")
    assert cpus(tmp_path) == expected
    assert cpus(tmp_path / "none") == 4
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cpus(tmp_path / "none") == 64
