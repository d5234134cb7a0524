"""The table of tasks: its columns are the same whether it is held as a table or as rows."""

import numpy as np
import pytest

from rayfed.engine.tasks import (
    DROPPED,
    LATE,
    USED,
    CountedTasks,
    Task,
    Tasks,
    columns_of,
    events_of,
)

BLANK = Task(*[0] * len(Task._fields))
ROWS = [
    BLANK._replace(client=4, status=LATE, steps=3, down_bytes=10, up_bytes=7, over_s=2.5),
    BLANK._replace(client=1, status=USED, steps=5, down_bytes=20, up_bytes=8, over_s=1.0),
    BLANK._replace(client=9, status=DROPPED, steps=2, down_bytes=40, up_bytes=9, over_s=0.5),
]  # fmt: skip


def ended(tasks, round):
    return CountedTasks(tasks, [0.5] * len(tasks), round, newest=2)


@pytest.mark.parametrize("split", [0, 1, 3])
def test_columns_of_rows_are_those_of_tables(split):
    parts = [ROWS[:split], ROWS[split:]]
    for name in Task._fields:
        (rows,), (tables,) = (
            columns_of(given, name) for given in (parts, [Tasks.of(part) for part in parts])
        )
        assert rows.dtype == tables.dtype
        assert rows.tolist() == tables.tolist() == [getattr(row, name) for row in ROWS]
    first, second = (
        events_of([ended(make(part), k) for k, part in enumerate(parts)])
        for make in (list, Tasks.of)
    )
    assert {k: v.tolist() for k, v in first.items()} == {k: v.tolist() for k, v in second.items()}
    assert first["end_s"].tolist() == [2.5, 1.0, 0.5]
    assert first["staleness"].tolist() == [-1, 2, -1]


@pytest.mark.parametrize("make", [list, Tasks.of])
def test_works_are_counted_by_what_became_of_them(make):
    names = ("participants", "late", "dropped", "bytes_up", "bytes_wasted", "local_steps")
    counts = dict.fromkeys(names, 1)
    ended(make(ROWS), 1).add_to(counts)
    assert counts == {
        "participants": 2, "late": 2, "dropped": 2, "bytes_up": 1 + 8 + 7,
        "bytes_wasted": 1 + 10 + 40 + 7, "local_steps": 1 + 5,
    }  # fmt: skip
    assert all(type(count) is int for count in counts.values())


def test_another_status_leaves_a_table_as_it_was():
    tasks = Tasks.of(ROWS)
    changed = tasks.with_status(np.array([USED, LATE, LATE]))
    assert changed.status.tolist() == [USED, LATE, LATE]
    assert tasks.status.tolist() == [LATE, USED, DROPPED]
    for name in set(Task._fields) - {"status"}:
        assert getattr(changed, name) is getattr(tasks, name)
