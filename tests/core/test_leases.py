"""Whether anybody still writes a run."""

from rayfed.core.leases import LOCK, is_left, lease


def test_a_run_is_left_where_nobody_holds_its_lock_or_that_of_its_study(tmp_path):
    run = tmp_path / "fedavg-seed0"
    run.mkdir()
    assert not is_left(run)  # who wrote it without a lock is not known
    (tmp_path / LOCK).touch()
    assert is_left(run)
    with lease(tmp_path / LOCK):
        assert not is_left(run)
    (run / LOCK).touch()
    with lease(run / LOCK):
        assert not is_left(run)
    assert is_left(run)
