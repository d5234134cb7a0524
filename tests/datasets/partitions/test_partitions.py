import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.core.plugins import find
from rayfed.datasets import (
    IID,
    ByColumn,
    Contiguous,
    Dirichlet,
    DirichletEqual,
    FashionMNIST,
    Labels,
    LabelShards,
    Sizes,
    Sorted,
    Writers,
)
from rayfed.datasets.base import Table
from rayfed.datasets.partitions.base import by_class
from rayfed.datasets.split import split
from rayfed.solvers import SGD
from rayfed.testing import toy_scenario


def table(n=120, classes=3):
    y = np.arange(n) % classes if classes else np.linspace(5.0, 1.0, n)
    return Table(np.arange(n, dtype=float)[:, None], y, classes=classes, names=("x",))


def sizes(owner, clients):
    return np.bincount(owner, minlength=clients).tolist()


ANY = st.one_of(
    st.builds(IID),
    st.builds(Contiguous),
    st.builds(Dirichlet, alpha=st.floats(0.5, 100), balance=st.booleans(), min_size=st.just(0)),
    st.builds(DirichletEqual, alpha=st.floats(0.05, 100), legacy=st.booleans()),
    st.builds(LabelShards, per_client=st.integers(1, 3)),
    st.builds(Labels, per_client=st.integers(1, 3), sigma=st.sampled_from([0.0, 1.0])),
    st.builds(Sorted, law=st.sampled_from(["equal", "uniform", "power"])),
    st.builds(Sizes, law=st.sampled_from(["lognormal", "power", "equal"])),
)


@settings(deadline=None, max_examples=60)
@given(ANY, st.integers(3, 12), st.integers(0, 2**32 - 1))
def test_every_row_goes_to_one_client_and_the_same_seed_says_which(partition, clients, seed):
    data = table()
    owner = partition.assign(data, clients, seed)
    assert owner.shape == (120,)
    assert owner.dtype == np.int64
    assert owner.min() >= (-1 if isinstance(partition, DirichletEqual) else 0)
    assert owner.max() < clients
    np.testing.assert_array_equal(owner, partition.assign(data, clients, seed))


MORE = [DirichletEqual(alpha=1.0), LabelShards()]


@pytest.mark.parametrize(
    "partition",
    [IID(), Dirichlet(alpha=1.0), Labels(), Sorted(), Sizes(), *MORE],
    ids=lambda p: p.name,
)
def test_another_seed_gives_another_partition(partition):
    data = table()
    assert (partition.assign(data, 6, 0) != partition.assign(data, 6, 1)).any()


def test_dirichlet_equal_is_the_partition_of_fedexp_with_the_authors_generator():
    # classes of clients 0, 1 and 99 of 100, as the authors' code draws them with seed 0
    data = Table(np.zeros((50000, 1)), np.repeat(np.arange(10), 5000), classes=10)
    owner = DirichletEqual(alpha=0.3, legacy=True).assign(data, 100, 0)
    assert sizes(owner, 100) == [500] * 100
    counts = [np.bincount(data.y[owner == client], minlength=10).tolist() for client in (0, 1, 99)]
    assert counts == [
        [14, 34, 7, 8, 34, 13, 0, 0, 30, 360],
        [11, 0, 0, 46, 6, 17, 0, 94, 313, 13],
        [220, 28, 6, 10, 0, 0, 176, 0, 2, 58],
    ]


def test_dirichlet_equal_has_shares_of_its_own_and_leaves_out_the_rest():
    data = table(1003, classes=2)
    draws = [DirichletEqual(alpha=1.0).assign(data, 100, seed) for seed in range(30)]
    assert all(sizes(owner[owner >= 0], 100) == [10] * 100 for owner in draws)
    # the rows of class 0 of a client: uniform on 0..10 (beta-binomial with alpha = beta = 1), with
    # variance 10, but for the last clients, who take what is left
    counts = [np.bincount(owner[(owner >= 0) & (data.y == 0)], minlength=100) for owner in draws]
    assert np.var(counts) == pytest.approx(10, rel=0.1)


def test_dirichlet_equal_ends_where_the_shares_left_are_none():
    owner = DirichletEqual(alpha=0.001).assign(table(300, classes=3), 2, 0)
    assert sizes(owner, 2) == [150, 150]


