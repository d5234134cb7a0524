"""FedVARP and ClusterFedVARP: rounds by hand, and the fixed point of quadratics in closed form."""

from types import SimpleNamespace

import numpy as np
import pytest

from rayfed import api, testing
from rayfed.algorithms import ClusterFedVARP, FedVARP
from rayfed.core.errors import ScenarioError
from rayfed.datasets import Quadratics
from rayfed.messages import Groups
from rayfed.problems import LeastSquares
from rayfed.problems.objective import Objective
from rayfed.solvers import SGD, Step, UniformSteps
from rayfed.testing import answer, reply

N, LR, STEPS = 50, 0.02, 5
STEADY = SGD(lr=0.1)
HALVED = SGD(lr=Step(start=0.1, factor=0.5, rounds=(2,)))
MEMORIES = pytest.mark.parametrize(
    "algorithm", [{"name": "fedvarp"}, {"name": "clusterfedvarp", "clusters": N}], ids=str
)


def study(rounds=1000, cohort=5, **algorithm):
    return {
        "rounds": rounds,
        "evaluate": {"every": rounds},
        "problem": {
            "name": "quadratic",
            "weighting": "uniform",
            "dataset": {"name": "quadratic", "clients": N, "features": 10, "seed": 1},
        },
        "clients": {"count": N},
        "participation": {"cohort": cohort},
        "algorithms": [
            {
                "weights": "uniform",
                "local": {"steps": STEPS, "lr": LR, "batch": "full"},
                **algorithm,
            }
        ],
        "executor": "serial",
    }


def models(scenario, rounds):
    """Run and return the models after the rounds asked for."""
    engine = testing.loop(scenario)
    moment, _ = engine.start()
    found = {0: moment.state["x"]}
    for number in range(1, max(rounds) + 1):
        moment, _, _ = engine.step(moment)
        if number in rounds:
            found[number] = moment.state["x"]
    return found


def fixed_point(lr=LR):
    """A round shrinks x - e_k/h_k by (1 - lr h_k)^steps: mean Delta_k = 0 at a weighted mean."""
    table = Quadratics(clients=N, features=10, seed=1).load(None, 0)
    moved = 1 - (1 - lr * table.y) ** STEPS
    return moved @ (table.X / table.y[:, None]) / moved.sum()


def distances(scenario, rounds):
    """Return the distance to the fixed point in units of the first one."""
    found, best = models(scenario, rounds), fixed_point()
    first = np.linalg.norm(found[0] - best)
    return [np.linalg.norm(found[r] - best) / first for r in rounds]


@MEMORIES
def test_five_of_fifty_clients_reach_the_fixed_point_of_all(algorithm):
    at_300, at_500 = distances(study(**algorithm), [300, 500])
    assert at_300 < 1e-7
    assert at_500 < 1e-12


def test_fedavg_stays_on_a_plateau():
    assert min(distances(study(name="fedavg"), [300, 400, 500])) > 1e-3


@pytest.mark.parametrize("algorithm", [{"name": "fedvarp"}, {"name": "clusterfedvarp"}])
def test_with_everyone_it_is_fedavg(algorithm):
    mine = models(study(cohort=N, **algorithm), [1, 2, 20])
    fedavg = models(study(cohort=N, name="fedavg"), [1, 2, 20])
    for r in (1, 2, 20):
        np.testing.assert_allclose(mine[r], fedavg[r], rtol=1e-13, atol=1e-13)


def test_one_cluster_is_fedavg_to_the_last_bit():
    one = models(study(name="clusterfedvarp", clusters=1), [30])
    np.testing.assert_array_equal(one[30], models(study(name="fedavg"), [30])[30])


def test_as_many_clusters_as_clients_are_fedvarp():
    many = models(study(name="clusterfedvarp", clusters=list(range(N))), [30])
    np.testing.assert_allclose(many[30], models(study(name="fedvarp"), [30])[30], rtol=1e-12)


def test_the_memory_is_used_before_it_is_updated():
    """N = 4, clients 0 and 1 answer with changes 2 and 4, the memory is 1: v = 3 + 1."""
    state = {"x": np.array([10.0]), "memory": np.array([1.0])}
    after, _, (ask,) = answer(FedVARP(server_lr=0.5), state, reply({"change": [3.0]}, population=4))
    assert after["x"].tolist() == [8.0]
    assert after["memory"].tolist() == [1.0 + (2 + 4) / 4]
    assert ask.plain == ("change",)


class Two:
    """Two clients that end at 2 and 7 whatever they do, and remember 1 and 0."""

    ids = sizes = np.arange(2)
    steps = np.array([5, 5])

    def __init__(self, round=1, solver=STEADY):
        self.round, self.solver = round, solver
        self.state = {"y": np.array([[1.0], [0.0]])}

    def solve(self, x):
        return SimpleNamespace(x=np.array([[2.0], [7.0]]), loss=None)


