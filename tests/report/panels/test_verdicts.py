"""Sentences on algorithms by case: reversals beyond noise, and what is level."""

import pytest

from rayfed.report.panels.verdicts import of_ranks, verdict
from rayfed.report.pivot import Ranks
from rayfed.report.read.results import Results


def said(tmp_path, case_writer, ends):
    return verdict(Results.read(case_writer(tmp_path, ends)), "loss")


def test_a_reversal_is_named_with_by_how_much(tmp_path, case_writer):
    ends = {
        "0.1": {"a": [0.9, 1.1], "b": [2.9, 3.1]},
        "1.0": {"a": [1.9, 2.1], "b": [2.1, 2.3]},
        "10.0": {"a": [3.9, 4.1], "b": [0.9, 1.1]},
    }
    assert said(tmp_path, case_writer, ends) == (
        "a ends best at alpha = 0.1 (loss 1, b 3), b at alpha = 10 (1, a 4); "
        "at alpha = 1 a and b are level, within noise"
    )


def test_one_that_is_best_everywhere(tmp_path, case_writer):
    ends = {x: {"a": [0.9, 1.1], "b": [2.9, 3.1]} for x in ("1.0", "2.0")}
    text = "a ends best at alpha = 1 (loss 1, b 3) and at alpha = 2 (1, b 3)"
    assert said(tmp_path, case_writer, ends) == text


def test_a_lead_within_noise_is_no_reversal(tmp_path, case_writer):
    ends = {
        "1.0": {"a": [1, 3], "b": [1.5, 3.5], "c": [2, 4]},
        "2.0": {"b": [1, 3], "a": [1.5, 3.5], "c": [9, 9.1]},
    }
    assert said(tmp_path, case_writer, ends) == (
        "By the final loss no algorithm is best beyond noise: at alpha = 1 all are level, within "
        "noise; at alpha = 2 b and a are level, within noise"
    )


def test_one_seed_knows_no_noise(tmp_path, case_writer):
    ends = {x: {"a": [1], "b": [2]} for x in ("1.0", "2.0")}
    text = said(tmp_path, case_writer, ends)
    assert text.endswith("; with one seed it is not known what is noise")


def test_of_many_cases_they_are_counted(tmp_path, case_writer):
    ends = {f"{k}.0": {"a": [1, 1.1], "b": [2, 2.1]} for k in range(4)}
    ends |= {"4.0": {"a": [2, 2.1], "b": [1, 1.1]}, "5.0": {"a": [1, 2], "b": [1, 2]}}
    assert said(tmp_path, case_writer, ends) == (
        "Beyond noise a ends at the best loss in 4 of 6 cases, b in 1 (alpha = 4); "
        "in 1 of 6 the best are level, within noise"
    )


@pytest.mark.parametrize(
    ("critical", "said"),
    [
        (1.2, "; d is worse beyond noise"),
        (0.6, "; c and d are worse beyond noise"),
        (2.0, ", but no algorithm is worse beyond the critical difference"),
    ],
)
def test_what_ranks_say(critical, said):
    means = {"a": 1.5, "b": 2.0, "c": 2.5, "d": 3.3}
    text = of_ranks(Ranks(means, cases=8, p=0.01, critical=critical))
    assert text == f"Over 8 cases a has the best mean rank, 1.5{said}"


def test_ranks_that_chance_may_make_tell_nobody_apart():
    text = of_ranks(Ranks({"a": 1.5, "b": 2.0, "c": 2.5}, cases=8, p=0.14, critical=0.5))
    assert text.endswith("1.5, but chance alone may make such ranks (Friedman's test, p = 0.14)")
