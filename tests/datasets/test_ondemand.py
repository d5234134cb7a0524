import itertools
import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from rayfed.core.rng import Key
from rayfed.datasets import Linear, Synthetic
from rayfed.datasets.ondemand import normals
from rayfed.datasets.sizes import LognormalSizes, UniformSizes

GENERATORS = [
    Linear(features=5, samples=UniformSizes(low=3, high=30), shift=1.0, drift=1.0),
    Synthetic(features=5, classes=3, samples=LognormalSizes(mean=2.0, sigma=1.0, plus=3)),
]
IDS = np.array([3, 999_999, 0, 17, 12345, 8, 2])


def shards(generator, *, dtype="float64", intercept=True, test=0.25, clients=1_000_000, seed=0):
    return generator.shards(clients, seed, dtype=dtype, intercept=intercept, test=test)


@pytest.fixture(params=GENERATORS, ids=lambda g: g.name)
def generator(request):
    return request.param


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("part", ["train", "test"])
def test_a_client_s_bits_depend_on_nobody_else(generator, dtype, part):
    many = shards(generator, dtype=dtype)
    X, y = many.rows(IDS, 48, part)
    for k, client in enumerate(IDS):
        alone = shards(generator, dtype=dtype)
        one = np.array([client])
        width = int(alone.widths(one, part)[0])
        X1, y1 = alone.rows(one, width, part)
        np.testing.assert_array_equal(X1[0], X[k, :width])
        np.testing.assert_array_equal(y1[0], y[k, :width])


def test_rows_beyond_the_last_are_zero(generator):
    drawn = shards(generator)
    X, y = drawn.rows(IDS, 64)
    for k, n in enumerate(drawn.sizes(IDS)):
        assert (X[k, :n, -1] == 1).all()
        assert (X[k, :n, 0] != 0).all()
        assert not X[k, n:].any()
        assert not y[k, n:].any()


def test_take_chooses_from_rows(generator):
    drawn = shards(generator)
    X, y = drawn.rows(IDS, 64)
    index = np.random.default_rng(0).integers(0, drawn.sizes(IDS)[:, None], (7, 4))
    for ids, at in ((IDS, index), (IDS[:3], index[:3]), (IDS[2:], index[2:]), (IDS, index)):
        # the second call is a prefix of the first, the third is not
        first = int(np.flatnonzero(ids[0] == IDS)[0])
        mine = np.arange(first, first + len(ids))[:, None]
        taken_X, taken_y = drawn.take(ids, at)
        np.testing.assert_array_equal(taken_X, X[mine, at])
        np.testing.assert_array_equal(taken_y, y[mine, at])


def test_what_take_gave_may_be_changed(generator):
    drawn, zero = shards(generator), np.zeros((7, 1), np.int64)
    before = drawn.take(IDS, zero)[0].copy()
    drawn.take(IDS, zero)[0][:] = -1
    np.testing.assert_array_equal(drawn.take(IDS, zero)[0], before)


def test_held_out_rows(generator):
    drawn = shards(generator)
    everything = shards(generator, test=0.0).sizes(IDS)
    held = np.array([round(0.25 * int(n)) for n in everything])  # halves to even, as NumPy
    np.testing.assert_array_equal(drawn.sizes(IDS, "test"), held)
    np.testing.assert_array_equal(drawn.sizes(IDS), everything - held)
    assert shards(generator, test=0.99).sizes(IDS).min() == 1


def test_held_out_rows_are_other_rows(generator):
    drawn = shards(generator)
    train, test = drawn.rows(IDS, 64)[0], drawn.rows(IDS, 64, "test")[0]
    both = (train[..., 0] == test[..., 0]) & (train[..., 0] != 0)
    assert not both.any()


def test_validation_rows_are_a_third_sample(generator):
    drawn = generator.shards(
        1_000_000, 0, dtype="float64", intercept=True, test=0.25, validation=0.4
    )
    plain = shards(generator)
    everything = shards(generator, test=0.0).sizes(IDS)
    tested = np.array([round(0.25 * int(n)) for n in everything])
    left = np.minimum([round(0.4 * int(n)) for n in everything], everything - 1 - tested)
    np.testing.assert_array_equal(drawn.sizes(IDS, "validation"), left)
    np.testing.assert_array_equal(drawn.sizes(IDS, "test"), plain.sizes(IDS, "test"))
    np.testing.assert_array_equal(drawn.sizes(IDS), everything - tested - left)
    assert not plain.sizes(IDS, "validation").any()
    X = [drawn.rows(IDS, 4, part)[0][..., 0] for part in ("train", "test", "validation")]
    assert not any(((a == b) & (a != 0)).any() for a, b in itertools.combinations(X, 2))


def test_totals_count_every_client(generator):
    drawn = shards(generator, clients=70_000)
    ids = np.arange(70_000)
    assert drawn.total() == drawn.sizes(ids).sum()
    assert drawn.total("test") == drawn.sizes(ids, "test").sum()
    assert drawn.total("validation") == 0


def test_equal_sizes_cost_no_count_and_no_padding():
    drawn = shards(Linear(features=2, samples=21), clients=10**9)
    assert (drawn.total(), drawn.total("test")) == (16 * 10**9, 5 * 10**9)
    assert drawn.widths(np.array([10**8])).tolist() == [16]


def test_seeds_differ_and_the_data_s_own_goes_first(generator):
    def first(run, **own):
        return shards(replace(generator, **own), seed=run, test=0.0).rows(IDS, 3)[0]

    assert (first(0)[..., :-1] != first(1)[..., :-1]).all()
    np.testing.assert_array_equal(first(0, seed=9), first(1, seed=9))


def test_a_pickle_carries_no_rows(generator):
    drawn = shards(generator)
    fresh = len(pickle.dumps(drawn))
    drawn.take(IDS, np.zeros((7, 1), np.int64))
    assert len(pickle.dumps(drawn)) == fresh < 1500
    assert pickle.loads(pickle.dumps(drawn)) == drawn


def test_a_cohort_of_a_million_clients_takes_the_memory_of_one_of_a_thousand():
    def peak(clients):
        ids = np.random.default_rng(0).choice(clients, 100, replace=False)
        tracemalloc.start()
        try:
            shards(Synthetic(samples=20), clients=clients, dtype="float32", test=0.0).rows(ids, 20)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1_000)  # with what is made once
    assert peak(1_000_000) < 1.1 * peak(1_000)


def test_normals_have_the_moments_of_the_law():
    z = normals(Key(0, "rows"), np.arange(1000), 100)
    # 100000 draws: standard errors 0.0032, 0.0045 and 0.022 of mean, variance and 4th moment - 3
    assert abs(z.mean()) < 4 * 0.0032
    assert z.var() == pytest.approx(1.0, abs=4 * 0.0045)
    assert (z**4).mean() == pytest.approx(3.0, abs=4 * 0.031)
    assert abs(np.corrcoef(z[:, 0], z[:, 1])[0, 1]) < 0.13