def test_a_client_sends_what_is_new_and_keeps_what_it_did():
    upload = FedVARP(local=STEADY).train(Two(), np.array([5.0]))
    assert upload.values["change"].tolist() == [[2.0], [-2.0]]
    assert upload.state["y"].tolist() == [[3.0], [-2.0]]


def test_an_update_is_kept_as_it_was_whatever_the_rate_and_the_steps():
    """As printed: neither half the rate nor twice the mean number of steps changes its length."""
    drawn = SGD(steps=UniformSteps(low=1, high=4), lr=HALVED.lr)
    upload = FedVARP(local=drawn).train(Two(round=2, solver=drawn), np.array([5.0]))
    assert upload.values["change"].tolist() == [[2.0], [-2.0]]
    assert upload.state["y"].tolist() == [[3.0], [-2.0]]


def test_clients_count_by_their_weights():
    """Of weights 0.5 and 1.5, and 4 clients: (0.5 * 3 - 1) + (1.5 * -2 - 0) over 2, and over 4."""
    bound = FedVARP().weighed("size", False, SimpleNamespace(), seed=0)
    clients = Two()
    clients.mass = np.array([1.0, 3.0])
    clients.objective = Objective(LeastSquares(), 2, samples=4, features=1)
    upload = bound.train(clients, np.array([5.0]))
    assert upload.values["change"].tolist() == [[0.5], [-3.0]]
    assert upload.state["y"].tolist() == [[1.5], [-3.0]]
    state = {"x": np.array([10.0]), "memory": np.array([1.0])}
    sent = {"change": [-2.5 / 2]}
    mean = reply(sent, weights=[2.0, 6.0], population=4, mean_weight=4.0)
    after, _, (ask,) = answer(bound, state, mean)
    assert after["x"].tolist() == [10.0 - (-2.5 / 2 + 1)]
    assert after["memory"].tolist() == [1.0 - 2.5 / 4]
    assert dict(ask.up) == {"change": 1}


@MEMORIES
def test_after_a_change_of_the_rate_it_ends_at_the_new_fixed_point(algorithm):
    """Updates of the old rate are too long, and leave the memory as clients take part again."""
    rate = {"name": "step", "start": LR, "rounds": [201]}
    found = models(study(**algorithm, local={"steps": STEPS, "lr": rate, "batch": "full"}), [900])
    assert np.linalg.norm(found[900] - fixed_point(LR / 2)) < 1e-9


def test_clusters_weigh_what_they_hold_of_everybody_less_what_took_part():
    """Clusters of 1, 3 and 4 of 8; two of the second and one of the third answer.

    v = mean Delta + (1/8 - 0) 8 + (3/8 - 2/3) 24 + (4/8 - 1/3) 6 = 4 + 1 - 7 + 1.
    """
    algorithm = ClusterFedVARP(clusters=(0, 1, 1, 1, 2, 2, 2, 2))
    state = {"x": np.array([10.0]), "y": np.array([[8.0], [24.0], [6.0]])}
    groups = Groups(
        np.array([1, 2]),
        np.array([2, 1]),
        np.array([2.0, 1.0]),
        {"delta": np.array([[5.0], [2.0]])},
    )
    each = {"group": np.array([1, 1, 2])}
    mean = reply({"delta": [4.0]}, ids=[1, 2, 4], each=each, population=8, groups=groups)
    after, _, _ = answer(algorithm, state, mean)
    np.testing.assert_allclose(after["x"], [10.0 - (4 + 1 - 7 + 1)], rtol=1e-14)
    assert after["y"].ravel().tolist() == [8.0, 5.0, 2.0]


@pytest.mark.parametrize(("clients", "clusters"), [(10, 3), (7, 7), (50, 10)])
def test_random_clusters_are_of_the_size_that_the_server_counts_on(clients, clusters):
    algorithm = ClusterFedVARP(clusters=clusters)
    found = algorithm.members.cluster(np.arange(clients), clients, seed=4)
    counts = np.bincount(found, minlength=clusters)
    np.testing.assert_array_equal(counts, algorithm.members.sizes({}, clients))
    assert np.ptp(counts) <= 1


