"""Memories of clients: where methods end, against direct solves, and rounds in which rows arrive.

Everywhere sizes are unequal, and the rows of two of five clients arrive from round 2 to 11.
"""

import numpy as np
import pytest

from rayfed.algorithms import memory
from rayfed.core.errors import ScenarioError
from rayfed.testing.toy import tiny_run

N, P = 5, 2
SIZES = np.array([5, 8, 12, 20, 30])
ARRIVING = {"name": "arriving", "first": 0.2, "at": 2, "over": 10, "clients": [0, 4]}
OWN = [0, 1, 2, 3, 4]
"""A cluster of its own for each client."""


def rows_that_differ():
    """Return X (n, P), y (n,) and client (n,): well conditioned, and no two minima are alike."""
    rng = np.random.default_rng(3)
    client = np.repeat(np.arange(N), SIZES)
    X = rng.choice([-1.0, 1.0], (len(client), P)) * rng.uniform(0.8, 1.2, (len(client), P))
    best = 3 * rng.standard_normal((N, P))
    return X, (X * best[client]).sum(axis=1) + 0.1 * rng.standard_normal(len(client)), client


def rows_alike(slopes, targets):
    """Return rows (n, 1) that are alike within a client: when which arrives does not matter."""
    client = np.repeat(np.arange(N), SIZES)
    return slopes[client][:, None], (slopes * targets)[client], client


def study(folder, rows, algorithms, rounds, weighting="size", **changes):
    """Return the result of algorithms on rows that arrive, with full batches."""
    X, y, client = rows
    return tiny_run(
        folder, *algorithms, rounds=rounds, evaluate={"every": rounds}, partition=None,
        problem={
            "name": "least-squares", "intercept": False, "test": 0, "weighting": weighting,
            "dataset": {"name": "arrays", "data": {"X": X, "y": y, "client": client}},
        },
        **{"clients": {"count": N}, "participation": {}, "drift": ARRIVING} | changes,
    )  # fmt: skip


def minimum(rows, by_size):
    """Return the minimum (P,) of the mean of the F_i, by size or plain, by one linear system."""
    X, y, client = rows
    w = np.ones(len(y)) if by_size else 1.0 / SIZES[client]
    return np.linalg.solve((X.T * w) @ X, X.T @ (w * y))


def local(steps, lr, **more):
    return {"local": {"steps": steps, "batch": "full", "lr": lr}, **more}


CONTROLS = {
    "scaffold": {"name": "scaffold", **local(3, 0.1)},
    "scaffold 1": {"name": "scaffold", "option": 1, **local(3, 0.1)},
    "fednova": {"name": "fednova", "variance_reduction": True, **local(3, 0.1)},
    "fedexp": {"name": "fedexp", "variance_reduction": True, "epsilon": 1e6, **local(3, 0.1)},
    "feddyn": {"name": "feddyn", "alpha": 1.0, **local(8, 0.3)},
}
UPDATES = {
    "mifa": {"name": "mifa", **local(1, 0.15)},
    "fedvarp": {"name": "fedvarp", **local(1, 0.15)},
    "listed": {"name": "clusterfedvarp", "clusters": OWN, **local(1, 0.15)},
}
EVERYBODY = {
    "fedavg": {"name": "fedavg", **local(1, 0.3)},
    "random": {"name": "clusterfedvarp", "clusters": 2, **local(1, 0.3)},
    "updates": {
        "name": "clusterfedvarp", "clusters": {"by": "updates", "number": 5}, **local(1, 0.3)
    },
}  # fmt: skip
DRAWN = {"cohort": 3, "select": "weighted"}


def ends(folder, methods, rounds, weighting, weights, participation):
    """Return the last models by label."""
    labelled = [{**method, "label": label} for label, method in methods.items()]
    algorithms = [a if weights is None else {**a, "weights": weights} for a in labelled]
    result = study(
        folder, rows_that_differ(), algorithms, rounds, weighting, participation=participation
    )
    return {run.rpartition("-seed")[0]: result.model(run) for run in result.outcome}


