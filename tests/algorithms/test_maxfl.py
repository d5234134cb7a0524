"""MaxFL: its step against finite differences, thresholds by hand, identities, and who joins."""

from dataclasses import replace

import numpy as np
import pytest

from rayfed.algorithms import MaxFL
from rayfed.algorithms.maxfl import slope
from rayfed.clients.clients import loss_alone
from rayfed.datasets.base import Table
from rayfed.problems import LogisticRegression
from rayfed.solvers import SGD, Exponential
from rayfed.testing.rounds import answer, reply
from rayfed.testing.studies import LOCAL, mixed
from rayfed.testing.toy import clients_of, points, tiny_run


def test_q_is_the_slope_of_the_sigmoid():
    z = np.linspace(-30, 30, 61)
    by_difference = (1 / (1 + np.exp(-z - 1e-5)) - 1 / (1 + np.exp(-z + 1e-5))) / 2e-5
    np.testing.assert_allclose(slope(z), by_difference, rtol=1e-3, atol=1e-11)
    assert slope(np.array([40.0]))[0] == pytest.approx(np.exp(-40.0))


def test_its_step_is_along_the_gradient_of_its_objective():
    """Three clients of 2, 5 and 9 rows: sum_i s(F_i(x) - rho_i) by central differences."""
    rng = np.random.default_rng(2)
    client = np.repeat([0, 1, 2], [2, 5, 9])
    table = Table(rng.standard_normal((16, 3)), rng.integers(0, 2, 16), 2, client=client)
    rho = np.array([0.1, 0.7, 1.5])
    start = np.zeros((3, 4))
    clients = clients_of(
        table, LogisticRegression(l2=0.1), solver=SGD(steps=1, batch="full", lr=0.01),
        state={"rho": rho, "start": start},
    )  # fmt: skip
    x = rng.standard_normal(4)

    def objective(x):
        return np.sum(1 / (1 + np.exp(-(clients.value(x) - rho))))

    steps = np.eye(4) * 1e-6
    gradient = [(objective(x + e) - objective(x - e)) / 2e-6 for e in steps]
    upload = MaxFL().train(clients, x)
    np.testing.assert_allclose(upload.values["pull"].sum(axis=0) / 0.01, gradient, rtol=1e-6)
    assert upload.state["rho"].ravel().tolist() == rho.tolist()

    mean = {name: values.mean(axis=0) for name, values in upload.values.items()}
    after, found, (ask,) = answer(MaxFL(server_lr=2.0), {"x": x}, reply(mean))
    q = upload.values["q"].sum()
    np.testing.assert_allclose(after["x"], x - 2.0 * 0.01 * np.array(gradient) / q, rtol=1e-6)
    assert found["appealed"] == pytest.approx(np.mean(clients.value(x) <= rho))
    assert ask.up == {"pull": 4, "q": 1, "appealed": 1, "joined": 1}


def test_a_client_alone_takes_its_steps_from_the_first_model():
    """F = (x - m)^2 / 2 and steps of 0.5: the distance from m halves in each of three."""
    clients = points(
        [0.0, 8.0], solver=SGD(steps=7, batch="full", lr=Exponential(start=0.5, factor=0.1))
    )
    clients = replace(clients, round=5)
    expected = [(4 / 8) ** 2 / 2, (4 / 8) ** 2 / 2]
    np.testing.assert_allclose(loss_alone(clients, np.array([4.0]), 3), expected)


def test_thresholds_are_found_once_by_each_client():
    state = {"rho": [np.nan, 3.0], "start": [4.0, 4.0]}
    clients = points([0.0, 8.0], state=state, solver=SGD(steps=1, batch="full", lr=0.5))
    upload = MaxFL(alone=2).train(clients, np.array([100.0]))
    np.testing.assert_allclose(upload.state["rho"].ravel(), [0.5, 3.0])