def test_shards_are_contiguous_blocks_of_the_sorted_rows():
    data = table(600, classes=10)
    owner = LabelShards().assign(data, 15, 0)
    assert sizes(owner, 15) == [40] * 15
    # 30 shards of 20 rows: three of each class, whole
    counts = np.array([np.bincount(data.y[owner == k], minlength=10) for k in range(15)])
    assert set(counts.ravel().tolist()) <= {0, 20, 40}
    assert counts.sum(axis=0).tolist() == [60] * 10


def test_shards_of_numbers_and_too_many_of_them():
    found = LabelShards(per_client=1).assign(table(9, classes=0), 3, 0)
    assert sorted(np.flatnonzero(found == k).tolist() for k in range(3)) == [
        [0, 1, 2], [3, 4, 5], [6, 7, 8],
    ]  # fmt: skip
    with pytest.raises(ScenarioError, match="5 clients with 2 shards each cannot share 9 rows"):
        LabelShards().assign(table(9), 5, 0)


@pytest.mark.parametrize("cls", [LabelShards, Sorted])
def test_several_targets_have_no_order(cls):
    held = {"X": np.ones((8, 1)), "y": np.ones((8, 2))}
    task = {"name": "network", "model": "rayfed.testing.modules:Small", "loss": "squared-error"}
    study = toy_scenario("fedavg", problem={**task, "dataset": {"name": "arrays", "data": held}})
    with pytest.raises(ScenarioError, match="needs one target for each row"):
        api.prepare(api.read(study | {"partition": cls.name}))


def test_contiguous_blocks_keep_the_order_and_the_last_has_the_rest():
    data = table(11)
    assert Contiguous().assign(data, 4, 0).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 3]
    assert Contiguous().assign(data, 11, 0).tolist() == list(range(11))
    listed = Contiguous(rows=(1, 7, 3))
    assert listed.count(data) == 3
    assert listed.assign(data, 3, 0).tolist() == [0] + [1] * 7 + [2] * 3
    found = split(data, listed, 3, seed=5, test=0.0).train  # in the order of the data at a client
    assert found.rows.tolist() == list(range(11))
    with pytest.raises(ScenarioError, match=r"partition\.rows: add up to 8 but the data has 11"):
        Contiguous(rows=(1, 7)).assign(data, 2, 0)


def test_iid_sizes_differ_by_one_row_at_most():
    owner = IID().assign(table(11), 4, 0)
    assert sorted(sizes(owner, 4)) == [2, 3, 3, 3]


FEDNOVA = Dirichlet(alpha=0.1, balance=True, min_size=10, legacy=True, seed=2020)
# of 16 clients, read in the authors' code: 8 to 204 batches of 32 rows, as their table says
FEDNOVA_SIZES = [
    *(298, 1077, 4862, 1743, 3713, 3867, 1600, 3271),
    *(3825, 6520, 4596, 1270, 3437, 4750, 248, 4923),
]


def test_dirichlet_is_the_partition_of_fednova_with_the_authors_generator():
    labels = np.repeat(np.arange(10), 5000)
    data = Table(np.zeros((50000, 1)), labels, classes=10, names=("x",))
    found = split(data, FEDNOVA, 16, seed=7, test=0.0)
    assert found.train.sizes(np.arange(16)).tolist() == FEDNOVA_SIZES


def test_fednova_s_partition_of_fashion_mnist(real):
    """The sizes depend on the random stream alone: any 5000 images of each class have them."""
    data = FashionMNIST(limit=5000).load(real, 0)
    found = split(data, FEDNOVA, 16, seed=7, test=0.0)
    sizes = found.train.sizes(np.arange(16))
    assert sizes.tolist() == FEDNOVA_SIZES
    twice = SGD(epochs=2, batch=32).step_counts(sizes)
    drawn = [SGD(epochs=e, batch=32).step_counts(sizes) for e in (2, 5)]
    assert (twice.min(), twice.max()) == (16, 408)
    assert (drawn[0].min(), drawn[1].max()) == (16, 1020)


@pytest.mark.parametrize(
    ("alpha", "smallest", "median", "largest"), [(2.0, 348, 617.5, 777), (0.3, 106, 623, 1375)]
)
def test_dirichlet_is_the_partition_of_power_of_choice(alpha, smallest, median, largest):
    # the authors' code on all of Fashion-MNIST, 100 clients: sizes follow from 6000 rows a class
    data = table(60000, classes=10)
    partition = Dirichlet(alpha=alpha, balance=True, min_size=10, legacy=True, seed=2020)
    found = sizes(partition.assign(data, 100, partition.seed), 100)
    assert (min(found), np.median(found), max(found)) == (smallest, median, largest)


