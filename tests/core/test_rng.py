"""Keyed random numbers: the properties that draws rely on."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri

from rayfed.core.philox import philox
from rayfed.core.rng import Key, Permutation


def test_a_draw_is_the_hash_of_what_it_is_for():
    key = Key(7, "delay")
    counter = [np.array([c], dtype=np.uint64) for c in (1, 42, 3, 2)]  # block, id, round, ask
    expected = [int(w[0]) for w in philox(tuple(counter), key.words())]
    assert key.bits([42], 8, round=3, ask=2)[0, 4:].tolist() == expected


def test_a_client_draws_the_same_whoever_else_is_asked():
    key = Key(0, "batch")
    among = key.uniforms([5, 1_000_000, 9], 6, round=2, ask=1)
    alone = key.uniforms([1_000_000], 6, round=2, ask=1)
    np.testing.assert_array_equal(among[1], alone[0])
    np.testing.assert_array_equal(
        key.uniforms([9, 5], round=2), key.uniforms([5, 9], round=2)[::-1]
    )


def test_the_start_of_a_draw_can_be_skipped():
    key = Key(0, "batch")
    np.testing.assert_array_equal(key.bits([3], 5, start=8), key.bits([3], 13)[:, 8:])


@pytest.mark.parametrize(
    "other",
    [
        Key(1, "delay").uniforms([4], 8),
        Key(0, "delays").uniforms([4], 8),
        Key(0, "delay").sub("network").uniforms([4], 8),
        Key(0, "delay").uniforms([5], 8),
        Key(0, "delay").uniforms([4], 8, round=1),
        Key(0, "delay").uniforms([4], 8, ask=1),
    ],
)
def test_every_coordinate_of_a_draw_matters(other):
    assert not np.isin(other, Key(0, "delay").uniforms([4], 8)).any()


def test_each_id_may_have_a_round_and_an_ask_of_its_own():
    key, ids, rounds, asks = Key(0, "leg"), np.arange(5), np.arange(5) * 7, np.arange(5)[::-1]
    together = key.uniforms(ids, 3, round=rounds, ask=asks)
    for i in ids:
        alone = key.uniforms([i], 3, round=int(rounds[i]), ask=int(asks[i]))
        np.testing.assert_array_equal(together[i], alone[0])


def test_uniforms_are_uniform_over_ids_and_over_indices():
    u = Key(11, "test").uniforms(np.arange(2000), 10)
    assert (u > 0).all()
    assert (u < 1).all()
    for sample in (u.ravel(), u[:, 0], u[0]):
        assert stats.kstest(sample, "uniform").pvalue > 1e-3
    counts = np.histogram(u, bins=64, range=(0, 1))[0]
    assert stats.chisquare(counts).pvalue > 1e-3
    pairs = np.histogram2d(u[:, 0], u[:, 1], bins=8, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(pairs.ravel()).pvalue > 1e-3


def test_a_uniform_is_its_words_53_bits():
    key = Key(0, "test")
    high, low = key.bits([8], 2)[0].tolist()
    assert key.uniforms([8])[0] == ((high >> 5) * 2**26 + (low >> 6) + 0.5) / 2**53


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("ids", [0, 1, 2, 17])
def test_numbers_are_made_of_their_words_however_many_are_hashed_together(ids, count, monkeypatch):
    monkeypatch.setattr("rayfed.core.philox._BLOCKS", 3)
    key, who, bounds = Key(3, "test"), 2**32 - 1 - np.arange(ids) ** 5, np.arange(1, ids + 1)
    rounds, asks = np.arange(ids) * 7, np.arange(ids)[::-1]
    when = {"round": rounds, "ask": asks}
    of_one = [
        key.bits([i], 40, round=int(r), ask=int(a))
        for i, r, a in zip(who, rounds, asks, strict=True)
    ]
    words = np.concatenate([np.empty((0, 40), np.uint64), *of_one])
    np.testing.assert_array_equal(key.bits(who, count, start=4, **when), words[:, 4:][:, :count])
    product = words[:, 4:].astype(object) * bounds[:, None]
    np.testing.assert_array_equal(
        key.integers(who, bounds, count, start=4, **when), (product >> 32)[:, :count]
    )
    fine = (words[:, ::2] >> np.uint64(5)) * 2.0**26 + (words[:, 1::2] >> np.uint64(6))
    u = (fine + 0.5)[:, :count] / 2**53
    np.testing.assert_array_equal(key.uniforms(who, count, **when), u)
    np.testing.assert_array_equal(key.normals(who, count, **when), ndtri(u))


def test_many_draws_take_the_memory_of_what_is_drawn():
    tracemalloc.start()
    drawn = Key(0, "test").normals([5], 500_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < drawn.nbytes + 2**21


def test_normals_are_standard_normal():
    z = Key(12, "test").normals(np.arange(500), 8)
    assert z.shape == (500, 8)
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-3


def test_integers_are_uniform_below_each_clients_own_bound():
    bounds = np.array([1, 2, 7, 1000])
    draws = Key(13, "test").integers(np.arange(4), bounds, 4000)
    assert draws.dtype == np.int64
    assert (draws >= 0).all()
    assert (draws.max(axis=1) < bounds).all()
    for k in (1, 2):
        counts = np.bincount(draws[k], minlength=bounds[k])
        assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("n", [1, 2, 3, 10, 64, 1000, 4097])
def test_a_permutation_is_a_bijection(n):
    images = Key(0, "cohort").permutation(n)(np.arange(n))
    assert np.array_equal(np.sort(images), np.arange(n))


def test_a_permutation_answers_single_positions_of_a_large_domain():
    permutation = Key(0, "cohort").permutation(10**9, round=4)
    some = np.array([0, 17, 10**9 - 1])
    images = permutation(some)
    assert (images >= 0).all()
    assert (images < 10**9).all()
    assert permutation(some[1:2])[0] == images[1]


def test_permutations_reach_every_order_equally_often():
    key = Key(21, "test")
    orders = [tuple(key.permutation(4, round=r)(np.arange(4)).tolist()) for r in range(2400)]
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("n", [1, 2, 13, 100, 1000])
def test_heads_are_the_first_images_of_the_permutations_of_each_round(n):
    key, length = Key(21, "test"), min(n, 9)
    heads = key.heads(n, length, round=5, rounds=7)
    wanted = [key.permutation(n, round=r)(np.arange(length)) for r in range(5, 12)]
    np.testing.assert_array_equal(heads, wanted)


def test_a_permutation_depends_on_its_keys():
    keys = tuple(range(8))
    same, other = Permutation(500, keys), Permutation(500, keys[::-1])
    positions = np.arange(500)
    np.testing.assert_array_equal(same(positions), Permutation(500, keys)(positions))
    assert (same(positions) != other(positions)).any()


def test_a_generator_is_keyed_too():
    first = Key(0, "data").generator(1, 2).random(3)
    np.testing.assert_array_equal(first, Key(0, "data").generator(1, 2).random(3))
    assert (first != Key(0, "data").generator(2, 1).random(3)).all()
