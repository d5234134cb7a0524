"""The answer at the top of the page, computed from the data."""

import numpy as np
import pytest

from rayfed.report.panels.answers import headline, of_ranks, verdict
from rayfed.report.pivot import Ranks
from rayfed.report.read.results import Results
from rayfed.report.tables import summary


def answer(folder, target=None):
    results = Results.read(folder)
    return headline(results, summary(results, target=target))


def test_the_answer_names_winner_runner_up_and_time(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([8, 6, 4, 2]))
    run_writer(tmp_path, "fedexp", 0, rows([8, 2, 1, 1]))
    run_writer(tmp_path, "centralised", 0, rows([8, 0, 0, 0]))
    assert answer(tmp_path, 2.0) == (
        "fedexp reached loss 2 in 1 round, fedavg in 3; in simulated time 3 times sooner."
    )


def test_another_winner_in_time_is_said(tmp_path, run_writer, rows):
    run_writer(tmp_path, "short", 0, rows([8, 2, 1], time_s=[0.0, 100.0, 200.0]))
    run_writer(tmp_path, "cheap", 0, rows([8, 4, 1], time_s=[0.0, 10.0, 20.0]))
    assert answer(tmp_path, 2.0) == (
        "short reached loss 2 in 1 round, cheap in 2; in simulated time cheap was 5 times sooner."
    )


def test_level_times_are_not_called_a_win(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([8, 2], time_s=[0.0, 100.0]))
    run_writer(tmp_path, "b", 0, rows([8, 2], time_s=[0.0, 101.0]))
    assert answer(tmp_path, 2.0).endswith("in simulated time they are level.")


def test_who_did_not_reach_it_is_named(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([8, 2]))
    run_writer(tmp_path, "b", 0, rows([8, 7]))
    assert answer(tmp_path, 2.0) == (
        "a reached loss 2 in 1 round; b did not reach it; it took 2 s of simulated time."
    )
    assert answer(tmp_path, 1.0) == "No algorithm reached loss 1."


def test_seeds_that_differ_are_said(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([8, 2]))
    run_writer(tmp_path, "a", 1, rows([8, 7]))
    assert answer(tmp_path, 2.0) == "No algorithm reached loss 2 with every seed."


def test_those_who_tie_come_together(tmp_path, run_writer, rows):
    for name, time in (("a", 100.0), ("b", 300.0)):
        run_writer(tmp_path, name, 0, rows([8, 2], time_s=[0.0, time]))
    run_writer(tmp_path, "c", 0, rows([8, 4, 2], time_s=[0.0, 100.0, 400.0]))
    assert answer(tmp_path, 2.0) == (
        "a and b reached loss 2 in 1 round each, c in 2; "
        "in simulated time a was 3 times sooner than b."
    )


@pytest.mark.parametrize(("tied", "told"), [(4, "1 other"), (5, "2 others")])
def test_of_many_that_tie_three_are_named(tmp_path, run_writer, rows, tied, told):
    for label in "abcde"[:tied]:
        run_writer(tmp_path, label, 0, rows([8, 2]))
    assert answer(tmp_path, 2.0).startswith(f"a, b, c and {told} reached loss 2 in 1 round")


def test_a_name_with_a_comma_is_quoted(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a, plain", 0, rows([8, 2]))
    assert answer(tmp_path, 2.0).startswith("“a, plain” reached loss 2 in 1 round")


def test_a_study_that_runs_says_so(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([8, 2]))
    run_writer(tmp_path, "a", 1, rows([8, 2]), status="running")
    assert answer(tmp_path, 2.0).endswith("(so far: 1 of 2 runs ended).")


def test_nothing_improved_and_nothing_recorded(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([1, 2]))
    assert answer(tmp_path) == "a ended at loss 2; no algorithm did better than at its start."
    run_writer(tmp_path / "other", "b", 0, rows([np.nan, np.nan]))
    assert answer(tmp_path / "other") == "No loss is recorded yet."


def test_updates_of_a_model_are_no_rounds(tmp_path, run_writer, rows):
    """Where an algorithm is asynchronous the answer is about simulated time alone."""
    run_writer(tmp_path, "fedavg", 0, rows([8, 2, 1], time_s=[0.0, 100.0, 200.0]))
    arrivals = rows([8, 4, 2], time_s=[0.0, 10.0, 20.0])
    arrivals["in_flight"] = 3.0
    run_writer(tmp_path, "fedbuff", 0, arrivals)
    assert answer(tmp_path, 2.0) == (
        "fedbuff reached loss 2 after 20 s of simulated time, fedavg after 1 min 40 s; "
        "fedbuff was 5 times sooner than fedavg."
    )


# -- noise ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slower", "noise"),
    [((50.0, 70.0), "beyond"), ((40.0, 60.0), "within"), ((30.0, 40.0), "within")],
)
def test_a_lead_is_noise_unless_it_is_more_than_both_deviations(
    tmp_path, run_writer, rows, slower, noise
):
    """The first takes 20 and 40 s, mean 30, deviation 14.1; the lead is 30, 20 or 5 s."""
    for seed, (fast, slow) in enumerate(zip((20.0, 40.0), slower, strict=True)):
        run_writer(tmp_path, "a", seed, rows([8, 2], time_s=[0.0, fast], in_flight=3.0))
        run_writer(tmp_path, "b", seed, rows([8, 2], time_s=[0.0, slow]))
    assert answer(tmp_path, 2.0).endswith(f"times sooner than b, {noise} noise.")


