import pickle

import numpy as np
import pytest

from rayfed.core.flat import SMALL, NamedArrays, flat, restored

ARRAYS = {
    "floats": np.array([0.1, -0.0, np.nan]),
    "single": np.float32([[1, 2], [3, 4]]),
    "columns first": np.arange(6).reshape(2, 3).T,
    "number": np.array(3.0),
    "nothing": np.empty((0, 3), np.int64),
    "flags": np.array([True, False]),
    "other order of bytes": np.arange(3, dtype=">i4"),
    "texts": np.array(["a", "bc"]),
    "dates": np.array(["2026-11-22"], "datetime64[D]"),
    "fields": np.zeros(2, [("a", "i4")]),
    "long": np.arange(SMALL),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_arrive_as_they_were(name):
    array = ARRAYS[name]
    got = pickle.loads(pickle.dumps(NamedArrays(x=array), 5))
    assert type(got) is dict
    assert (got["x"].dtype, got["x"].shape) == (array.dtype, array.shape)
    assert got["x"].tobytes() == array.tobytes()
    assert got["x"].flags.c_contiguous == array.flags.c_contiguous
    got["x"][...] = got["x"]  # it can be written to
    assert restored(flat(array)).tobytes() == array.tobytes()


def test_small_arrays_alone_are_made_plain():
    plain = {name for name, array in ARRAYS.items() if isinstance(flat(array), tuple)}
    assert plain == {"floats", "single", "number", "nothing", "flags"}


@pytest.mark.parametrize("value", [None, 3, "text", np.float64(0.5)])
def test_what_is_no_array_stays_as_it_is(value):
    assert flat(value) is value
    assert restored(value) is value
