"""The answer at the top of the page, computed from the data."""

import numpy as np
import pytest

from rayfed.core.columns import Column
from rayfed.report.panels.answers import _without_target, by_case, headline, of_ranks, of_target
from rayfed.report.pivot import Ranks, pivot
from rayfed.report.read.results import Results
from rayfed.report.tables import summary, text_columns


def answer(folder, target=None):
    results = Results.read(folder)
    return headline(results, summary(results, target=target))


def test_the_answer_names_winner_runner_up_and_time(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([8, 6, 4, 2]))
    run_writer(tmp_path, "fedexp", 0, rows([8, 2, 1, 1]))
    run_writer(tmp_path, "centralised", 0, rows([8, 0, 0, 0]))
    assert answer(tmp_path, 2.0) == (
        "fedexp reached loss 2 in 1 round, fedavg in 3; undecided with one seed."
    )


@pytest.mark.parametrize(("clock", "text"), [
    ("round", "short reached loss 2 in 1 round, cheap in 2"),
    ("time_s", "cheap reached loss 2 after 20 s of simulated time, short after 1 min 40 s"),
    ("bytes_up", "cheap reached loss 2 after 10 B of uploads, short after 1 kB"),
    ("updates", "short reached loss 2 after 5 client updates, cheap after 10"),
])  # fmt: skip
def test_each_clock_has_its_answer(tmp_path, run_writer, rows, clock, text):
    made = {"short": (1000, 100.0), "cheap": (5, 10.0)}
    for name, (size, time) in made.items():
        curve = [8, 2, 1] if name == "short" else [8, 4, 1]
        run_writer(tmp_path, name, 0, rows(curve, name, time_s=[0.0, time, 2 * time]).assign(
            bytes_up=[0, size, size]))  # fmt: skip
    results = Results.read(tmp_path)
    assert headline(results, summary(results, target=2.0), clock).startswith(f"{text}; undecided")


def test_the_verdict_is_that_of_the_named_one_where_a_seed_is_missing(tmp_path, run_writer, rows):
    for seed in range(5):
        if seed < 4:
            run_writer(tmp_path, "a", seed, rows([8, 1]))
        run_writer(tmp_path, "b", seed, rows([8] * (3 + seed % 2) + [1]))
    assert answer(tmp_path, 2.0) == ("a reached loss 2 in 1 round, b in 3.4; better over 4 seeds.")


def test_algorithms_without_a_seed_in_common_are_undecided(tmp_path, run_writer, rows):
    for seed in (5, 6):
        run_writer(tmp_path, "a", seed, rows([8, 1]))
        run_writer(tmp_path, "b", seed + 2, rows([8, 7, 1]))
    assert "undecided with no seed in common" in answer(tmp_path, 2.0)


def test_who_did_not_reach_it_is_named(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([8, 2]))
    run_writer(tmp_path, "b", 0, rows([8, 7]))
    assert answer(tmp_path, 2.0) == (
        "a reached loss 2 in 1 round; undecided with one seed; b did not reach it."
    )
    assert answer(tmp_path, 1.0) == "No algorithm reached loss 1."


def test_an_algorithm_that_failed_is_no_answer(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([8, 1]), status="failed")
    assert answer(tmp_path, 2.0) == answer(tmp_path) == "All runs failed."
    run_writer(tmp_path, "b", 0, rows([9, 9]))
    assert answer(tmp_path) == "b ended at loss 9; no algorithm did better than at its start."


def test_how_many_runs_reach_the_target_is_said(tmp_path, run_writer, rows):
    for seed, end in enumerate((2, 2, 7)):
        run_writer(tmp_path, "a", seed, rows([8, end]))
        run_writer(tmp_path, "b", seed, rows([8, 1]))
        run_writer(tmp_path, "centralised", seed, rows([8, 1]))
    results = Results.read(tmp_path)
    assert of_target(results, summary(results)) == "Target: loss 2, reached by 5 of 6 runs."
    stop = {"scenario": {"stop": {"loss": 2}}, "stopped_by": "loss"}
    run_writer(tmp_path / "stop", "a", 0, rows([8, 2]), **stop)
    results = Results.read(tmp_path / "stop")
    assert of_target(results, summary(results)) == (
        "Target: loss 2, where runs stop, reached by 1 of 1 run."
    )
    run_writer(tmp_path / "worse", "a", 0, rows([2, 8]))
    results = Results.read(tmp_path / "worse")
    assert of_target(results, summary(results)) == ""


def test_seeds_that_differ_are_said(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([8, 2]))
    run_writer(tmp_path, "a", 1, rows([8, 7]))
    assert answer(tmp_path, 2.0) == "No algorithm reached loss 2 with every seed."


