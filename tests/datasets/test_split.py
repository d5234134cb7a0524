from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayfed.core.errors import ScenarioError
from rayfed.datasets import IID, Dirichlet, Sizes, Writers
from rayfed.datasets.base import Table
from rayfed.datasets.split import ClientRows, held_out, split

OWNED = Table(np.zeros((10, 1)), np.arange(10.0), client=np.array([1, 0, 1, 1, 0, 1, 1, 1, 2, 1]))
PLAIN = Table(np.zeros((40, 1)), np.arange(40) % 2, classes=2)

NUMBERS = Table(np.zeros((40, 1)), np.arange(40.0))


def test_the_client_column_is_the_partition():
    found = split(OWNED, None, None, 0, 0.0)
    assert [found.train.of_client(i).tolist() for i in range(3)] == [
        [1, 4],
        [0, 2, 3, 5, 6, 7, 9],
        [8],
    ]
    assert len(found.test.rows) == 0
    assert found.train.sizes(np.array([2, 0])).tolist() == [1, 2]


def test_held_out_rows_stay_with_their_client():
    found = split(OWNED, None, 3, 0, 0.3)
    # round(0.3 * 2) = 1, round(0.3 * 7) = 2, round(0.3 * 1) = 0
    assert np.diff(found.test.offsets).tolist() == [1, 2, 0]
    for client in range(3):
        mine = [*found.train.of_client(client), *found.test.of_client(client)]
        assert sorted(mine) == np.flatnonzero(OWNED.client == client).tolist()


def test_one_training_row_stays():
    found = split(OWNED, None, None, 0, 0.99)
    assert np.diff(found.train.offsets).tolist() == [1, 1, 1]


def test_held_out_rows_are_a_fair_sample():
    held = np.zeros(40)
    for seed in range(300):
        held[split(PLAIN, None, 2, seed, 0.25).test.rows] += 1
    # each row is held out with probability 1/4: 75 times, standard deviation 7.5
    assert held.sum() == 300 * 10
    assert np.abs(held - 75).max() < 4 * 7.5


@settings(deadline=None, max_examples=50)
@given(
    st.integers(1, 40), st.integers(0, 2**32), st.floats(0.0, 0.99), st.sampled_from([IID, Sizes])
)
def test_every_row_is_in_one_place(clients, seed, test, partition):
    found = split(PLAIN, partition(), clients, seed, test)
    rows = np.concatenate([found.train.rows, found.test.rows])
    assert sorted(rows.tolist()) == list(range(40))
    assert found.clients == clients
    assert np.diff(found.train.offsets).min() >= 1


def test_the_partition_s_own_seed_fixes_the_held_out_rows_too():
    a, b = (split(PLAIN, Dirichlet(alpha=1.0, seed=5), 4, seed, 0.2) for seed in (0, 1))
    np.testing.assert_array_equal(a.train.rows, b.train.rows)
    np.testing.assert_array_equal(a.test.rows, b.test.rows)


def test_fewer_writers_than_there_are_leave_rows_unused():
    table = replace(PLAIN, writer=np.repeat([7, 3, 9, 5], 10))
    assert len(split(table, Writers(), 2, 0, 0.0).train.rows) == 20
    assert split(table, Writers(), None, 0, 0.0).clients == 4
    with pytest.raises(ScenarioError, match="is 5 but partition 'writers' has 4 clients"):
        split(table, Writers(), 5, 0, 0.0)


def test_a_share_of_the_clients_has_wrong_training_labels():
    found = split(PLAIN, IID(flip=0.3), 10, 7, 0.25)
    clients = np.repeat(np.arange(10), np.diff(found.train.offsets))
    wrong = found.flipped[found.train.rows]
    assert len(set(clients[wrong].tolist())) == 3
    assert set(clients[wrong].tolist()).isdisjoint(clients[~wrong].tolist())
    assert not found.flipped[found.test.rows].any()
    other = split(PLAIN, IID(flip=0.3), 10, 8, 0.25)
    assert (other.flipped[other.train.rows] != wrong).any()


