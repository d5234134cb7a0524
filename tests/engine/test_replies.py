"""What the server learns: means over clients and over groups, divided once."""

import numpy as np
import pytest

from rayfed.clients.host import Host
from rayfed.clients.request import Failure, Request
from rayfed.clients.setup import DataView, DataViews, Setup
from rayfed.core.plugins import find
from rayfed.core.tree import add
from rayfed.datasets.split import ClientRows, Split
from rayfed.datasets.table import Rows, TableShards
from rayfed.engine.replies import MeanInputs, TaskAnswer, reply_of
from rayfed.executors.base import gather
from rayfed.messages import Upload
from rayfed.problems.objective import Objective
from rayfed.solvers import SGD

GROUPS = np.array([2, 0, 2, 2, 7, 0, 7, 2])
VALUES = np.array([[1e16, 1.0], [3.0, 5.0], [1.0, 2.0], [-1e16, 4.0],
                   [0.5, 8.0], [7.0, 1.0], [0.25, 2.0], [2.0, 6.0]])  # fmt: skip


class ToyHalf:
    """A client function that sends a vector and a scalar, and says its group."""

    def work(self, clients):
        ids = clients.ids
        return Upload({"vector": VALUES[ids], "scalar": VALUES[ids, 1]}, group=GROUPS[ids])


def hosts(classes, block):
    rows = Rows(np.ones((8, 2)), np.ones(8), (2,))
    none = ClientRows(np.zeros(0, np.int64), np.zeros(9, np.int64))
    shards = TableShards.of(rows, Split(ClientRows(np.arange(8), np.arange(9)), none), 0)
    problem = find("problems")["least-squares"](intercept=False)
    view = DataView(shards, Objective(problem, 8, 8, 2))
    setup = Setup(
        {"algorithm": ToyHalf()}, DataViews(view, view), problem, (SGD(),), {}, 0, 2, block
    )
    made = [Host() for _ in classes]
    for host, owned in zip(made, classes, strict=True):
        host.open("run", setup, owned)
    return made


def asked(ids, weights=None, plain=(), classes=(((0, 1),),), block=100, up=None):
    ids = np.array(ids)
    none = np.zeros(len(ids), dtype=np.int64)
    weights = np.ones(len(ids)) if weights is None else np.array(weights, dtype=float)
    up = {"vector": 2, "scalar": 1, "group": 1} if up is None else up
    request = Request("algorithm", "work", up, ids, weights, none, none, 1, 0, plain=plain)
    parts = []
    for host, owned in zip(hosts(classes, block), classes, strict=True):
        mine = np.zeros(len(ids), dtype=bool)
        for residue, modulus in owned:
            mine |= ids % modulus == residue
        index = np.flatnonzero(mine)
        parts.append((index, host.exchange("run", request.part(index), {})))
    return request, parts


def reply(*args, **how):
    request, parts = asked(*args, **how)
    sizes = MeanInputs(request.up, 20, request.plain)
    return reply_of([TaskAnswer.to(request, gather(request, parts))], sizes, request.round)


def test_means_by_group_are_weighted_and_skip_who_did_not_answer():
    found = reply([1, 2, 4, 6, 7], weights=[1, 1, 3, 1, 2])
    groups = found.groups
    assert groups.labels.tolist() == [0, 2, 7]
    assert groups.counts.tolist() == [1, 2, 2]
    assert groups.weights.tolist() == [1, 3, 4]
    expected = [[3, 5], [5 / 3, 14 / 3], [1.75 / 4, 26 / 4]]
    np.testing.assert_allclose(groups.mean["vector"], expected, rtol=1e-15)
    np.testing.assert_allclose(found.mean["vector"], [9.75 / 8, 45 / 8], rtol=1e-15)
    assert found.population == 20


def test_plain_means_by_group_ignore_the_weights():
    groups = reply([4, 6, 7], weights=[3, 1, 2], plain=("vector",)).groups
    assert groups.mean["vector"].tolist() == [[2.0, 6.0], [0.375, 5.0]]


def test_plain_means_of_scalars_ignore_the_weights():
    found = reply([1, 2, 4], weights=[1, 1, 3], plain=("scalar",))
    assert found.mean["scalar"] == pytest.approx(15 / 3)
    assert reply([1, 2, 4], weights=[1, 1, 3]).mean["scalar"] == pytest.approx(31 / 5)


def test_the_label_is_told_and_has_no_mean():
    found = reply([0, 5])
    assert found.each["group"].tolist() == [2, 0]
    assert "group" not in found.mean
    assert found.mean["scalar"] == 1.0


@pytest.mark.parametrize("block", [1, 2, 100])
@pytest.mark.parametrize(
    "classes",
    [
        (((0, 1),),),
        (((0, 2),), ((1, 2),)),
        (((1, 4), (2, 4)), ((0, 8), (4, 8)), ((3, 4),)),
    ],
    ids=len,
)
def test_group_sums_have_one_shape_wherever_clients_live(classes, block):
    """Clients 0, 2, 3 and 7 are a group: (1e16 + 1) + (-1e16 + 2) loses the 1 and the 2."""
    groups = reply(range(8), classes=classes, block=block).groups
    total = (1e16 + 1.0) + (-1e16 + 2.0)
    assert groups.mean["vector"][1].tolist() == [total / 4, 13 / 4]


def test_a_group_that_was_not_declared_is_refused():
    _, ((_, failure),) = asked([0, 1], up={"vector": 2, "scalar": 1})
    assert isinstance(failure, Failure)
    assert "declares the upload {'vector': 2, 'scalar': 1} but sends" in failure.reason


def test_sums_that_only_one_branch_has_are_taken_as_they_are():
    a, b, c = np.array([1.0]), np.array([2.0]), np.array([4.0])
    both = add({"v": a, "v@1": b}, {"v": b, "v@3": c})
    assert {name: total.tolist() for name, total in both.items()} == {
        "v": [3.0], "v@1": [2.0], "v@3": [4.0],
    }  # fmt: skip
