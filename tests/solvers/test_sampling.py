"""Rows that are drawn: passes are complete, neighbours do not matter, evaluations see a part."""

import numpy as np
import pytest
from scipy import stats

from rayfed.core.rng import Key
from rayfed.solvers import sampling
from rayfed.solvers.sampling import Subsample

IDS = np.array([3, 8, 5])
SIZES = np.array([7, 4, 1])
STEPS = np.array([6, 6, 2])
ROWS = np.array([1, 7, 0, 12, 9])
EXCERPT = Subsample(3, most=10, totals={"train": 29, "test": 10})


def draw(how, batch, steps=STEPS, ids=IDS, sizes=SIZES, **where):
    where = {"seed": 1, "draw": 2, "ask": 0, **where}
    wanted = sampling.Minibatch(batch, how)
    return list(sampling.Sampling(wanted, steps, ids, sizes, **where).minibatches())


def test_the_clients_still_at_work_are_counted_step_by_step():
    assert sampling.active(np.array([4, 2, 2, 1])) == [4, 3, 1, 1]
    assert sampling.active(np.array([2, 2])) == [2, 2]
    assert sampling.active(np.array([0, 0])) == sampling.active(np.zeros(0, dtype=int)) == []


def test_draws_with_replacement_are_the_keyed_integers_in_order():
    steps = draw("replacement", 3)
    rows = Key(1, "batch").integers(IDS, SIZES, 18, round=2).reshape(3, 6, 3)
    for number, (index, w) in enumerate(steps):
        k = 3 if number < 2 else 2
        np.testing.assert_array_equal(index, rows[:k, number])
        np.testing.assert_array_equal(w, np.full((k, 3), 1 / 3))
    assert len(steps) == 6


def test_long_runs_draw_the_same_as_one_piece(monkeypatch):
    whole = draw("replacement", 3, np.array([25, 25, 9]))
    monkeypatch.setattr(sampling, "_CHUNK", 36)  # four steps at a time
    pieces = draw("replacement", 3, np.array([25, 25, 9]))
    assert len(pieces) == 25
    for (a, _), (b, _) in zip(whole, pieces, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 10])
def test_a_shuffled_pass_visits_every_row_once(batch):
    steps = draw("shuffle", batch, np.full(3, 21))
    for k, n in enumerate(SIZES):
        per_pass = -(-n // batch)
        for start in range(0, 21 - per_pass + 1, per_pass):
            visited = [steps[s][0][k][steps[s][1][k] > 0] for s in range(start, start + per_pass)]
            assert np.sort(np.concatenate(visited)).tolist() == list(range(n))


def test_a_short_last_batch_is_filled_up_with_rows_that_do_not_weigh():
    (_, first), (index, last) = draw("shuffle", 4, np.array([2, 2, 2]))[:2]
    assert first.tolist() == [[1 / 4] * 4, [1 / 4] * 4, [1, 0, 0, 0]]
    assert last.tolist() == [[1 / 3, 1 / 3, 1 / 3, 0], [1 / 4] * 4, [1, 0, 0, 0]]
    assert (index < SIZES[:, None]).all()
    assert not index[last == 0].any()


def test_every_pass_and_every_round_has_an_order_of_its_own():
    size = np.array([40])
    (a, _), (b, _) = draw("shuffle", 40, np.array([2]), IDS[:1], size)
    (c, _), _ = draw("shuffle", 40, np.array([2]), IDS[:1], size, draw=3)
    (d, _), _ = draw("shuffle", 40, np.array([2]), IDS[:1], size, ask=1)
    for one, other in ((a, b), (a, c), (a, d)):
        assert (one != other).any()


def test_shuffles_reach_every_order_equally_often():
    ids = np.arange(2400)
    [(index, _)] = draw("shuffle", 4, np.ones(2400, dtype=int), ids, np.full(2400, 4))
    _, counts = np.unique(index, axis=0, return_counts=True)
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("how", ["replacement", "shuffle"])
def test_a_client_draws_the_same_whoever_else_is_asked(how):
    together = draw(how, 3)
    for k in range(3):
        one = slice(k, k + 1)
        alone = draw(how, 3, STEPS[one], IDS[one], SIZES[one])
        assert len(alone) == STEPS[k]
        for (index, w), (among, weights) in zip(alone, together, strict=False):
            np.testing.assert_array_equal(index[0], among[k])
            np.testing.assert_array_equal(w[0], weights[k])


def test_rows_are_distinct_and_the_clients_own():
    index, counts = EXCERPT.rows(np.arange(5), ROWS, 12, "train")
    assert counts.tolist() == [1, 2, 0, 4, 3]  # n_i * 10 / 29, rounded down, but one at least
    for i, (rows, count) in enumerate(zip(index, counts.tolist(), strict=True)):
        assert len(set(rows[:count].tolist())) == count
        assert (rows[:count] < max(ROWS[i], 1)).all()
        assert (rows[count:] == 0).all()


@pytest.mark.parametrize("client", [1, 3])
def test_a_clients_rows_do_not_depend_on_who_else_is_asked(client):
    together, _ = EXCERPT.rows(np.arange(5), ROWS, 12, "train")
    alone, _ = EXCERPT.rows(np.array([client]), ROWS[[client]], 12, "train")
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
    assert EXCERPT.takes_all("test")
    assert not EXCERPT.takes_all("train")
    assert EXCERPT.counts(ROWS, "test").tolist() == ROWS.tolist()