def test_the_legacy_generator_is_seeded_by_the_run_where_the_partition_is_not():
    data, free = table(3000), Dirichlet(alpha=1.0, legacy=True)
    drawn = free.draw(by_class("", data), 6, np.random.RandomState(5))
    np.testing.assert_array_equal(free.assign(data, 6, 5), drawn)


@pytest.mark.parametrize("kind", [Dirichlet, DirichletEqual])
@pytest.mark.parametrize(
    ("alpha", "legacy", "remedy"),
    [(1e-10, True, "a larger one or legacy: false"), (1e308, False, "a smaller one")],
)
def test_shares_that_are_not_finite_are_refused(kind, alpha, legacy, remedy):
    with pytest.raises(
        ScenarioError, match=rf"partition\.alpha: found {re.escape(f'{alpha:g}')}, .*{remedy}"
    ):
        kind(alpha=alpha, legacy=legacy).assign(table(), 6, 0)


@pytest.mark.parametrize("kind", [Dirichlet, DirichletEqual])
def test_the_smallest_concentration_gives_every_class_to_one_client(kind):
    owner = kind(alpha=1e-300, **({"min_size": 0} if kind is Dirichlet else {})).assign(
        table(), 6, 0
    )
    assert owner.min() >= 0
    assert owner.max() < 6


def test_a_seed_that_the_legacy_generator_does_not_know_is_refused():
    with pytest.raises(ScenarioError, match=r"partition\.seed: found 4294967296; legacy"):
        Dirichlet(alpha=1.0, legacy=True).assign(table(), 6, 2**32)


def test_dirichlet_shares_have_the_moments_of_the_law():
    data = table(4000, classes=40)
    partition, clients, alpha = Dirichlet(alpha=2.0, min_size=0), 5, 2.0
    draws = [partition.assign(data, clients, seed) for seed in range(40)]
    shares = np.array(
        [np.bincount(o[data.y == c], minlength=5) / 100 for o in draws for c in range(40)]
    )
    # a share is Beta(alpha, (N - 1) alpha): mean 1/N, variance (N - 1)/(N^2 (N alpha + 1))
    assert shares.mean() == pytest.approx(1 / clients)
    assert shares.var() == pytest.approx(4 / (25 * 11), rel=0.08)
    assert alpha == partition.alpha


def test_a_large_alpha_is_nearly_even_and_a_small_one_is_not():
    data = table(3000)
    even = Dirichlet(alpha=1e6).assign(data, 10, 0)
    skewed = Dirichlet(alpha=0.1).assign(data, 10, 0)
    assert max(sizes(even, 10)) <= 306
    assert max(sizes(skewed, 10)) > 600


def test_balance_closes_clients_that_have_their_share():
    data = table(3000, classes=30)
    free = Dirichlet(alpha=0.1, min_size=0).assign(data, 10, 3)
    balanced = Dirichlet(alpha=0.1, balance=True, min_size=0).assign(data, 10, 3)
    # a client below 300 rows can be given one more class of 100 at most
    assert max(sizes(balanced, 10)) < 400 <= max(sizes(free, 10))


def test_dirichlet_gives_up_in_one_line():
    partition = Dirichlet(alpha=0.01, min_size=12)
    with pytest.raises(ScenarioError, match="1000 draws gave every client 12 rows; use fewer"):
        partition.assign(table(), 10, 0)


@pytest.mark.parametrize("partition", [Dirichlet(alpha=1.0), Labels()], ids=lambda p: p.name)
def test_numbers_as_targets_have_no_labels(partition):
    with pytest.raises(ScenarioError, match=f"'{partition.name}' needs classes"):
        partition.assign(table(classes=0), 4, 0)


@pytest.mark.parametrize(("clients", "k"), [(6, 2), (10, 3), (7, 1), (40, 9)])
def test_labels_gives_each_client_k_classes_and_each_class_as_many_clients(clients, k):
    data = table(5000, classes=10 if clients * k >= 10 else 5)
    owner = Labels(per_client=k).assign(data, clients, 0)
    held = np.zeros((clients, data.classes), bool)
    held[owner, data.y] = True
    assert (held.sum(axis=1) == k).all()
    holders = held.sum(axis=0)
    assert holders.max() - holders.min() <= 1
    counts = np.histogram2d(owner, data.y, bins=held.shape)[0]
    for label in range(data.classes):  # the rows of a class are shared equally
        shared = counts[held[:, label], label]
        assert shared.max() - shared.min() <= 1


