import pickle
from dataclasses import replace

import numpy as np
import pytest

from rayfed.datasets import IID, Linear
from rayfed.datasets.base import Table
from rayfed.datasets.sizes import UniformSizes
from rayfed.datasets.split import split
from rayfed.datasets.table import Rows, TableShards, centralised, server_test

# client 0 has rows 1 and 4, client 1 rows 0, 2, 3; row j is (j, 10 j), its target 100 j
TABLE = Table(
    np.array([[j, 10.0 * j] for j in range(5)]),
    100.0 * np.arange(5),
    client=np.array([1, 0, 1, 1, 0]),
)
BOTH = np.array([1, 0])


def shards(table=TABLE, *, dtype="float64", intercept=False, test=0.0, seed=0):
    rows = Rows.of(table, dtype=dtype, intercept=intercept)
    return TableShards.of(rows, split(table, None, None, seed, test), table.classes)


def many(sizes):
    client = np.repeat(np.arange(len(sizes)), sizes)
    n = len(client)
    return shards(Table(np.arange(1.0, n + 1)[:, None], np.arange(1.0, n + 1), client=client))


def test_rows_are_those_of_the_client_and_padding_is_zero():
    X, y = shards().rows(BOTH, 3)
    assert X.tolist() == [[[0, 0], [2, 20], [3, 30]], [[1, 10], [4, 40], [0, 0]]]
    assert y.tolist() == [[0, 200, 300], [100, 400, 0]]


def test_rows_without_padding_and_the_column_of_ones():
    X, y = shards(intercept=True, dtype="float32").rows(np.array([0]), 2)
    assert X.tolist() == [[[1, 10, 1], [4, 40, 1]]]
    assert X.dtype == y.dtype == np.float32


def test_padding_has_no_ones():
    X, _ = shards(intercept=True).rows(np.array([0]), 3)
    assert X[0, 2].tolist() == [0, 0, 0]


def test_take_chooses_rows_by_number():
    X, y = shards().take(BOTH, np.array([[2, 2], [0, 1]]))
    assert X[..., 0].tolist() == [[3, 3], [1, 4]]
    assert y.tolist() == [[300, 300], [100, 400]]


def test_labels_stay_integers_and_bytes_are_scaled_on_the_way():
    table = Table(np.array([[255], [51]], np.uint8), np.array([1, 0]), classes=2, scale=255.0)
    X, y = shards(replace(table, client=np.array([0, 0])), dtype="float32").rows(np.array([0]), 2)
    assert X.ravel().tolist() == [1.0, np.float32(0.2)]
    assert y.dtype == np.int64


def test_rows_are_flat_and_their_shape_is_known():
    pictures = replace(TABLE, shape=(1, 1, 2))
    assert shards(pictures, intercept=True).rows(BOTH, 3)[0].shape == (2, 3, 3)
    for made in (shards(pictures, intercept=True), centralised(shards(pictures))):
        assert replace(made, table=None).shape == (1, 1, 2)
    assert shards(intercept=True).shape == (2,)
    generated = Linear(features=3).shards(2, 0, dtype="float64", intercept=True, test=0.0)
    assert generated.shape == centralised(generated).shape == (3,)
    server = server_test(Table(*2 * [np.zeros(0)], test=pictures), dtype="float64", intercept=True)
    assert server is not None
    assert server.shape == (1, 1, 2)


def test_bytes_stay_bytes_until_they_are_taken():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (5, 6), dtype=np.uint8)
    by_channel = np.repeat([0.25, 0.5], 3)
    for scale, shift in ((255.0, 0.0), (63.0, 0.5), (255 * by_channel, 0.3 / by_channel)):
        table = replace(TABLE, X=pixels, scale=scale, shift=shift)
        lean, full = (shards(table, dtype="float32", intercept=ones) for ones in (False, True))
        assert lean.table is not None
        assert lean.table.X is pixels
        assert lean.dtype == np.float32
        X, y = lean.rows(BOTH, 3)
        with_ones, same = full.rows(BOTH, 3)
        assert X.dtype == np.float32
        np.testing.assert_array_equal(X, with_ones[..., :-1])
        np.testing.assert_array_equal(y, same)


def test_held_out_rows_are_the_other_ones():
    held = shards(test=0.4)  # round(0.4 * 2) = 1 of client 0, round(0.4 * 3) = 1 of client 1
    assert held.sizes(BOTH).tolist() == [2, 1]
    assert held.sizes(BOTH, "test").tolist() == [1, 1]
    assert (held.total(), held.total("test")) == (3, 2)
    _, train = held.rows(BOTH, 2)
    _, test = held.rows(BOTH, 1, "test")
    assert sorted([*train[0], *test[0]]) == [0, 200, 300]
    assert sorted([train[1, 0], test[1, 0]]) == [100, 400]


def test_a_part_without_rows_is_all_padding():
    X, y = shards().rows(BOTH, 2, "test")
    assert X.shape == (2, 2, 2)
    assert not X.any()
    assert not y.any()
    assert shards().rows(BOTH, 0, "test")[0].shape == (2, 0, 2)


def test_few_sizes_are_not_padded_and_many_are_rounded_up():
    few = many([1, 2, 3, 4, 5, 6, 7, 13, 13])
    assert few.widths(np.array([7, 0])).tolist() == [13, 1]
    lots = many([1, 2, 3, 4, 5, 6, 7, 13, 14])
    assert lots.widths(np.array([7, 0, 8])).tolist() == [16, 8, 16]
    assert lots.widths(np.array([7])).tolist() == [16]


