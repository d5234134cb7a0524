"""Client state in memory and in scratch: the same rows, within a bound."""

import errno
import gc
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from rayfed.clients.store import Memory, Scratch, ScratchError, StateOnUse, Store

INITIAL = {"c": np.arange(6.0).reshape(2, 3), "n": np.array(7, np.int32), "none": np.empty((0, 4))}
ROW = 6 * 8 + 4


def resident():
    """Return the resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def scratch_files():
    """Return how many files without a name this process has open in the scratch folder."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        try:
            found += "(deleted)" in os.readlink(link)
        except OSError:  # the listing itself
            continue
    return found


def changes(rounds, clients, seed=0):
    """Yield ids and new rows, of all names or of one."""
    rng = np.random.default_rng(seed)
    for t in range(rounds):
        ids = rng.choice(10 * clients, size=clients, replace=False)
        values = {
            "c": rng.standard_normal((clients, 2, 3)),
            "n": rng.integers(99, size=clients).astype(np.int32),
            "none": np.empty((clients, 0, 4)),
        }
        yield ids, ({"c": values["c"]} if t % 3 == 1 else values)


@pytest.mark.parametrize("limit", [0, 2**40])
def test_names_that_are_not_given_keep_their_rows_or_begin_with_the_first(limit):
    store = Store(INITIAL, Memory(limit))
    store.put(np.array([3]), {"n": np.array([1]), "c": np.ones((1, 2, 3))})
    store.put(np.array([3, 8]), {"n": np.array([5, 6])})
    found = store.get(np.array([8, 3, 4]))
    assert found["n"].tolist() == [6, 5, 7]
    assert found["c"].tolist() == [INITIAL["c"].tolist(), [[1.0] * 3] * 2, INITIAL["c"].tolist()]


def test_state_is_read_on_use_and_once():
    asked = []

    def read(name):
        asked.append(name)
        return np.zeros(2)

    state = StateOnUse(["x", "c"], read)
    assert (list(state), len(state), "x" in state, state.get("other", 7)) == (
        ["x", "c"],
        2,
        True,
        7,
    )
    state["x"][0] = 3  # as a user's function may
    assert state["x"].tolist() == [3, 0]
    assert asked == ["x"]


@pytest.mark.parametrize("limit", [0, 20 * ROW, 60 * ROW])
def test_rows_in_scratch_are_those_in_memory(limit):
    memory = Memory(limit)
    one, two = Store(INITIAL, Memory(2**40)), Store(INITIAL, memory)
    for ids, values in changes(12, 5):
        one.put(ids, values)
        two.put(ids, values)
        asked = np.concatenate([ids[::-1], [10**9]])  # in another order, with one never touched
        for name, rows in one.get(asked).items():
            other = two.get(asked)[name]
            assert rows.dtype == other.dtype
            assert rows.shape == other.shape
            assert rows.tobytes() == other.tobytes()
        assert memory.taken <= limit
    assert one.scratch is None
    assert two.scratch is not None
    assert memory.taken == 0


def test_what_changed_comes_in_pieces():
    store = Store(INITIAL, Memory(0))
    store.put(np.array([8, 2, 5]), {})
    rows, more = store.changed(most=ROW, fewest=0)
    assert rows["ids"].tolist() == [2]
    assert more
    assert store.changed(most=ROW - 1, fewest=0)[0]["ids"].tolist() == []
    rows, more = store.changed(most=ROW - 1)
    assert rows["ids"].tolist() == [5]
    rows, more = store.changed()
    assert rows["ids"].tolist() == [8]
    assert rows["c"].tolist() == [INITIAL["c"].tolist()]
    assert not more


def test_stores_share_their_room_and_give_it_back():
    memory = Memory(100 * 8)
    first, second = (Store({"x": np.zeros(1)}, memory) for _ in range(2))
    first.put(np.arange(40), {"x": np.ones((40, 1))})  # room for 80 rows
    second.put(np.arange(20), {"x": np.ones((20, 1))})
    assert (first.scratch, second.scratch is None, memory.taken) == (None, False, 80 * 8)
    first.close()
    assert memory.taken == 0


def test_a_scratch_file_has_no_name_and_ends_with_its_store(tmp_path, monkeypatch):
    monkeypatch.setenv("RAYFED_SCRATCH", str(tmp_path))
    gc.collect()
    before = scratch_files()
    store = Store(INITIAL, Memory(0))
    store.put(np.array([3]), {})
    assert scratch_files() == before + 1
    assert list(tmp_path.iterdir()) == []  # a process that is killed leaves nothing
    store.close()
    assert scratch_files() == before


def test_resident_memory_stays_within_the_bound():
    """40 clients with 4 MB each; 16 MB may be in memory, and two rows are while they are copied."""
    row, limit = 2**20, 16 * 2**20
    store = Store({"c": np.zeros(row, np.float32)}, Memory(limit))
    most, before = 0, resident()
    for i in range(40):
        store.put(np.array([i]), {"c": np.full((1, row), i, np.float32)})
        most = max(most, resident() - before)
    for i in range(0, 40, 13):
        assert (store.get(np.array([i]))["c"] == i).all()
        most = max(most, resident() - before)
    store.close()
    assert most < limit + 3 * 4 * row


def test_a_full_scratch_disk_is_one_line(monkeypatch):
    store = Store(INITIAL, Memory(0))
    store.put(np.array([1]), {})

    class Full:
        def seek(self, place):
            pass

        def write(self, rest):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store.scratch, "file", Full())
    with pytest.raises(ScratchError, match=r"\(no space left on device\); set RAYFED_SC") as error:
        store.put(np.array([2]), {})
    assert "\n" not in str(error.value)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)  # from an actor


def test_a_folder_that_is_not_there_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("RAYFED_SCRATCH", str(tmp_path / "missing"))
    with pytest.raises(ScratchError, match=r"missing cannot be used \(no such file"):
        Scratch(INITIAL)


def test_a_store_costs_only_what_was_touched():
    store = Store({"big": np.zeros(1000)}, Memory(2**20))
    store.get(np.array([5, 10**9]))
    assert store.rows == {}
    store.put(np.array([10**9]), {"big": np.ones((1, 1000))})
    assert store.rows["big"].shape[0] <= 8
    assert store.get(np.array([10**9, 5]))["big"].sum(axis=1).tolist() == [1000.0, 0.0]
