"""Tidy tables against numbers worked out by hand from a study of a few rows."""

import numpy as np
import pytest

from rayfed.report.read.results import Results
from rayfed.report.summary import by_run, by_setting
from rayfed.report.tables import summary

GRID = """
name: swept
grid:
  participation.cohort: [1, 4]
  participation.select: [{name: uniform}, {name: power-of-d, d: 6}]
"""
NAMES = ("cohort=1, select=uniform", "cohort=4, select=power-of-d d=6")


@pytest.fixture
def results(tmp_path, run_writer, rows):
    """One run finished and one failed in its second round; 2 s, 100 bytes, 5 updates a round."""
    run_writer(tmp_path, "good", 0, rows([8, 6, 4, 2], test_loss=[9, 7, np.nan, np.nan]))
    run_writer(tmp_path, "bad", 1, rows([8, 7]), status="failed", reason="no such thing")
    return Results.read(tmp_path)


@pytest.fixture
def swept(tmp_path, run_writer, rows):
    """Two of the four settings of a grid."""
    (tmp_path / "scenario.yaml").write_text(GRID)
    for place, setting in enumerate(NAMES):
        run = {"setting": setting, "folder": f"fedavg-{place}"}
        run_writer(tmp_path, "fedavg", 0, rows([8, 4 - place]), **run)
    return Results.read(tmp_path)


def test_a_row_a_run_with_its_last_evaluated_values(results):
    frame = by_run(results).set_index("label")
    assert frame.loc["good", ["seed", "status", "rounds"]].tolist() == [0, "finished", 3]
    assert frame.loc["bad", ["seed", "status", "rounds"]].tolist() == [1, "failed", 1]
    assert frame["loss"].to_dict() == {"good": 2, "bad": 7}
    assert frame.loc["good", "test_loss"] == 7
    assert np.isnan(frame.loc["bad", "test_loss"])


def test_counts_are_totals_over_the_rounds(results):
    good = by_run(results).set_index("label").loc["good"]
    assert good["time_s"] == 6
    assert [good[name] for name in ("participants", "bytes_up", "bytes_down", "local_steps")] == [
        15, 300, 1200, 150,
    ]  # fmt: skip


def test_costs_to_a_target_are_of_the_first_row_as_good_as_it(results):
    frame = by_run(results, y="loss", target=5).set_index("label")
    costs = ["rounds_to_target", "time_to_target_s", "bytes_up_to_target", "updates_to_target"]
    assert frame.loc["good", costs].tolist() == [2, 4, 200, 10]
    assert frame.loc["bad", costs].isna().all()


def test_what_a_grid_set_has_columns_of_its_own(swept):
    for frame in (by_run(swept), by_setting(swept)):
        assert frame["participation.cohort"].tolist() == [1, 4]
        assert frame["participation.select.name"].tolist() == ["uniform", "power-of-d"]
        assert frame["participation.select.d"].fillna(0).tolist() == [0, 6]
        assert tuple(frame["setting"]) == NAMES


def test_a_row_a_setting_is_the_table_of_the_page(swept):
    frame, page = by_setting(swept), summary(swept)
    assert frame[list(page.columns)].equals(page)
    assert frame["loss_mean"].tolist() == [4, 3]


def test_numbers_are_numbers(results):
    frame = by_run(results)
    words = ["name", "label", "algorithm", "setting", "status", "target_column"]
    numbers = frame.select_dtypes(["number", "bool"]).columns
    assert sorted([*words, *numbers]) == sorted(frame.columns)
