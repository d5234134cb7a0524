"""The hash of draws: published answers, counters that broadcast, and blocks part by part."""

import numpy as np
import pytest

from rayfed.core.philox import blocks, philox

PI = ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0")


def words(text):
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ("0 0 0 0", "0 0", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (
            "ffffffff ffffffff ffffffff ffffffff",
            "ffffffff ffffffff",
            "408f276d 41c83b0e a20bc7c6 6d5451fd",
        ),
        (*PI, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_gives_the_known_answers_of_random123(counter, key, expected):
    c0, c1, c2, c3 = words(counter)
    k0, k1 = words(key)
    block = tuple(np.array([c], dtype=np.uint64) for c in (c0, c1, c2, c3))
    assert [int(w[0]) for w in philox(block, (k0, k1))] == words(expected)


def test_counters_of_a_grid_give_what_each_gives_alone():
    block, who = np.arange(5, dtype=np.uint64), np.array([0, 7, 2**32 - 1], dtype=np.uint64)
    round, ask = np.array([3], dtype=np.uint64), np.array([2, 4, 6], dtype=np.uint64)
    grid = philox((block, who[:, None], round, ask[:, None]), (8, 9))
    for k, i in np.ndindex(3, 5):
        alone = philox((block[i : i + 1], who[k : k + 1], round, ask[k : k + 1]), (8, 9))
        assert [int(w[k, i]) for w in grid] == [int(w[0]) for w in alone]


@pytest.mark.parametrize("most", [1, 4, 6, 30, 31])
@pytest.mark.parametrize(("ids", "count"), [(6, 5), (5, 6), (30, 1), (1, 30), (0, 3), (3, 0)])
def test_blocks_come_in_parts_that_cover_them_once(ids, count, most, monkeypatch):
    monkeypatch.setattr("rayfed.core.philox._BLOCKS", most)
    who, each = np.arange(ids, dtype=np.uint64), np.arange(ids, dtype=np.uint64) ** 2
    one, block = np.array([3], dtype=np.uint64), np.arange(11, 11 + count, dtype=np.uint64)
    whole = philox((block, who[:, None], one, each[:, None]), (8, 9))
    seen = np.zeros((4, ids, count), dtype=np.uint64)
    times = np.zeros((ids, count), dtype=int)
    for which, columns, words in blocks((8, 9), who, 11, count, one, each):
        assert words[0].size <= most
        seen[:, which, columns] = words
        times[which, columns] += 1
    assert (times == 1).all()
    np.testing.assert_array_equal(seen, whole)
