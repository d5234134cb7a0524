import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayfed.core.classes import classes
from rayfed.core.tree import bit_reverse, class_sums, join, tree_sum

IDS = st.lists(st.integers(0, 5000), min_size=1, max_size=60, unique=True)


def values_of(ids):
    """Numbers of very different size, so that the order of additions shows in the bits."""
    rng = np.random.default_rng(7)
    table = rng.normal(size=(5001, 2)) * 10.0 ** rng.integers(-8, 8, size=(5001, 1))
    return table[ids]


def by_definition(ids, values, residue=0, modulus=1):
    """The sum over a class is that over its two halves, the lower residue first."""
    mine = [k for k, i in enumerate(ids) if i % modulus == residue]
    if len(mine) <= 1:
        return values[mine[0]] if mine else None
    low = by_definition(ids, values, residue, 2 * modulus)
    high = by_definition(ids, values, residue + modulus, 2 * modulus)
    if low is None or high is None:
        return high if low is None else low
    return low + high


@given(IDS)
@settings(max_examples=60)
def test_the_shape_is_that_of_the_definition(ids):
    values = values_of(ids)
    before = values.copy()
    total = tree_sum(np.array(ids), values)
    assert total.tobytes() == by_definition(ids, values).tobytes()
    assert values.tobytes() == before.tobytes()


def test_the_shape_matters_so_the_test_above_can_fail():
    ids = list(range(60))
    values = values_of(ids)
    assert tree_sum(np.array(ids), values).tobytes() != values.sum(axis=0).tobytes()


@given(IDS, st.integers(1, 20))
@settings(max_examples=60)
def test_blocks_do_not_change_the_bits(ids, block):
    ids = np.sort(np.array(ids))
    table = values_of(np.arange(5001))
    seen = []

    def leaf(some):
        seen.append(len(some))
        return {"v": tree_sum(some, table[some])}

    total = class_sums(ids, leaf, block)["v"]
    assert total.tobytes() == tree_sum(ids, table[ids]).tobytes()
    assert max(seen) <= block
    assert sum(seen) == len(ids)


@given(st.integers(1, 200), st.data())
@settings(max_examples=60)
def test_any_number_of_hosts_gives_the_same_bits(clients, data):
    hosts = data.draw(st.integers(1, clients))
    ids = np.array(sorted(data.draw(st.sets(st.integers(0, clients - 1), min_size=1))))
    table = values_of(np.arange(clients))
    branches = []
    for owned in classes(clients, hosts):
        for residue, modulus in owned:
            mine = ids[ids % modulus == residue]
            if len(mine):
                leaf = lambda some: {"v": tree_sum(some, table[some])}  # noqa: E731
                branches.append((residue, modulus, class_sums(mine, leaf, 3, residue, modulus)))
    assert join(branches)["v"].tobytes() == tree_sum(ids, table[ids]).tobytes()


def test_bits_are_reversed():
    assert bit_reverse(np.array([0b001, 0b110]), 3).tolist() == [0b100, 0b011]


def test_zeros_keep_their_sign_where_ids_are_missing():
    ids = np.array([1, 6, 11])
    signs = np.signbit(tree_sum(ids, np.array([[-0.0, 0.0, -0.0], [-0.0] * 3, [-0.0, -0.0, 0.0]])))
    assert signs.tolist() == [True, False, False]


def test_rows_of_other_types_are_added_up():
    ids, rows = np.array([9, 2, 5]), np.array([[1, 2], [3, 4], [5, 6]])
    assert tree_sum(ids, rows, np.array([1, 2, 3])).tolist() == [22, 28]
    assert tree_sum(ids, rows.astype(np.float16)).dtype == np.float16


@pytest.mark.parametrize("read_only", [(), (0,), (1,), (0, 1)])
def test_long_rows_are_joined_in_place_where_they_may_be_written(read_only):
    """Bits do not depend on it; what cannot be written, as in Ray's object store, stays."""
    rng = np.random.default_rng(3)
    given = [rng.normal(size=5000) for _ in range(2)]
    wanted = given[0] + given[1]
    branches = [(r, 2, {"v": rows.copy()}) for r, rows in enumerate(given)]
    for k in read_only:
        branches[k][2]["v"].flags.writeable = False
    total = join(reversed(branches))["v"]
    np.testing.assert_array_equal(total, wanted)
    for k in read_only:
        np.testing.assert_array_equal(branches[k][2]["v"], given[k])
    mine = [np.shares_memory(total, branch[2]["v"]) for branch in branches]
    assert any(mine) == (len(read_only) < 2)
