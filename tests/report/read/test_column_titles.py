"""The page labels a column by what its file says, whoever declared it."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import rayfed
from rayfed.core.columns import Column
from rayfed.core.errors import ScenarioError
from rayfed.report.best import Aim
from rayfed.report.page.report import page
from rayfed.report.panels.convergence import convergence
from rayfed.report.read.curves import default_target, first_column, y_columns
from rayfed.report.read.results import Results

OWN = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rayfed.algorithms.fedavg import FedAvg
from rayfed.core.columns import Column


@dataclass(frozen=True, kw_only=True)
class Watchful(FedAvg):
    \"\"\"FedAvg that tells how large its model is.\"\"\"

    name: ClassVar[str] = "watchful"
    diagnostics: ClassVar[tuple[Column, ...]] = (
        Column("size_m", "size of the model", "m", "higher", "Euclidean norm of x."),
        Column("plain_size"),
    )

    def round(self, state):
        state, _ = yield from super().round(state)
        size = float(np.linalg.norm(state["x"]))
        return state, {"size_m": size, "plain_size": size}
"""


@pytest.fixture
def results(mixed, tmp_path, monkeypatch):
    (tmp_path / "watchful.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    local = {"steps": 5, "batch": 4, "lr": 0.02}
    mine = {"name": "watchful:Watchful", "local": local}
    rayfed.run(mixed(algorithms=[mine, {"name": "fedavg", "local": local}]), out=tmp_path / "out")
    return Results.read(tmp_path / "out")


def test_an_own_column_has_its_title_and_unit_on_the_page(results):
    own = Column("size_m", "size of the model", "m", "higher", "Euclidean norm of x.")
    assert results.column("size_m") == own
    assert convergence(results, y="size_m").layout.yaxis.title.text == "size of the model (m)"
    html = page(results)
    assert ">size of the model<" in html
    assert ">plain size<" in html


def test_an_own_column_is_ranked_the_way_it_declares(results):
    ends = [run.rounds["size_m"].iloc[-1] for run in results.of("watchful")]
    target = default_target(results, "size_m")
    assert 0.9 * min(ends) < target <= min(ends)  # rounded to the easy side
    assert default_target(results, "plain_size") is None
    assert Aim.of(results, "size_m", None, None).sign == -1
    with pytest.raises(ScenarioError, match="plain_size"):
        Aim.of(results, "plain_size", None, None)
    assert y_columns(results).index("size_m") < y_columns(results).index("plain_size")


def without_titles(run, rows, folder):
    for part in Path(run / "rounds.parquet").glob("*.parquet"):
        part.unlink()
    rows.to_parquet(folder / "rounds.parquet" / "part-000000.parquet", index=False)


def test_folders_of_earlier_versions_have_names_for_titles(tmp_path, run_writer, rows):
    table = rows([3.0, 2.0, 1.0], loss_gap=[2.0, 1.0, 0.5], step_s=[np.nan, 1.0, 2.0])
    run = run_writer(tmp_path, "fedavg", 0, table)
    without_titles(run, table, run)
    results = Results.read(tmp_path)
    assert results.runs_found[0].columns == {}
    assert results.column("loss_gap") == Column("loss_gap", "loss gap", better="lower")
    assert results.column("accuracy").better == "higher"
    assert results.column("step_s") == Column("step_s", "step s")
    assert first_column(results) == "loss"
    assert default_target(results, "loss") == 1.0
    assert ">loss gap<" in page(results)


def test_of_runs_with_and_without_titles_those_with_them_say(tmp_path, run_writer, rows):
    table = rows([3.0, 2.0, 1.0], loss_gap=[2.0, 1.0, 0.5])
    old = run_writer(tmp_path, "fedavg", 0, table)
    new = run_writer(tmp_path, "fedexp", 0, table)
    without_titles(old, table, old)
    assert Results.read(tmp_path).column("loss_gap").title == "gap to the optimum"
    shutil.rmtree(new)
    assert Results.read(tmp_path).column("loss_gap").title == "loss gap"
