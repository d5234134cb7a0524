import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

from rayfed.clients.host import Host, UnknownRun
from rayfed.clients.request import Failure, Request
from rayfed.clients.setup import DataViews, Setup, View
from rayfed.clients.solvers import SGD
from rayfed.clients.stacks import Stacks
from rayfed.clients.store import Room, Store
from rayfed.clients.task import NotKept
from rayfed.core.plugins import find
from rayfed.datasets.split import Part, Split
from rayfed.datasets.table import Rows, TableShards
from rayfed.messages import Upload
from rayfed.problems.objective import Objective


@dataclass(frozen=True)
class ToyHalf:
    """A client half for tests: sends ids, counts its calls in the client's state."""

    def work(self, clients, x):
        if 3 in clients.ids:
            raise ValueError("client 3 is broken")
        ids = clients.ids.astype(float)
        state = {"calls": clients.state["calls"] + 1}
        return Upload({"vector": ids[:, None] * x, "scalar": ids}, state, loss=ids + 0.5)

    def liar(self, clients, x):
        return Upload({"vector": np.zeros((len(clients.ids), 7))})

    def sideways(self, clients, x):
        return Upload({"vector": np.zeros((2, len(clients.ids)))})

    def forgetful(self, clients, x):
        return Upload({}, state={"cals": clients.state["calls"]})

    def greedy(self, clients, x):
        return Upload({}, state={"calls": np.zeros((len(clients.ids), 2))})

    def both(self, clients, x):
        return Upload({"loss": np.full(len(clients.ids), 7.0)}, loss=np.zeros(len(clients.ids)))

    def crowd(self, clients, x):
        ids = clients.ids.astype(float)
        return Upload({"vector": ids[:, None] * x, "scalar": np.full(len(ids), len(ids))})

    def odd(self, clients, x):
        return "nothing"