def test_those_who_tie_come_together(tmp_path, run_writer, rows):
    for name, time in (("a", 100.0), ("b", 300.0)):
        run_writer(tmp_path, name, 0, rows([8, 2], time_s=[0.0, time]))
    run_writer(tmp_path, "c", 0, rows([8, 4, 2], time_s=[0.0, 100.0, 400.0]))
    assert answer(tmp_path, 2.0) == (
        "a and b reached loss 2 in 1 round each, c in 2; undecided with one seed."
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
    flat = rows([1.0, 0.5], accuracy=[0.5, 0.5])  # it is of the column with the target
    run_writer(tmp_path / "flat", "b", 0, flat, scenario={"stop": {"accuracy": 0.9}})
    told = "b ended at accuracy 0.5; no algorithm did better than at its start."
    assert answer(tmp_path / "flat") == told
    results = Results.read(tmp_path)
    assert headline(results, summary(results, y="participants")) == "a ended at loss 2."
    run_writer(tmp_path / "flat", "c", 0, rows([1.0, 0.1]))
    best = summary(Results.read(tmp_path / "flat"))
    higher = Column("f1", better="higher")  # the summary has no column for it
    assert _without_target(best, higher) == "c ended at loss 0.1"
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
        "undecided with one seed."
    )


# -- verdicts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slower", "text"),
    [
        ([50, 62, 75], "better over 3 seeds"),  # the differences are 30, 31 and 34
        ([21, 45, 71], "better with every seed over 3 seeds (about 7 seeds would separate them)"),
        ([21, 45, 30], "undecided over 3 seeds (about 341 seeds would separate them)"),
        ([20, 31, 41], "equivalent over 3 seeds"),
    ],
)
def test_a_lead_is_compared_seed_by_seed(tmp_path, run_writer, rows, slower, text):
    """The first takes 20, 31 and 41 s."""
    for seed, (fast, slow) in enumerate(zip([20, 31, 41], slower, strict=True)):
        run_writer(tmp_path, "a", seed, rows([8, 2], time_s=[0.0, fast], in_flight=3.0))
        run_writer(tmp_path, "b", seed, rows([8, 2], time_s=[0.0, slow]))
    results = Results.read(tmp_path)
    frame = summary(results, target=2.0)
    frame["rounds_to_target_within"] = 0.0
    assert headline(results, frame).endswith(f"; {text}.")


def test_several_competitors_have_words_of_their_own(tmp_path, run_writer, rows):
    nan = np.nan
    for seed in range(3):
        run_writer(tmp_path, "a", seed, rows([8] * (9 + seed) + [2]))
        run_writer(tmp_path, "b", seed, rows([8] * (10 - seed) + [2]))
        run_writer(tmp_path, "c", seed, rows([8] * (200 + seed) + [2]))
        run_writer(tmp_path, "d", seed, rows([8, nan, 7]))
    text = answer(tmp_path, 2.0)
    assert text.startswith("b reached loss 2 in 9 rounds, a in 10, c in 201; over 3 seeds better")
    assert "better than c, better with every seed than d and undecided against a" in text
    assert text.endswith("d did not reach it.")


def test_a_lead_of_less_than_evaluations_are_apart_is_not_better(tmp_path, run_writer, rows):
    """Both seeds are evaluated every tenth round; b is an evaluation behind in each."""
    nan = [np.nan] * 9
    for seed in (0, 1):
        run_writer(tmp_path, "a", seed, rows([8, *nan, 2]))
        run_writer(tmp_path, "b", seed, rows([8, *nan, 5, *nan, 2]))
    assert "better with every seed over 2 seeds" in answer(tmp_path, 2.0)


def test_a_target_that_was_lost_again_is_said(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([8, 2, 5, 3]))
    run_writer(tmp_path, "b", 0, rows([8, 4, 3, 1]))
    assert answer(tmp_path, 2.0) == (
        "a reached loss 2 in 1 round, b in 3; undecided with one seed; a did not keep it."
    )


def test_who_ended_worse_than_it_began_is_said(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([8, 2]))
    run_writer(tmp_path, "b", 0, rows([8, 9]))
    assert answer(tmp_path, 2.0) == (
        "a reached loss 2 in 1 round; undecided with one seed; b ended worse than it began."
    )
    assert answer(tmp_path, 1.0) == "No algorithm reached loss 1; b ended worse than it began."


# -- a study that runs ------------------------------------------------------------------------

PLAN = "seeds: [0, 1, 2]\nalgorithms: [{name: a}, {name: b}]\n"


def test_planned_runs_count_and_one_that_runs_is_not_behind(tmp_path, run_writer, rows):
    (tmp_path / "scenario.yaml").write_text(PLAN)
    run_writer(tmp_path, "a", 0, rows([8, 2]))
    run_writer(tmp_path, "b", 0, rows([8, 7]), status="running")
    assert answer(tmp_path, 2.0) == (
        "a reached loss 2 in 1 round; b still runs (so far: 1 of 6 runs ended)."
    )


def test_a_study_that_has_just_begun(tmp_path, run_writer, rows):
    (tmp_path / "scenario.yaml").write_text(PLAN)
    run_writer(tmp_path, "a", 0, rows([8, 7]), status="running")
    assert answer(tmp_path, 2.0) == (
        "No algorithm has reached loss 2 yet (so far: 0 of 6 runs ended)."
    )


