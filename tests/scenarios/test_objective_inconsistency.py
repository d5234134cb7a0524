"""Where FedAvg and FedNova end on quadratics with unequal steps: by hand, and in closed form."""

from pathlib import Path

import numpy as np
import pytest

import rayfed

pytestmark = pytest.mark.guard

SCENARIO = Path(__file__).parents[2] / "scenarios" / "wang_2020_fednova_quadratic.yaml"


def test_two_clients_by_hand(tmp_path):
    """F_0 = x^2/2 with one step of 0.05, F_1 = (x - 4)^2/2 with three; the minimiser of F is 2.

    A round leaves client 0 at 0.95 x, client 1 at 4 + 0.95^3 (x - 4). With 1 - 0.95 = 0.05 and
    1 - 0.95^3 = 0.142625 FedAvg rests at 4 * 0.142625 / 0.192625 (3 for a small step). FedNova
    divides by the steps, 0.142625 / 3 = 0.0475417, and rests at 4 * 0.0475417 / 0.0975417.
    """
    (tmp_path / "two.csv").write_text("e,y,client\n0,1,0\n4,1,1\n")
    study = {
        "rounds": 200,
        "evaluate": {"every": 200},
        "problem": {"name": "quadratic", "dataset": str(tmp_path / "two.csv"), "test": 0},
        "clients": {"groups": [{"ids": [0], "local": {"steps": 1}}]},
        "algorithms": [
            {"name": name, "local": {"steps": 3, "batch": "full", "lr": 0.05}}
            for name in ("fedavg", "fednova")
        ],
        "executor": {"name": "serial"},
    }
    rayfed.run(study, out=tmp_path / "out", page=False)
    found = {}
    for name in ("fedavg", "fednova"):
        with np.load(tmp_path / "out" / f"{name}-seed0" / "model.npz") as model:
            found[name] = float(model["x"][0])
    assert found["fedavg"] == pytest.approx(4 * 0.142625 / 0.192625, rel=1e-6)
    assert found["fedavg"] == pytest.approx(3, rel=0.02)
    assert found["fednova"] == pytest.approx(4 * 0.0475417 / 0.0975417, rel=1e-6)
    assert found["fednova"] == pytest.approx(2, rel=0.03)


@pytest.fixture(scope="module")
def gaps(tmp_path_factory):
    """The gaps at the end of the published study, with ten times its step and fewer rounds."""
    short = ["seeds=[0]", "rounds=400", "evaluate.every=400", "algorithms.*.local.lr=0.001"]
    out = tmp_path_factory.mktemp("nova") / "out"
    return (
        rayfed.run(SCENARIO, out=out, overrides=short, page=False)
        .rounds.groupby("label")
        .loss_gap.last()
    )


def closed_form(eta, divide):
    """Return F - F* at the fixed point, from the recipe of the quadratics and nothing else."""
    stream = np.random.RandomState(2)
    e, h, p = 100 * stream.rand(30, 5), 9 * stream.rand(30), stream.power(3, 30)
    p /= p.sum()
    tau = np.repeat([1, 5, 25], 10)
    u = p * (1 - (1 - eta * h) ** tau) / (tau if divide else 1)
    x, best = u @ (e / h[:, None]) / u.sum(), p @ e / (p @ h)
    return p @ h / 2 * np.sum((x - best) ** 2)


def test_the_numbers_of_the_claims():
    assert closed_form(1e-4, divide=False) == pytest.approx(51.118770590825534, rel=1e-9)
    assert closed_form(1e-12, divide=False) == pytest.approx(51.6406631992395, rel=1e-3)
    assert closed_form(1e-4, divide=True) == pytest.approx(0.002165897977192799, rel=1e-9)


def test_fedavg_ends_at_the_minimiser_of_another_objective(gaps):
    assert gaps["FedAvg"] == pytest.approx(closed_form(1e-3, divide=False), rel=1e-4)


def test_fednova_ends_near_the_minimiser_of_f(gaps):
    assert gaps["FedNova"] == pytest.approx(closed_form(1e-3, divide=True), rel=1e-3)
