"""Shared memory: others read an array, also after the process that made it has dropped it."""

import importlib.util
import mmap
import os
import subprocess
import sys

import numpy as np
import pytest

from rayfed.core import shared
from rayfed.core.shared import SharedArray, read

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such memory")

READER = """
import sys
from rayfed.core.shared import Place, read
print(read(eval(sys.argv[1])).sum())
"""


@on_linux
@pytest.mark.parametrize("shape", [(3, 5), (0, 4), (7,)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_written_is_read(shape, dtype):
    made = SharedArray(shape, dtype)
    found = read(made.place)
    values = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    made.array[...] = values
    assert (found.shape, found.dtype) == (shape, np.dtype(dtype))
    assert found.tobytes() == values.tobytes()
    with pytest.raises(ValueError, match="read-only"):
        found[...] = 0


@on_linux
def test_another_process_reads_it():
    made = SharedArray((4, 2), np.float64)
    made.array[...] = 2.5
    words = [sys.executable, "-c", READER, repr(made.place)]
    found = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert float(found) == 4 * 2 * 2.5


@on_linux
def test_memory_that_was_dropped_stays_with_its_readers_alone():
    """Nor is another file taken for it that has got its number."""
    made = SharedArray((6,), np.float64)
    made.array[...] = 1.0
    place, found = made.place, read(made.place)
    del made
    assert not os.path.exists(f"/proc/self/fd/{place.number}")
    assert found.tolist() == [1.0] * 6
    with pytest.raises(OSError, match="No such file"):
        read(place)
    other = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(other, place.number)
        with pytest.raises(OSError, match="has dropped that memory"):
            read(place)
    finally:
        for number in {other, place.number}:
            os.close(number)


def test_other_systems_have_no_such_memory_and_import_the_module(monkeypatch):
    place = SharedArray((2,), np.float64).place if sys.platform == "linux" else None
    for name in ("MAP_POPULATE", "MAP_SHARED", "PROT_READ"):
        monkeypatch.delattr(mmap, name, raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    spec = importlib.util.spec_from_file_location("anew", shared.__file__)
    anew = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(anew)
    for call in (lambda: anew.SharedArray((2,), np.float64), lambda: anew.read(place)):
        with pytest.raises(OSError, match="only Linux"):
            call()