def test_runs_that_never_began_are_in_no_mean(tmp_path, run_writer, rows):
    """The study was stopped: of b and of a's second seed there is the start alone."""
    run_writer(tmp_path, "a", 0, rows([8, 2]))
    run_writer(tmp_path, "a", 1, rows([8]), status="running")
    run_writer(tmp_path, "b", 0, rows([8]), status="running")
    results = Results.read(tmp_path)
    assert results.rivals == ("a",)
    assert summary(results).set_index("name").loc["a", "loss_mean"] == 2
    assert answer(tmp_path) == "a reached loss 2 in 1 round (so far: 1 of 3 runs ended)."


def test_where_no_run_began_nobody_is_said_to_be_worse(tmp_path, run_writer, rows):
    for name in ("a", "b", "centralised"):
        run_writer(tmp_path, name, 0, rows([8]), status="running")
    assert Results.read(tmp_path).rivals == ("a", "b")
    assert answer(tmp_path) == "No round is recorded yet (so far: 0 of 3 runs ended)."


def said(tmp_path, case_writer, ends):
    return by_case(Results.read(case_writer(tmp_path, ends)), "loss")


def test_a_reversal_is_named_with_the_margin(tmp_path, case_writer):
    ends = {
        "0.1": {"a": [0.9, 1.1, 1.0], "b": [2.9, 3.12, 3.01]},
        "1.0": {"a": [1.9, 2.1, 2.0], "b": [1.8, 2.5, 2.3]},
        "10.0": {"a": [3.9, 4.1, 4.05], "b": [0.9, 1.1, 1.0]},
        "20.0": {"a": [3.9, 4.1, 4.0], "b": [3.9, 4.1, 4.0]},
    }
    assert said(tmp_path, case_writer, ends) == (
        "Final loss: a is best at alpha = 0.1 (1.00, b 3.01); "
        "b is best at alpha = 10 (1.00, a 4.02); "
        "undecided between a and b at alpha = 1 (about 10 seeds would separate them); "
        "a and b are equivalent at alpha = 20"
    )


def test_one_that_is_ahead_with_every_seed(tmp_path, case_writer):
    ends = {x: {"a": [0.9, 1.1], "b": [1.2, 3.1]} for x in ("1.0", "2.0")}
    text = "a is ahead with every seed at alpha = 1 (1.00, b 2.1) and at alpha = 2 (1.00, b 2.1)"
    assert said(tmp_path, case_writer, ends) == f"Final loss: {text}"


def test_one_seed_decides_nothing(tmp_path, case_writer):
    ends = {x: {"a": [1], "b": [2]} for x in ("1.0", "2.0")}
    text = said(tmp_path, case_writer, ends)
    assert text == "Final loss: undecided with one seed at alpha = 1 and 2"


def test_of_many_cases_they_are_counted(tmp_path, case_writer):
    ends = {f"{k}.0": {"a": [1, 1.1, 1.2], "b": [2, 2.1, 2.3]} for k in range(4)}
    ends |= {
        "4.0": {"a": [2, 2.1, 2.3], "b": [1, 1.1, 1.2]},
        "5.0": {"a": [1, 2, 3], "b": [1, 2, 3]},
        "6.0": {"a": [1.9, 2.1, 2.0], "b": [1.8, 2.5, 2.3]},
    }
    assert said(tmp_path, case_writer, ends) == (
        "Final loss: a is best in 4 of 7 cases; b is best at alpha = 4; undecided at alpha = 6 "
        "(about 10 seeds would separate them); the best are equivalent at alpha = 5"
    )


@pytest.mark.parametrize(
    ("critical", "said"),
    [
        (1.2, "; d is worse by more than the critical difference"),
        (0.6, "; c and d are worse by more than the critical difference"),
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


def test_final_values_have_the_digits_of_the_table(tmp_path, run_writer, rows):
    """0.78 and 0.80 are 0.790 ± 0.014, not 0.79."""
    for name, ends in (("apfl", (0.78, 0.8)), ("ditto", (0.5, 0.51))):
        for seed, end in enumerate(ends):
            own = {"personal_accuracy": [0.1, 0.2, end], "accuracy": [0.1, 0.1, 0.1]}
            run_writer(tmp_path, name, seed, rows([1.0, 0.5, 0.4], **own))
    results = Results.read(tmp_path)
    frame = summary(results)
    table = {column.title: column.texts for column in text_columns(results, frame)}
    assert table["final personal accuracy"] == ("0.790 ± 0.014", "0.5050 ± 0.0071")
    said = headline(results, frame)
    assert "at personal accuracy 0.790 with apfl and 0.5050 with ditto" in said


def test_a_margin_has_the_digits_of_the_table(tmp_path, case_writer):
    ends = {"0.1": {"a": [0.78, 0.8], "b": [2, 3]}, "1": {"a": [0.78, 0.8], "b": [2, 3.5]}}
    results = Results.read(case_writer(tmp_path, ends))
    texts = [text for column in pivot(results, "loss") for text in column.texts]
    assert "0.790 ± 0.014" in texts
    assert "(0.790, b 2.50)" in by_case(results, "loss")
