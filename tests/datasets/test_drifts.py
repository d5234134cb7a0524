"""Rows before and after a change, worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayfed.core.errors import ScenarioError
from rayfed.datasets import Arriving, ImagesTurn, LabelsSwap, Rotation
from rayfed.datasets.base import Table
from rayfed.datasets.drifting import DriftingShards
from rayfed.datasets.split import ClientRows, Split
from rayfed.datasets.table import Rows, TableShards
from rayfed.testing.checks.drifts import changed, check_pure

EVERYBODY = np.arange(2)


def shards(drift, *, test=False, shape=(), masses=None, who=None):
    """Client 0 has rows 0 to 3, client 1 rows 4 to 6, with features (row, 10 row)."""
    rows = np.arange(7.0)
    X = np.stack([rows, 10 * rows], axis=1)
    if shape:
        X = rows[:, None] + np.arange(np.prod(shape)) / 10
    client = np.array([0, 0, 0, 0, 1, 1, 1])
    table = Table(X, np.array([0, 1, 2, 0, 1, 2, 1]), 3, client=client, shape=shape)
    mine = ClientRows.of(np.arange(7), client, 2)
    nothing = ClientRows(np.zeros(0, np.int64), np.zeros(3, np.int64))
    parts = Split(nothing, mine) if test else Split(mine, nothing)
    base = TableShards.of(Rows.of(table, dtype="float64", intercept=True), parts, 3, masses)
    ids = np.array(who) if who is not None else 1.0
    return DriftingShards.of(base, drift, seed=0, affected=ids)


def test_levels_of_sudden_gradual_and_recurring_drift():
    sudden, gradual = LabelsSwap(at=3), LabelsSwap(at=3, over=4)
    assert [sudden.level(t) for t in range(6)] == [0, 0, 0, 1, 1, 1]
    assert [gradual.level(t) for t in range(9)] == [0, 0, 0, 0.25, 0.5, 0.75, 1, 1, 1]
    recurring = LabelsSwap(at=2, recurs=2)
    assert [recurring.level(t) for t in range(9)] == [0, 0, 1, 1, 0, 0, 1, 1, 0]
    once = LabelsSwap(at=2, end=3)
    assert [once.level(t) for t in range(7)] == [0, 0, 1, 1, 0, 0, 0]
    uneven = LabelsSwap(at=1, over=2, end=2, every=5)
    assert [uneven.level(t) for t in range(8)] == [0, 0.5, 1, 0.5, 0, 0, 0.5, 1]


@given(
    at=st.integers(1, 30),
    over=st.integers(1, 9),
    more=st.integers(0, 9),
    round=st.integers(0, 200),
)
def test_a_recurring_drift_repeats_itself_and_undoes_itself(at, over, more, round):
    recurs = over + more
    drift = LabelsSwap(at=at, over=over, recurs=recurs)
    now, half, whole = (drift.level(round + k * recurs) for k in range(3))
    assert 0 <= now <= 1
    if round >= at:
        assert whole == now
        assert half == pytest.approx(1 - now)


def test_labels_swap_in_the_round_and_not_before():
    drifting = shards(LabelsSwap(at=2, pairs=((0, 2),)))
    before, after = ([0, 1, 2, 0], [1, 2, 1, 0]), ([2, 1, 0, 2], [1, 0, 1, 0])
    for round, wanted in ((0, before), (1, before), (2, after), (7, after)):
        X, y = drifting.at(round).rows(EVERYBODY, 4)
        assert y.tolist() == [list(row) for row in wanted]
        assert X[:, :, 0].tolist() == [[0, 1, 2, 3], [4, 5, 6, 0]]
        assert X[:, :, 2].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]  # the column of ones
    taken = drifting.at(2).take(EVERYBODY, np.array([[3, 0], [2, 1]]))
    assert taken[1].tolist() == [[2, 2], [1, 0]]


def test_held_out_rows_drift_as_training_rows_do():
    drifting = shards(LabelsSwap(at=2, pairs=((0, 1),)), test=True)
    assert drifting.at(2).rows(EVERYBODY, 4, "test")[1].tolist() == [[1, 0, 2, 1], [0, 2, 0, 0]]


def test_only_the_clients_that_are_named_drift():
    drifting = shards(LabelsSwap(at=1, pairs=((0, 1),)), who=[1])
    assert drifting.at(1).rows(EVERYBODY, 4)[1].tolist() == [[0, 1, 2, 0], [0, 2, 0, 0]]


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (0.5, 6), (0.25, 3), (1.0, 12)])
def test_a_share_of_the_clients_drifts_and_the_seed_says_who(share, count):
    drift = LabelsSwap(clients=share)
    mine, others = changed(drift, 0).drifts(np.arange(12)), changed(drift, 1).drifts(np.arange(12))
    assert mine.sum() == others.sum() == count
    if share == 0.5:
        assert (mine != others).any()
        own = changed(LabelsSwap(clients=share, seed=1), 0).drifts(np.arange(12))
        assert own.tolist() == others.tolist()


def test_rows_swap_one_by_one_and_stay_swapped():
    drift = LabelsSwap(at=1, over=40, pairs=((0, 1),))
    drifting = changed(drift)
    ids = np.arange(12)
    width = int(drifting.widths(ids).max())
    first = drifting.at(0).rows(ids, width)[1]
    known = first < 2
    known &= np.arange(width) < drifting.sizes(ids)[:, None]
    swapped = np.zeros_like(known)
    for round in range(1, 41):
        now = drifting.at(round).rows(ids, width)[1] != first
        assert (now >= swapped).all()
        swapped = now
        if round == 20:
            half = swapped[known].mean()
    assert (swapped == known).all()
    assert half == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(known.sum()))


def test_features_turn_in_their_plane():
    drifting = shards(Rotation(at=1, over=2, angle=180))
    half, whole = (drifting.at(t).rows(EVERYBODY[:1], 4)[0][0] for t in (1, 2))
    rows = np.arange(4.0)
    np.testing.assert_allclose(half, np.stack([-10 * rows, rows, np.ones(4)], axis=1), atol=1e-12)
    np.testing.assert_allclose(whole, np.stack([-rows, -10 * rows, np.ones(4)], axis=1), atol=1e-12)


def test_images_turn_anticlockwise():
    drifting = shards(ImagesTurn(at=1), shape=(2, 2, 2))
    X = drifting.at(1).rows(EVERYBODY[:1], 4)[0][0]
    image = np.array([[0.1, 0.3], [0.0, 0.2]]).ravel()  # of [[0, .1], [.2, .3]]
    for row in range(4):
        np.testing.assert_allclose(X[row], [*(row + image), *(row + 0.4 + image), 1.0])


def test_rows_arrive_and_mass_changes():
    drifting = shards(Arriving(at=1, over=4, first=0.0), masses=None)
    sizes = [drifting.at(t).sizes(EVERYBODY).tolist() for t in range(6)]
    assert sizes == [[1, 1], [1, 1], [2, 1], [3, 2], [4, 3], [4, 3]]
    for round, n in enumerate(sizes):
        now = drifting.at(round)
        assert now.mass(EVERYBODY).tolist() == n
        assert now.total() == sum(n)
        assert now.totals == (sum(n), float(sum(n)))
        X, _ = now.rows(EVERYBODY, 4)
        for client, whole in ((0, {0, 1, 2, 3}), (1, {4, 5, 6})):
            there = X[client, : n[client], 0].tolist()
            assert len(set(there)) == n[client]
            assert set(there) <= whole
            if round:
                earlier = drifting.at(round - 1).rows(EVERYBODY, 4)[0][client, :, 0]
                assert (
                    there[: sizes[round - 1][client]]
                    == earlier[: sizes[round - 1][client]].tolist()
                )


def test_mass_that_the_data_defines_grows_with_the_rows():
    drifting = shards(Arriving(at=1, over=2), masses=np.array([6.0, 3.0]))
    assert drifting.at(1).sizes(EVERYBODY).tolist() == [2, 1]
    assert drifting.at(1).mass(EVERYBODY).tolist() == [3.0, 1.0]
    assert drifting.at(2).mass(EVERYBODY).tolist() == [6.0, 3.0]


def test_the_order_of_arrival_is_drawn():
    orders = [
        tuple(changed(Arriving(at=1), seed).at(1).rows(np.array([4]), 40)[0][0, :, 0])
        for seed in (0, 1)
    ]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


@settings(max_examples=15, deadline=None)
@given(
    rounds=st.lists(st.integers(0, 60), min_size=1, max_size=5),
    over=st.integers(1, 30),
    kind=st.sampled_from([LabelsSwap, Rotation, ImagesTurn, Arriving]),
)
def test_rounds_may_be_asked_for_in_any_order(rounds, over, kind):
    check_pure(kind(at=4, over=over, clients=0.5), rounds)


@settings(max_examples=15, deadline=None)
@given(
    asked=st.lists(st.integers(0, 11), min_size=1, max_size=12, unique=True),
    round=st.integers(0, 12),
    kind=st.sampled_from([LabelsSwap, Rotation, ImagesTurn, Arriving]),
)
def test_clients_may_be_asked_for_in_any_company(asked, round, kind):
    drift = kind(at=2, over=7, clients=0.5)
    shards, ids = changed(drift).at(round), np.array(asked)
    width = int(shards.widths(np.arange(12)).max())
    together = shards.rows(ids, width)
    index = shards.sizes(ids)[:, None] - 1
    taken = shards.take(ids, index)
    for k, client in enumerate(asked):
        X, y = shards.rows(np.array([client]), width)
        assert X[0].tobytes() == together[0][k].tobytes()
        assert y[0].tolist() == together[1][k].tolist()
        assert taken[0][k, 0].tolist() == X[0, index[k, 0]].tolist()


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda: LabelsSwap(over=3, recurs=2), "recurs"),
        (lambda: LabelsSwap(end=3, recurs=2), "recurs"),
        (lambda: LabelsSwap(at=4, end=3), "end"),
        (lambda: LabelsSwap(end=3, every=3), "every"),
        (lambda: LabelsSwap(over=3, end=2), "over"),
        (lambda: LabelsSwap(over=3, end=4, every=6), "over"),
        (lambda: LabelsSwap(clients=(1, 1)), "clients"),
        (lambda: LabelsSwap(pairs=((0, 1), (1, 2))), "pairs"),
        (lambda: shards(LabelsSwap(pairs=((0, 3),))), "pairs"),
        (lambda: shards(Rotation(plane=(0, 2))), "plane"),
        (lambda: Rotation(plane=(1, 1)), "plane"),
        (lambda: shards(ImagesTurn()), "name"),
        (lambda: shards(LabelsSwap(), who=[0, 2]), "clients"),
    ],
)
def test_what_does_not_fit_is_refused(make, place):
    with pytest.raises(ScenarioError) as refused:
        make()
    assert refused.value.place == place
