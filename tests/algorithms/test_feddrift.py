"""FedDrift: rounds by hand, merging against SciPy, identities, and what it is for."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from rayfed.algorithms import FedDrift
from rayfed.algorithms.feddrift import distances, merged
from rayfed.messages import Groups
from rayfed.testing.rounds import answer, reply
from rayfed.testing.toy import points, tiny_run


def of_groups(labels, weights, **mean):
    labels = np.asarray(labels)
    means = {name: np.asarray(rows, dtype=np.float64) for name, rows in mean.items()}
    return Groups(labels, np.ones_like(labels), np.asarray(weights, dtype=np.float64), means)


def test_clients_choose_the_best_model_or_open_one():
    """Losses are half squared distances; the least ones before were 0, 0 and 7."""
    last = {"loss": [0.0, 0.0, 7.0], "least": np.zeros(3), "choice": np.zeros(3, np.int64)}
    models = np.array([[0.0], [4.0]])
    clients = points([1.0, 2.5, 8.0], state=last)
    upload = FedDrift(delta=1.0).choose(clients, models)
    np.testing.assert_allclose(upload.values["losses"], [[0.5, 4.5], [3.125, 1.125], [32.0, 8.0]])
    assert upload.group.tolist() == [0, 2, 1]  # 1.125 > 0 + 1; 8 is not above 7 + 1
    assert upload.state["choice"].ravel().tolist() == [0, 1, 1]
    np.testing.assert_allclose(upload.state["least"].ravel(), [0.5, 1.125, 8.0])
    assert "loss" not in upload.state  # who does not train has not taken part
    never = {"loss": [np.inf], "least": [np.inf], "choice": np.zeros(1, np.int64)}
    first = points([100.0], state=never)
    assert FedDrift().choose(first, models).group.tolist() == [1]  # nothing to compare with


def test_clients_train_the_model_that_they_use():
    least = np.array([[1.0], [2.0], [3.0]])
    state = {"loss": [0.0, 0.0, 0.0], "least": least, "choice": np.array([2, 0, 1])}
    clients = points([0.0, 0.0, 0.0], state=state)
    models = np.array([[1.0], [2.0], [3.0]])
    upload = FedDrift().train(
        clients, models, place=np.array([0, 0, 1]), drifted=np.array([1]), opened=np.array([2])
    )
    assert upload.group.tolist() == [1, 2, 0]
    np.testing.assert_allclose(upload.values["delta"].ravel(), [0.2, 0.3, 0.1])  # lr 0.1
    np.testing.assert_array_equal(upload.state["loss"], least)


def test_a_round_by_hand():
    """Clusters 0 and 2 are 0.05 apart and merge by 3 to 1; client 7 opens a model; then training.

    Cluster 1 has nobody; the new model starts from x_0 = 9.
    """
    state = {"x": np.zeros(1), "models": np.array([[4.0], [5.0], [8.0]]), "start": np.full(1, 9.0)}
    losses = [[1.0, 3.0, 1.05], [1.02, 5.0, 1.0], [9.0, 9.0, 9.0]]
    chosen = reply(
        ids=[2, 3, 5, 7], each={"group": [0, 0, 2, 3]},
        groups=of_groups([0, 2, 3], [3.0, 1.0, 1.0], losses=losses),
    )  # fmt: skip
    trained = reply(groups=of_groups([0, 2], [4.0, 1.0], delta=[[0.5], [-1.0]]))
    after, found, (first, second) = answer(FedDrift(), state, [chosen, trained])
    assert second.send["models"].ravel().tolist() == [5.0, 5.0, 9.0]
    assert second.send["place"].tolist() == [0, 1, 0]
    assert (second.send["drifted"].tolist(), second.send["opened"].tolist()) == ([7], [2])
    assert after["models"].ravel().tolist() == [4.5, 5.0, 10.0]
    assert after["x"].tolist() == [4.5]
    assert found == {"clusters": 3, "used": 2, "opened": 1, "merged": 1}
    assert (first.up, first.passes) == ({"losses": 3, "group": 1}, 3)
    assert state["models"].ravel().tolist() == [4.0, 5.0, 8.0]


@pytest.mark.parametrize(
    ("settings", "opened", "drifted"),
    [({}, [1, 2], [4, 6]), ({"most": 2}, [1], [4]), ({"most": 1}, [], []),
     ({"eager": True}, [1, 1], [4, 6]), ({"eager": True, "most": 1}, [], [])],
)  # fmt: skip
def test_those_who_drift_open_models_while_there_is_room(settings, opened, drifted):
    state = {"x": np.zeros(1), "models": np.zeros((1, 1)), "start": np.ones(1)}
    chosen = reply(
        ids=[1, 4, 6], each={"group": [0, 1, 1]},
        groups=of_groups([0, 1], [1.0, 2.0], losses=[[0.0], [9.0]]),
    )  # fmt: skip
    trained = reply(groups=of_groups([0], [1.0], delta=[[0.0]]))
    after, found, (_, ask) = answer(FedDrift(**settings), state, [chosen, trained])
    assert (ask.send["opened"].tolist(), ask.send["drifted"].tolist()) == (opened, drifted)
    assert len(after["models"]) == 1 + len(set(opened)) == found["clusters"]


def test_the_distance_of_clusters_is_how_much_worse_the_other_model_is():
    apart = distances(np.array([[1.0, 1.5], [2.0, 1.8]]))  # clients of 1: model 0 costs 0.2 more
    assert apart[0, 1] == apart[1, 0] == pytest.approx(0.5)
    assert distances(np.array([[1.0, 0.5], [1.0, 1.0]]))[0, 1] == 0.0


def test_a_cluster_is_as_far_as_its_farthest_part():
    """Neighbours are 1 apart and ends 2: with delta 1.5 only two of the three merge."""
    losses = np.array([[0.0, 1.0, 2.0], [0.9, 0.0, 1.0], [2.0, 1.0, 0.0]])
    groups = of_groups([0, 1, 2], [1.0, 3.0, 2.0], losses=losses)
    models, place = merged(np.array([[0.0], [4.0], [10.0]]), groups, 1.5)
    assert models.ravel().tolist() == [3.0, 10.0]
    assert place.tolist() == [0, 0, 1]
    models, place = merged(np.array([[0.0], [4.0], [10.0]]), groups, 2.5)
    np.testing.assert_allclose(models, [[32 / 6]])  # (0 + 3 * 4 + 2 * 10) / 6
    assert place.tolist() == [0, 0, 0]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(2, 7), delta=st.floats(0.05, 1.2))
def test_clusters_are_those_of_complete_linkage(seed, count, delta):
    rng = np.random.default_rng(seed)
    square = squareform(rng.permutation(np.linspace(0.1, 1.0, count * (count - 1) // 2)))
    assume(not np.isclose(square, delta).any())
    weights = rng.integers(1, 9, count).astype(float)
    models = rng.standard_normal((count, 2))
    found, place = merged(models, of_groups(np.arange(count), weights, losses=square), delta)
    wanted = fcluster(linkage(squareform(square), "complete"), delta, "distance")
    for one in range(count):
        for other in range(count):
            assert (place[one] == place[other]) == (wanted[one] == wanted[other])
    for cluster in range(len(found)):
        mine = place == cluster
        mean = np.average(models[mine], axis=0, weights=weights[mine])
        np.testing.assert_allclose(found[cluster], mean, rtol=1e-9, atol=1e-12)


def run(folder, *algorithms, drift=None, rounds=30):
    """Run six clients of unequal sizes with y = X w, full-batch steps, and all taking part."""
    rng = np.random.default_rng(1)
    client = np.repeat(np.arange(6), [5, 9, 12, 7, 20, 6])
    X = rng.standard_normal((len(client), 2))
    data = {"X": X, "y": X @ [2.0, -1.0] + 0.01 * rng.standard_normal(len(X)), "client": client}
    local = {"steps": 5, "batch": "full", "lr": 0.1}
    return tiny_run(
        folder,
        *({"local": local, **a} for a in algorithms),
        rounds=rounds,
        problem={
            "name": "least-squares",
            "intercept": False,
            "dataset": {"name": "arrays", "data": data},
        },
        partition=None,
        clients={"count": 6},
        participation={},
        evaluate={},
        drift=drift,
    )


def test_without_drift_and_with_one_model_it_is_fedavg_to_the_byte(tmp_path):
    result = run(tmp_path, {"name": "fedavg"}, {"name": "feddrift"})
    fedavg, feddrift = (result.weights(run) for run in result.outcome)
    assert fedavg.tobytes() == feddrift.tobytes()
    rounds = result.rounds.set_index("label")
    assert rounds.loc["feddrift"].loss.tolist() == rounds.loc["fedavg"].loss.tolist()
    assert (rounds.loc["feddrift"].clusters.iloc[1:] == 1).all()


@pytest.mark.parametrize("eager", [False, True])
def test_after_a_drift_of_some_clients_there_are_two_models_that_fit(eager, tmp_path):
    """Features of clients 1, 2 and 5 are turned by 180 degrees: their best model is -w."""
    drift = {"name": "rotation", "angle": 180, "at": 16, "clients": [1, 2, 5]}
    algorithms = ({"name": "fedavg"}, {"name": "feddrift", "eager": eager})
    result = run(tmp_path, *algorithms, drift=drift, rounds=45)
    rounds = result.rounds.set_index("label")
    fedavg, feddrift = rounds.loc["fedavg"], rounds.loc["feddrift"]
    assert fedavg.loss.iloc[-1] > 1
    assert feddrift.loss.iloc[-1] < 1e-3
    assert feddrift.clusters.iloc[1:16].tolist() == [1] * 15
    assert feddrift.opened.iloc[16] == (1 if eager else 3)
    assert feddrift.used.iloc[-1] == 2
    assert feddrift.clusters.iloc[-1] == (2 if eager else 4)  # two lost their clients
    assert feddrift.opened.sum() == (1 if eager else 3)
