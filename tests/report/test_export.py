"""Runs written for other tools, read back by the tools' own readers."""

import json
import shutil
import struct
import sys

import numpy as np
import pandas as pd
import pytest

from rayfed.core.errors import RayfedError, ScenarioError
from rayfed.report.export import write
from rayfed.report.live import logged, write_note
from rayfed.report.read.results import Results
from rayfed.report.trackers import TRACKERS
from rayfed.report.writing import LOGGING

BEGAN = 1795190400.0  # 2026-11-20T16:00:00 UTC
LOSS = [8.0, 4.0, 2.0]


@pytest.fixture
def results(tmp_path, run_writer, rows):
    """One run that evaluates its test rows in the end alone, and one that failed."""
    told = {"settings": {"name": "fedavg", "label": "a", "local": {"lr": 0.1}}}
    told["started"] = "2026-11-20T16:00:00+00:00"
    last = [np.nan, np.nan, 0.1 + 0.2]
    run_writer(tmp_path / "out", "a", 3, rows(LOSS, "a", test_loss=last), **told)
    run_writer(tmp_path / "out", "b", 3, rows([8.0], "b"), status="failed", reason="it broke")
    return Results.read(tmp_path / "out")


def test_csv_files_hold_every_digit(results, tmp_path):
    told = write(results, "csv")
    folder = tmp_path / "out" / "csv"
    assert told == f"read it by: pandas.read_csv('{folder / 'rounds.csv'}')"
    assert {path.name for path in folder.iterdir()} == {"rounds.csv", "summary.csv", "runs.csv"}
    read = pd.read_csv(folder / "rounds.csv")
    one = read[read.label == "a"]
    assert one.loss.tolist() == LOSS
    assert one.test_loss.iloc[-1] == 0.1 + 0.2
    assert read[read.label == "b"]["round"].tolist() == [0]
    assert pd.read_csv(folder / "runs.csv").status.tolist() == ["finished", "failed"]


def test_one_run_alone(results, tmp_path):
    write(results, "csv", tmp_path / "own", run="b-seed3")
    assert set(pd.read_csv(tmp_path / "own" / "rounds.csv").label) == {"b"}


@pytest.mark.parametrize(
    ("to", "run", "told"),
    [
        ("cvs", None, "unknown format 'cvs'; did you mean 'csv'?"),
        ("csv", "a-seed4", "unknown run 'a-seed4'; did you mean 'a-seed3'?"),
    ],
)
def test_what_is_not_known_is_one_line(results, to, run, told):
    with pytest.raises(ScenarioError) as error:
        write(results, to, run=run)
    assert str(error.value) == told


@pytest.mark.parametrize(
    ("to", "module", "library"),
    [
        ("tensorboard", "tensorboardX", "tensorboardx"),
        ("mlflow", "mlflow", "mlflow-skinny"),
        ("mlflow", "sqlalchemy", "sqlalchemy"),
        ("wandb-offline", "wandb", "wandb"),
    ],
)
def test_a_missing_library_is_one_line(results, monkeypatch, to, module, library):
    if module == "sqlalchemy":
        pytest.importorskip("mlflow", reason="needs mlflow")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        RayfedError, match=rf"^\w+: needs {module}; install with: pip install '.*{library}>="
    ):
        write(results, to)
    assert not (results.folder / to).exists()


