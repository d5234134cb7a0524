"""Dealing clients to hosts anew: who gets what, and that the sum keeps its bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayfed.core.classes import balanced, classes
from rayfed.core.tree import class_sums, join, join_within, tree_sum


def owner(dealt, i):
    """The hosts that own a client."""
    return [h for h, owned in enumerate(dealt) for r, m in owned if i % m == r]


def test_even_ids_are_halved_by_the_residue_of_four():
    # ids 0, 4 and 2, 6; the odd ids, of which none is asked, are anywhere
    dealt = balanced(np.array([0, 2, 4, 6]), 2)
    assert [owner(dealt, i) for i in (0, 4, 2, 6)] == [[0], [0], [1], [1]]


def test_what_is_even_by_parity_stays_with_the_coarsest_classes():
    assert balanced(np.arange(100), 2) == [[(0, 2)], [(1, 2)]]


@pytest.mark.parametrize("hosts", [1, 2, 3, 8])
def test_every_id_has_one_owner_and_loads_differ_little(hosts):
    ids = np.sort(np.random.default_rng(hosts).choice(1000, 60, replace=False))
    dealt = balanced(ids, hosts)
    assert all(len(owner(dealt, i)) == 1 for i in range(1000))
    loads = np.bincount([owner(dealt, i)[0] for i in ids], minlength=hosts)
    assert loads.max() <= 1.1 * 60 / hosts + 2  # two clients: the finest classes are not single


def test_clients_of_one_class_cannot_be_parted_further_than_the_finest_one():
    ids = np.arange(0, 320, 32)  # all are 0 modulo 32 = 16 * hosts
    dealt = balanced(ids, 2)
    assert len({owner(dealt, i)[0] for i in ids}) == 1


def test_the_sum_has_the_same_bits_however_clients_are_dealt():
    rng = np.random.default_rng(0)
    ids = np.sort(rng.choice(50, 9, replace=False))
    values = dict(zip(ids.tolist(), rng.standard_normal((9, 3)) * 1e8, strict=True))

    def leaf(some):
        return {"v": tree_sum(some, np.array([values[i] for i in some.tolist()]))}

    def total(dealt):
        branches = []
        for r, m in [c for owned in dealt for c in owned]:
            mine = ids[ids % m == r]
            if len(mine):
                branches.append((r, m, class_sums(mine, leaf, 2, r, m)))
        return join(branches)["v"]

    whole = leaf(ids)["v"]
    for hosts in (1, 2, 3, 5):
        assert (total(balanced(ids, hosts)) == whole).all()
        assert (total(classes(50, hosts)) == whole).all()


@given(st.integers(1, 300), st.data())
@settings(max_examples=60)
def test_every_client_has_one_host(clients, data):
    hosts = data.draw(st.integers(1, clients))
    owned = classes(clients, hosts)
    assert len(owned) == hosts
    counts = [sum(any(i % m == r for r, m in own) for i in range(clients)) for own in owned]
    assert sum(counts) == clients
    assert min(counts) >= 1


@given(st.integers(1, 300), st.data())
@settings(max_examples=60)
def test_every_piece_of_the_servers_rows_has_one_host(clients, data):
    """There may be more pieces than clients: MNIST's test rows are 20."""
    owned = classes(clients, data.draw(st.integers(1, clients)))
    for i in range(4 * clients + 20):
        assert sum(i % m == r for own in owned for r, m in own) == 1


def test_as_many_hosts_as_clients_gives_each_one():
    counts = [
        len([i for i in range(20) if any(i % m == r for r, m in own)]) for own in classes(20, 20)
    ]
    assert counts == [1] * 20


def clients_of(owned, clients):
    return [i for i in range(clients) if any(i % m == r for r, m in owned)]


@given(st.integers(2, 300), st.data())
@settings(max_examples=25)
def test_nodes_share_their_clients_out_to_their_processes(clients, data):
    """Two levels of classes: each process has a client, and the sum of a node is the same."""
    sizes, left = [], clients
    while left and len(sizes) < 5:
        sizes.append(data.draw(st.integers(1, min(left, 9))))
        left -= sizes[-1]
    ids = np.arange(clients)
    values = np.random.default_rng(clients).standard_normal(clients) * 10.0 ** (ids % 17)

    def branches(owned):
        for r, m in owned:
            mine = ids[ids % m == r]
            if len(mine):
                yield r, m, {"v": tree_sum(mine, values[mine, None])}

    nodes, whole = classes(clients, sizes), []
    for size, within in zip(sizes, nodes, strict=True):
        processes = classes(clients, size, within)
        assert min(len(clients_of(owned, clients)) for owned in processes) >= 1
        found = join_within([b for owned in processes for b in branches(owned)], within)
        whole += found
        for i in range(4 * clients):  # pieces of the server's rows, too
            owners = sum(any(i % m == r for r, m in owned) for owned in processes)
            assert owners == any(i % m == r for r, m in within)
    assert sorted(i for owned in nodes for i in clients_of(owned, clients)) == ids.tolist()
    assert join(whole)["v"].tobytes() == tree_sum(ids, values[:, None]).tobytes()


def test_nodes_get_clients_as_they_have_processes():
    nodes = classes(700, [4, 2, 1])
    assert [len(clients_of(owned, 700)) for owned in nodes] == pytest.approx([400, 200, 100], abs=8)
    assert [len(owned) for owned in classes(64, [16] * 4)] == [1, 1, 1, 1]
    dealt = balanced(np.arange(0, 700, 2), [4, 2, 1])
    loads = [sum(i % 2 == 0 for i in clients_of(owned, 700)) for owned in dealt]
    assert loads == pytest.approx([200, 100, 50], abs=30)
