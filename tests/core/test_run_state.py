"""State of a run by the files of its folder."""

import json

import pytest

from rayfed.core.entries import Entry, described, sealed
from rayfed.core.errors import ScenarioError
from rayfed.core.leases import LOCK, STOP, lease
from rayfed.core.run_state import UNREADABLE, damage, read_record, state

DAMAGED = {"status": "failed", "reason": UNREADABLE, "damaged": True, "retry": True}


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "fedavg-seed0"
    folder.mkdir()
    return folder


def test_a_sealed_record_is_returned_with_its_keys_in_order(run):
    record = sealed({"label": "fedavg", "status": "finished", "seed": 0})
    (run / "run.json").write_text(json.dumps(record))
    assert list(read_record(run).items()) == list(record.items())


def test_a_run_without_a_record_has_not_begun(run):
    assert read_record(run) == {}
    assert read_record(run / "gone") == {}
    assert damage(run, {}) is None


def test_a_run_that_lost_its_record_is_damaged(run):
    (run / "checkpoint").mkdir()
    (run / "checkpoint" / "manifest.json").write_text("{}")
    assert read_record(run) == DAMAGED


@pytest.mark.parametrize("text", [
    "", "[]", "{}", '{"status": ', '{"label": "fedavg"}', '{"status": "lost"}', '{"status": []}',
    '{"status": "finished", "seed": "0"}', json.dumps(sealed({"status": "failed"}) | {"seed": 1}),
])  # fmt: skip
def test_a_record_that_no_run_writes_is_that_of_a_failed_run(run, text):
    (run / "run.json").write_text(text)
    assert read_record(run) == DAMAGED
    assert damage(run, read_record(run)) == UNREADABLE


def test_a_link_in_the_place_of_a_record_is_not_followed(run):
    (run / "other.json").write_text('{"status": "finished"}')
    (run / "run.json").symlink_to("other.json")
    found = read_record(run)
    assert found["damaged"]
    assert "link" in found["reason"]


def test_a_record_of_another_format_is_refused(run):
    (run / "run.json").write_text('{"status": "finished", "format": 2}')
    with pytest.raises(ScenarioError, match="is of format 2"):
        read_record(run)


def test_a_changed_file_of_a_run_that_ended_is_damage(run):
    (run / "model.npz").write_bytes(b"model")
    files = described({"model.npz": Entry.of(run / "model.npz")})
    assert damage(run, {"files": files}) is None
    (run / "model.npz").write_bytes(b"other")
    assert "model.npz is not what was written" in damage(run, {"files": files})
    (run / "model.npz").unlink()
    assert "model.npz is missing" in damage(run, {"files": files})
    assert damage(run, {"files": {"../model.npz": {}}}) == UNREADABLE


def test_a_running_run_that_no_process_writes_is_interrupted_or_stopped(run):
    assert state(run, "running") == "running"  # written without a lock: its writer is not known
    (run.parent / LOCK).touch()
    assert state(run, "running") == "interrupted"
    with lease(run.parent / LOCK):
        assert state(run, "running") == "running"
    (run / STOP).touch()
    assert state(run, "running") == "stopped"
    assert [state(run, status) for status in ("finished", "failed")] == ["finished", "failed"]
