import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.datasets.sizes import LognormalSizes, Shares, UniformSizes, apportion, few, sizes

KEY = Key(0, "sizes")


def test_equal_sizes_need_no_draws():
    assert sizes(7, KEY, np.array([3, 10**6])).tolist() == [7, 7]
    assert few(7)


def test_a_range_is_uniform_and_closed():
    drawn = sizes(UniformSizes(low=3, high=6), KEY, np.arange(20000))
    counts = np.bincount(drawn)
    assert counts[:3].sum() == 0
    # 5000 each, standard deviation sqrt(20000 * 3/16) = 61
    assert np.abs(counts[3:] - 5000).max() < 4 * 61
    assert few(UniformSizes(low=1, high=8))
    assert not few(UniformSizes(low=1, high=9))


def test_a_range_upside_down_is_refused():
    with pytest.raises(ValueError, match="below low"):
        UniformSizes(low=3, high=2)


def test_lognormal_sizes_have_the_median_of_the_law():
    law = LognormalSizes(mean=4.0, sigma=2.0, plus=50)
    drawn = sizes(law, KEY, np.arange(20000))
    assert drawn.min() >= 50
    # the median of exp(N(4, 2)) is e^4 = 54.6, its 84.13 % quantile e^6 = 403.4
    assert np.median(drawn) == pytest.approx(50 + 54.6, rel=0.05)
    assert np.quantile(drawn, 0.8413) == pytest.approx(50 + 403.4, rel=0.07)
    assert not few(law)


def test_sizes_do_not_depend_on_who_else_is_asked():
    law = LognormalSizes()
    together = sizes(law, KEY, np.arange(100))
    assert sizes(law, KEY, np.array([41, 7])).tolist() == [together[41], together[7]]


def test_apportion_by_largest_remainder():
    # beyond one row each, 7 rows by weights 1:2:4 of 10: 10/7-1, 20/7-1, 40/7-1 = .43 1.86 4.71
    assert apportion(np.array([1.0, 2.0, 4.0]), 10).tolist() == [1, 3, 6]


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30).map(np.array), st.integers(0, 1000))
def test_apportion_uses_every_row_and_leaves_nobody_out(weights, more):
    shared = apportion(weights, len(weights) + more)
    assert shared.sum() == len(weights) + more
    assert shared.min() >= 1


def test_power_law_sizes_fall_with_the_rank():
    rng = np.random.default_rng(0)
    shared = Shares(law="power", exponent=1.0).shared(1100, 3, rng)
    # 1 : 1/2 : 1/3 = 6 : 3 : 2 of 1100 rows, in random order
    assert sorted(shared.tolist()) == [200, 300, 600]


def test_uniform_and_equal_shares():
    rng = np.random.default_rng(0)
    assert Shares().shared(10, 4, rng).tolist() == [3, 3, 2, 2]
    drawn = Shares(law="uniform", low=0.5).shared(100000, 100, rng)
    assert drawn.max() <= 2 * drawn.min() + 4


def test_lognormal_shares_without_spread_are_equal():
    assert Shares(law="lognormal", sigma=0.0).shared(9, 3, np.random.default_rng(0)).tolist() == [
        3,
        3,
        3,
    ]


def test_listed_sizes_must_use_the_data_up():
    listed = Shares(rows=(45, 38, 29))
    assert listed.shared(112, 3, np.random.default_rng(0)).tolist() == [45, 38, 29]
    with pytest.raises(ScenarioError, match="add up to 112 but the data has 120 rows"):
        listed.shared(120, 3, np.random.default_rng(0))


def test_lognormal_shares_beyond_all_numbers_are_refused():
    wide = Shares(law="lognormal", sigma=3e8)
    with pytest.raises(ScenarioError, match="too large to be counted") as error:
        wide.shared(24, 7, np.random.default_rng(1))
    assert error.value.place == "partition"