@pytest.mark.parametrize(
    ("weighting", "weights", "participation", "by_size"),
    [
        ("size", None, {"select": "all"}, True),
        pytest.param("uniform", None, {"select": "all"}, True, marks=pytest.mark.slow),
        ("sum", "uniform", {"cohort": 3}, False),
        pytest.param("size", None, {"cohort": 3}, True, marks=pytest.mark.slow),
        ("uniform", None, DRAWN, True),
    ],
    ids=lambda v: str(v),
)
def test_methods_end_at_the_minimum_of_the_mean_that_they_take(
    tmp_path, weighting, weights, participation, by_size
):
    """All at the same point, whoever takes part and whatever the weights of F: those of the mean.

    Draws by size weigh as `weights: size` does.
    """
    whole = "select" in participation and participation["select"] == "all"
    updates = {label: {**how, **local(1, 0.3)} if whole else how for label, how in UPDATES.items()}
    methods = CONTROLS | updates | (EVERYBODY if whole else {})
    found = ends(tmp_path, methods, 60 if whole else 150, weighting, weights, participation)
    wanted = minimum(rows_that_differ(), by_size)
    assert np.abs(wanted - minimum(rows_that_differ(), not by_size)).max() > 0.1
    away = {label: float(np.abs(x - wanted).max()) for label, x in found.items()}
    assert max(away.values()) < 1e-6, away


@pytest.mark.parametrize("weighting", ["size", "uniform"])
def test_methods_that_ask_for_f_end_at_its_minimum(tmp_path, weighting):
    methods = [
        {"name": "gradient-descent", "lr": 0.3},
        {"name": "fedhybrid", "newton": OWN, "mu": 1.0, "alpha_newton": 0.5, "beta_newton": 0.5},
        {"name": "giant", "line_search": False},  # one by values of F ends within their rounding
    ]
    result = study(tmp_path, rows_that_differ(), methods, 120, weighting)
    wanted = minimum(rows_that_differ(), weighting == "size")
    for run in result.outcome:
        np.testing.assert_allclose(result.model(run), wanted, rtol=0, atol=1e-10, err_msg=run)


@pytest.mark.parametrize("name", ["rwsadmm", "ca2fl"])
def test_methods_whose_means_are_plain_end_at_the_plain_minimum(tmp_path, name):
    """CA2FL has no rounds for rows to arrive in; both have memories that count clients alike."""
    methods = {
        "rwsadmm": {"name": "rwsadmm", "beta": 4.0, **local(5, 0.1)},
        "ca2fl": {"name": "ca2fl", "buffer": 3, "concurrency": 3, **local(1, 0.15)},
    }
    changes = {"clients": {"count": N, "delay": {"name": "exponential", "mean_s": 1.0}}}
    if name == "ca2fl":
        changes["drift"] = None
    result = study(tmp_path, rows_that_differ(), [methods[name]], 350, **changes)
    (run,) = result.outcome
    wanted = minimum(rows_that_differ(), by_size=False)
    np.testing.assert_allclose(result.model(run), wanted, rtol=0, atol=1e-10)


class Table:
    """The methods as their papers have them: a server with a table of all clients.

    Clients have F_i(x) = h_i (x - b_i)^2 / 2, whatever their number of rows. The table keeps what
    each client counts for in the memory: its weight when it took part last, rows over the mean
    number of rows of that round, times what it sent.
    """

    steps, lr = 3, 0.1

    def __init__(self, h, b):
        self.h, self.b, self.c, self.w = h, b, np.zeros(N), self.weights(0)
        self.x = 0.0

    @staticmethod
    def weights(round):
        """Return the rows (N,) that are there in a round, over their mean."""
        level = min(max(round - ARRIVING["at"] + 1, 0), ARRIVING["over"]) / ARRIVING["over"]
        there = np.maximum(np.floor((0.2 + 0.8 * level) * SIZES + 1e-9), 1).astype(int)
        rows = np.where(np.isin(np.arange(N), ARRIVING["clients"]), there, SIZES)
        return rows / rows.mean()

    def walk(self, i, x, added=0.0, pull=0.0):
        """Return Delta_i of local steps along the gradient and something added to it."""
        y = x
        for _ in range(self.steps):
            y = y - self.lr * (self.h[i] * (y - self.b[i]) + added + pull * (y - x))
        return x - y


def table_of_scaffold(t, S, w):
    c, c_i = t.c.mean(), t.c / w
    delta = np.array([t.walk(i, t.x, c - c_i[i]) for i in S])
    t.c[S] = w[S] * (c_i[S] - c + delta / (t.steps * t.lr))
    t.x = t.x - np.average(delta, weights=w[S])


def table_of_mifa(t, S, w):
    t.c[S] = w[S] * [t.walk(i, t.x) for i in S]
    t.x = t.x - t.c.mean()


