"""Where traces are looked for, and clients in them by the names of the data."""

import numpy as np
import pandas as pd
import pytest

from rayfed import api
from rayfed.core.errors import DataMissing, ScenarioError
from rayfed.core.tables import TraceFile, clients
from rayfed.population import AvailabilityTrace, PopulationInfo

TABLE = "compute_s\n0.5\n"
NAMES = ("01001", "1001", "NA", "12345678901234567890")


def made(folder):
    path = folder / "scenario.yaml"
    path.write_text(
        "rounds: 1\n"
        "problem: {name: quadratic, dataset: {name: quadratic, clients: 2}}\n"
        "clients: {count: 2, delay: {name: trace, file: phones/speeds.csv}}\n"
        "algorithms: [fedavg]\nexecutor: serial\n"
    )
    return path


def file_of(path):
    return api.read(path).clients.delay.file


def test_a_trace_is_beside_its_scenario_or_else_in_rayfed_data(tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / "phones").mkdir(parents=True)
    (home / "phones" / "speeds.csv").write_text(TABLE)
    monkeypatch.setenv("RAYFED_DATA", str(home))
    assert file_of(made(tmp_path)) == str(home / "phones" / "speeds.csv")
    (tmp_path / "phones").mkdir()
    (tmp_path / "phones" / "speeds.csv").write_text(TABLE)
    assert file_of(made(tmp_path)) == str(tmp_path / "phones" / "speeds.csv")


@pytest.mark.parametrize("home", [None, "empty"])
def test_a_missing_trace_is_missing_data(tmp_path, monkeypatch, home):
    monkeypatch.delenv("RAYFED_DATA", raising=False)
    if home:
        monkeypatch.setenv("RAYFED_DATA", str(tmp_path / home))
    study = api.read(made(tmp_path))
    with pytest.raises(
        DataMissing, match=r"^clients\.delay\.file: speeds\.csv: cannot be read: No such file"
    ):
        api.prepare(study)


def test_names_are_read_as_they_are_written(tmp_path):
    text = "client, x\n1001,1\n12345678901234567890,2\nNA,3\n01001,4\n"
    (tmp_path / "it.csv").write_text(text)
    table = TraceFile(str(tmp_path / "it.csv"), "file")
    assert clients(table, NAMES).tolist() == [1, 3, 2, 0]
    assert table.numbers("x").tolist() == [1, 2, 3, 4]


def test_names_may_be_written_as_whole_numbers_with_a_point(tmp_path):
    (tmp_path / "it.csv").write_text("client,x\n9.0,1\n7.0,2\n")
    table = TraceFile(str(tmp_path / "it.csv"), "file")
    assert clients(table, ("7", "8", "9")).tolist() == [2, 0]
    assert clients(table, ("7.0", "9.0")).tolist() == [1, 0]


def test_numbers_beyond_ids_are_names_until_the_data_are_read(tmp_path):
    (tmp_path / "it.csv").write_text(f"client,start_s,end_s\n{NAMES[3]},0,1\n1001,0,2\n")
    trace = AvailabilityTrace(file=str(tmp_path / "it.csv"), repeat_s=5)
    named, others = trace.named(NAMES), PopulationInfo(4, 0)
    assert named.available(np.arange(4), 0.5, 1, others).tolist() == [False, True, False, True]
    assert named.available(np.arange(4), 1.5, 1, others).tolist() == [False, True, False, False]
    with pytest.raises(ScenarioError, match="row 1: client is 12345678901234567890; ids are whole"):
        trace.named(())


@pytest.mark.parametrize("cells", [[1, 0], [1.0, 0.0], ["1", "0"]])
def test_ids_may_be_of_any_type(tmp_path, cells):
    pd.DataFrame({"client": cells}).to_parquet(tmp_path / "it.parquet")
    table = TraceFile(str(tmp_path / "it.parquet"), "file")
    assert clients(table, ()).tolist() == clients(table, None).tolist() == [1, 0]


def test_a_row_with_more_cells_than_the_header_is_refused(tmp_path):
    (tmp_path / "it.csv").write_text("client,x\n0,1,2\n")
    with pytest.raises(ScenarioError, match=r"file: it\.csv: line 2 has 3 cells, but the header"):
        TraceFile(str(tmp_path / "it.csv"), "file")