def test_validation_rows_are_taken_from_what_the_tests_leave():
    found = split(OWNED, None, 3, 0, 0.3, 0.4)
    # of 2, 7 and 1 rows: round(0.3 n) = 1, 2, 0 are tests; of what is left but one, at most
    # round(0.4 n) = 1, 3, 0 are for validation
    assert np.diff(found.test.offsets).tolist() == [1, 2, 0]
    assert np.diff(found.validation.offsets).tolist() == [0, 3, 0]
    assert np.diff(found.train.offsets).tolist() == [1, 2, 1]


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32), st.floats(0.0, 0.99), st.floats(0.01, 0.99))
def test_validation_rows_are_nobody_else_s(seed, test, validation):
    table = replace(PLAIN, client=np.minimum(np.arange(40) // 3, 7))  # sizes 3 and 19
    found, without = (split(table, None, None, seed, test, share) for share in (validation, 0.0))
    parts = [found.train, found.test, found.validation]
    assert sorted(np.concatenate([part.rows for part in parts]).tolist()) == list(range(40))
    for part in parts:
        owners = np.repeat(np.arange(8), np.diff(part.offsets))
        assert (table.client[part.rows] == owners).all()
    assert np.diff(found.train.offsets).min() >= 1
    np.testing.assert_array_equal(found.test.rows, without.test.rows)
    np.testing.assert_array_equal(found.test.offsets, without.test.offsets)
    assert len(without.part("validation").rows) == 0


def test_wrong_labels_are_wrong_where_settings_are_chosen():
    found = split(PLAIN, IID(flip=0.3), 10, 7, 0.25, 0.25)
    whole = split(PLAIN, IID(flip=0.3), 10, 7, 0.25)
    np.testing.assert_array_equal(found.flipped, whole.flipped)
    assert found.flipped[found.validation.rows].any()
    assert not found.flipped[found.test.rows].any()


def test_nothing_is_flipped_unless_asked_for():
    assert split(PLAIN, IID(), 10, 7, 0.25).flipped is None


@pytest.mark.parametrize(
    ("table", "partition", "clients", "message"),
    [
        (OWNED, IID(), None, "partition: the data assigns rows to clients"),
        (OWNED, None, 4, "clients.count: is 4 but the data has 3 clients; leave it out"),
        (PLAIN, None, None, "clients.count: is missing; give the number"),
        (PLAIN, IID(), 41, "clients.count: 41 clients cannot share 40 rows; use fewer"),
        (PLAIN, Sizes(rows=(20, 20)), 3, "clients.count: is 3 but partition 'sizes' has 2"),
        (
            PLAIN,
            Dirichlet(alpha=0.001, min_size=0),
            20,
            r"partition: client \d+ has no rows; use fewer clients or a larger alpha",
        ),
    ],
)
def test_what_does_not_fit_is_one_line(table, partition, clients, message):
    with pytest.raises(ScenarioError, match=message) as error:
        split(table, partition, clients, 0, 0.0)
    assert "\n" not in str(error.value)


def test_given_parts_are_kept_and_fractions_are_of_the_others():
    """Client 0 has rows 0 to 4, of which 4 is for tests; client 1 has the others, 8 for tests."""
    client = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1])
    part = np.array([0, 0, 0, 0, 1, 0, 0, 0, 1], np.int8)
    table = Table(np.zeros((9, 1)), np.arange(9.0), client=client, part=part)
    found = split(table, None, None, 3, 0.0, 0.5)
    assert found.test.rows.tolist() == [4, 8]
    assert np.diff(found.validation.offsets).tolist() == [2, 2]  # half of 4, round(0.5 * 3)
    together = np.concatenate([found.train.rows, found.test.rows, found.validation.rows])
    assert sorted(together.tolist()) == list(range(9))
    with pytest.raises(ScenarioError, match="data say which rows are for test, 2; leave it out"):
        split(table, None, None, 3, 0.1)


def test_half_a_row_is_rounded_to_even():
    """0.82 of 75 rows are 61.5, and 0.18 of them 13.5; in floating point a little less or more."""
    tested, both = held_out(np.array([75, 175]), 0.82, 0.1)
    assert tested.tolist() == [62, 144]  # 143.5 to even
    assert (both - tested).tolist() == [8, 18]  # 7.5 and 17.5 to even


def test_rows_of_some_clients_in_another_order():
    rows = ClientRows(np.array([5, 3, 8, 1, 2, 9]), np.array([0, 2, 2, 5, 6]))
    some = rows.of_clients(np.array([2, 1, 0]))
    assert [some.of_client(i).tolist() for i in range(3)] == [[8, 1, 2], [], [5, 3]]
    assert rows.of_clients(np.array([], dtype=np.int64)).rows.tolist() == []