def table_of_fedvarp(t, S, w):
    delta, before = np.array([t.walk(i, t.x) for i in S]), t.c.mean()
    # what the memory holds of a participant goes, whatever size it had then
    t.x = t.x - (np.sum(w[S] * delta - t.c[S]) / w[S].sum() + before)
    t.c[S] = w[S] * delta


def table_of_feddyn(t, S, w):
    delta = np.array([t.walk(i, t.x, -t.c[i] / w[i], pull=1.0) for i in S])
    t.c[S] += w[S] * delta  # alpha is 1
    t.x = t.x - np.average(delta, weights=w[S]) - t.c.mean()


def table_of_clusters(t, S, w):
    """Clusters of clients 0 and 1, and of the others; each keeps the mean of its last round."""
    cluster = np.array([0, 0, 1, 1, 1])
    y = t.__dict__.setdefault("y", np.zeros(2))
    delta = np.array([t.walk(i, t.x) for i in S])
    t.w[S] = w[S]
    share = np.bincount(cluster, t.w) / N
    t.x = t.x - (np.average(delta - y[cluster[S]], weights=w[S]) + share @ y)
    for k in set(cluster[S]):
        mine = cluster[S] == k
        y[k] = np.average(delta[mine], weights=w[S][mine])


@pytest.mark.parametrize(
    ("method", "table_of"),
    [
        ({"name": "scaffold"}, table_of_scaffold),
        ({"name": "mifa"}, table_of_mifa),
        ({"name": "fedvarp"}, table_of_fedvarp),
        ({"name": "feddyn", "alpha": 1.0}, table_of_feddyn),
        ({"name": "clusterfedvarp", "clusters": [0, 0, 1, 1, 1]}, table_of_clusters),
    ],
    ids=lambda v: v["name"] if isinstance(v, dict) else "",
)
def test_rounds_in_which_rows_arrive_are_those_of_a_server_with_a_table(tmp_path, method, table_of):
    """Clients are there in turns, so that some are away while they grow, or from the start."""
    rng = np.random.default_rng(5)
    slopes, b = rng.uniform(0.8, 1.2, N), 3 * rng.standard_normal(N)
    turns = {"name": "cyclic", "groups": 3, "rounds": 1}
    result = study(
        tmp_path, rows_alike(slopes, b), [method | local(Table.steps, Table.lr)], 17,
        clients={"count": N, "availability": turns, "delay": {"name": "constant"}},
    )  # fmt: skip
    t = Table(slopes**2, b)
    for round, events in result.events.groupby("round"):
        table_of(t, np.sort(events.client.to_numpy()), Table.weights(round))
    (run,) = result.outcome
    assert result.model(run) == pytest.approx(t.x, rel=1e-11)


def test_one_vector_is_enough(tmp_path):
    """Bytes up of one client and round, with 2 numbers to a vector and 8 bytes to a number.

    SCAFFOLD has two in its paper; clusters send their number and their size.
    """
    methods = {
        "mifa": 16, "fedvarp": 16, "feddyn": 16, "scaffold": 32, "clusterfedvarp": 16 + 8 + 8
    }  # fmt: skip
    result = study(tmp_path, rows_that_differ(), [{"name": name} for name in methods], 2)
    sent = result.rounds[result.rounds["round"] > 0].groupby("label").bytes_up.sum() / (2 * N)
    assert sent.to_dict() == methods


def test_weights_by_size_count_twice_on_draws_by_size_and_are_refused(tmp_path):
    for name in ("scaffold", "feddyn", "mifa"):
        with pytest.raises(ScenarioError, match=r"^algorithms.0.weights: found size, but the sel"):
            study(tmp_path, rows_that_differ(), [{"name": name, "weights": "size"}], 2,
                  participation=DRAWN)  # fmt: skip
    plain = {"name": "fedexp", "weights": "size", **local(1, 0.1)}
    assert study(tmp_path, rows_that_differ(), [plain], 2, participation=DRAWN).outcome


def test_clients_of_no_weight_add_nothing_and_divide_nothing():
    shares, rows = np.array([0.0, 2.0]), np.array([[3.0], [4.0]])
    assert memory.times(shares, rows).tolist() == [[0.0], [8.0]]
    assert memory.over(shares, np.array([[0.0], [8.0]])).tolist() == [[0.0], [4.0]]
    assert memory.times(None, rows) is memory.over(None, rows) is rows