def test_clusters_of_clients_with_the_same_labels(mixed):
    made = mixed(algorithms=[{"name": "clusterfedvarp", "clusters": {"by": "labels"}}])
    made["problem"] |= {"dataset": "mushroom"}
    made["partition"] = {"name": "sorted"}
    made["clients"] = {"count": 6}
    made["participation"] = {"cohort": 2}
    (run,) = api.prepare(api.read(made)).runs
    clusters = run.training.algorithm.clusters
    # sorted by their two labels: some have the first, one may have both, the others the second
    assert len(set(clusters)) in (2, 3)
    assert clusters[0] != clusters[5]
    assert clusters[0] == clusters[1]
    assert clusters[4] == clusters[5]


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        (14, "found 14 clusters of 13 clients; give at most 13"),
        ([0, 1], "found the clusters of 2 clients, but there are 13; give one for each"),
    ],
)
def test_clusters_that_do_not_fit_are_one_clear_line(mixed, clusters, message):
    made = mixed(algorithms=[{"name": "clusterfedvarp", "clusters": clusters}])
    with pytest.raises(ScenarioError, match=message):
        api.prepare(api.read(made))


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"algorithms": [{"name": "clusterfedvarp", "clusters": {"by": "labels"}}]},
         r"algorithms\.0\.clusters\.by"),
        ({"clients": {"availability": {"name": "cyclic", "groups": 3, "rounds": 1, "by": "label"}},
          "algorithms": ["fedavg"]}, r"clients\.availability\.by"),
    ],
    ids=["clusters", "availability"],
)  # fmt: skip
def test_labels_of_a_million_generated_clients_are_refused(keys, place):
    made = study() | {"participation": {"cohort": 10}} | keys
    made["problem"] = {"name": "softmax-regression", "dataset": "synthetic"}
    made["clients"] = made["clients"] | {"count": 1_000_000}
    with pytest.raises(ScenarioError, match=f"{place}: found .* to be made to know their labels"):
        api.prepare(api.read(made))


def test_clusters_by_labels_need_labels():
    made = study(name="clusterfedvarp", clusters={"by": "labels"})
    with pytest.raises(ScenarioError, match="'clusterfedvarp' needs class labels, but"):
        api.prepare(api.read(made))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"by": "updates"}, r"clusters\.number: is missing; say how many"),
        ({"by": "labels", "number": 3}, r"clusters\.number: the label sets give the number"),
    ],
)
def test_clusters_that_cannot_be_made_are_one_clear_line(given, message):
    with pytest.raises(ScenarioError, match=message):
        api.read(study(name="clusterfedvarp", clusters=given))


WEIGHED = {
    "fedvarp": {"name": "fedvarp"},
    "one cluster": {"name": "clusterfedvarp", "clusters": 1},
    "random": {"name": "clusterfedvarp", "clusters": 2},
    "listed": {"name": "clusterfedvarp", "clusters": [1, 0]},
    "updates": {"name": "clusterfedvarp", "clusters": {"by": "updates", "number": 2}},
}
weighed = pytest.mark.parametrize("method", WEIGHED.values(), ids=WEIGHED)
SHORT = {"steps": 2, "batch": "full", "lr": 0.2}


@weighed
def test_size_weights_on_draws_by_size_count_clients_twice_and_are_refused(method, line):
    with pytest.raises(
        ScenarioError, match=r"^algorithms.0.weights: found size, but the selection"
    ):
        line({**method, "weights": "size"}, participation={"cohort": 1, "select": "weighted"})


@weighed
def test_where_everyone_takes_part_it_is_fedavg_at_the_defaults(method, line):
    unequal = {"groups": [{"ids": [1], "local": {"steps": 5, "lr": 0.1}}]}
    for clients in ({}, unequal):
        found = line(
            {**method, "label": "memory", "local": SHORT}, {"name": "fedavg", "local": SHORT},
            rows=(1, 3), rounds=7, clients=clients,
        )  # fmt: skip
        assert found["memory"] == pytest.approx(found["fedavg"], rel=1e-13)


@pytest.mark.parametrize("select", ["uniform", "weighted"])
@weighed
def test_a_memory_for_each_client_ends_at_the_optimum_of_f(method, select, line):
    """F = (F_0 + 3 F_1) / 4 is least at 3; FedAvg that asks one client in a round never rests."""
    if method.get("clusters") == 1:
        pytest.skip("one memory for two clients that differ is FedAvg")
    found = line(
        {**method, "label": "memory", "local": SHORT},
        rows=(1, 3), rounds=400, participation={"cohort": 1, "select": select},
    )  # fmt: skip
    assert found["memory"] == pytest.approx(3.0, abs=1e-8)


def test_uniform_weights_end_at_the_plain_mean_of_the_minima(line):
    found = line(
        {"name": "fedvarp", "weights": "uniform", "local": SHORT},
        rows=(1, 3), rounds=400, participation={"cohort": 1, "select": "uniform"},
    )  # fmt: skip
    assert found["fedvarp"] == pytest.approx(2.0, abs=1e-8)
