"""``rayfed list columns`` prints what the tables and the plug-ins declare."""

import re
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from rayfed.cli.catalogue import column
from rayfed.cli.main import app, out
from rayfed.core.errors import ScenarioError
from rayfed.engine.columns import catalogue


def listed(*arguments, width=300):
    # A console that was made where COLUMNS is set keeps that width.
    with patch.object(out, "_width", width):
        done = CliRunner().invoke(app, ["list", "columns", *arguments])
    assert done.exit_code == 0
    return done.output


def test_every_column_has_a_line_with_its_unit_and_its_sentence():
    lines = [re.sub(" +", " ", line).strip() for line in listed().splitlines()]
    assert "time_s s Simulated clock at the end of the round." in lines
    gap = "F(x) - F*; NaN if the optimum is not known, or the loss is that of some rows."
    assert f"loss_gap lower {gap}" in lines
    for entry in catalogue():
        assert any(line.startswith(f"{entry.column.name} ") for line in lines)


def test_names_are_whole_on_a_narrow_terminal():
    assert "personal_accuracy_worst_decile" in listed(width=80)


def test_one_in_detail_tells_of_every_table_that_has_it():
    said = listed("accuracy")
    assert [line for line in said.splitlines() if line.startswith("accuracy in")] == [
        f"accuracy in {table}" for table in ("rounds", "clients", "personal")
    ]
    assert "  better: higher" in said


def test_who_declares_it_is_named():
    assert "  of: algorithm fedexp, algorithm giant" in column("server_lr")
    assert "  unit: s" in column("compute_s")


def test_an_unknown_one_is_refused_with_the_nearest():
    with pytest.raises(ScenarioError, match="unknown column 'los'; did you mean 'loss'"):
        column("los")