def host_with(sizes, block=100):
    sizes = np.array(sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = Rows(np.ones((offsets[-1], 2)), np.ones(offsets[-1]), (2,))
    none = Part(np.zeros(0, np.int64), np.zeros(len(sizes) + 1, np.int64))
    shards = TableShards.of(rows, Split(Part(np.arange(offsets[-1]), offsets), none), 0)
    problem = find("problems")["least-squares"](intercept=False)
    view = View(shards, Objective(problem, len(sizes), int(offsets[-1]), 2))
    setup = Setup(
        {"algorithm": ToyHalf()},
        DataViews(view, view),
        problem,
        (SGD(),),
        {"calls": np.zeros(1)},
        0,
        2,
        block,
    )
    host = Host()
    host.open("run", setup, [(0, 1)])
    return host, setup


def request(ids, work="work", up=None, weights=None):
    ids = np.array(ids)
    none = np.zeros(len(ids), dtype=np.int64)
    weights = np.ones(len(ids)) if weights is None else np.array(weights, dtype=float)
    up = {"vector": 2, "scalar": 1} if up is None else up
    return Request("algorithm", work, up, ids, weights, none, none, 1, 0)


def test_sums_are_weighted_and_scalars_keep_the_order_of_the_ids():
    host, _ = host_with([2, 5, 2, 2, 9])
    part = host.exchange("run", request([4, 0, 2], weights=[10, 1, 1]), {"x": np.array([1.0, 2.0])})
    ((residue, modulus, sums),) = part.branches
    assert (residue, modulus) == (0, 1)
    assert sums["vector"].tolist() == [42.0, 84.0]  # (10 * 4 + 0 + 2) * x
    assert part.each["scalar"].tolist() == [4.0, 0.0, 2.0]
    assert part.each["loss"].tolist() == [4.5, 0.5, 2.5]
    assert "vector" not in part.each


def test_what_was_computed_ahead_is_used_once_and_counts_as_if_computed_now():
    x = {"x": np.array([1.0, 2.0])}
    wanted = host_with([2, 5, 2, 2, 9])[0].exchange("run", request([4, 0, 2]), x)
    host, _ = host_with([2, 5, 2, 2, 9])
    ahead = host.work_ahead("run", replace(request([0, 4]), serials=np.array([11, 12])), x)
    assert (ahead.branches, ahead.each) == ([], {})
    asked = replace(request([4, 0, 2]), serials=np.array([12, 11, 0]))
    found = host.exchange("run", asked, x)
    ((*place, sums),), ((*known, totals),) = found.branches, wanted.branches
    assert place == known
    for a, b in ((sums, totals), (found.each, wanted.each)):
        assert a.keys() == b.keys()
        assert all(a[name].tolist() == b[name].tolist() for name in a)
    with pytest.raises(NotKept):
        host.exchange("run", asked, x)


def test_where_a_half_fails_ahead_of_time_nothing_is_kept():
    host, _ = host_with([2, 5, 2, 2])
    asked = replace(request([0, 3]), serials=np.array([1, 2]))
    assert host.work_ahead("run", asked, {"x": np.ones(2)}).client == 3
    with pytest.raises(NotKept):
        host.exchange("run", asked, {"x": np.ones(2)})


def test_single_vectors_come_without_sums_where_nobody_adds_them_up():
    host, _ = host_with([2, 5, 2], block=1)
    asked = replace(request([2, 0]), vectors=True, sums=False)
    part = host.exchange("run", asked, {"x": np.array([1.0, 2.0])})
    assert part.branches == [(0, 1, {})]
    assert part.each["vector"].tolist() == [[2.0, 4.0], [0.0, 0.0]]


@pytest.mark.parametrize("block", [1, 2, 100])
def test_clients_with_rows_of_different_widths_are_stacked_apart(block):
    host, _ = host_with([2, 5, 2, 2, 9], block)
    part = host.exchange("run", request([0, 1, 2, 4]), {"x": np.ones(2)})
    assert part.branches[0][2]["vector"].tolist() == [7.0, 7.0]
    assert part.each["scalar"].tolist() == [0.0, 1.0, 2.0, 4.0]


@pytest.mark.parametrize(("block", "crowds"), [(2, [2, 1, 2]), (3, [3, 3, 3])])
def test_few_clients_are_one_stack_whatever_classes_they_are_added_up_in(block, crowds):
    host, _ = host_with([2] * 7, block)
    asked = replace(request([6, 1, 2], "crowd"), classes=[(2, 4), (1, 4), (0, 4)])
    part = host.exchange("run", asked, {"x": np.ones(2)})
    assert part.each["scalar"].tolist() == crowds
    found = [(r, m, sums["vector"].tolist()) for r, m, sums in part.branches]
    assert found == [(2, 4, [8.0, 8.0]), (1, 4, [1.0, 1.0])]


def test_state_is_committed_and_given_back_as_it_changes():
    host, setup = host_with([2] * 5)
    for _ in range(2):
        host.exchange("run", request([0, 2]), {"x": np.ones(2)})
    host.exchange("run", request([4]), {"x": np.ones(2)})
    changed, more = host.snapshot("run")
    assert not more
    assert changed["ids"].tolist() == [0, 2, 4]
    assert changed["calls"].ravel().tolist() == [2, 2, 1]
    assert host.snapshot("run")[0]["ids"].size == 0
    host.open("run", setup, [(0, 1)])
    host.restore("run", changed)
    host.exchange("run", request([0]), {"x": np.ones(2)})
    again, _ = host.snapshot("run")
    assert again["ids"].tolist() == [0]
    assert again["calls"].ravel().tolist() == [3]


def test_a_client_that_fails_is_named_with_its_traceback():
    host, _ = host_with([2] * 5)
    failure = host.exchange("run", request([1, 2, 3, 4]), {"x": np.ones(2)})
    assert isinstance(failure, Failure)
    assert failure.client == 3
    assert "client 3 is broken" in failure.trace
    assert "Traceback" in failure.trace


def test_an_upload_that_was_not_declared_is_refused():
    host, _ = host_with([2] * 5)
    failure = host.exchange("run", request([1], "liar", {"vector": 2}), {"x": np.ones(2)})
    assert "declares the upload {'vector': 2} but sends {'vector': 7}" in failure.reason


@pytest.mark.parametrize(
    ("work", "up", "found"),
    [
        ("sideways", {"vector": 2}, r"ToyHalf.sideways sends 'vector' \(2, 3\) for 3 clients"),
        ("forgetful", {}, "keeps 'cals', which `client_state` does not make"),
        ("greedy", {}, r"keeps 'calls' \(3, 2\); a row a client is \(3, 1\)"),
        ("odd", {}, r"odd returns a str; return Upload"),
    ],
)
def test_what_would_be_lost_or_read_amiss_is_refused(work, up, found):
    host, _ = host_with([2] * 5)
    failed = host.exchange("run", request([2, 1, 4], work, up), {"x": np.ones(2)})
    assert isinstance(failed, Failure)
    assert re.search(found, failed.reason)


def test_a_loss_that_is_sent_is_what_the_server_sees():
    host, _ = host_with([2] * 3)
    part = host.exchange("run", request([0, 2], "both", {"loss": 1}), {"x": np.ones(2)})
    assert part.each["loss"].tolist() == [7.0, 7.0]


def test_a_run_that_is_not_open_is_unknown():
    host, _ = host_with([2])
    host.close("run")
    with pytest.raises(UnknownRun):
        host.exchange("run", request([0]), {"x": np.ones(2)})


def test_a_store_costs_only_what_was_touched():
    store = Store({"big": np.zeros(1000)}, Room(2**20))
    store.get(np.array([5, 10**9]))
    assert store.rows == {}
    store.put(np.array([10**9]), {"big": np.ones((1, 1000))})
    assert store.rows["big"].shape[0] <= 8
    assert store.get(np.array([10**9, 5]))["big"].sum(axis=1).tolist() == [1000.0, 0.0]


def test_the_stacks_forget_what_was_used_longest_ago():
    class Held:
        def __init__(self, size):
            self.X = np.zeros(size // 8)
            self.y = self.w = np.zeros(0)

    stacks = Stacks(limit=2000)
    for key in "abcaabbc":
        stacks.get(key, lambda: Held(400))
    assert list(stacks.held) == ["b", "c"]
    stacks.get("b", lambda: pytest.fail("it is held"))
    for key in "dd":
        stacks.get(key, lambda: Held(400))
    assert list(stacks.held) == ["b", "d"]


def test_stacks_that_never_recur_are_not_kept():
    stacks = Stacks()
    for key in range(10_000):
        stacks.get(key, lambda: None)
    assert not stacks.held
    assert len(stacks.seen) < 5000
