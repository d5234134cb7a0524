import os
import pickle

import numpy as np
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.datasets.unpickle import plain_values

HELD = {b"data": np.arange(6, dtype=np.uint8).reshape(2, 3), b"labels": [3, 1], b"name": b"a"}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_arrays_texts_and_numbers_are_read(protocol):
    held = plain_values(pickle.dumps(HELD, protocol), "batch")
    assert list(held) == [b"data", b"labels", b"name"]
    np.testing.assert_array_equal(held[b"data"], HELD[b"data"])
    assert held[b"labels"] == [3, 1]


def test_texts_of_python_2_are_bytes():
    assert plain_values(b"(dp0\nS'labels'\np1\n(lp2\nI7\nas.", "batch") == {b"labels": [7]}


class Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_calls_a_function_is_refused_and_calls_nothing(tmp_path):
    made = tmp_path / "made"
    with pytest.raises(ScenarioError, match=r"^batch: is a pickle that calls 'posix.mkdir'"):
        plain_values(pickle.dumps(Touch(made)), "batch")
    assert not made.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no pickle",
        pickle.dumps(HELD)[:-9],
        pickle.dumps(np.array([{}, None])),  # objects
        pickle.dumps(np.arange(6), 5).replace(b"K\x06\x85", b"K\x07\x85"),  # 7 numbers of 6
    ],
)
def test_damaged_pickles_and_arrays_of_objects_are_refused(data):
    with pytest.raises(ScenarioError, match=r"^batch: cannot be read as a pickle"):
        plain_values(data, "batch")


@pytest.mark.parametrize("protocol", [2, 5])
def test_byte_order_and_order_of_axes_are_kept(protocol):
    rows = np.arange(24, dtype=">i4").reshape(2, 3, 4)
    for held in (rows, np.asfortranarray(rows), rows.transpose(1, 0, 2)):
        read = plain_values(pickle.dumps([held], protocol), "batch")[0]
        np.testing.assert_array_equal(read, held)
        assert read.dtype == held.dtype


def test_a_pickle_that_holds_itself_is_refused():
    held = []
    held.append(held)
    with pytest.raises(ScenarioError, match="RecursionError"):
        plain_values(pickle.dumps(held), "batch")