def test_labels_may_share_a_class_unevenly():
    data = table(40_000, classes=4)
    owner = Labels(per_client=2, sigma=0.5).assign(data, 400, 0)
    counts = np.histogram2d(owner, data.y, bins=(400, 4))[0]
    assert ((counts > 0).sum(axis=1) == 2).all()
    for label in range(
        4
    ):  # 200 shares of each class, whose logarithms have the deviation asked for
        shares = np.log(counts[counts[:, label] > 0, label])
        assert abs(shares.std() - 0.5) < 4 * 0.5 / np.sqrt(2 * 200)


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(ScenarioError, match="is 4 but the data has 3 classes"):
        Labels(per_client=4).assign(table(), 5, 0)
    with pytest.raises(ScenarioError, match="leave some of 10 classes without a client"):
        Labels(per_client=2).assign(table(100, classes=10), 4, 0)


@pytest.mark.parametrize("clients", [6, 20])
def test_shares_beyond_all_numbers_are_refused(clients):
    """Of a class all are 0 with few clients, and one is infinite with many."""
    refused = []
    for seed in range(60):
        try:
            owner = Labels(per_client=1, sigma=1e6).assign(table(1000), clients, seed)
        except ScenarioError as error:
            refused.append(str(error))
        else:
            assert np.bincount(owner, minlength=clients).sum() == 1000
    assert {text.split("; ")[0] for text in refused} == {
        "partition.sigma: found 1e+06, and shares are beyond all numbers"
    }


def test_sorted_cuts_contiguous_blocks_of_the_target():
    data = table(100, classes=0)  # targets fall from row to row
    owner = Sorted(rows=(50, 30, 20)).assign(data, 3, 0)
    assert owner.tolist() == [2] * 20 + [1] * 30 + [0] * 50


def test_sorted_mixes_rows_of_one_label():
    data = table(90)
    owner = Sorted().assign(data, 6, 0)
    # 30 rows of each label, 15 rows to a client: clients 0 and 1 have label 0 alone, and so on
    assert [set(data.y[owner == c].tolist()) for c in range(6)] == [{0}, {0}, {1}, {1}, {2}, {2}]
    assert np.flatnonzero(owner == 0).tolist() != list(range(0, 45, 3))


def test_sizes_follow_the_law_with_mixed_content():
    data = table(1100, classes=2)
    owner = Sizes(law="power").assign(data, 3, 0)
    assert sorted(sizes(owner, 3)) == [200, 300, 600]
    for client in range(3):  # half of either label, within four standard deviations
        labels = data.y[owner == client]
        assert abs(labels.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(labels))


def test_listed_sizes_say_how_many_clients_there_are():
    assert Sizes(rows=(60, 60)).count(table()) == 2
    assert Sizes().count(table()) is None


def test_one_client_for_each_value_of_a_column():
    data = Table(
        np.array([[3.5, 0], [1.0, 0], [3.5, 1], [-2.0, 1]]), np.zeros(4), names=("region", "b")
    )
    partition = ByColumn(column="region")
    assert partition.count(data) == 3
    assert partition.assign(data, 3, 0).tolist() == [2, 1, 2, 0]
    with pytest.raises(ScenarioError, match="unknown feature 'regoin'; did you mean 'region'"):
        ByColumn(column="regoin").count(data)


def test_the_first_writers():
    data = Table(np.zeros((5, 1)), np.zeros(5), writer=np.array([812, 40, 812, 99, 40]))
    assert Writers().count(data) == 3
    assert Writers().assign(data, 3, 0).tolist() == [2, 0, 2, 1, 0]
    assert Writers().assign(data, 2, 0).tolist() == [-1, 0, -1, 1, 0]
    with pytest.raises(ScenarioError, match="data with writer ids"):
        Writers().count(table())


def test_all_partitions_of_the_scenario_format_are_found():
    names = {"iid", "dirichlet", "labels", "sorted", "sizes", "column", "writers"}
    assert names <= set(find("partitions"))
