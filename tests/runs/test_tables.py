"""Tables in a file that processes map."""

import numpy as np

from rayfed.datasets.table import Rows
from rayfed.runs.tables import read_tables, write_tables


def test_tables_are_mapped_where_arrays_lie_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    tables = {
        "a": Rows(rng.normal(size=(7, 3)), np.arange(7), (3,)),
        "b": Rows(np.arange(5, dtype=np.uint8)[:, None], np.zeros(5), (1,), 255.0, 0.5),
    }
    write_tables(tmp_path / "tables", tables)
    found = read_tables(tmp_path / "tables")
    for name, rows in tables.items():
        np.testing.assert_array_equal(found[name].X, rows.X)
        np.testing.assert_array_equal(found[name].y, rows.y)
        assert found[name].X.ctypes.data % 64 == 0
        assert not found[name].X.flags.writeable
    write_tables(tmp_path / "none", {})
    assert read_tables(tmp_path / "none") == {}
