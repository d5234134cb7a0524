"""The table of how often verdicts are right."""

import pytest

from scripts import verdict_rates


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(verdict_rates, "DRAWS", 60)


def test_equal_algorithms_are_seldom_told_apart_and_far_ones_always():
    """Of 60 studies 9 or fewer are false with a probability of 0.998 at 5 %."""
    assert verdict_rates.share(2, 5, 0.0) <= 9 / 60
    assert verdict_rates.share(2, 5, 10.0) == 1.0


def test_a_line_for_each_number_of_seeds(capsys, monkeypatch):
    monkeypatch.setattr(verdict_rates, "SEEDS", (2,))
    verdict_rates.main()
    heads, rule, line = capsys.readouterr().out.splitlines()
    assert heads.count("|") == rule.count("|") == line.count("|") == 6
    assert line.startswith("| 2 | ")
