"""Dealing clients to hosts anew: who gets what, and that the sum keeps its bits."""

import numpy as np
import pytest

from rayfed.core.tree import balanced, class_sums, classes, join, tree_sum


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
