import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

from rayfed.clients.request import Partial, Request

COUNT = 700  # clients; the arrays of all of them are not small


def request(count):
    ids = np.arange(0, 3 * count, 3)
    return Request(
        "algorithm", "train", {"x": 30, "n": 1}, ids, ids / 7, ids % 5, ids % 2, 4, 1,
        vectors=True, sleep_s=ids / 3, classes=[(1, 2)], plain=("x",), draw=ids + 9, rows=ids % 3,
        data_round=2, sums=False,
    )  # fmt: skip


def same(one, other):
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


@pytest.mark.parametrize("sent", [
    request(3), request(COUNT), request(0), replace(request(3), draw=7, rows=None),
])  # fmt: skip
def test_requests_arrive_as_they_were_sent(sent):
    got = pickle.loads(pickle.dumps(sent, 5))
    assert list(vars(got)) == [field.name for field in fields(Request)]
    for name, value in vars(sent).items():
        same(getattr(got, name), value)


def test_partials_arrive_as_they_were_sent():
    sums = {"x": np.ones(3, np.float32), "long": np.ones(2000)}
    sent = Partial([(1, 2, sums), (0, 4, {})], {"loss": np.arange(3.0)}, ("a",), (0.5,))
    got = pickle.loads(pickle.dumps(sent, 5))
    assert (got.printed, got.seconds) == (sent.printed, sent.seconds)
    for (*where, one), (*there, other) in zip(got.branches, sent.branches, strict=True):
        assert where == there
        assert list(one) == list(other)
        for name, rows in other.items():
            same(one[name], rows)
    same(got.each["loss"], sent.each["loss"])
