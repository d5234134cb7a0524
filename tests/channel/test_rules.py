"""Robust rules against formulas that are written one number at a time."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from rayfed.channel import (
    Buckets,
    CentredClipping,
    GeometricMedian,
    Krum,
    Mean,
    Median,
    MultiKrum,
    NearestNeighbours,
    TrimmedMean,
)
from rayfed.core.rng import Key

RULES = [
    Mean(), Median(), TrimmedMean(f=2), Krum(f=2), MultiKrum(f=2), GeometricMedian(),
    CentredClipping(radius=1.5, steps=3),
]  # fmt: skip
NAMES = [rule.name for rule in RULES]


def stack(seed, K=7, p=5):
    return np.random.default_rng(seed).standard_normal((K, p))


def outcome(rule, vectors):
    return rule.robust(vectors, np.ones(len(vectors)), rule.init(vectors.shape[1]))[0]


def test_medians_and_trimmed_means_by_hand():
    v = np.array([[5.0, 1.0], [1.0, 4.0], [2.0, 2.0], [9.0, 3.0], [3.0, 9.0]])
    assert outcome(Median(), v).tolist() == [3, 3]
    assert outcome(Median(), v[:4]).tolist() == [3.5, 2.5]
    assert outcome(TrimmedMean(f=1), v).tolist() == [10 / 3, 3]
    assert outcome(TrimmedMean(f=0), v).tolist() == [4, 19 / 5]


@pytest.mark.parametrize("seed", range(20))
def test_krum_is_the_vector_with_the_nearest_neighbours(seed):
    v, f = stack(seed, K=6 + seed % 4), 1 + seed % 2
    K = len(v)
    scores = []
    for i in range(K):
        squares = sorted(sum((a - b) ** 2 for a, b in zip(v[i], v[j], strict=True))
                         for j in range(K) if j != i)  # fmt: skip
        scores.append(sum(squares[: K - f - 1]))
    best = sorted(range(K), key=lambda i: scores[i])
    np.testing.assert_array_equal(outcome(Krum(f=f), v), v[best[0]])
    expected = sum(v[i] for i in best[: K - f]) / (K - f)
    np.testing.assert_allclose(outcome(MultiKrum(f=f), v), expected, rtol=1e-13)


def test_many_steps_of_weiszfeld_end_at_the_least_sum_of_distances():
    v = stack(3)
    found = outcome(GeometricMedian(steps=500, smoothing=1e-9), v)

    def distances(z):
        return sum(np.sqrt(((z - row) ** 2).sum()) for row in v)

    least = minimize(distances, v.mean(0), method="Nelder-Mead",
                     options={"xatol": 1e-10, "fatol": 1e-12, "maxiter": 20_000})  # fmt: skip
    np.testing.assert_allclose(found, least.x, atol=1e-4)
    assert distances(found) <= least.fun + 1e-9


def test_one_step_of_weiszfeld_by_hand():
    v = np.array([[3.0, 4.0], [0.0, 0.01], [0.0, 2.0]])  # distances 5, 0.01 and 2 from 0
    b = [1 / 5, 1 / 0.1, 1 / 2]
    x, y = 3 * b[0], 4 * b[0] + 0.01 * b[1] + 2 * b[2]
    found = outcome(GeometricMedian(steps=1), v)
    np.testing.assert_allclose(found, [x / sum(b), y / sum(b)], rtol=1e-14)


def test_centred_clipping_remembers_its_centre():
    rule = CentredClipping(radius=2.0)
    state = rule.init(2)
    first, state = rule.aggregate(np.array([[3.0, 4.0], [0.0, 1.0]]), np.ones(2), state)
    np.testing.assert_allclose(first, [0.6, 1.3], rtol=1e-14)  # (3, 4) counts as (1.2, 1.6)
    second, state = rule.aggregate(np.array([[0.6, 5.3], [0.6, 1.3]]), np.ones(2), state)
    np.testing.assert_allclose(second, [0.6, 2.3], rtol=1e-14)
    np.testing.assert_array_equal(state["centre"], second)
    twice = CentredClipping(radius=2.0, steps=2)
    found = twice.aggregate(np.array([[0.0, 9.0], [0.0, 0.0]]), np.ones(2), twice.init(2))[0]
    np.testing.assert_allclose(found, [0, 1.5], rtol=1e-14)  # 1, and then (2 - 1) / 2 more


def test_every_vector_is_mixed_with_its_nearest():
    v = np.array([[0.0], [1.0], [3.0], [10.0]])
    expected = [[(0 + 1 + 3) / 3], [(0 + 1 + 3) / 3], [(0 + 1 + 3) / 3], [(10 + 3 + 1) / 3]]
    np.testing.assert_allclose(NearestNeighbours(f=1).mixed(v), expected, rtol=1e-14)
    found = outcome(Median(before=NearestNeighbours(f=1)), v)
    np.testing.assert_allclose(found, [4 / 3], rtol=1e-14)


@pytest.mark.parametrize(("clients", "size"), [(7, 3), (6, 2), (1, 2), (5, 9)])
def test_buckets_are_drawn_anew_and_all_but_the_last_are_full(clients, size):
    mixer, ids = Buckets(size=size), np.arange(100, 100 + clients)
    drawn = [mixer.labels(ids, Key(4, f"buckets/{round}")) for round in range(40)]
    for labels in drawn:
        counts = np.bincount(labels)
        assert counts[:-1].tolist() == [size] * (len(counts) - 1)
        assert counts.sum() == clients
        assert len(counts) == mixer.count(clients)
    assert len({tuple(labels.tolist()) for labels in drawn}) > (1 if clients > size else 0)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_vectors_that_are_not_finite_are_left_out(rule):
    v = stack(1)
    bad = np.insert(v, [0, 3, 7], [[np.nan], [np.inf], [-np.inf]], axis=0)
    np.testing.assert_array_equal(outcome(rule, bad), outcome(rule, v))
    assert np.isnan(outcome(rule, np.full((2, 3), np.inf))).all()


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_one_vector_is_its_own_mean_within_the_radius_and_types_stay(rule):
    v = np.array([[0.5, 1.0]], np.float32)
    found = outcome(rule, v)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, v[0], rtol=1e-6)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.permutations(range(7)))
def test_the_order_of_the_vectors_does_not_matter(seed, order):
    v = stack(seed)
    for rule in RULES:
        np.testing.assert_allclose(outcome(rule, v[order]), outcome(rule, v), atol=1e-12)


@pytest.mark.parametrize("rule", RULES[1:], ids=NAMES[1:])
def test_two_of_seven_move_the_outcome_no_further_than_the_others_lie_apart(rule):
    honest = stack(8, K=5)
    apart = max(np.linalg.norm(a - b) for a, b in combinations(honest, 2))
    far = np.concatenate([honest, np.full((2, 5), 1e6)])
    assert np.linalg.norm(outcome(rule, far) - honest.mean(0)) < 2 * apart
    assert np.linalg.norm(outcome(Mean(), far) - honest.mean(0)) > 1e5