def test_without_the_table_the_driver_still_knows_the_sizes():
    whole = shards(test=0.4)
    small = replace(whole, table=None)
    assert len(pickle.dumps(small)) < len(pickle.dumps(whole))
    assert small.sizes(BOTH).tolist() == [2, 1]
    assert small.widths(BOTH).tolist() == [2, 1]
    assert (small.clients, small.features, small.total("test")) == (2, 2, 2)
    with pytest.raises(ValueError, match="separated from their table"):
        small.rows(BOTH, 2)
    again = replace(pickle.loads(pickle.dumps(small)), table=whole.table)
    np.testing.assert_array_equal(again.rows(BOTH, 2)[0], whole.rows(BOTH, 2)[0])


def test_the_table_travels_without_copies():
    buffers: list[pickle.PickleBuffer] = []
    whole = shards()
    pickle.dumps(whole, protocol=5, buffer_callback=buffers.append)
    sizes = sorted(len(b.raw()) for b in buffers)
    assert whole.table is not None
    assert sizes[-1] == whole.table.X.nbytes
    assert whole.table.X.flags.c_contiguous


def test_shared_rows_may_be_read_only():
    whole = shards()
    assert whole.table is not None
    whole.table.X.flags.writeable = False
    whole.table.y.flags.writeable = False
    X, _ = whole.rows(BOTH, 3)
    X += 1.0  # what was asked for is the caller's own
    assert whole.rows(BOTH, 3)[0][0, 0, 0] == 0


def test_wrong_labels_count_from_the_other_end_and_stay_wrong_when_pooled():
    table = Table(np.arange(12.0)[:, None], np.arange(12) % 3, classes=3)
    rows = Rows.of(table, dtype="float64", intercept=False)
    made = TableShards.of(rows, split(table, IID(flip=0.5), 2, 1, 0.5), 3)
    wrong = int(np.flatnonzero(IID(flip=0.5).flips(2, 1))[0])
    ids = np.array([wrong, 1 - wrong])
    X, y = made.rows(ids, 4)
    assert y[0, :3].tolist() == (2 - X[0, :3, 0] % 3).tolist()
    assert y[1, :3].tolist() == (X[1, :3, 0] % 3).tolist()
    assert y[:, 3].tolist() == [0, 0]  # padding
    np.testing.assert_array_equal(made.take(ids, np.array([[1, 0], [2, 1]]))[1][0], y[0, [1, 0]])
    X, held_out = made.rows(ids, 3, "test")
    np.testing.assert_array_equal(held_out, X[..., 0] % 3)
    _, whole = centralised(made).rows(np.array([0]), 6)
    assert sorted(whole[0].tolist()) == sorted(y[:, :3].ravel().tolist())


def test_pooled_rows_are_one_client_in_the_order_of_the_clients():
    one = centralised(shards(test=0.4))
    assert one.clients == 1
    only = np.array([0])
    assert (one.sizes(only).tolist(), one.sizes(only, "test").tolist()) == ([3], [2])
    _, y = centralised(shards()).rows(only, 5)
    assert y.tolist() == [[100, 400, 0, 200, 300]]


def test_a_generator_is_pooled_by_making_its_rows():
    made = Linear(features=3, samples=UniformSizes(low=2, high=5)).shards(
        4, 0, dtype="float64", intercept=True, test=0.3, validation=0.4
    )
    one, only = centralised(made), np.array([0])
    for part in ("train", "test", "validation"):
        X, y = one.rows(only, one.total(part), part)
        own = [
            made.rows(np.array([i]), int(made.sizes(np.array([i]), part)[0]), part)
            for i in range(4)
        ]
        np.testing.assert_array_equal(X[0], np.concatenate([x[0] for x, _ in own]))
        np.testing.assert_array_equal(y[0], np.concatenate([t[0] for _, t in own]))


def test_the_server_s_test_rows_come_in_chunks():
    rows = Table(np.arange(1030.0)[:, None], np.arange(1030) % 3, classes=3)
    held = server_test(replace(rows, test=rows), dtype="float32", intercept=True)
    assert held is not None
    ids = np.arange(held.clients)
    assert held.sizes(ids, "test").tolist() == [512, 512, 6]
    assert held.sizes(ids).tolist() == [0, 0, 0]
    X, y = held.rows(np.array([2]), 6, "test")
    assert X[0, :, 0].tolist() == [1024, 1025, 1026, 1027, 1028, 1029]
    assert (X[0, :, 1] == 1).all()
    assert y[0].tolist() == [1, 2, 0, 1, 2, 0]


def test_no_test_rows_at_the_server():
    assert server_test(TABLE, dtype="float32", intercept=True) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("intercept", [False, True])
def test_bytes_become_numbers_of_the_dtype_in_every_row_that_is_read(dtype, intercept):
    pixels = np.array([[0, 51], [255, 102], [204, 0]], np.uint8)
    table = Table(pixels, np.arange(3.0), client=np.zeros(3, np.int64), scale=255.0)
    X, _ = shards(table, dtype=dtype, intercept=intercept).rows(np.array([0]), 3)
    assert X.dtype == dtype
    wanted = np.array([[0.0, 0.2], [1.0, 0.4], [0.8, 0.0]], dtype)
    np.testing.assert_allclose(X[0, :, :2], wanted, rtol=1e-6)