def test_a_lead_is_noise_if_it_is_less_than_evaluations_are_apart(tmp_path, run_writer, rows):
    """Both seeds are evaluated every second round, 20 s apart; a leads by 15 s in each."""
    nan = np.nan
    for seed in (0, 1):
        run_writer(tmp_path, "a", seed, rows([8, nan, 2], time_s=[0.0, 10.0, 20.0]))
        run_writer(tmp_path, "b", seed, rows([8, nan, 2], time_s=[0.0, 10.0, 35.0]))
        run_writer(tmp_path, "c", seed, rows([8, nan, 5, nan, 2], time_s=[0.0, 9, 18, 27, 90]))
    assert answer(tmp_path, 2.0).endswith("a was 1.8 times sooner than b, within noise.")


def test_evaluations_that_are_close_leave_a_lead_to_the_seeds(tmp_path, run_writer, rows):
    for seed in (0, 1):
        run_writer(tmp_path, "a", seed, rows([8, 4, 2]))
        run_writer(tmp_path, "b", seed, rows([8, 5, 4, 2]))
    assert answer(tmp_path, 2.0) == (
        "a reached loss 2 in 2 rounds, b in 3; in simulated time 1.5 times sooner, beyond noise."
    )


# -- a target that is lost again --------------------------------------------------------------


def test_who_kept_the_target_first_is_first_and_the_lucky_crossing_is_said(
    tmp_path, run_writer, rows
):
    """a is there in round 1 and for good in round 4, b in round 2, where it stays."""
    run_writer(tmp_path, "a", 0, rows([8, 2, 5, 5, 1]))
    run_writer(tmp_path, "b", 0, rows([8, 4, 2, 1, 1]))
    assert answer(tmp_path, 2.0) == (
        "b kept loss 2 from round 2 on, a from 4 (first there in 1); "
        "in simulated time 2 times sooner."
    )


def test_those_who_tie_are_told_apart_where_one_had_lost_it(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([8, 2, 5, 1]))
    run_writer(tmp_path, "b", 0, rows([8, 5, 4, 1]))
    assert answer(tmp_path, 2.0).startswith(
        "a kept loss 2 from round 3 on (first there in 1), b from 3; in simulated time they are"
    )


def test_one_that_lost_it_again_is_not_among_those_that_reached_it(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([8, 2, 5, 3]))
    run_writer(tmp_path, "b", 0, rows([8, 4, 3, 1]))
    assert answer(tmp_path, 2.0) == (
        "b reached loss 2 in 3 rounds; a reached it in 1 round but did not keep it; "
        "it took 6 s of simulated time."
    )
    run_writer(tmp_path, "a", 1, rows([8, 2, 2, 1]))
    assert "a reached it in 1 round but did not keep it with every seed" in answer(tmp_path, 2.0)


def test_nobody_kept_it(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([8, 2, 5]))
    run_writer(tmp_path, "b", 0, rows([8, 7, 6]))
    assert answer(tmp_path, 2.0) == (
        "No algorithm kept loss 2; a reached it in 1 round but did not keep it; b did not reach it."
    )


def test_kept_over_seeds_is_a_mean_and_evaluated_rounds_tell_how_exactly(
    tmp_path, run_writer, rows
):
    """Seeds of a are there in 2 and 2, for good in 2 and 6: the mean is 4."""
    nan = np.nan
    run_writer(tmp_path, "a", 0, rows([8, nan, 2, nan, 1, nan, 1]))
    run_writer(tmp_path, "a", 1, rows([8, nan, 2, nan, 5, nan, 1]))
    assert answer(tmp_path, 2.0) == (
        "a kept loss 2 from round 4 on (first there in 2), to within 2 rounds; "
        "it took 8 s of simulated time."
    )


def test_an_asynchronous_target_that_was_lost(tmp_path, run_writer, rows):
    arrivals = rows([8, 2, 4, 2], time_s=[0.0, 10.0, 20.0, 30.0], in_flight=3.0)
    run_writer(tmp_path, "fedbuff", 0, arrivals)
    run_writer(tmp_path, "fedavg", 0, rows([8, 2], time_s=[0.0, 20.0]))
    assert answer(tmp_path, 2.0) == (
        "fedavg reached and kept loss 2 after 20 s of simulated time, "
        "fedbuff after 30 s (first there after 10 s); fedavg was 1.5 times sooner than fedbuff."
    )


def test_who_ended_worse_than_it_began_is_said(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([8, 2]))
    run_writer(tmp_path, "b", 0, rows([8, 9]))
    assert answer(tmp_path, 2.0) == (
        "a reached loss 2 in 1 round; b ended worse than it began; it took 2 s of simulated time."
    )
    assert answer(tmp_path, 1.0) == "No algorithm reached loss 1; b ended worse than it began."


# -- a study that runs ------------------------------------------------------------------------

PLAN = "seeds: [0, 1, 2]\nalgorithms: [{name: a}, {name: b}]\n"


def test_planned_runs_count_and_one_that_runs_is_not_behind(tmp_path, run_writer, rows):
    (tmp_path / "scenario.yaml").write_text(PLAN)
    run_writer(tmp_path, "a", 0, rows([8, 2]))
    run_writer(tmp_path, "b", 0, rows([8, 7]), status="running")
    assert answer(tmp_path, 2.0) == (
        "a reached loss 2 in 1 round; b still runs; it took 2 s of simulated time "
        "(so far: 1 of 6 runs ended)."
    )


def test_a_study_that_has_just_begun(tmp_path, run_writer, rows):
    (tmp_path / "scenario.yaml").write_text(PLAN)
    run_writer(tmp_path, "a", 0, rows([8, 7]), status="running")
    assert answer(tmp_path, 2.0) == (
        "No algorithm has reached loss 2 yet (so far: 0 of 6 runs ended)."
    )


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
