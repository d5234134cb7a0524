"""FedHybrid's four set-ups against the fingerprints of the published ones."""

import numpy as np
import pytest

import rayfed
from rayfed.core.errors import ScenarioError
from rayfed.datasets import (
    FedHybridBoston,
    FedHybridLogistic,
    FedHybridMushroom,
    FedHybridQuadratic,
)
from rayfed.datasets.base import Source
from rayfed.datasets.fedhybrid import cut, stratified

SEED = 2022  # the authors'
FOLLOW_UP = {"samples": 10000, "scale_mean": 0, "scale_sigma": 0.5, "ill_conditioned": 0}
QUADRATIC = {"name": "least-squares", "divide_by": "all-samples", "l2_per": "population"}
LOGISTIC = {"name": "logistic-regression", "divide_by": "samples", "l2_per": "sample", "l2": 1}


def sizes(table):
    return np.bincount(table.client).tolist()


def first(dataset, problem, tmp_path):
    """F(x_0) and F* as a study finds them."""
    result = rayfed.run(
        {
            "rounds": 1,
            "evaluate": {"gap": True},
            "problem": {"dataset": {**dataset, "seed": SEED}, "weighting": "sum", **problem},
            "clients": {},
            "participation": {"select": "all"},
            "algorithms": [{"name": "fedavg", "local": {"steps": 1, "batch": "full", "lr": 1e-3}}],
            "executor": "serial",
        },
        out=tmp_path / "o",
        page=False,
    )
    start = result.rounds.iloc[0]
    return start.loss, start.loss - start.loss_gap


def test_set_up_1_of_the_authors(tmp_path):
    assert sizes(FedHybridQuadratic().load(Source(), SEED)) == [
        *(104, 81, 91, 2941, 145, 300, 149, 210, 165, 166)
    ]
    problem = {**QUADRATIC, "l2": 0.01, "intercept": False}
    start, least = first({"name": "fedhybrid-quadratic"}, problem, tmp_path)
    assert start - least == pytest.approx(32750.98, abs=5e-3)


def test_the_ill_conditioned_clients_of_set_up_1():
    table = FedHybridQuadratic().load(Source(), SEED)
    widest = np.array([np.ptp(table.X[table.client == i], axis=0) for i in range(10)])
    ratio = widest.max(axis=1) / widest.min(axis=1)
    # columns differ by 1e4 U / U there, and are alike elsewhere
    assert np.flatnonzero(ratio > 100).tolist() == sorted([8, 4, 7, 9])
    assert ratio[ratio < 100].max() < 1.1


def test_the_sizes_of_the_paper_come_from_the_same_recipe():
    table = FedHybridQuadratic(clients=20, features=30).load(Source(), SEED)
    assert table.X.shape == (sum(sizes(table)), 30)
    # the first draws are the same
    assert sizes(table)[:10] == sizes(FedHybridQuadratic().load(Source(), SEED))


def test_set_up_1_of_the_follow_up_study(tmp_path):
    table = FedHybridQuadratic(**FOLLOW_UP).load(Source(), SEED)
    assert sizes(table) == [926, 797, 606, 247, 1289, 1575, 754, 1073, 1328, 1405]
    problem = {**QUADRATIC, "l2": 0.01, "intercept": False}
    start, least = first({"name": "fedhybrid-quadratic", **FOLLOW_UP}, problem, tmp_path)
    assert start - least == pytest.approx(0.0132377, abs=5e-8)
    assert least == pytest.approx(0.0447353, abs=5e-8)


def test_set_up_2(real, tmp_path, monkeypatch):
    table = FedHybridBoston().load(real, SEED)
    assert sizes(table) == [45, 38, 29, 12, 62, 76, 36, 56]
    assert len(table.test.y) == 152
    assert (np.diff(table.y) >= 0).all()  # sorted by price
    monkeypatch.setenv("RAYFED_DATA", str(real.home))
    start, least = first({"name": "fedhybrid-boston"}, {**QUADRATIC, "l2": 1}, tmp_path)
    assert start == pytest.approx(294.31004, abs=5e-6)
    assert least == pytest.approx(144.56534, abs=5e-6)


