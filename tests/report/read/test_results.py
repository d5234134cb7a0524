"""Reading result folders in every state they can be in."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from rayfed.core import parquet
from rayfed.core.entries import sealed
from rayfed.core.errors import ScenarioError
from rayfed.core.leases import LOCK, lease
from rayfed.report.panels.base import PageSource
from rayfed.report.panels.endings import EndingsPanel
from rayfed.report.read import run as run_module
from rayfed.report.read.results import Results


def endings(folder):
    return EndingsPanel(PageSource.of(Results.read(folder))).title


def test_all_parts_of_all_runs_are_read(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([3, 2, 1]), parts=3)
    run_writer(tmp_path, "fedavg", 1, rows([4, 3, 2], seed=1), parts=2)
    results = Results.read(tmp_path)
    assert list(results.rounds["loss"]) == [3, 2, 1, 4, 3, 2]
    assert [run.seed for run in results.runs_found] == [0, 1]
    assert results.study == "hand-made"
    assert results.description == "A study written by hand."


def test_a_row_in_an_old_and_in_a_compacted_part_counts_once(tmp_path, run_writer, rows):
    run = run_writer(tmp_path, "fedavg", 0, rows([3, 2, 1]), parts=3)
    rows([3, 2, 1]).to_parquet(run / "rounds.parquet" / "part-999999.parquet", index=False)
    assert list(Results.read(tmp_path).rounds["loss"]) == [3, 2, 1]


@pytest.mark.parametrize("again", [False, True])
def test_numbers_of_a_run_are_those_of_its_frame(tmp_path, run_writer, rows, again):
    """Missing values, booleans, texts and a row that is in two parts."""
    frame = rows([3.0, 2.0, 1.0]).assign(
        loss=[3.0, None, 1.0], few=pd.array([1, None, 3], dtype="Int64"),
        flag=[True, False, True], some=[True, None, False], text=["a", "b", "c"],
    )  # fmt: skip
    run = run_writer(tmp_path, "fedavg", 0, frame, parts=3)
    if again:
        frame.iloc[1:2].assign(loss=2.0).to_parquet(run / "rounds.parquet" / "part-999999.parquet")
    (found,) = Results.read(tmp_path).runs_found
    numbers = found.rounds.select_dtypes(["number", "bool"])
    assert list(found.numbers) == list(numbers)
    assert {"few", "flag"} <= found.numbers.keys()
    assert not {"some", "text"} & found.numbers.keys()
    for name, values in found.numbers.items():
        np.testing.assert_array_equal(values, numbers[name].to_numpy(float))
    assert found.length == 3
    assert list(found.rounds["round"]) == [0, 1, 2]
    assert found.rounds["loss"].isna()[1] == (not again)
    assert [*found.recorded] == [*found.rounds]
    assert found.extents["few"] == (3.0, 3.0)
    assert found.extents["flag"] == (0.0, 1.0)


def test_a_part_that_disappears_is_read_again(tmp_path, run_writer, rows, monkeypatch):
    run = run_writer(tmp_path, "fedavg", 0, rows([3, 2, 1]), parts=3)
    real, parts = pq.ParquetFile, run / "rounds.parquet"

    def compacting(path, *args, **kwargs):
        if path.name == "part-000001.parquet":
            for part in parts.glob("*.parquet"):
                part.unlink()
            rows([3, 2, 1]).to_parquet(parts / "part-000000.parquet", index=False)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(parquet.pq, "ParquetFile", compacting)
    assert list(Results.read(tmp_path).rounds["loss"]) == [3, 2, 1]


def test_half_written_parts_are_left_alone(tmp_path, run_writer, rows):
    run = run_writer(tmp_path, "fedavg", 0, rows([3, 2]))
    (run / "rounds.parquet" / ".part-1.parquet").write_bytes(b"PAR1")
    (run / "rounds.parquet" / "part-2.parquet.tmp").write_bytes(b"PAR1")
    assert list(Results.read(tmp_path).rounds["loss"]) == [3, 2]


def test_a_run_that_has_only_started_is_there(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([3, 2]), status="running", wall_s=None)
    (tmp_path / "fedexp-seed0").mkdir()
    (tmp_path / "fedexp-seed0" / "run.json").write_text('{"label": "fedexp", "status": "running"}')
    results = Results.read(tmp_path)
    assert set(results.names) == {"fedavg", "fedexp"}
    assert results.usable("fedexp") == []


def test_failed_runs_stay_out_of_means_unless_all_failed(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([3, 2]))
    run_writer(tmp_path, "fedavg", 1, rows([3, np.inf]), status="failed", reason="diverged")
    run_writer(tmp_path, "fedexp", 0, rows([3, np.inf]), status="failed", reason="diverged")
    results = Results.read(tmp_path)
    assert [run.seed for run in results.usable("fedavg")] == [0]
    assert [run.seed for run in results.usable("fedexp")] == [0]


def test_algorithms_keep_the_order_of_the_scenario(tmp_path, run_writer, rows):
    scenario = {"algorithms": [{"name": "local-only"}, {"name": "z"}, {"name": "a", "label": "b"}]}
    for label in ("b", "local-only", "z"):
        run_writer(tmp_path, label, 0, rows([2, 1]), scenario=scenario)
    assert Results.read(tmp_path).names == ("local-only", "z", "b")


def test_it_is_known_when_clients_were_away_or_that_it_is_not(tmp_path, run_writer, rows):
    away = pd.DataFrame({"client": [3, 3, 1], "start_s": [9.0, 1, 0], "end_s": [10.0, 2, 4]})
    run = run_writer(tmp_path, "fedavg", 0, rows([2, 1]))
    away.to_parquet(run / "away.parquet", index=False)
    run = run_writer(tmp_path, "fedexp", 0, rows([2, 1]))
    away.iloc[:0].to_parquet(run / "away.parquet", index=False)
    run_writer(tmp_path, "running", 0, rows([2, 1]))
    runs = {run.name: run for run in Results.read(tmp_path).runs_found}
    assert runs["fedavg"].away.to_numpy().tolist() == [[1, 0, 4], [3, 1, 2], [3, 9, 10]]
    assert len(runs["fedexp"].away) == 0
    assert runs["running"].away is None


def test_settings_of_a_grid_are_told_apart(tmp_path, run_writer, rows):
    """One algorithm needs no name beside its settings."""
    for lr in (0.1, 0.2):
        run_writer(
            tmp_path, "fedavg", 0, rows([2, 1]), setting={"lr": lr}, folder=f"fedavg-{lr}-seed0"
        )
    assert Results.read(tmp_path).names == ("lr=0.1", "lr=0.2")
    run_writer(tmp_path, "fedexp", 0, rows([2, 1]), setting={"lr": 0.1})
    assert Results.read(tmp_path).names == ("fedavg (lr=0.1)", "fedavg (lr=0.2)", "fedexp")


def test_settings_are_in_the_order_of_their_numbers(tmp_path, run_writer, rows):
    for value in (0.1, 1e-05, 15, 6, 0.0001):
        setting = {"select": f"power-of-d d={value}"}
        run_writer(tmp_path, "a", 0, rows([2, 1]), setting=setting, folder=f"a-{value}-seed0")
    names = Results.read(tmp_path).names
    found = [float(name.removeprefix("select=power-of-d d=")) for name in names]
    assert found == [1e-05, 0.0001, 0.1, 6, 15]


def test_an_empty_folder_is_one_clear_line(tmp_path):
    with pytest.raises(ScenarioError, match="holds no run"):
        Results.read(tmp_path)


def test_a_broken_run_json_is_a_failed_run(tmp_path, run_writer, rows):
    run = run_writer(tmp_path, "fedavg", 0, rows([2, 1]))
    (run / "run.json").write_text('{"label": ')
    (broken,) = Results.read(tmp_path).damaged
    assert (broken.label, broken.seed, broken.status) == ("fedavg", 0, "failed")
    assert "run.json" in broken.info["reason"]


@pytest.mark.parametrize(("key", "value"), [
    ("seed", float("inf")), ("seed", "0"), ("seed", 0.5), ("study", "text"), ("study", 7),
    ("scenario", "text"), ("scenario", {"algorithms": [1]}), ("scenario", {"algorithms": 3}),
    ("warnings", 3), ("warnings", [3]), ("classes", 3), ("label", 3), ("status", []),
    pytest.param("seed", 10**400, id="seed of 400 digits"), ("seed", 2**63), ("clients", -(2**63)),
    ("rounds", float("inf")), ("wall_s", float("nan")), ("wall_s", 2**99),
    ("label", "half a character: \ud800"),
    ("versions", []), ("files", []), ("files", {"model.npz": "text"}), ("changes", ["text"]),
    ("scenario", {"problem": "text"}), ("scenario", {"clients": []}), ("scenario", {"evaluate": 3}),
])  # fmt: skip
def test_a_run_json_of_odd_types_is_unreadable(tmp_path, run_writer, rows, key, value):
    """It is sealed as ours are: somebody wrote it by a program."""
    run = run_writer(tmp_path, "fedavg", 0, rows([2, 1]))
    run_writer(tmp_path, "fedavg", 1, rows([2, 1], seed=1))
    held = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(sealed(held | {key: value})))
    broken, whole = Results.read(tmp_path).runs_found
    assert (broken.label, broken.seed, broken.status) == ("fedavg", 0, "failed")
    assert "run.json" in broken.info["reason"]
    assert (whole.seed, whole.status) == (1, "finished")


@pytest.mark.parametrize(("left", "waits"), [(True, 0), (False, 5)])
def test_torn_parts_are_waited_for_once_and_only_where_a_process_may_write(
    tmp_path, run_writer, rows, monkeypatch, left, waits
):
    pauses = []
    monkeypatch.setattr(run_module.time, "sleep", pauses.append)
    run = run_writer(tmp_path, "fedavg", 0, rows([2, 1]), status="running")
    min((run / "rounds.parquet").iterdir()).write_bytes(b"PAR1")
    if left:
        (tmp_path / LOCK).touch()
    (torn,) = Results.read(tmp_path).damaged
    assert (torn.rounds.empty, torn.events.empty, torn.usage.asked.empty) == (True, True, True)
    assert len(pauses) == waits


def test_a_folder_of_one_file_reads_too(tmp_path, rows):
    run = tmp_path / "fedavg-seed0"
    run.mkdir()
    (run / "run.json").write_text(json.dumps({"label": "fedavg", "status": "finished"}))
    rows([2, 1]).to_parquet(run / "rounds.parquet", index=False)
    results = Results.read(tmp_path)
    assert list(results.rounds["loss"]) == [2, 1]
    assert results.clients.empty
    pd.testing.assert_series_equal(
        results.rounds["name"], pd.Series(["fedavg"] * 2, name="name"), check_dtype=False
    )


def test_a_run_that_nobody_writes_any_more_is_interrupted(tmp_path, run_writer, rows):
    run_writer(tmp_path, "fedavg", 0, rows([3, 2]), status="running")
    run_writer(tmp_path, "fedavg", 1, rows([3, 2], seed=1))
    (tmp_path / LOCK).touch()
    assert [run.state for run in Results.read(tmp_path).runs_found] == ["interrupted", "finished"]
    assert (
        EndingsPanel(PageSource.of(Results.read(tmp_path))).title
        == "2 runs: 1 finished, 1 interrupted"
    )
    with lease(tmp_path / LOCK):
        assert (
            EndingsPanel(PageSource.of(Results.read(tmp_path))).title
            == "2 runs: 1 finished, 1 running"
        )
