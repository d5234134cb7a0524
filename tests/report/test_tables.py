"""The table of results against numbers worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from rayfed.report.read.results import Results
from rayfed.report.result import RecordedResult
from rayfed.report.summary import by_run
from rayfed.report.tables import comparison, summary, text_columns, with_spread


@pytest.fixture
def results(tmp_path, run_writer, rows):
    """Two rivals and a baseline, two seeds each; a row is 2 s, 100 bytes and 5 updates."""
    run_writer(tmp_path, "slow", 0, rows([8, 6, 4, 2], accuracy=[0, 0.1, 0.2, 0.9]))
    run_writer(tmp_path, "slow", 1, rows([8, 6, 3, 1], accuracy=[0, 0.1, 0.2, 0.7]))
    run_writer(tmp_path, "fast", 0, rows([8, 2, 1, 0.5], accuracy=[0, 0.1, 0.2, 0.95]))
    run_writer(tmp_path, "fast", 1, rows([8, 5, 2, 1.5], accuracy=[0, 0.1, 0.2, 0.95]))
    free = {"bytes_up": np.zeros(3, int)}
    run_writer(tmp_path, "centralised", 0, rows([8, 0.5, 0.1], **free))
    run_writer(tmp_path, "centralised", 1, rows([8, 0.5, 0.1], **free))
    return Results.read(tmp_path)


def row(frame, name):
    return frame.set_index("name").loc[name]


def test_costs_are_means_over_seeds_at_the_first_good_row(results):
    frame = summary(results, target=4.0)
    slow, fast = row(frame, "slow"), row(frame, "fast")
    # slow reaches 4 in round 2 with both seeds; fast in rounds 1 and 2.
    assert (slow["rounds_to_target"], fast["rounds_to_target"]) == (2, 1.5)
    assert (slow["time_to_target_s"], fast["time_to_target_s"]) == (4, 3)
    assert (slow["bytes_up_to_target"], fast["bytes_up_to_target"]) == (200, 150)
    assert (slow["updates_to_target"], fast["updates_to_target"]) == (10, 7.5)


def test_costs_have_a_deviation_over_seeds_and_count_bytes_both_ways(results):
    frame = summary(results, target=4.0)
    slow, fast = row(frame, "slow"), row(frame, "fast")
    assert (slow["rounds_to_target_sd"], fast["rounds_to_target_sd"]) == (0, 0.5**0.5)
    assert fast["time_to_target_s_sd"] == pytest.approx(2 * 0.5**0.5)
    assert (slow["bytes_to_target"], fast["bytes_to_target"]) == (1000, 750)
    table = {column.title: column for column in text_columns(results, frame)}
    place = table["algorithm"].texts.index("fast")
    assert table["rounds to loss 4"].texts[place] == "1.5 ± 0.7"
    assert table["uploaded"].texts[place] == "150 B ± 71 B"


def test_a_target_is_reached_after_the_evaluation_before_and_may_be_lost_again(
    tmp_path, run_writer, rows
):
    none = np.nan
    # Seed 0 is good in rounds 2 and 4, seed 1 in rounds 4 and 6.
    run_writer(tmp_path, "fedavg", 0, rows([8, none, 3, none, 3, none, 3]))
    run_writer(tmp_path, "fedavg", 1, rows([8, none, none, none, 3, none, 3]))
    run_writer(tmp_path, "fedexp", 0, rows([8, none, 3, none, 5, none, 3]))
    run_writer(tmp_path, "fedexp", 1, rows([8, none, 3, none, 3, none, 5]))
    results = Results.read(tmp_path)
    frame = summary(results, target=4.0)
    plain, lost = row(frame, "fedavg"), row(frame, "fedexp")
    assert (plain["rounds_to_target"], plain["rounds_to_target_within"]) == (3, 4)
    assert plain["time_to_target_within_s"] == 8
    assert (plain["kept"], plain["rounds_to_keep"], plain["time_to_keep_s"]) == (2, 3, 6)
    assert (lost["reached"], lost["kept"]) == (2, 1)
    assert lost["rounds_to_target"] == 2
    assert np.isnan(lost["rounds_to_keep"])
    table = {column.title: column for column in text_columns(results, frame)}
    assert table["kept from round"].texts == ("3", "- (1 of 2 seeds)")
    assert table["kept from round"].best == (False, False)  # with two seeds it is undecided
    runs = by_run(results, target=4.0).set_index(["name", "seed"])
    assert runs["rounds_to_keep"].tolist()[:3] == [2, 4, 6]
    assert np.isnan(runs.loc[("fedexp", 1), "rounds_to_keep"])
    assert runs["rounds_to_target_within"].tolist() == [2, 4, 2, 2]


def test_a_single_seed_has_no_deviation(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([8, 4, 2]))
    found = row(summary(Results.read(tmp_path), target=4.0), "fedavg")
    assert found["rounds_to_target"] == 1
    assert np.isnan(found["rounds_to_target_sd"])


def test_measures_are_means_over_the_seeds(tmp_path, run_writer, rows):
    """Client 0 computes for 1 of 4 s with seed 0, for 3 of 4 s with seed 1."""
    for seed, compute in ((0, 1.0), (1, 3.0)):
        events = pd.DataFrame({"round": [1], "ask": 0, "client": 0, "start_s": 0.0})
        events = events.assign(compute_s=compute, end_s=4.0, status="used", loss=1.0, steps=1)
        run_writer(tmp_path, "fedavg", seed, rows([8, 4, 2]), events)
        run_writer(tmp_path, "centralised", seed, rows([8, 4, 2]), events)
    results = Results.read(tmp_path)
    frame = summary(results)
    found = row(frame, "fedavg")
    assert (found["computing_share"], found["communicating_share"]) == (0.5, 0.5)
    assert (found["wasted_compute_s"], found["round_s_p90"]) == (0, 2)
    assert np.isnan(row(frame, "centralised")["computing_share"])
    assert "energy_j" not in frame
    assert "staleness_p50" not in frame
    assert by_run(results)["computing_share"].dropna().tolist() == [0.25, 0.75]


def test_final_values_are_mean_and_sample_deviation(results):
    slow = row(summary(results), "slow")
    assert slow["loss_mean"] == 1.5
    assert slow["loss_sd"] == pytest.approx(0.5**0.5)
    assert slow["accuracy_mean"] == pytest.approx(0.8)
    assert "test_loss_mean" not in slow
    assert (slow["rounds"], slow["time_s"], slow["bytes_up"]) == (3, 6, 300)


def test_a_target_that_one_seed_misses_has_no_cost(results):
    slow = row(summary(results, target=1.0), "slow")
    assert (slow["reached"], slow["counted"]) == (1, 2)
    assert np.isnan(slow["rounds_to_target"])
    found = text_columns(results, summary(results, target=1.0))
    table = {column.title: column for column in found}
    place = table["algorithm"].texts.index("slow")
    assert table["rounds to loss 1"].texts[place] == "- (1 of 2 seeds)"
    assert table["simulated time"].texts[place] == "-"


def test_the_target_can_be_an_accuracy(results):
    frame = summary(results, "accuracy", 0.2)
    assert row(frame, "fast")["rounds_to_target"] == 2
    assert text_columns(results, frame)[1].title == "rounds to accuracy 0.2"


def test_the_best_is_marked_and_is_never_a_baseline(tmp_path, run_writer, rows):
    ends = {"slow": [0.72, 0.7, 0.74], "fast": [0.95, 0.95, 0.95], "centralised": [1.0, 1.0, 1.0]}
    for name, values in ends.items():
        for seed, end in enumerate(values):
            run_writer(tmp_path, name, seed, rows([8, 1], accuracy=[0, end]))
    results = Results.read(tmp_path)
    found = text_columns(results, summary(results, target=4.0))
    table = {column.title: column for column in found}
    # The scenario lists centralised; who is not listed comes after.
    assert table["algorithm"].texts == ("centralised", "fast", "slow")
    # It is ahead by 0.23, 0.25 and 0.21.
    assert table["final accuracy"].best == (False, True, False)


def test_what_is_undecided_is_not_marked(results):
    """The final loss differs by 1.5 and -0.5; accuracy by -0.05 and -0.25, with too few seeds."""
    found = text_columns(results, summary(results, target=4.0))
    table = {column.title: column for column in found}
    for title in ("rounds to loss 4", "final loss", "final accuracy"):
        assert table[title].best == (False, False, False)


@pytest.mark.parametrize(("seeds", "best"), [(5, (False, False)), (6, (True, False))])
def test_a_target_that_others_never_reach_is_decided_by_signs(
    tmp_path, run_writer, rows, seeds, best
):
    """The p-value of n equal signs is 2 / 2^n: 0.0625 of five seeds, 0.03125 of six."""
    for seed in range(seeds):
        run_writer(tmp_path, "a", seed, rows([8, 2]))
        run_writer(tmp_path, "b", seed, rows([8, 7]))
    results = Results.read(tmp_path)
    table = {c.title: c for c in text_columns(results, summary(results, target=4.0))}
    assert table["rounds to loss 4"].best == best


def test_the_only_final_value_of_a_column_is_not_marked(tmp_path, run_writer, rows):
    for seed in range(3):
        run_writer(tmp_path, "a", seed, rows([3, 1], accuracy=[0.1, 0.8]))
        run_writer(tmp_path, "b", seed, rows([3, 2]))
    results = Results.read(tmp_path)
    found = {c.title: c.best for c in text_columns(results, summary(results))}
    assert (found["final loss"], found["final accuracy"]) == ((True, False), (False, False))


@pytest.mark.parametrize(("other", "best"), [(0.50001, (False, False)), (0.51, (True, False))])
def test_of_two_values_that_read_alike_neither_is_marked(tmp_path, run_writer, rows, other, best):
    for name, end in (("a", 0.5), ("b", other)):
        for seed in range(3):
            run_writer(tmp_path, name, seed, rows([3, end]))
    results = Results.read(tmp_path)
    table = {c.title: c for c in text_columns(results, summary(results, target=2.0))}
    assert table["final loss"].best == best


@pytest.mark.parametrize(("other", "best"), [(2, (False, False)), (9, (True, False))])
def test_a_cost_is_as_exact_as_rows_are_evaluated(tmp_path, run_writer, rows, other, best):
    """A lead of one row with three seeds may be one of a moment: rounding deviates by 0.41 rows.

    The error of the mean is 0.24 rows, and t of two degrees of freedom is 4.3: 1 row is not enough.
    """
    for seed in range(3):
        run_writer(tmp_path, "a", seed, rows([3, 1]))
        run_writer(tmp_path, "b", seed, rows([3] * other + [1]))
    results = Results.read(tmp_path)
    table = {c.title: c for c in text_columns(results, summary(results, target=2.0))}
    assert table["rounds to loss 2"].best == table["uploaded"].best == best


def test_nobody_wins_by_what_is_there_at_the_start(tmp_path, run_writer, rows):
    for seed in range(3):
        run_writer(tmp_path, "a", seed, rows([1, 0.5]))
        run_writer(tmp_path, "b", seed, rows([3, 0.7]))
    results = Results.read(tmp_path)
    columns = text_columns(results, summary(results, target=2.0))
    assert columns[1].texts == ("0 ± 0", "1 ± 0")
    assert not any(columns[1].best)
    assert columns[-1].best == (True, False)


def test_models_of_the_clients_own_do_not_stand_in_columns_of_the_global_one(
    tmp_path, run_writer, personal_writer, rows
):
    run_writer(tmp_path, "fedavg", 0, rows([3, 1], accuracy=[0.1, 0.8]))
    own = {"accuracy": [0.1, 0.9], "personal_accuracy": [0.1, 0.9], "personal_loss": [3, 0.5]}
    folder = run_writer(tmp_path, "local-only", 0, rows([3, 0.5], "local-only", **own))
    personal_writer(folder, [0, 1], personal_accuracy=[[0.1], [0.9]])
    results = Results.read(tmp_path)
    found = {c.title: c.texts for c in text_columns(results, summary(results, target=2.0))}
    place = found["algorithm"].index("local-only")
    assert {title: texts[place] for title, texts in found.items()} == {
        "algorithm": "local-only", "rounds to loss 2": "-", "kept from round": "-",
        "simulated time": "-", "uploaded": "-", "client updates": "-", "final loss": "-",
        "final accuracy": "-", "final personal loss": "0.5", "final personal accuracy": "0.9",
    }  # fmt: skip
    glance = comparison(results, target=2.0).set_index("algorithm").loc["local-only"]
    assert (glance["final loss"], glance["personal accuracy"]) == ("-", "0.9")


def test_what_a_baseline_does_not_pay_is_not_compared(results):
    shown = comparison(results, target=4.0).set_index("algorithm")
    assert shown.loc["centralised", "bytes up"] == "-"
    assert shown.loc["centralised", "to loss 4"] == "1 round"
    assert shown.loc["fast", "bytes up"] == "150 B"
    assert shown.loc["fast", "to loss 4"] == "1.5 rounds"


def test_the_comparison_says_how_many_seeds_got_there(results):
    shown = comparison(results, target=1.0).set_index("algorithm")
    assert shown.loc["slow", "to loss 1"] == "1 of 2 seeds"
    assert shown.loc["slow", "simulated time"] == "-"


@pytest.mark.parametrize("length", [5, 15, 24])
def test_the_comparison_fits_a_narrow_terminal(tmp_path, run_writer, rows, length):
    for seed, end in enumerate((0.0723, 0.0661)):
        data = rows([1, 0.5, end], accuracy=[0.5, 0.6, 0.9838 - end / 10], time_s=[0, 5e3, 6061])
        run_writer(tmp_path, "x" * length, seed, data)
    shown = comparison(Results.read(tmp_path), target=0.0726)
    lines = [shown.columns.str.len(), *(shown[c].str.len() for c in shown)]
    width = sum(max(len(c), shown[c].str.len().max()) for c in shown) + 2 * (len(lines) - 2)
    assert width <= 80
    wanted = ["algorithm", "to loss 0.0726", "simulated time", "final loss", "accuracy"]
    assert [c for c in shown if c != "bytes up"] == wanted
    assert ("bytes up" in shown) == (length < 24)
    assert ("±" in shown.loc[0, "final loss"]) == (length == 5)
    whole = comparison(Results.read(tmp_path), target=0.0726, width=None)
    assert len(whole.columns) == 6
    assert "±" in whole.loc[0, "accuracy"]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_personalised_study_shows_what_its_own_models_reach(tmp_path, run_writer, rows, width):
    for label, end in (("ditto", 0.9), ("apfl", 0.8)):
        data = rows([3, 2, 1], accuracy=[0, 0.1, 0.2], personal_accuracy=[0, 0.5, end])
        run_writer(tmp_path, label, 0, data)
    run_writer(tmp_path, "fedavg", 0, rows([3, 2, 1], accuracy=[0, 0.1, 0.2]))
    shown = comparison(Results.read(tmp_path), width=width).set_index("algorithm")
    assert shown["personal accuracy"].to_dict() == {"ditto": "0.9", "apfl": "0.8", "fedavg": "-"}


def test_own_models_of_one_algorithm_among_others_are_shown(tmp_path, run_writer, rows):
    data = rows([3, 2, 1], accuracy=[0, 0.1, 0.2])
    for label in ("fedavg", "fedexp", "a long label, of which the ends differ: mu=0.1"):
        run_writer(tmp_path, label, 0, data, folder=f"{label[:6]}-seed0")
    run_writer(tmp_path, "ditto", 0, data.assign(personal_accuracy=[0, 0.5, 0.9]))
    for width, name in (
        (60, "a lon…mu=0.1"),
        (200, "a long label, of which the ends differ: mu=0.1"),
    ):
        shown = comparison(Results.read(tmp_path), width=width).set_index("algorithm")
        assert shown["personal accuracy"].to_dict() == {
            "fedavg": "-", "fedexp": "-", name: "-", "ditto": "0.9"
        }  # fmt: skip
        assert shown["accuracy"].tolist() == ["0.2"] * 4


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_a_result_fits_its_terminal_and_shows_what_was_reached(
    tmp_path, run_writer, rows, monkeypatch, columns
):
    for label in ("fedavg", "ditto", "an algorithm with a name that is long"):
        data = rows([3, 2, 1], accuracy=[0, 0.1, 0.2], personal_accuracy=[0, 0.5, 0.9])
        run_writer(tmp_path, label, 0, data)
    monkeypatch.setenv("COLUMNS", str(columns))
    text = repr(RecordedResult(tmp_path, {"fedavg-seed0": "finished"}))
    lines = text.splitlines()[1:]  # the first names the folder
    assert max(map(len, lines)) <= columns
    for shown in ("fedavg", "ditto", "personal accuracy", "0.9"):
        assert shown in text


def test_columns_that_hold_nothing_are_left_out(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([3, 2, 1]))
    shown = comparison(Results.read(tmp_path), target=0.5)
    assert list(shown.columns) == ["algorithm", "final loss"]


def test_what_only_failed_has_no_final_value(tmp_path, run_writer, rows):
    run_writer(tmp_path, "wild", 0, rows([3, 1e200]), status="failed", reason="diverged")
    run_writer(tmp_path, "fedavg", 0, rows([3, 1]))
    shown = comparison(Results.read(tmp_path)).set_index("algorithm")
    assert shown.loc["wild", "final loss"] == "failed"
    assert shown.loc["fedavg", "final loss"] == "1"


def test_what_only_a_baseline_has_is_not_shown(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([3, 1]))
    run_writer(tmp_path, "local-only", 0, rows([3, 2], personal_loss=[3.0, 0.5]))
    results = Results.read(tmp_path)
    frame = summary(results)
    assert "personal_loss_mean" in frame
    titles = [column.title for column in text_columns(results, frame)]
    assert "final personal loss" not in titles


def test_a_single_algorithm_has_no_best(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([3, 2, 1]))
    results = Results.read(tmp_path)
    table = text_columns(results, summary(results))
    assert not any(any(column.best) for column in table)
    assert table[-1].texts == ("1",)


def test_no_target_leaves_the_final_values(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([1, 2, 3]))
    assert list(comparison(Results.read(tmp_path)).columns) == ["algorithm", "final loss"]


def test_a_failed_run_is_counted_but_not_averaged(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([3, 2, 1]))
    run_writer(tmp_path, "fedavg", 1, rows([3, 1e9]), status="failed", reason="diverged")
    frame = row(summary(Results.read(tmp_path)), "fedavg")
    assert (frame["seeds"], frame["finished"], frame["failed"]) == (2, 1, 1)
    assert frame["loss_mean"] == 1


@pytest.mark.parametrize(
    ("mean", "spread", "text"),
    [
        (0.041234, 0.00123, "0.0412 ± 0.0012"),
        (0.8712, 0.0345, "0.871 ± 0.035"),
        (0.5, np.nan, "0.5"),
        (np.nan, np.nan, "-"),
        (3.21e-9, 4.0e-10, "3.21e-9 ± 4e-10"),
        (0.95, 1e-7, "0.9500 ± <0.0001"),
        (0.25, 0.0, "0.25 ± 0"),
    ],
)
def test_a_mean_has_the_digits_that_its_deviation_allows(mean, spread, text):
    assert with_spread(mean, spread) == text