@pytest.mark.parametrize(("join_from", "joined"), [(None, [1, 1]), (2, [1, 1]), (1, [0, 1])])
def test_who_joins(join_from, joined):
    """The model 6 appeals to client 1 alone."""
    state = {"rho": [1.0, 3.0], "start": [0.0, 0.0]}
    clients = points([0.0, 8.0], state=state)
    upload = MaxFL(join_from=join_from).train(clients, np.array([6.0]))
    assert upload.values["joined"].ravel().tolist() == joined
    assert upload.values["appealed"].ravel().tolist() == [0, 1]
    assert (upload.values["q"].ravel() > 0).tolist() == [bool(j) for j in joined]


def test_the_model_stays_if_nobody_joins():
    mean = {"pull": [0.0], "q": [0.0], "appealed": [0.0], "joined": [0.0]}
    after, found, _ = answer(MaxFL(), {"x": np.array([4.0])}, reply(mean))
    assert after["x"].tolist() == [4.0]
    assert found == {"appealed": 0.0, "joined": 0.0}


def run(folder, *algorithms, **changes):
    """Run the mixed study without what takes time, so that all who are asked answer."""
    made = mixed(**changes)
    del made["algorithms"]
    made["clients"] = {key: made["clients"].get(key, ()) for key in ("count", "groups")}
    made["problem"]["dataset"].pop("samples", None)  # unequal sizes
    return tiny_run(folder, *algorithms, **{"partition": None, "evaluate": {}, **made})


@pytest.mark.parametrize("weights", ["size", "uniform"])
def test_with_equal_weights_it_is_fedavg_to_the_byte(weights, tmp_path):
    local = {"local": dict(LOCAL), "weights": weights}
    equally = {"name": "maxfl", "weigh": "equally", **local}
    result = run(tmp_path, {"name": "fedavg", **local}, equally, participation={"cohort": 4})
    fedavg, maxfl = (result.weights(run) for run in result.outcome)
    assert fedavg.tobytes() == maxfl.tobytes()


def test_what_participants_find_appealing_is_what_evaluations_find(tmp_path):
    """All take part; groups have solvers of their own, and rows are drawn."""
    algorithm = {"name": "maxfl", "alone": 4, "local": dict(LOCAL)}
    changes = {
        "participation": {},
        "evaluate": {"measures": [{"name": "appeal", "steps": 4}]},
        "rounds": 25,
    }
    rounds = run(tmp_path, algorithm, **changes).rounds
    assert rounds.appeal.iloc[:-1].tolist() == rounds.appealed.iloc[1:].tolist()
    assert rounds.appeal.nunique() > 1


def test_appeal_of_one_model_for_clients_that_agree_and_of_one_that_nobody_wants(tmp_path):
    """Two of three clients have the same rows; the third has other targets and many more rows.

    Alone, a step halves the distance from what fits, so that thresholds are 1/8. The model by sizes
    is 36/44, which is that near to the third client's 1 alone; that by clients is -1/3.
    """
    client = np.repeat([0, 1, 2], [2, 2, 40])
    data = {"X": np.ones((44, 1)), "y": np.where(client == 2, 1.0, -1.0), "client": client}
    local = {"steps": 1, "batch": "full", "lr": 0.5}
    rounds = run(
        tmp_path,
        {"name": "fedavg", "local": local},
        {"name": "fedavg", "label": "uniform", "weights": "uniform", "local": local},
        rounds=60,
        evaluate={"every": 60, "measures": [{"name": "appeal", "steps": 1}]},
        problem={
            "name": "least-squares",
            "intercept": False,
            "dataset": {"name": "arrays", "data": data},
        },
        clients={"count": 3},
        participation={},
    ).rounds
    rounds = rounds[rounds["round"] % 60 == 0].set_index("label")
    assert rounds.loc["fedavg"].appeal.tolist() == [0.0, pytest.approx(1 / 3)]
    assert rounds.loc["uniform"].appeal.tolist() == [0.0, 0.0]  # (2/3)^2 / 2 is above 1/8
