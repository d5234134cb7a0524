import json

import numpy as np
import pandas as pd
import pytest

from rayfed.engine.state import RunState
from rayfed.engine.tasks import CountedTasks, Task, Tasks
from rayfed.executors.base import merged
from rayfed.runs.files.records import PartedTable, Records

ROW = {"algorithm": "fedavg", "label": "a", "seed": 0, "round": 0, "time_s": 0.0, "loss": 0.1,
       "participants": 0, "server_lr": float("nan")}  # fmt: skip


def ended(round, clients):
    blank = Task(*[0] * len(Task._fields))._replace(compute_s=1.0, over_s=1.0, steps=5)
    rows = [blank._replace(client=i, status=k % 3) for k, i in enumerate(clients)]
    return CountedTasks(Tasks.of(rows), np.full(len(rows), 0.1), round, 0, np.zeros(len(rows), int))


def moment(round):
    x = np.array([0.1, 0.2]) * round
    return RunState(
        round, 1.5 * round, {"x": x, "m": x + 1}, {"losses": x}, {"0.length": x}, (x, x + 2)
    )


NOTHING = [{"ids": np.empty(0, np.int64)}]


def fill(records, rounds):
    for r in rounds:
        records.add(ROW | {"round": r}, [ended(r, [0, 4, 9])])


def test_rows_are_appended_in_parts_that_read_as_one_table(tmp_path):
    records = Records(tmp_path, every_s=0)
    fill(records, range(3))
    assert len(list((tmp_path / "rounds.parquet").iterdir())) == 3
    frame = pd.read_parquet(tmp_path / "rounds.parquet")
    assert frame["round"].tolist() == [0, 1, 2]
    assert frame["loss"].tolist() == [0.1] * 3
    told = pd.read_parquet(tmp_path / "events.parquet")
    assert told["status"].tolist() == ["used", "late", "dropped"] * 3
    last = ROW | {"round": 2}
    records.finish((last, last))
    assert len(list((tmp_path / "rounds.parquet").iterdir())) == 1
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "rounds.parquet"), frame)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "events.parquet"), told)


@pytest.mark.parametrize("flushes", [1, 2])
def test_events_that_are_one_part_already_are_not_written_again(tmp_path, flushes):
    records, folder = Records(tmp_path, every_s=3600), tmp_path / "events.parquet"
    for round in range(flushes):
        fill(records, [round])
        records.flush()
    before = {path.name: path.stat().st_ino for path in folder.iterdir()}
    told = pd.read_parquet(folder)
    last = ROW | {"round": flushes - 1}
    records.finish((last, last))
    after = {path.name: path.stat().st_ino for path in folder.iterdir()}
    assert (after == before) == (flushes == 1)
    assert len(after) == 1
    assert set(records.events.parts) == set(after)
    pd.testing.assert_frame_equal(pd.read_parquet(folder), told)


def test_rows_wait_until_a_write_is_due(tmp_path):
    records = Records(tmp_path, every_s=3600)
    fill(records, range(5))
    assert list((tmp_path / "rounds.parquet").iterdir()) == []
    records.flush()
    assert len(pd.read_parquet(tmp_path / "rounds.parquet")) == 5


def test_a_checkpoint_comes_back_and_cuts_what_came_after_it(tmp_path):
    records = Records(tmp_path, every_s=0)
    fill(records, range(3))
    records.save(moment(2), [{"ids": np.array([1, 5]), "c": np.array([[1.0], [5.0]])}])
    fill(records, range(3, 6))
    records.flush()
    back = Records(tmp_path)
    held, rows = back.load()
    assert (held.round, held.time_s) == (2, 3.0)
    assert held.state["m"].tolist() == (moment(2).state["m"]).tolist()
    assert held.selection["losses"].tolist() == moment(2).selection["losses"].tolist()
    assert [w.tolist() for w in held.window] == [w.tolist() for w in moment(2).window]
    assert merged(rows)["c"].ravel().tolist() == [1.0, 5.0]
    assert pd.read_parquet(tmp_path / "rounds.parquet")["round"].tolist() == [0, 1, 2]
    assert len(pd.read_parquet(tmp_path / "events.parquet")) == 9
    assert back.last_row()["round"] == 2
    fill(back, [3])
    back.flush()
    assert pd.read_parquet(tmp_path / "rounds.parquet")["round"].tolist() == [0, 1, 2, 3]


def test_client_rows_are_written_only_where_they_changed(tmp_path):
    records = Records(tmp_path)
    for r in range(12):
        fill(records, [r])
        records.save(moment(r), [{"ids": np.array([r % 3]), "c": np.array([[float(r)]])}])
        folder, parts = tmp_path / "checkpoint", set()
        for name in ("manifest.json", "previous.json")[: r + 1]:  # the newest, and the one before
            held = json.loads((folder / name).read_text())
            assert len(held["clients"]) <= 3  # what is out of date is dropped
            parts |= {name, held["server"], *held["clients"]}
        assert {p.name for p in folder.iterdir()} == parts
    _, rows = Records(tmp_path).load()
    held = merged(rows)
    assert held["ids"].tolist() == [0, 1, 2]
    assert held["c"].ravel().tolist() == [9.0, 10.0, 11.0]


def test_a_crash_before_the_manifest_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    records = Records(tmp_path)
    fill(records, [0])
    records.save(moment(0), NOTHING)
    fill(records, [1])

    def crash(*args, **how):
        raise KeyboardInterrupt

    monkeypatch.setattr("rayfed.runs.files.store.publish_text", crash)
    with pytest.raises(KeyboardInterrupt):
        records.save(moment(1), NOTHING)
    monkeypatch.undo()
    held, _ = Records(tmp_path).load()
    assert held.round == 0
    assert pd.read_parquet(tmp_path / "rounds.parquet")["round"].tolist() == [0]


def test_no_checkpoint_is_none(tmp_path):
    assert Records(tmp_path).load() is None


def test_models_are_never_pickled(tmp_path):
    records = Records(tmp_path)
    odd = RunState(0, 0.0, {"x": np.array([{"a": 1}], dtype=object)}, {}, {}, ())
    with pytest.raises(ValueError, match="allow_pickle"):
        records.save(odd, NOTHING)


@pytest.mark.parametrize("crash_after", ["new", "old"])
def test_a_crash_in_the_middle_of_compaction_loses_nothing(tmp_path, crash_after):
    folder = tmp_path / "rounds.parquet"
    records = Records(tmp_path, every_s=0)
    fill(records, range(3))
    new = folder.with_suffix(".new")
    new.mkdir()
    (new / "half").write_text("")
    if crash_after == "old":
        folder.rename(folder.with_suffix(".old"))
    PartedTable.recover(folder)
    assert pd.read_parquet(folder)["round"].tolist() == [0, 1, 2]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "checkpoint", "events.parquet", "parts.jsonl", "rounds.parquet",
    ]  # fmt: skip
