"""Numbers as people read them."""

import math

import pytest

from rayfed.report.read import units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.041234, "0.0412"),
        (0.99951, "1"),
        (9.999, "10"),
        (12345.6, "12,300"),
        (999_999, "1e6"),
        (0.00099, "9.9e-4"),
        (-0.25, "-0.25"),
        (math.inf, "∞"),
        (math.nan, "-"),
    ],
)
def test_number_has_three_significant_digits(value, text):
    assert units.number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.35, "350 ms"),
        (59.4, "59 s"),
        (59.9, "1 min"),
        (192, "3 min 12 s"),
        (3599.9, "1 h"),
        (11_520, "3 h 12 min"),
        (187_200, "2 d 4 h"),
        (-72, "-1 min 12 s"),
        (math.nan, "-"),
    ],
)
def test_duration_takes_the_two_largest_units(seconds, text):
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("octets", "text"),
    [(0, "0 B"), (999, "1 kB"), (4.1e9, "4.1 GB"), (123_456, "123 kB"), (2e18, "2,000 PB")],
)
def test_size_is_decimal(octets, text):
    assert units.size(octets) == text


@pytest.mark.parametrize(
    ("value", "text"), [(41.0, "41"), (41.333, "41.3"), (1234.5, "1,234"), (math.nan, "-")]
)
def test_count_shows_a_decimal_only_where_it_says_something(value, text):
    assert units.count(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.0915, "9.2 %"), (1.0, "100 %"), (0, "0 %")])
def test_share_is_in_percent(value, text):
    assert units.share(value) == text
