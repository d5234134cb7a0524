"""Shared memory: others read an array, also after the process that made it has dropped it."""

import os
import subprocess
import sys

import numpy as np
import pytest

from rayfed.core.shared import SharedArray, read

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such memory")

READER = """
import sys
from rayfed.core.shared import Place, read
print(read(eval(sys.argv[1])).sum())
"""


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


def test_another_process_reads_it():
    made = SharedArray((4, 2), np.float64)
    made.array[...] = 2.5
    words = [sys.executable, "-c", READER, repr(made.place)]
    found = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert float(found) == 4 * 2 * 2.5


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
