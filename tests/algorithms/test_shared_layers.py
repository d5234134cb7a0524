"""FedPer and FedRep: what is shared and what is not, against their pseudo-code in plain NumPy."""

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed import api
from rayfed.algorithms import FedPer, FedRep
from rayfed.core.errors import ScenarioError
from rayfed.problems import MLP
from rayfed.solvers import SGD, UniformSteps

SIZES = (6, 11, 4, 9)
LR, STEPS, HEAD_STEPS, HIDDEN = 0.2, 3, 2, 5
LOCAL = {"steps": STEPS, "batch": "full", "lr": LR}


@pytest.fixture(scope="module")
def rows():
    """Four clients of 4 to 11 rows with two features and three classes."""
    rng = np.random.default_rng(4)
    client = np.repeat(np.arange(4), SIZES)
    X = rng.standard_normal((len(client), 2))
    y = rng.integers(0, 3, len(client))
    y[:3] = 0, 1, 2
    return client, X, y


@pytest.fixture(scope="module")
def scenario(rows, tmp_path_factory):
    """A scenario on the four clients, three of which take part in a round."""
    client, X, y = rows
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    pd.DataFrame({"client": client, "a": X[:, 0], "b": X[:, 1], "y": y}).to_csv(
        path, index=False, float_format="%.17g"
    )
    return {
        "rounds": 6,
        "dtype": "float64",
        "problem": {"name": "mlp", "hidden": [HIDDEN], "dataset": str(path)},
        "clients": {"network": {"down_mbps": 1, "up_mbps": 1}},
        "participation": {"cohort": 3},
        "executor": "serial",
    }


@pytest.fixture(scope="module")
def result(scenario, tmp_path_factory):
    """Runs of both methods and of FedAvg, six rounds each."""
    head = {"steps": HEAD_STEPS, "batch": "full", "lr": LR}
    algorithms = [
        {"name": "fedper", "local": LOCAL},
        {"name": "fedrep", "local": LOCAL, "head": head},
        {"name": "fedavg", "local": LOCAL},
    ]
    return rayfed.run(
        scenario | {"algorithms": algorithms}, out=tmp_path_factory.mktemp("out"), page=False
    )


class Perceptron:
    """One hidden layer, ReLU, mean cross-entropy: plain NumPy, one client."""

    def __init__(self, X, y):
        self.X, self.y = np.column_stack([X, np.ones(len(X))]), y

    def loss_and_gradient(self, base, head):
        W, V = base.reshape(3, HIDDEN), head.reshape(HIDDEN + 1, 3)
        z = self.X @ W
        a = np.column_stack([np.maximum(z, 0), np.ones(len(z))])
        scores = a @ V
        q = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        n = np.arange(len(self.y))
        loss = -np.log(q[n, self.y]).mean()
        q[n, self.y] -= 1
        q /= len(n)
        return loss, (self.X.T @ (q @ V[:-1].T * (z > 0))).ravel(), (a.T @ q).ravel()


def joint_steps(client, base, head):
    for _ in range(STEPS):
        _, in_base, in_head = client.loss_and_gradient(base, head)
        base, head = base - LR * in_base, head - LR * in_head
    return base, head


def steps_in_turns(client, base, head):
    for _ in range(HEAD_STEPS):
        head = head - LR * client.loss_and_gradient(base, head)[2]
    for _ in range(STEPS):
        base = base - LR * client.loss_and_gradient(base, head)[1]
    return base, head


@pytest.mark.parametrize(("name", "steps"), [("fedper", joint_steps), ("fedrep", steps_in_turns)])
def test_rounds_are_those_of_the_pseudo_code(rows, result, name, steps):
    client, X, y = rows
    clients = [Perceptron(X[client == i], y[client == i]) for i in range(4)]
    x0 = api.recorded(result.folder).runs[0].training.x0
    base, first = x0[: 3 * HIDDEN], x0[3 * HIDDEN :]
    heads = dict.fromkeys(range(4), first)
    events = result.events[result.events.label == name]
    for _, cohort in events.groupby("round").client:
        bases = {}
        for i in cohort:
            bases[i], heads[i] = steps(clients[i], base, heads[i])
        base = sum(SIZES[i] * bases[i] for i in cohort) / sum(SIZES[i] for i in cohort)
    model = result.model(f"{name}-seed0")
    np.testing.assert_allclose(model[: 3 * HIDDEN], base, rtol=1e-10, atol=1e-12)
    assert model[3 * HIDDEN :].tolist() == first.tolist()
    losses = np.array([clients[i].loss_and_gradient(base, heads[i])[0] for i in range(4)])
    last = result.rounds[result.rounds.label == name].iloc[-1]
    assert last.loss == pytest.approx(losses @ SIZES / sum(SIZES), rel=1e-10)
    assert last.personal_loss == pytest.approx(losses.mean(), rel=1e-10)


def test_what_stays_with_the_client_is_not_counted(result):
    sent = result.rounds.groupby("label")[["bytes_down", "bytes_up"]].sum()
    shared, whole = 3 * HIDDEN, 3 * HIDDEN + 3 * (HIDDEN + 1)
    assert (sent.loc["fedper"] / sent.loc["fedavg"]).tolist() == [shared / whole] * 2
    assert sent.loc["fedrep"].tolist() == sent.loc["fedper"].tolist()


def test_the_steps_of_the_head_take_time(scenario, tmp_path):
    """Two steps in minibatches of 8 beside three in minibatches of 4: worth seven of these."""
    clients = {"delay": {"name": "constant", "mean_s": 1.0}}
    local = {"steps": 3, "batch": 4}
    fedrep = {"name": "fedrep", "local": local, "head": {"steps": 2, "batch": 8}}
    made = scenario | {"clients": clients, "algorithms": [fedrep], "rounds": 1}
    result = rayfed.run(made, out=tmp_path, page=False)
    np.testing.assert_allclose(result.events.compute_s, 7.0, rtol=1e-12)


@pytest.mark.parametrize(
    ("problem", "personal", "line"),
    [
        ("softmax-regression", None, "all layers would stay with the client; name some of weight"),
        ("mlp", ["hidden2.*"], r"no layer is called 'hidden2\.\*'; the layers are hidden1\.weight"),
        ("mlp", ["*"], "all layers would stay with the client; name some of hidden1.weight"),
    ],
)
def test_layers_that_leave_nothing_to_share_are_refused(scenario, problem, personal, line):
    algorithm = {"name": "fedper", "personal_layers": personal}
    made = scenario | {"problem": scenario["problem"] | {"name": problem}}
    if problem != "mlp":
        made["problem"].pop("hidden")
    with pytest.raises(ScenarioError, match=f"^algorithms.0.personal_layers: {line}"):
        api.prepare(api.read(made | {"algorithms": [algorithm]}))


def test_layers_in_the_middle_of_the_model_can_stay_too():
    layers = MLP(hidden=(2, 2)).layers(2, 2)  # 2 + 2, 4 + 2, 4 + 2 numbers
    algorithm = FedPer(personal_layers=("hidden2.*", "output.bias")).on_layers(layers)
    state = algorithm.client_state(np.arange(16.0))
    assert state["own"].tolist() == [4, 5, 6, 7, 8, 9, 14, 15]


def test_a_head_whose_steps_change_is_refused():
    line = "^head: found a number of steps that changes; give a number of steps or epochs"
    with pytest.raises(ScenarioError, match=line):
        FedRep(head=SGD(steps=UniformSteps(low=2, high=5)))
