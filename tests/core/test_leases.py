"""Whether anybody still writes a run."""

import fcntl
import time

import pytest

from rayfed.core.inside import NotRegular
from rayfed.core.leases import LOCK, Leased, is_leased, is_orphaned, is_own_lease, lease


def test_a_run_is_left_where_nobody_holds_its_lock_or_that_of_its_study(tmp_path):
    run = tmp_path / "fedavg-seed0"
    run.mkdir()
    assert not is_orphaned(run)  # who wrote it without a lock is not known
    (tmp_path / LOCK).touch()
    assert is_orphaned(run)
    with lease(tmp_path / LOCK):
        assert not is_orphaned(run)
    (run / LOCK).touch()
    with lease(run / LOCK):
        assert not is_orphaned(run)
    assert is_orphaned(run)


def test_a_look_does_not_disturb_who_takes_a_lock(tmp_path, monkeypatch):
    """Somebody else looks in the moment in which the lock is taken."""
    path = tmp_path / LOCK
    path.touch()
    with path.open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(looking, fcntl.LOCK_UN))
        with lease(path):
            assert is_leased(path)
        assert not is_leased(path)


def test_a_lock_is_known_for_that_of_this_process(tmp_path):
    path = tmp_path / LOCK
    with lease(path):
        assert is_own_lease(path)
        with pytest.raises(Leased), lease(path):
            pass
    assert not is_own_lease(path)


def test_a_look_makes_no_lock(tmp_path):
    assert not is_leased(tmp_path / LOCK)
    assert not (tmp_path / LOCK).exists()


def test_a_lock_that_is_a_link_empties_no_file(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / LOCK).symlink_to(tmp_path / "mine")
    for take in (is_leased, lambda path: lease(path).__enter__()):
        with pytest.raises(NotRegular, match="is a link"):
            take(tmp_path / LOCK)
    assert (tmp_path / "mine").read_text() == "mine"
