"""How far clients differ, against closed forms of quadratics and by hand."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed import api
from rayfed.algorithms import FedAvg
from rayfed.core.columns import names
from rayfed.datasets import Quadratics
from rayfed.datasets.base import Source
from rayfed.measures import Heterogeneity, heterogeneity
from rayfed.messages import Ask, Upload

LR, TAU = 1e-3, 3
TABLE = Quadratics(seed=2).load(Source.here(), 0)
E, H, P, X0 = TABLE.X, TABLE.y, TABLE.mass, TABLE.start
BEST = (P @ E) / (P @ H)

BY_GROUP = names(heterogeneity.BY_GROUP)
HETEROGENEITY = names(Heterogeneity.columns[: -len(BY_GROUP)])


def quadratic(algorithm="fedavg", **changes):
    return {
        "rounds": 2,
        "evaluate": {"measures": ["heterogeneity"]},
        "problem": {"name": "quadratic", "dataset": {"name": "quadratic", "seed": 2}},
        "clients": {"count": 30},
        "algorithms": [{"name": algorithm, "local": {"steps": TAU, "lr": LR, "batch": "full"}}],
        "executor": "serial",
    } | changes


def rows_of(made, tmp_path):
    return rayfed.run(made, out=tmp_path / "out", page=False).rounds


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Return the rows of two rounds of FedAvg."""
    return rows_of(quadratic(), tmp_path_factory.mktemp("plain"))


def model_after(rounds):
    """Return the model (p,) of FedAvg with everybody, by the closed form of its local steps."""
    x = X0
    for _ in range(rounds):
        x = P @ local_models(x)
    return x


def local_models(x, steps=TAU):
    """Each step takes x - e/h times 1 - lr h."""
    best = E / H[:, None]
    return best + ((1 - LR * H) ** steps)[:, None] * (x - best)


def squared(v):
    return np.sum(v * v, axis=-1)


def test_gradient_dissimilarity_of_quadratics(plain):
    for k in range(3):
        slopes = H[:, None] * model_after(k) - E
        expected = P @ squared(slopes - P @ slopes)
        assert plain.gradient_dissimilarity[k] == pytest.approx(expected, rel=1e-12)


def test_client_drift_of_quadratics(plain):
    for k in range(3):
        local = local_models(model_after(k))
        expected = P @ np.sqrt(squared(local - P @ local))
        assert plain.client_drift[k] == pytest.approx(expected, rel=1e-11)


def test_drift_at_the_optimum_of_quadratics(plain):
    expected = np.linalg.norm(P @ (BEST - local_models(BEST)) / (LR * TAU))
    assert expected > 0.1
    assert plain.drift_at_optimum.to_numpy() == pytest.approx(expected, rel=1e-9)


def test_a_single_local_step_does_not_drift_at_the_optimum(tmp_path):
    made = quadratic()
    made["algorithms"][0]["local"] |= {"steps": 1}
    assert rows_of(made, tmp_path).drift_at_optimum.iloc[0] == pytest.approx(0, abs=1e-8)


def test_drift_at_the_optimum_takes_the_steps_and_the_rate_of_the_coming_round(tmp_path):
    made = quadratic()
    rate = {"name": "exponential", "start": LR, "factor": 0.5}
    made["algorithms"][0]["local"] |= {"lr": rate}
    found = rows_of(made, tmp_path).drift_at_optimum
    for k in range(3):
        best, lr = E / H[:, None], LR * 0.5**k
        local = best + ((1 - lr * H) ** TAU)[:, None] * (BEST - best)
        expected = np.linalg.norm(P @ (BEST - local) / (lr * TAU))
        assert found[k] == pytest.approx(expected, rel=1e-9)


def test_gamma_of_quadratics_is_their_optimum(plain):
    """F_k* = 0, and F* = 2255.7401 was computed by others from the published recipe."""
    assert plain.gamma.to_numpy() == pytest.approx(2255.7401, abs=1e-3)


@pytest.mark.parametrize("weighting", ["size", "uniform", "sum"])
def test_within_and_between_cyclic_groups_add_up(tmp_path, weighting):
    made = quadratic()
    made["clients"]["availability"] = {"name": "cyclic", "groups": 4}
    made["problem"]["weighting"] = weighting
    row = rows_of(made, tmp_path).iloc[0]
    p = P if weighting == "size" else np.full(30, 1 / 30)
    slopes, group = H[:, None] * X0 - E, np.arange(30) * 4 // 30
    mean = np.array([p[group == g] @ slopes[group == g] / p[group == g].sum() for g in range(4)])
    within = p @ squared(slopes - mean[group])
    between = p @ squared((mean - p @ slopes)[group])
    assert row.within_group_dissimilarity == pytest.approx(within, rel=1e-12)
    assert row.between_group_dissimilarity == pytest.approx(between, rel=1e-12)
    total = row.within_group_dissimilarity + row.between_group_dissimilarity
    assert total == pytest.approx(row.gradient_dissimilarity, rel=1e-13)


