"""What is written after a run, where the disk is full."""

from rayfed import api
from rayfed.runs.files.afterwards import complete
from rayfed.runs.files.outcome import record
from rayfed.testing.studies import drive, mixed
from tests.fakes.disk import Disk


def test_what_a_full_disk_does_not_take_is_made_by_a_resume(tmp_path):
    plan = api.prepare(api.read(mixed(rounds=2)))
    (run,) = plan.runs
    drive(plan, tmp_path)
    folder = tmp_path / run.folder
    for first in range(1, 12):  # at each of its file operations
        with Disk(full=range(first, 100)).patched():
            complete(run, plan.tables, folder)
        assert record(folder)["status"] == "finished"
    complete(run, plan.tables, folder)
    assert "labels.npz" in record(folder)["files"]
