"""Personalised methods: what they become at the ends of their settings, and steps by hand."""

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed import api
from rayfed.algorithms import APFL, PerFedAvg, PFedMe
from rayfed.clients import Clients
from rayfed.core.errors import ScenarioError
from rayfed.solvers import SGD
from rayfed.testing import points

LOCAL = {"steps": 3, "batch": 4, "lr": 0.1, "momentum": 0.5}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Six clients of 5 to 15 rows whose labels differ."""
    rng = np.random.default_rng(3)
    client = np.repeat(np.arange(6), [5, 15, 8, 10, 6, 12])
    X = rng.standard_normal((len(client), 3)) + 0.4 * client[:, None]
    y = (X @ [1.0, -1.0, 0.5] + 0.7 * (client % 2) > 0.3).astype(int)
    path = tmp_path_factory.mktemp("table") / "rows.csv"
    pd.DataFrame({"client": client, **dict(zip("abc", X.T, strict=True)), "y": y}).to_csv(
        path, index=False
    )
    return path


@pytest.fixture
def study(table, tmp_path):
    """Run algorithms on the six clients, some of which take other numbers of steps."""

    def run(*algorithms, rounds=4, **keys):
        scenario = {
            "rounds": rounds,
            "problem": {
                "name": "logistic-regression", "dataset": str(table), "test": 0.2, "l2": 0.01,
            },
            "clients": {"groups": [{"ids": [1, 4], "local": {"steps": 5}}]},
            "participation": {"cohort": 4},
            "algorithms": [{"local": LOCAL, **one} for one in algorithms],
            "executor": "serial",
        } | keys  # fmt: skip
        return rayfed.run(
            scenario, out=tmp_path / f"out{len(list(tmp_path.iterdir()))}", page=False
        )

    return run


def one_client(solver, state=None):
    """Return one client with F(x) = (x - 6)^2 / 2."""
    return points([6.0], solver=solver, state=state)


def first_model(result):
    """Return the model of round 0."""
    plan = api.recorded(result.folder)
    return plan.runs[0].training.x0


def losses(result, label):
    """Return F_i at the personal model of every client that took part."""
    each = result.clients[result.clients.label == label]
    return each.set_index("client").loss


def test_ditto_without_a_pull_is_training_alone(study):
    result = study({"name": "ditto", "lam": 0}, {"name": "local-only"}, {"name": "fedavg"})
    assert losses(result, "ditto").tolist() == losses(result, "local-only").tolist()
    assert result.model("ditto-seed0").tolist() == result.model("fedavg-seed0").tolist()


def test_ditto_under_a_huge_pull_is_the_global_model(study):
    # each step takes v to w but for lr grad F_k(v), 1e-7 times a gradient
    local = {**LOCAL, "lr": 1e-7, "momentum": 0}
    result = study(
        {"name": "ditto", "lam": 1e7, "local": local}, {"name": "fedavg", "local": local}
    )
    held, free = losses(result, "ditto"), losses(result, "fedavg")
    np.testing.assert_allclose(held, free, rtol=1e-5)


def test_ditto_by_hand(line):
    # From 10 the gradients of v are v and v - 4. With a step of 1/2 and lam 1, w_t = 10 in round 1:
    # v goes to 5 and 7; the server to 6. In round 2 v_0 goes to 5 - (5 + (5 - 6)) / 2 = 3.
    found = line({"name": "ditto", "lam": 1.0, "local": {"steps": 1, "batch": "full", "lr": 0.5}},
                 rounds=2)  # fmt: skip
    assert found["ditto"] == 4.0


def test_apfl_with_a_share_of_nothing_is_fedavg_and_of_everything_training_alone(study):
    fixed = {"name": "apfl", "adaptive": False}
    plain = {**LOCAL, "momentum": 0}
    result = study(
        {**fixed, "label": "none", "alpha": 0, "local": plain},
        {**fixed, "label": "all", "alpha": 1, "local": plain},
        {"name": "fedavg", "local": plain},
        {"name": "local-only", "local": plain},
    )
    for label in ("none", "all"):
        assert result.model(f"{label}-seed0").tolist() == result.model("fedavg-seed0").tolist()
    assert losses(result, "none").tolist() == losses(result, "fedavg").tolist()
    assert losses(result, "all").tolist() == losses(result, "local-only").tolist()


def test_apfl_learns_its_share_by_hand():
    # F(x) = (x - 6)^2 / 2, v = 2, w = 4, alpha = 1/4: the mixture is 3.5, its gradient -2.5.
    # alpha <- 1/4 - 0.1 (2 - 4)(-2.5) = -1/4, kept at 0; v <- 2 + 0.1 * 2.5 / 4 = 2.0625.
    clients = one_client(SGD(steps=1, batch="full", lr=0.1), {"v": [[2.0]], "alpha": [[0.25]]})
    upload = APFL().train(clients, np.array([4.0]))
    assert upload.state["alpha"].tolist() == [[0.0]]
    assert upload.state["v"].item() == pytest.approx(2.0625, rel=1e-15)
    assert upload.values["delta"].item() == pytest.approx(0.1 * (4 - 6), rel=1e-15)
    # the other way round: v = 5 is nearer to 6, alpha grows by 0.1 (5 - 4)(6 - 4.25) = 0.175
    clients = one_client(SGD(steps=1, batch="full", lr=0.1), {"v": [[5.0]], "alpha": [[0.25]]})
    assert APFL().train(clients, np.array([4.0])).state["alpha"].item() == pytest.approx(0.425)


def test_pfedme_under_a_huge_pull_follows_fedavg(study):
    # lam (w - theta) is the gradient at w + O(1 / lam)
    plain = {**LOCAL, "momentum": 0}
    result = study(
        {"name": "pfedme", "lam": 1e7, "inner_lr": 1e-7, "local": plain},
        {"name": "fedavg", "local": plain},
    )
    np.testing.assert_allclose(
        result.model("pfedme-seed0"), result.model("fedavg-seed0"), rtol=1e-5, atol=1e-6
    )


def test_pfedme_by_hand():
    # From w = 2: theta = 2 + 0.1 * 4 = 2.4, then 2.4 - 0.1 (-3.6 + 5 * 0.4) = 2.56; the step of
    # 0.1 * 5 (2 - 2.56) is -0.28.
    clients = one_client(SGD(steps=1, batch="full", lr=0.1))
    method = PFedMe(lam=5.0, inner_steps=2, inner_lr=0.1)
    upload = method.train(clients, np.array([2.0]))
    assert upload.values["delta"].item() == pytest.approx(-0.28, rel=1e-14)
    assert upload.loss.item() == 8.0
    assert method.models(clients, np.array([2.0])).item() == pytest.approx(2.56, rel=1e-14)


@pytest.mark.parametrize("variant", ["exact", "hessian-free"])
def test_per_fedavg_steps_along_the_gradient_of_the_loss_after_a_step(table, study, variant):
    alpha, lr = 0.7, 0.25
    method = {"name": "per-fedavg", "variant": variant, "alpha": alpha}
    local = {"steps": 1, "batch": "full", "lr": lr}
    result = study(
        {**method, "local": local},
        rounds=1,
        problem={
            "name": "logistic-regression", "dataset": str(table), "test": 0, "intercept": False,
            "init": "normal",
        },
        participation={"select": "all"},
        clients={},
    )  # fmt: skip
    rows = pd.read_csv(table)
    start = first_model(result)

    def after_a_step(x):
        """The mean over clients, by their rows, of F_i(x - alpha grad F_i(x))."""
        total = 0.0
        for _, own in rows.groupby("client"):
            X, y = own[["a", "b", "c"]].to_numpy(), own.y.to_numpy()
            moved = x - alpha * X.T @ (1 / (1 + np.exp(-X @ x)) - y) / len(y)
            total += np.sum(np.logaddexp(0, X @ moved) - y * (X @ moved))
        return total / len(rows)

    h = 1e-6
    slope = [
        (after_a_step(start + h * e) - after_a_step(start - h * e)) / (2 * h) for e in np.eye(3)
    ]
    step = (start - result.model("per-fedavg-seed0")) / lr
    np.testing.assert_allclose(step, slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("variant", "delta"), [("first-order", -1.5), ("exact", -1.125), ("hessian-free", -1.125)]
)
def test_per_fedavg_by_hand(variant, delta):
    # From w = 2 the gradient is -4, a step of 1/4 leads to 3 and gradient -3; the Hessian is 1, so
    # the step of 1/2 is along -3, or along (1 - 1/4) (-3).
    clients = one_client(SGD(steps=1, batch="full", lr=0.5))
    upload = PerFedAvg(alpha=0.25, variant=variant).train(clients, np.array([2.0]))
    assert upload.values["delta"].item() == pytest.approx(delta, rel=1e-9)


def test_a_step_of_per_fedavg_takes_three_independent_minibatches(study, monkeypatch):
    seen = []
    solve = Clients.solve

    def watched(self, x, gradient, **given):
        def look(w, batches, index):
            seen.append([batch.X.copy() for batch in batches])
            return gradient(w, batches, index)

        return solve(self, x, gradient=look, **given)

    monkeypatch.setattr(Clients, "solve", watched)
    local = {"steps": 1, "batch": 4, "lr": 0.1}
    study({"name": "per-fedavg", "local": local}, rounds=1, clients={})
    for first, second, third in seen:
        for one, other in ((first, second), (first, third), (second, third)):
            assert not np.array_equal(one, other)
    assert seen


def test_an_exact_per_fedavg_needs_a_hessian(study):
    with pytest.raises(ScenarioError, match="needs products of Hessians with vectors, but"):
        study({"name": "per-fedavg", "variant": "exact"}, problem={
            "name": "mlp", "dataset": "mushroom", "hidden": [4]}, clients={"count": 6})  # fmt: skip


def test_fine_tuning_changes_what_is_scored_and_not_what_is_trained(study):
    tune = {"name": "sgd", "steps": 1, "batch": "full", "lr": 0.5}
    result = study({"name": "fedavg-finetuned", "tune": tune}, {"name": "fedavg"})
    assert result.model("fedavg-finetuned-seed0").tolist() == result.model("fedavg-seed0").tolist()
    assert (losses(result, "fedavg-finetuned") < losses(result, "fedavg")).all()


def test_local_steps_cost_the_gradients_that_they_take(study):
    gradients = {"ditto": 2, "apfl": 2, "pfedme": 5, "per-fedavg": 2, "fedavg-finetuned": 1}
    plain = {**LOCAL, "momentum": 0}
    result = study(
        *({"name": name, "local": plain} for name in gradients),
        rounds=1,
        clients={"delay": {"name": "constant", "mean_s": 2.0}},
    )
    seconds = result.events.groupby("label").compute_s.unique()
    assert {name: list(found) for name, found in seconds.items()} == {
        name: [2.0 * 3 * each] for name, each in gradients.items()
    }


def test_with_test_rows_of_the_server_accuracies_are_those_of_training_rows(table, study):
    result = study(
        {"name": "ditto", "local": LOCAL},
        problem={"name": "logistic-regression", "dataset": str(table), "test": str(table)},
        clients={},
    )
    last = result.rounds.iloc[-1]
    assert last.personal_accuracy == pytest.approx(result.clients.accuracy.mean(), rel=1e-12)
    assert last.personal_accuracy_worst_decile == result.clients.accuracy.min()


@pytest.mark.parametrize("name", ["ditto", "apfl", "pfedme", "per-fedavg", "fedavg-finetuned"])
def test_rows_tell_of_the_global_model_and_of_the_personal_ones(table, study, name):
    local = {**LOCAL, "momentum": 0}
    result = study(
        {"name": name, "local": local},
        {"name": "fedavg", "local": local},
        problem={"name": "logistic-regression", "dataset": str(table), "test": 0.4},
        participation={"select": "all"},
        clients={},
    )
    last = result.rounds.groupby("label").last()
    own = result.clients[result.clients.label == name]
    row = last.loc[name]
    assert row.personal_loss == pytest.approx(own.loss.mean(), rel=1e-12)
    assert row.personal_accuracy == pytest.approx(own.accuracy.mean(), rel=1e-12)
    assert row.personal_accuracy_spread == pytest.approx(np.std(own.accuracy), rel=1e-12)
    assert row.personal_accuracy_worst_decile == own.accuracy.min()
    if name in ("ditto", "apfl", "fedavg-finetuned"):  # whose global model is FedAvg's
        for column in ("loss", "accuracy", "test_loss"):
            assert row[column] == last.loc["fedavg", column]
    assert row.personal_loss != row.loss
