"""The parts of the clients' state: later rows replace earlier ones, and little is rewritten."""

import numpy as np
import pytest

from rayfed import testing
from rayfed.algorithms import FedAvg, FedVARP, Scaffold
from rayfed.core.errors import RunFailed
from rayfed.executors.base import merged
from rayfed.runs.files import checkpoints
from rayfed.runs.files.checkpoints import add_parts, live_rows, read_parts

pytestmark = pytest.mark.guard


def piece(ids, value, width=4):
    return {"ids": np.array(ids), "c": np.full((len(ids), width), float(value))}


@pytest.fixture
def small_pieces(monkeypatch):
    """Let a piece be 4 rows of 5 numbers."""
    monkeypatch.setattr(checkpoints, "PIECE", 160)
    monkeypatch.setattr(checkpoints, "_SMALL", 40)


def named(parts):
    return [part.name for part in parts]


def held(folder, parts):
    rows = merged(live_rows(folder, parts))
    return dict(zip(rows["ids"].tolist(), rows["c"][:, 0].tolist(), strict=True))


@pytest.mark.usefixtures("small_pieces")
def test_the_newest_row_of_every_client_is_kept(tmp_path):
    rng, expected, parts = np.random.default_rng(4), {}, []
    for t in range(60):
        ids = rng.choice(30, size=6, replace=False)
        parts = add_parts(tmp_path, parts, [piece(ids[:3], t), piece(ids[3:], t)], t)
        expected |= dict.fromkeys(ids.tolist(), float(t))
        assert held(tmp_path, parts) == expected
        again = read_parts(tmp_path, named(parts))  # as after a crash
        assert [p.live.tolist() for p in again] == [p.live.tolist() for p in parts]
        assert all(not part.stale for part in parts)
        assert sum(part.rows for part in parts) < 2 * len(expected)


@pytest.mark.usefixtures("small_pieces")
def test_what_is_read_at_once_is_bounded(tmp_path):
    parts = add_parts(tmp_path, [], [piece(range(10 * k, 10 * k + 3), k) for k in range(9)], 0)
    sizes = [len(rows["ids"]) for rows in live_rows(tmp_path, parts)]
    assert sum(sizes) == 27
    assert max(sizes) <= 4


def test_a_client_that_is_a_piece_by_itself_is_never_rewritten(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "PIECE", 100)
    monkeypatch.setattr(checkpoints, "_SMALL", 50)
    parts = add_parts(tmp_path, [], [piece([i], 0, width=100) for i in range(30)], 0)
    assert len(parts) == 30
    after = add_parts(tmp_path, parts, [piece([4], 1, width=100)], 1)
    gone = set(named(parts)) - set(named(after))
    assert len(gone) == 1
    assert named(after)[-1] == "clients-1-0.npz"
    assert len(after) == 30


def test_many_small_parts_become_one(tmp_path):
    parts = []
    for t in range(40):
        parts = add_parts(tmp_path, parts, [piece([t], t)], t)
        assert len(parts) <= 9
    assert held(tmp_path, parts) == {t: float(t) for t in range(40)}


def test_nothing_is_written_where_nothing_changed(tmp_path):
    parts = add_parts(tmp_path, [], [piece([1], 1)], 0)
    assert named(add_parts(tmp_path, parts, [piece([], 0)], 0)) == named(parts)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("algorithm", "refused"), [(FedVARP, True), (Scaffold, True), (FedAvg, False)]
)
def test_unweighted_memories_of_earlier_versions_are_refused(
    tmp_path, monkeypatch, algorithm, refused
):
    loop = testing.loop(testing.toy_scenario(algorithm()))
    state, _ = loop.start()
    monkeypatch.setattr(checkpoints, "FORMAT", 1)
    saved = checkpoints.Checkpoints(tmp_path)
    saved.save(state, [], {})
    monkeypatch.undo()
    if refused:
        with pytest.raises(RunFailed, match="an earlier version of rayfed wrote the tasks"):
            saved.read("manifest.json", tmp_path)
    else:
        assert saved.read("manifest.json", tmp_path).moment.round == 0
