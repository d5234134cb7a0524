"""Clusters that form themselves: who joins what, by hand and on clients of three kinds."""

from dataclasses import replace

import numpy as np
import pytest

from rayfed import api, testing
from rayfed.algorithms import ClusterFedVARP
from rayfed.algorithms.clusterfedvarp import By
from rayfed.executors.base import merged
from rayfed.executors.serial import SerialExecutor
from rayfed.messages import Groups
from rayfed.runs.driver import Driver
from rayfed.testing import answer, reply

KINDS = np.array([[10.0, 0.0], [0.0, 6.0], [-8.0, -8.0]])
CURVATURES = np.array([1.0, 2.0, 4.0])
N, LR, STEPS = 24, 0.02, 5


def early(number):
    return ClusterFedVARP(clusters=By(by="updates", number=number))


class Three:
    """Clients 0, 1 and 2: the first two are new."""

    ids = np.arange(3)
    seed = 0

    def __init__(self, deltas):
        self.deltas = np.array(deltas)
        self.state = {"cluster": np.array([[-1.0], [-1.0], [0.0]])}

    def solve(self, x):
        class Local:
            x = -self.deltas
            loss = None

        return Local


def test_new_clients_join_the_memory_that_points_their_way_and_old_ones_stay():
    y = np.array([[100.0, 0.0], [0.0, 0.1]])
    clients = Three([[1.0, 2.0], [3.0, 1.0], [0.0, 9.0]])  # cosines .45 .89, .95 .32
    upload = early(2).train(clients, np.zeros(2), y=y, members=np.array([4, 1]))
    assert upload.group.tolist() == [1, 0, 0]
    assert upload.values["new"].tolist() == [1.0, 1.0, 0.0]
    assert upload.state["cluster"].ravel().tolist() == [1, 0, 0]


def test_new_clients_fill_empty_clusters_first():
    clients = Three([[1.0, 0.0]] * 3)
    upload = early(4).train(
        clients, np.zeros(2), y=np.array([[1.0, 0.0]] * 4), members=np.array([2, 0, 3, 0])
    )
    assert set(upload.group[:2].tolist()) <= {1, 3}
    assert upload.group[2] == 0


def test_a_round_by_hand():
    """N = 8, members 2 and 1; answers: an old and a new one of cluster 0, a new one of 1.

    v = 6 + (2/8 - 1/3) 12 + (1/8 - 0) 16 = 6 - 1 + 2.
    """
    state = {
        "x": np.array([10.0]), "y": np.array([[12.0], [16.0]]),
        "members": np.array([2, 1]), "population": np.array(8),
    }  # fmt: skip
    groups = Groups(
        np.arange(2), np.array([2, 1]), np.array([2.0, 1.0]), {"delta": np.array([[7.0], [4.0]])}
    )
    each = {"group": np.array([0, 0, 1]), "new": np.array([0.0, 1.0, 1.0])}
    means = reply({"delta": [6.0]}, ids=[0, 1, 2], each=each, population=8, groups=groups)
    after, _, (ask,) = answer(early(2), state, means)
    assert sorted(ask.send) == ["members", "x", "y"]
    np.testing.assert_allclose(after["x"], [3.0], rtol=1e-14)
    assert after["y"].ravel().tolist() == [7.0, 4.0]
    assert after["members"].tolist() == [3, 2]


def test_the_memories_travel_only_while_somebody_is_new():
    state = {
        "x": np.zeros(1), "y": np.zeros((2, 1)),
        "members": np.array([5, 3]), "population": np.array(8),
    }  # fmt: skip
    assert list(next(early(2).round(state)).send) == ["x"]


@pytest.fixture
def study(tmp_path):
    """Eight clients of each of three kinds, one of them a round."""
    kind = np.arange(N) % 3
    rows = [f"{KINDS[k][0]},{KINDS[k][1]},{CURVATURES[k]},{i}" for i, k in enumerate(kind)]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(["a,b,y,client", *rows]) + "\n")

    def make(clusters):
        local = {"steps": STEPS, "lr": LR, "batch": "full"}
        return {
            "rounds": 400,
            "problem": {"name": "quadratic", "dataset": str(file)},
            "clients": {},
            "participation": {"cohort": 1},
            "algorithms": [{"name": "clusterfedvarp", "clusters": clusters, "local": local}],
            "executor": "serial",
        }

    return make


def ended(made):
    """Return the model and the clients' state after 400 rounds."""
    engine = testing.loop(made)
    moment, _ = engine.start()
    for _ in range(400):
        moment, _, _ = engine.step(moment)
    return moment.state, merged(engine.exchange.executor.snapshot(engine.run.folder))


def distance(x):
    """Return the distance to the fixed point of all, which has a closed form (see FedVARP)."""
    moved = 1 - (1 - LR * CURVATURES) ** STEPS
    return np.linalg.norm(x - moved @ (KINDS / CURVATURES[:, None]) / moved.sum())


def test_clients_of_a_kind_find_each_other_and_the_variance_goes(study):
    state, rows = ended(study({"by": "updates", "number": 9}))
    assert state["members"].sum() == N
    assert rows["ids"].tolist() == list(range(N))
    clusters = rows["cluster"][:, 0].astype(int)
    for cluster in set(clusters.tolist()):
        assert len(set((np.flatnonzero(clusters == cluster) % 3).tolist())) == 1
    np.testing.assert_array_equal(np.bincount(clusters, minlength=9), state["members"])
    random, _ = ended(study(3))
    assert distance(state["x"]) < 1e-3 * distance(random["x"])


def test_bits_do_not_depend_on_stacks(mixed, tmp_path, assert_same):
    clusters = {"by": "updates", "number": 3}
    plan = api.prepare(
        api.read(mixed(rounds=20, algorithms=[{"name": "clusterfedvarp", "clusters": clusters}]))
    )
    for block in (1, 7):
        run = replace(plan.runs[0], block=block)
        Driver(run, tmp_path / str(block), SerialExecutor(plan.tables)).execute()
    assert_same(tmp_path / "1", tmp_path / "7")
