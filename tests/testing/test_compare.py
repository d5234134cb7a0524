"""Comparison of result folders, to the byte."""

import pytest

from rayfed.testing.compare import assert_same_run


def test_a_table_without_parts_equals_an_absent_one(tmp_path):
    """A store of objects has no empty folders."""
    full, bare = tmp_path / "full", tmp_path / "bare"
    (full / "events.parquet").mkdir(parents=True)
    bare.mkdir()
    assert_same_run(full, bare)
    (full / "events.parquet" / "part-000000000000.parquet").touch()
    with pytest.raises(AssertionError, match=r"only one of .* holds events\.parquet"):
        assert_same_run(full, bare)