def test_control_variates_make_clients_drift_less(tmp_path):
    """At a fixed point of SCAFFOLD every local step goes along grad F, so nobody drifts."""
    made = quadratic(rounds=200, evaluate={"every": 200, "measures": ["heterogeneity"]})
    made["algorithms"][0]["local"] |= {"lr": 1e-2}
    made["algorithms"].append(made["algorithms"][0] | {"name": "scaffold"})
    drift = rows_of(made, tmp_path).set_index("label").client_drift.dropna()
    assert drift["scaffold"].iloc[0] == drift["fedavg"].iloc[0]  # its memory is empty
    assert drift["scaffold"].iloc[-1] < 0.01 * drift["fedavg"].iloc[-1]


def test_it_changes_nothing_and_takes_no_time(mixed, tmp_path):
    found = {}
    for asked in (False, True):
        made = mixed(evaluate={"every": 4, "measures": ["heterogeneity"] if asked else []})
        made["algorithms"][0] |= {"name": "scaffold"}  # its clients keep something
        found[asked] = rayfed.run(made, out=tmp_path / str(asked), page=False)
    plain, measured = found[False].rounds, found[True].rounds
    common = plain.columns.drop("loss_gap")  # which is known where F* is
    pd.testing.assert_frame_equal(plain[common], measured[common], check_exact=True)
    pd.testing.assert_frame_equal(found[False].events, found[True].events, check_exact=True)


def test_what_needs_an_optimum_is_no_number_without_one(mixed, tmp_path):
    made = mixed(rounds=1, evaluate={"measures": ["heterogeneity"]})
    made["problem"] |= {"name": "mlp", "hidden": [4]}
    row = rows_of(made, tmp_path).iloc[0]
    assert row[["drift_at_optimum", "gamma"]].isna().all()
    assert row[["gradient_dissimilarity", "client_drift", *BY_GROUP]].gt(0).all()


def test_a_sample_of_clients_measures_itself(tmp_path):
    made = quadratic(evaluate={"clients": 7, "measures": ["heterogeneity"]})
    (run,) = api.prepare(api.read(made)).runs
    some = run.measuring.evaluated
    assert len(some) == 7
    p, slopes = P[some] / P[some].sum(), H[some, None] * X0 - E[some]
    row = rows_of(made, tmp_path).iloc[0]
    expected = p @ squared(slopes - p @ slopes)
    assert row.gradient_dissimilarity == pytest.approx(expected, rel=1e-12)
    assert row[["drift_at_optimum", "gamma"]].isna().all()  # F* is that of everybody


def test_one_machine_with_all_rows_does_not_differ_from_itself(mixed, tmp_path):
    made = mixed(rounds=1, evaluate={"measures": ["heterogeneity"]}, partition={"name": "iid"})
    made["problem"] |= {"dataset": "mushroom"}
    made["algorithms"] = ["centralised"]
    rows = rows_of(made, tmp_path)
    assert rows[[*HETEROGENEITY, *BY_GROUP]].isna().all(axis=None)


def test_personal_models_are_not_what_gradients_are_taken_at(tmp_path):
    rows = rows_of(quadratic("local-only"), tmp_path)
    assert rows.gradient_dissimilarity.nunique() == 1  # the global model never moves
    best = E / H[:, None]
    for k in range(3):
        own = best + ((1 - LR * H) ** (TAU * (k + 1)))[:, None] * (X0 - best)
        expected = P @ np.sqrt(squared(own - P @ own))
        assert rows.client_drift[k] == pytest.approx(expected, rel=1e-11)


def test_a_personal_model_beside_the_global_one_is_no_drift(plain, tmp_path):
    """Ditto's global model is FedAvg's, whatever its clients keep for themselves."""
    rows = rows_of(quadratic("ditto"), tmp_path)
    assert rows.client_drift.tolist() == plain.client_drift.tolist()


@dataclass(frozen=True, kw_only=True)
class Unsolved(FedAvg):
    """Gradient descent whose client function runs no local solver."""

    name: ClassVar[str] = "unsolved"
    charge: float | None = None

    def train(self, clients, x):
        return Upload({"delta": 1e-3 * clients.gradient(x)})

    def round(self, state):
        x = state["x"]
        cost = "local" if self.charge is None else self.charge
        reply = yield Ask("train", send={"x": x}, up={"delta": x.size}, cost=cost)
        return {"x": x - reply.mean["delta"]}, {}


@pytest.mark.parametrize("charge", [None, 1.0])
def test_a_client_half_without_local_steps_has_no_drift(tmp_path, charge):
    made = quadratic()
    made["algorithms"] = [Unsolved(charge=charge)]
    rows = rows_of(made, tmp_path)
    assert rows.client_drift.isna().all()
    assert rows.gradient_dissimilarity.gt(0).all()
