import numpy as np
import pytest

from rayfed.clients.subsample import Subsample

SIZES = np.array([1, 7, 0, 12, 9])
EXCERPT = Subsample(3, most=10, totals={"train": 29, "test": 10})


def test_rows_are_distinct_and_the_clients_own():
    index, counts = EXCERPT.rows(np.arange(5), SIZES, 12, "train")
    assert counts.tolist() == [1, 2, 0, 4, 3]  # n_i * 10 / 29, rounded down, but one at least
    for i, (rows, count) in enumerate(zip(index, counts.tolist(), strict=True)):
        assert len(set(rows[:count].tolist())) == count
        assert (rows[:count] < max(SIZES[i], 1)).all()
        assert (rows[count:] == 0).all()


@pytest.mark.parametrize("client", [1, 3])
def test_a_clients_rows_do_not_depend_on_who_else_is_asked(client):
    together, _ = EXCERPT.rows(np.arange(5), SIZES, 12, "train")
    alone, _ = EXCERPT.rows(np.array([client]), SIZES[[client]], 12, "train")
    assert alone.tolist() == together[[client]].tolist()


def test_every_row_is_as_likely():
    drawn = np.zeros(12)
    for seed in range(1500):
        subsample = Subsample(seed, most=10, totals={"train": 30})
        index, counts = subsample.rows(np.array([4]), np.array([12]), 16, "train")
        drawn[index[0, : counts[0]]] += 1
    # 4 of 12 rows each time: binomial with p = 1/3, whose deviation is 18
    assert np.abs(drawn - 500).max() < 4 * 18


def test_a_part_that_fits_is_looked_at_as_a_whole():
    assert EXCERPT.whole("test")
    assert not EXCERPT.whole("train")
    assert EXCERPT.counts(SIZES, "test").tolist() == SIZES.tolist()
