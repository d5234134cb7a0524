"""What a search draws: the law of each distribution by hand, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayfed.core.distribution import Distribution
from rayfed.core.errors import ScenarioError

PLACES = st.floats(0, 1, exclude_max=True)


def test_a_logarithm_is_even_in_decades():
    lr = Distribution("log", (1e-4, 1.0))
    assert [lr.at(u) for u in (0, 0.25, 0.5, 0.75)] == [1e-4, 1e-3, 1e-2, 1e-1]


def test_whole_numbers_are_equally_likely_and_both_ends_are_there():
    steps = Distribution("int", (2, 6))
    found = [steps.at(u) for u in np.arange(1000) / 1000]
    assert np.unique(found, return_counts=True)[1].tolist() == [200] * 5
    assert all(isinstance(value, int) for value in found)


def test_a_choice_takes_each_value_as_often_whatever_it_is():
    held = [{"name": "ring"}, None, 0.5]
    choice = Distribution("choice", tuple(held))
    assert [choice.at(u) for u in (0.0, 0.32, 0.34, 0.67, 0.999)] == [
        held[i] for i in (0, 0, 1, 2, 2)
    ]


@given(PLACES, st.sampled_from([("log", 1e-3, 0.77777), ("uniform", -1.23456, 0.98765)]))
def test_numbers_have_four_digits_and_stay_within_their_bounds(u, law):
    kind, low, high = law
    made = Distribution(kind, (low, high))
    value = made.at(u)
    assert low <= value <= high
    assert value in (low, high, float(f"{value:.4g}"))
    assert made.place(value) == pytest.approx(u, abs=1e-3)


@given(PLACES)
def test_the_place_of_a_whole_number_or_a_choice_is_the_middle_of_what_gives_it(u):
    for made in (Distribution("int", (-2, 4)), Distribution("choice", ("a", "b", "c"))):
        place = made.place(made.at(u))
        assert made.at(place) == made.at(u)


def test_the_edge_of_a_range_is_a_twentieth_of_it():
    lr = Distribution("log", (1e-4, 1.0))  # a twentieth of four decades is a fifth of one
    near = [1e-4, 10**-3.81, 10**-3.79, 10**-0.21, 10**-0.19, 1.0]
    assert [lr.at_edge(value) for value in near] == [True, True, False, False, True, True]
    assert [Distribution("int", (1, 4)).at_edge(k) for k in (1, 2, 3, 4)] == [
        True,
        False,
        False,
        True,
    ]
    assert not Distribution("choice", (1, 2)).at_edge(1)


def test_a_power_that_yaml_takes_for_a_text_is_a_number():
    assert Distribution.of("k", {"log": ["1e-4", 1]}) == Distribution("log", (1e-4, 1))
    assert Distribution.of("k", {"choice": ["1e-4"]}).values == ("1e-4",)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (0.1, "^search.k: found '0.1'; give one of log"),
        ({}, "^search.k: found '{}'; give one of log"),
        ({"log": [1, 2], "int": [1, 2]}, "^search.k: found .*; give one of log"),
        ({"logg": [1, 2]}, r"^search.k: unknown distribution 'logg'; did you mean 'log'\?"),
        ({"log": [0, 1]}, r"^search.k.log: found \[0, 1\]; a logarithm needs numbers above 0"),
        ({"log": [1, 1]}, "^search.k.log: found .*; give two numbers, the smaller one first"),
        ({"uniform": [2, 1]}, "^search.k.uniform: found .*; give two numbers, the smaller"),
        ({"uniform": [1]}, "^search.k.uniform: found .*; give two numbers"),
        ({"uniform": [0, math.nan]}, "^search.k.uniform: found .*; give two numbers"),
        ({"uniform": [False, True]}, "^search.k.uniform: found .*; give two numbers"),
        ({"int": [0.5, 2]}, "^search.k.int: found .*; give two whole numbers"),
        ({"choice": []}, r"^search.k.choice: found \[\]; give different values"),
        ({"choice": [1, 1]}, "^search.k.choice: found .*; give different values"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_one_line(given, message):
    with pytest.raises(ScenarioError, match=message):
        Distribution.of("k", given)
