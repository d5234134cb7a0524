"""Means over seeds, clocks and targets, with numbers worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from rayfed.core.columns import Column
from rayfed.report.panels.answers import headline
from rayfed.report.read.curves import (
    X_AXES,
    before,
    clocks,
    crossing,
    curve,
    default_target,
    first_column,
    gap,
    history,
    keeping,
    round_easily,
    thin,
    y_columns,
)
from rayfed.report.read.results import Results
from rayfed.report.tables import summary


def frame(x, y):
    return pd.DataFrame({"time_s": x, "loss": y})


def test_history_sums_what_a_row_counts_for_its_round_alone(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([4, 3, 2, 1]))
    found = history(Results.read(tmp_path).runs_found[0])
    assert list(found["bytes_up"]) == [0, 100, 200, 300]
    assert list(found["updates"]) == [0, 5, 10, 15]
    assert list(found["time_s"]) == [0, 2, 4, 6]


def test_communications_are_those_recorded_or_one_a_round(tmp_path, run_writer, rows):
    run_writer(tmp_path / "a", "fedavg", 0, rows([4, 3, 2]))
    assert "communications" not in clocks(Results.read(tmp_path / "a"))
    run_writer(tmp_path / "b", "fedavg", 0, rows([4, 3, 2, 1], bytes_up=[0, 100, 0, 100]))
    run_writer(tmp_path / "b", "disco", 0, rows([4, 3, 2], communications=[np.nan, 5, 3]))
    results = Results.read(tmp_path / "b")
    assert "communications" in clocks(results)
    found = {run.label: list(history(run)["communications"]) for run in results.runs_found}
    assert found == {"fedavg": [0, 1, 1, 2], "disco": [0, 5, 8]}


def test_between_evaluations_a_run_lies_on_its_own_line_and_then_holds_its_last_value():
    """At 3 the first run is at 3, at 1 the second at 4; the second ends at 3."""
    found = curve([frame([0, 1, 4], [8, 5, 2]), frame([0, 3], [6, 0])], "time_s", "loss")
    assert list(found.x) == [0, 1, 3, 4]
    assert list(found.mean) == [7, 4.5, 1.5, 1]


def test_where_the_clock_stands_still_the_last_value_counts():
    """The first run is drawn from (0, 8) to (2, 2); what it had at 2 before counts for nothing."""
    found = curve([frame([0, 2, 2], [8, 6, 2]), frame([0, 1], [4, 1])], "time_s", "loss")
    assert list(found.x) == [0, 1, 2]
    assert list(found.mean) == [6, 3, 1.5]


def test_the_band_is_the_sample_deviation():
    found = curve([frame([0], [y]) for y in (1.0, 2.0, 2.0, 3.0)], "time_s", "loss")
    # Squares 1, 0, 0, 1 over 4 - 1.
    assert found.high[0] == pytest.approx(2 + (2 / 3) ** 0.5)
    assert found.low[0] == pytest.approx(2 - (2 / 3) ** 0.5)


def test_rows_that_were_not_evaluated_do_not_count():
    found = curve([frame([0, 1, 2], [4, np.nan, 2])], "time_s", "loss")
    assert list(found.x) == [0, 2]
    assert list(found.low) == list(found.high) == [4, 2]


@pytest.mark.parametrize("ends", [(1.0, 9.0), (-1.0, 9.0), (4.0, 4.0)])
def test_the_band_goes_no_further_than_the_runs(ends):
    found = curve([frame([0], [y]) for y in ends], "time_s", "loss")
    assert (found.low[0], found.high[0]) == ends  # of two, the deviation is 0.71 of their distance


def test_the_band_of_three_runs_ends_at_one_of_them_alone():
    found = curve([frame([0], [y]) for y in (1.0, 1.0, 9.0)], "time_s", "loss")
    # Mean 3.67, deviation 4.62.
    assert found.low[0] == 1.0
    assert found.high[0] == pytest.approx(11 / 3 + (64 / 3) ** 0.5)


def test_a_long_curve_is_thinned_and_keeps_its_ends():
    found = curve([frame(np.arange(5000.0), np.ones(5000))], "time_s", "loss", most=600)
    assert len(found.x) == 600
    assert (found.x[0], found.x[-1]) == (0, 4999)
    assert list(thin(np.arange(3.0), 5)) == [0, 1, 2]


def test_no_data_is_an_empty_curve():
    assert len(curve([frame([0], [np.nan])], "time_s", "loss").x) == 0
    assert len(curve([], "time_s", "loss").x) == 0


def test_crossing_is_the_first_row_as_good_as_the_target():
    losses = frame([0, 1, 2, 3], [4, np.nan, 2, 3])
    loss, accuracy = Column("loss", better="lower"), Column("accuracy", better="higher")
    assert crossing(losses, loss, 2.0) == 2
    assert crossing(losses, loss, 1.9) is None
    gains = pd.DataFrame({"round": [0, 1, 2], "accuracy": [0.5, 0.9, 0.8]})
    assert crossing(gains, accuracy, 0.8) == 1


@pytest.mark.parametrize(
    ("value", "up", "rounded"),
    [
        (0.05312, True, 0.054),
        (0.05312, False, 0.053),
        (0.05, True, 0.05),
        (1234.0, True, 1300.0),
        (0, True, 0.0),
        (-0.0123, True, -0.012),
    ],
)
def test_round_easily(value, up, rounded):
    assert round_easily(value, up) == rounded


def test_the_default_target_is_what_the_worst_rival_reaches(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fast", 0, rows([1.0, 0.1, 0.0101]))
    run_writer(tmp_path, "slow", 0, rows([1.0, 0.5, 0.2342]))
    run_writer(tmp_path, "centralised", 0, rows([1.0, 0.9, 0.8]))
    assert default_target(Results.read(tmp_path)) == 0.24


def test_the_default_target_is_reached_by_every_seed(tmp_path, run_writer, rows):
    run_writer(tmp_path, "slow", 0, rows([1.0, 0.5, 0.21]))
    run_writer(tmp_path, "slow", 1, rows([1.0, 0.5, 0.2342]))
    assert default_target(Results.read(tmp_path)) == 0.24
    gains = ([0.0, 0.9512], [0.0, 0.9634])
    for seed, gain in enumerate(gains):
        run_writer(tmp_path / "b", "slow", seed, rows([2, 1], accuracy=gain))
    assert default_target(Results.read(tmp_path / "b"), "accuracy") == 0.95


def gaps(folder, run_writer, rows, scenario, **info):
    made = [1.0, 0.1, 0.0101]
    run_writer(folder, "fast", 0, rows(made, loss_gap=made), scenario=scenario, **info)
    return Results.read(folder)


def test_a_study_that_asks_for_the_gap_comes_with_it_first(tmp_path, run_writer, rows):
    for number, asked in enumerate([{"evaluate": {"gap": True}}, {"stop": {"loss_gap": 0.02}}]):
        assert first_column(gaps(tmp_path / f"{number}", run_writer, rows, asked)) == "loss_gap"
    assert first_column(gaps(tmp_path / "by", run_writer, rows, {})) == "loss"


def test_where_most_clients_have_models_of_their_own_these_come_first(tmp_path, run_writer, rows):
    own = {"personal_accuracy": [0.1, 0.5, 0.9], "accuracy": [0.1, 0.7, 0.8]}
    run_writer(tmp_path, "fedavg", 0, rows([1.0, 0.5, 0.4]))
    run_writer(tmp_path, "ditto", 0, rows([1.0, 0.5, 0.4], **own))
    assert first_column(Results.read(tmp_path)) == "loss"  # of one of two
    run_writer(tmp_path, "apfl", 0, rows([1.0, 0.4, 0.3], **own))
    results = Results.read(tmp_path)
    assert first_column(results) == "personal_accuracy"
    said = headline(results, summary(results))
    assert said == (
        "Clients' own models end at personal accuracy 0.9 with apfl and 0.9 with ditto; "
        "the best global model, apfl's, has accuracy 0.8."
    )
    run_writer(tmp_path, "local-only", 0, rows([1.0, 0.4, 0.3], **own))
    results = Results.read(tmp_path)
    assert ", the baseline local-only at 0.9; the" in headline(results, summary(results))
    for name in ("fedbn", "fedper"):
        run_writer(tmp_path, name, 0, rows([1.0, 0.4, 0.3], **own))
    results = Results.read(tmp_path)
    assert "0.9 with ditto, 0.9 with fedbn and 1 other" in headline(results, summary(results))


def test_where_nodes_are_measured_they_come_before_models_of_their_own(tmp_path, run_writer, rows):
    values = {"node_accuracy": [0.1, 0.5, 0.9]}
    own = {"personal_accuracy": [0.1, 0.6, 0.95]}
    run_writer(tmp_path, "d-psgd", 0, rows([1.0, 0.5, 0.4], **values, **own))
    run_writer(tmp_path, "dfedavg", 0, rows([1.0, 0.5, 0.4], **values, **own))
    run_writer(tmp_path, "fedavg", 0, rows([1.0, 0.5, 0.4], **values))
    assert first_column(Results.read(tmp_path)) == "node_accuracy"


def test_without_a_loss_comes_what_can_be_won(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([np.nan] * 3, accuracy=[0.1, 0.5, 0.9]))
    assert first_column(Results.read(tmp_path)) == "accuracy"


def test_the_value_that_stops_runs_is_the_target(tmp_path, run_writer, rows):
    stop = {"stop": {"loss_gap": 0.02}}
    stopped = gaps(tmp_path / "a", run_writer, rows, stop, stopped_by="loss_gap")
    assert default_target(stopped, "loss_gap") == 0.02
    assert default_target(stopped, "loss") == 0.011
    late = gaps(tmp_path / "b", run_writer, rows, stop, stopped_by="rounds")
    assert default_target(late, "loss_gap") == 0.011


def test_an_algorithm_that_hardly_moved_sets_no_target(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fast", 0, rows([1.0, 0.1, 0.0101]))
    run_writer(tmp_path, "stuck", 0, rows([1.0, 0.99, 0.98]))
    run_writer(tmp_path, "worse", 0, rows([1.0, 2.0, 3.0]))
    assert default_target(Results.read(tmp_path)) == 0.011


@pytest.mark.parametrize(
    ("ends", "target"),
    [
        # One bad seed made less than two thirds of its algorithm's progress: it sets nothing.
        ({"a": [0.68, 0.68, 0.66], "b": [0.95, 1.84, 0.8]}, 0.95),
        # One seed diverged.
        ({"a": [0.11, 0.1, 0.11], "b": [0.03, 0.03, 0.04], "c": [0.08, 9.0, 0.09]}, 0.11),
        ({"a": [0.5], "b": [0.1, 9.0]}, 0.5),
        # A bad algorithm, and one that diverged.
        ({"a": [0.5], "b": [0.6], "c": [2.1]}, 0.6),
        ({"a": [0.5], "b": [0.6], "c": [7.0]}, 0.6),
        # One algorithm that is much better than three: the best of these counts.
        ({"a": [0.01], "b": [1.7], "c": [1.8], "d": [1.9]}, 1.7),
    ],
)
def test_neither_a_bad_run_nor_a_bad_algorithm_sets_the_target(
    ends, target, tmp_path, run_writer, rows
):
    """All begin at 2.3."""
    for name, of in ends.items():
        for seed, end in enumerate(of):
            run_writer(tmp_path, name, seed, rows([2.3, (2.3 + end) / 2, end]))
    assert default_target(Results.read(tmp_path)) == target


def test_where_every_run_gets_worse_in_the_end_its_best_value_counts(tmp_path, run_writer, rows):
    run_writer(tmp_path, "a", 0, rows([1.0, 0.21, 3.0]))
    run_writer(tmp_path, "b", 0, rows([1.0, 0.25, 4.0]))
    assert default_target(Results.read(tmp_path)) == 0.25


@pytest.mark.parametrize(
    ("ends", "target"),
    [((2.3598,), 2.36), ((2.37141,), 2.3715), ((2.3598, 2.3603), 2.37), ((2.3, 2.4), 2.3)],
)
def test_a_target_is_not_met_at_the_start(ends, target, tmp_path, run_writer, rows):
    for seed, end in enumerate(ends):  # two digits would make 2.4
        run_writer(tmp_path, "slow", seed, rows([2.372, 2.5, end]))
    run_writer(tmp_path, "worse", 0, rows([2.372, 2.4, 2.48]))
    assert default_target(Results.read(tmp_path)) == target


def test_a_target_of_gains_is_not_met_at_the_start(tmp_path, run_writer, rows):
    run_writer(tmp_path, "slow", 0, rows([1.0, 1.0], accuracy=[0.9512, 0.9566]))
    assert default_target(Results.read(tmp_path), "accuracy") == 0.956


def test_nothing_improved_means_no_target(tmp_path, run_writer, rows):
    run_writer(tmp_path, "worse", 0, rows([1.0, 2.0, 3.0]))
    results = Results.read(tmp_path)
    assert default_target(results) is None
    assert default_target(results, "server_lr") is None


def test_columns_without_news_are_not_offered(tmp_path, run_writer, rows):
    step = [np.nan, 1.0, 1.5]
    more = {"server_lr": step, "note": ["a", "b", "c"], "position": [-1.0, 3.0, 7.0]}
    run_writer(tmp_path, "fedexp", 0, rows([3, 2, 1], **more))
    # Participants, bytes and steps are the same in every round; accuracy holds nothing; a position
    # is the id of a client.
    assert y_columns(Results.read(tmp_path)) == ["loss", "server_lr"]


@pytest.mark.parametrize(
    ("axis", "largest", "unit"),
    [("time_s", 90, "s"), ("time_s", 130, "min"), ("bytes_up", 4.1e9, "GB"), ("round", 100, "")],
)
def test_an_axis_takes_the_unit_that_reads_best(axis, largest, unit):
    assert X_AXES[axis].unit(largest)[0] == unit


def test_a_target_that_is_lost_again_is_kept_from_later_on():
    """Evaluated in rounds 0, 2, 4, 6 and 7: good in 2, bad in 4, good from 6 on."""
    losses = [8.0, np.nan, 3.0, np.nan, 5.0, np.nan, 4.0, 1.0]
    run = pd.DataFrame({"round": np.arange(8), "loss": losses})
    column = Column("loss", better="lower")
    first, kept = crossing(run, column, 4.0), keeping(run, column, 4.0)
    assert (first, kept) == (2, 6)
    assert (before(run, column, first), before(run, column, kept)) == (0, 4)
    assert keeping(run, column, 0.5) is None
    assert keeping(run, column, 9.0) == 0
    assert before(run, column, 0) == 0
    assert keeping(run.assign(loss=losses[::-1]), column, 4.0) is None
    higher = Column("loss", better="higher")
    assert crossing(run, higher, 5.0) == 0
    assert keeping(run, higher, 1.0) == 0
    assert keeping(run.assign(loss=np.nan), column, 4.0) is None
    assert gap(run, "round", "loss") == 2
    assert gap(run.iloc[:1], "round", "loss") == gap(run, "round", "accuracy") == 0