def test_set_up_3_has_the_rows_of_the_published_file():
    table = FedHybridLogistic().load(Source(), SEED)
    assert sizes(table) == [45, 38, 29, 12, 62, 76, 36, 56]
    # its first row: the authors shuffle the rows of a client
    x = [0.8543060222338583, -1.2939857168087165, 0.14673308639231483, -0.13446645324528828]
    mine = table.X[table.client == 0]
    found = np.abs(mine[:, :4] - x).max(axis=1)
    assert found.min() < 1e-12
    assert (table.y[table.client == 0] == 1).all()
    # and the first of the second client
    x = [-0.1496939126156372, -0.18201284350466354, 0.8890507685154885, -0.6119549982946587]
    assert np.abs(table.X[table.client == 1][:, :4] - x).max(axis=1).min() < 1e-12


def test_set_up_3_starts_where_the_follow_up_study_did():
    table = FedHybridLogistic().load(Source(), SEED)
    assert table.start.shape == (12,)
    assert table.start[[0, -1]].tolist() == [0.99846005, 0.91062862]
    assert FedHybridLogistic(clients=20, features=30).load(Source(), SEED).start is None


def test_set_up_3_draws_as_numpy_s_multivariate_normal_does():
    ours = FedHybridLogistic(clients=1, features=3, samples=5).load(Source(), 7)
    stream = np.random.RandomState(7)
    u, _ = stream.normal(0, 0.5), stream.normal(0, 0.5)
    v = stream.normal(0, 1, 3)
    W, b = stream.normal(u, 1, (3, 2)), stream.normal(u, 1, 2)
    X = stream.multivariate_normal(v, np.diag([1, 2**-1.2, 3**-1.2]), 5)
    np.testing.assert_allclose(ours.X, X, rtol=1e-14)
    np.testing.assert_array_equal(ours.y, (X @ W + b).argmax(axis=1))


def test_set_up_4(tmp_path):
    table = FedHybridMushroom().load(Source(), SEED)
    assert sizes(table) == [273, 239, 317, 237, 228, 221, 2154, 281]
    assert table.X.shape == (3950, 98)
    poisonous = [table.y[table.client == i].mean() for i in range(8)]
    assert poisonous[:6] == [0] * 6
    assert 0 < poisonous[6] < 1
    assert poisonous[7] == 1
    start, least = first({"name": "fedhybrid-mushroom"}, LOGISTIC, tmp_path)
    assert start == pytest.approx(8 * np.log(2), rel=1e-12)
    assert least == pytest.approx(0.1544487, abs=5e-8)


def test_accuracy_at_the_optimum_of_set_up_4():
    table = FedHybridMushroom().load(Source(), SEED)
    counts = np.array(sizes(table))
    row, ridge = 1 / counts[table.client], (1 / counts).sum()
    A, B = (np.column_stack([t.X, np.ones(len(t.y))]) for t in (table, table.test))
    x = np.zeros(99)
    for _ in range(15):  # Newton's method
        p = 1 / (1 + np.exp(-A @ x))
        H = A.T @ ((row * p * (1 - p))[:, None] * A) + ridge * np.eye(99)
        x -= np.linalg.solve(H, A.T @ (row * (p - table.y)) + ridge * x)
    assert ((B @ x > 0) == table.test.y).mean() == pytest.approx(0.9988, abs=5e-5)


def test_the_stratified_split_of_scikit_learn():
    # train_test_split(arange(20), test_size=0.3, stratify=y, random_state=42), scikit-learn 1.9.1
    y = np.array([0] * 9 + [1] * 6 + [2] * 5)
    train, test = stratified(y, 0.3, np.random.RandomState(42))
    assert train.tolist() == [12, 5, 9, 16, 13, 15, 19, 0, 7, 8, 1, 2, 18, 10]
    assert test.tolist() == [4, 14, 3, 11, 17, 6]


def test_blocks_that_leave_somebody_without_rows():
    assert cut(np.array([1.0, 2.0, 1.0]), 9).tolist() == [2, 4, 3]
    with pytest.raises(ScenarioError, match="3 leaves a client without rows; use fewer"):
        cut(np.array([1.0, 2.0, 1.0]), 3)


def test_more_ill_conditioned_clients_than_there_are():
    with pytest.raises(ScenarioError, match="is 4 but there are 3 clients; lower it"):
        FedHybridQuadratic(clients=3).load(Source(), 0)


@pytest.mark.parametrize("dataset", [FedHybridQuadratic(), FedHybridLogistic()])
def test_another_seed_makes_other_rows(dataset):
    one, two = dataset.load(Source(), 1), dataset.load(Source(), 2)
    assert one.X[0, 0] != two.X[0, 0]
    np.testing.assert_array_equal(one.X, dataset.load(Source(), 1).X)
