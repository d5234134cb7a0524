"""Luck: an AR(1) process over rounds that is asked in any order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtri

from rayfed.core.rng import Key
from rayfed.population.correlated import ar1, uniforms

MANY = np.arange(8000)
KEY = Key(5, "test")


def test_uncorrelated_luck_is_the_plain_draw():
    plain = Key(3, "delay").uniforms(MANY, round=4, ask=1)
    assert uniforms(3, 0.0, MANY, 4, 1).tobytes() == plain.tobytes()


def test_luck_that_stays_is_drawn_once():
    once = uniforms(3, 1.0, MANY, 1, 0)
    assert uniforms(3, 1.0, MANY, 9, 2).tobytes() == once.tobytes()
    assert stats.kstest(once, "uniform").pvalue > 0.01


@pytest.mark.parametrize("correlation", [0.2, 0.9, 0.9999])
def test_scores_have_the_autocorrelation_of_an_ar1_process(correlation):
    """Pairs that the bisection makes on one level, on several, and in different parts."""
    rounds = (1, 2, 3, 4, 8, 9, 1000)
    z = np.array([ar1(KEY, correlation, MANY, r) for r in rounds])
    distance = np.abs(np.subtract.outer(rounds, rounds))
    error = np.abs(np.corrcoef(z) - correlation**distance)
    assert error.max() < 4 / np.sqrt(len(MANY))
    assert all(stats.kstest(scores, "norm").pvalue > 0.001 for scores in z)


def test_scores_are_markov():
    """Given the present, the past says nothing of the future: all partial correlations vanish."""
    z = np.array([ar1(KEY, 0.7, MANY, r) for r in range(6, 11)])
    precision = np.linalg.inv(np.corrcoef(z))
    apart = np.abs(np.subtract.outer(np.arange(5), np.arange(5))) > 1
    assert np.abs(precision[apart]).max() < 5 / np.sqrt(len(MANY))


def test_two_asks_of_a_round_share_some_luck():
    first, second = (ndtri(uniforms(3, 0.6, MANY, 1, ask)) for ask in (0, 1))
    later = ndtri(uniforms(3, 0.6, MANY, 2, 1))
    tolerance = 4 / np.sqrt(len(MANY))
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(0.6, abs=tolerance)
    assert np.corrcoef(second, later)[0, 1] == pytest.approx(0.6, abs=tolerance)
    assert np.corrcoef(first, later)[0, 1] == pytest.approx(0.36, abs=tolerance)


@settings(max_examples=25, deadline=None)
@given(
    st.one_of(st.floats(0, 1), st.sampled_from([1e-300, 1 - 2**-53, 0.5])),
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 2**31 - 1)), min_size=1, max_size=6),
)
def test_any_question_in_any_company_gets_the_same_answer(correlation, asked):
    ids, rounds = (np.array(part) for part in zip(*asked, strict=True))
    together = uniforms(7, correlation, ids, rounds, 0)
    alone = [uniforms(7, correlation, ids[k : k + 1], int(r), 0)[0] for k, r in enumerate(rounds)]
    assert together.tolist() == alone
    assert ((together > 0) & (together < 1)).all()