def test_tensorboard(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # it would be imported, which takes seconds
    pytest.importorskip("tensorboardX", reason="needs tensorboardX")
    told = write(results, "tensorboard")
    folder = results.folder / "tensorboard"
    assert told == f"see it by: tensorboard --logdir {folder}"
    assert {path.name for path in folder.iterdir()} == {"a-seed3", "b-seed3"}
    scalars, texts = events(folder / "a-seed3")
    assert [(step, value) for step, _, value in scalars["loss"]] == list(enumerate(LOSS))
    assert [when for _, when, _ in scalars["loss"]] == [BEGAN, BEGAN + 2, BEGAN + 4]
    assert [step for step, _, _ in scalars["test_loss"]] == [2]
    assert "seed" not in scalars
    assert "| algorithm.local.lr | 0.1 |" in texts
    with pytest.raises(
        RayfedError, match=r"a-seed3: already exists; remove it or give another --to"
    ):
        write(results, "tensorboard")


def test_points_in_tensorboard_survive_a_kill(results, tmp_path):
    """They are in the file when `add` returns, after which the live log notes them as sent."""
    pytest.importorskip("tensorboardX", reason="needs tensorboardX")
    tracker = TRACKERS["tensorboard"]("hand-made", tmp_path / "tensorboard")
    run, steps = results.run("a", 3), np.arange(500)
    entry = tracker.begin(run, BEGAN)
    about = {"name": "loss", "round": steps, "seconds": BEGAN + steps, "value": steps / 4}
    tracker.add(entry, pd.DataFrame(about))
    scalars, _ = events(tmp_path / "tensorboard" / "a-seed3")
    assert [step for step, _, _ in scalars["loss"]] == steps.tolist()
    tracker.close()


def events(folder):
    """Read event files: scalars by tag as (step, time, value), and all texts.

    tensorboardX has the messages. Before each stand its length and a checksum, after it another.
    """
    from tensorboardX.proto.event_pb2 import Event

    scalars, texts = {}, ""
    for path in folder.iterdir():
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            event = Event.FromString(content[12 : 12 + length])
            content = content[16 + length :]
            for value in event.summary.value:
                if value.WhichOneof("value") == "simple_value":
                    point = (event.step, event.wall_time, value.simple_value)
                    scalars.setdefault(value.tag, []).append(point)
                else:
                    texts += b"".join(value.tensor.string_val).decode()
    return scalars, texts


def test_mlflow(results):
    pytest.importorskip("sqlalchemy", reason="needs SQLAlchemy")
    mlflow = pytest.importorskip("mlflow", reason="needs mlflow-skinny")
    place = write(results, "mlflow").partition("--backend-store-uri ")[2]
    client = mlflow.MlflowClient(tracking_uri=place)
    experiment = client.get_experiment_by_name("hand-made")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert {name: run.info.status for name, run in runs.items()} == {
        "a-seed3": "FINISHED", "b-seed3": "FAILED"
    }  # fmt: skip
    run = runs["a-seed3"]
    assert run.data.params["algorithm.local.lr"] == "0.1"
    assert run.info.end_time - run.info.start_time == 4000
    points = client.get_metric_history(run.info.run_id, "loss")
    assert [(p.step, p.value, p.timestamp / 1000 - BEGAN) for p in points] == [
        (0, 8.0, 0.0), (1, 4.0, 2.0), (2, 2.0, 4.0)
    ]  # fmt: skip
    assert [p.step for p in client.get_metric_history(run.info.run_id, "test_loss")] == [2]
    write(results, "mlflow")  # adds runs to the experiment
    assert len(client.search_runs([experiment.experiment_id])) == 4


def test_wandb_offline(results):
    wandb = pytest.importorskip("wandb", reason="needs wandb")
    told = write(results, "wandb-offline")
    wandb.teardown()  # it writes in the background
    folder = results.folder / "wandb-offline" / "wandb"
    assert told == f"send it by: wandb sync {folder}/offline-run-*"
    logged = {}
    for path in folder.glob("offline-run-*/*.wandb"):
        found = list(records(path.read_bytes()))
        about = next(record.run for record in found if record.HasField("run"))
        rows = [r.history.item for r in found if r.HasField("history")]
        named = [{i.key or i.nested_key[0]: float(i.value_json) for i in row} for row in rows]
        logged[about.display_name] = (about, named)
    assert set(logged) == {"a-seed3", "b-seed3"}
    about, rows = logged["a-seed3"]
    assert (about.project, about.run_group) == ("hand-made", "a")
    assert {u.key: u.value_json for u in about.config.update}["algorithm.local.lr"] == '"0.1"'
    assert [row["loss"] for row in rows] == LOSS
    assert [row["time_s"] for row in rows] == [0.0, 2.0, 4.0]
    assert [int(row["_step"]) for row in rows] == [0, 1, 2]


def records(content, block=32768):
    """Read an offline run: wandb has its messages; they lie in the log format of LevelDB.

    A record is a checksum, its length, whether it is whole (1) or the first, a middle or the last
    part (2, 3, 4) of a message, and its bytes; no record crosses a block.
    """
    from wandb.proto.wandb_internal_pb2 import Record

    at, message = 7, b""  # after the file's own header
    while at + 7 <= len(content):
        if block - at % block < 7:  # too little room for a head
            at += block - at % block
            continue
        length, kind = struct.unpack("<HB", content[at + 4 : at + 7])
        message += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield Record.FromString(message)
            message = b""


def followed(out, tracker, run_writer, rows, between=lambda: None):
    """Follow a run by a tracker, from two processes; the second one finds it ended."""
    out.mkdir()
    write_note(out, {tracker: {}})
    lines = []
    for count, status in ((2, "running"), (3, "finished")):
        shutil.rmtree(out / "a-seed3", ignore_errors=True)
        ended = None if status == "running" else "2026-11-20T17:00:00+00:00"
        about = {"started": "2026-11-20T16:00:00+00:00", "status": status, "ended": ended}
        run_writer(out, "a", 3, rows(LOSS[:count], "a"), **about)
        with logged(out, lines.append):
            pass
        if status == "running":
            between()
    assert lines == []
    return out / tracker


def test_tensorboard_follows_a_run_over_two_processes(tmp_path, run_writer, rows, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    pytest.importorskip("tensorboardX", reason="needs tensorboardX")
    folder = followed(tmp_path / "out", "tensorboard", run_writer, rows)
    scalars, texts = events(folder / "a-seed3")
    points = sorted((step, when - BEGAN, value) for step, when, value in scalars["loss"])
    assert points == [(0, 0.0, 8.0), (1, 2.0, 4.0), (2, 4.0, 2.0)]
    assert texts.count("| label | a |") == 1


def test_mlflow_follows_a_run_over_two_processes(tmp_path, run_writer, rows, monkeypatch):
    pytest.importorskip("sqlalchemy", reason="needs SQLAlchemy")
    mlflow = pytest.importorskip("mlflow", reason="needs mlflow-skinny")
    place = f"sqlite:///{tmp_path / 'server.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", place)
    client = mlflow.MlflowClient(tracking_uri=place)

    def only():
        experiment = client.get_experiment_by_name("hand-made")
        (run,) = client.search_runs([experiment.experiment_id])
        return run

    def between():
        run = only()
        held = run.info.status, run.data.tags["status"], run.info.end_time / 1000 - BEGAN
        assert held == ("KILLED", "interrupted", 2.0)

    followed(tmp_path / "out", "mlflow", run_writer, rows, between)
    run = only()
    assert run.data.tags["status"] == "finished"
    assert (run.info.run_name, run.info.status) == ("a-seed3", "FINISHED")
    points = client.get_metric_history(run.info.run_id, "loss")
    assert [(p.step, p.value, p.timestamp / 1000 - BEGAN) for p in points] == [
        (0, 8.0, 0.0), (1, 4.0, 2.0), (2, 2.0, 4.0)
    ]  # fmt: skip


def lost(out):
    """Let the files of the first process lack rows that it has noted."""
    (path,) = out.glob("wandb/wandb/offline-run-*/*.wandb")
    path.write_bytes(path.read_bytes()[:7])


def unnoted(out):
    """Let the first process have noted fewer rows than it has sent."""
    note = json.loads((out / LOGGING).read_text(encoding="utf-8"))
    note["wandb"]["a-seed3"] |= {"round": 0}
    write_note(out, {"wandb": note["wandb"]})


@pytest.mark.parametrize("killed", [lost, unnoted, lambda out: None])
def test_wandb_offline_has_each_row_once_after_two_processes(
    killed, tmp_path, run_writer, rows, monkeypatch
):
    wandb = pytest.importorskip("wandb", reason="needs wandb")
    wandb.teardown()  # it reads its settings once
    monkeypatch.setenv("WANDB_MODE", "offline")

    def between():
        wandb.teardown()  # it writes in the background
        killed(tmp_path / "out")

    folder = followed(tmp_path / "out", "wandb", run_writer, rows, between)
    wandb.teardown()
    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    found = list(records(path.read_bytes()))
    assert [record.exit.exit_code for record in found if record.HasField("exit")] == [0]
    note = json.loads((tmp_path / "out" / LOGGING).read_text(encoding="utf-8"))
    ids = {record.run.run_id for record in found if record.HasField("run")}
    assert ids == {note["wandb"]["a-seed3"]["id"]}
    losses = []
    for row in (record.history.item for record in found if record.HasField("history")):
        named = {i.key or i.nested_key[0]: float(i.value_json) for i in row}
        losses.append((int(named["_step"]), named["loss"]))
    assert losses == list(enumerate(LOSS))


def test_wandb_asks_for_no_key(tmp_path, run_writer, rows, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="needs wandb")
    wandb.teardown()
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setattr(type(wandb.api), "api_key", None)
    lines = []
    run_writer(tmp_path / "out", "a", 3, rows(LOSS, "a"))
    write_note(tmp_path / "out", {"wandb": {}})
    with logged(tmp_path / "out", lines.append):
        pass
    (line,) = lines
    assert "wandb fails (not logged in; run wandb login, or set WANDB_MODE=offline)" in line


def test_a_server_that_is_away_is_one_warning(tmp_path, run_writer, rows, monkeypatch):
    pytest.importorskip("sqlalchemy", reason="needs SQLAlchemy")
    pytest.importorskip("mlflow", reason="needs mlflow-skinny")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    lines = []
    run_writer(tmp_path / "out", "a", 3, rows(LOSS, "a"))
    write_note(tmp_path / "out", {"mlflow": {}})
    with logged(tmp_path / "out", lines.append):
        pass
    assert len(lines) == 1
    assert lines[0].startswith("warning: mlflow fails (")
