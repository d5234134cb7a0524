"""Exact numbers of the mushrooms on 20 clients, logistic loss plus 0.1 sum x^2/(1+x^2).

They were computed in plain NumPy by the steps of the code of Richtarik, Sokolov and Fatkhullin,
"EF21", 2021.
"""

import os
from pathlib import Path

import numpy as np
import pytest

import rayfed
from rayfed.api import prepare, read
from rayfed.clients.curvature import curvature

pytestmark = pytest.mark.skipif("RAYFED_DATA" not in os.environ, reason="needs the mushrooms")
L, L_TILDE = 2.7862142339, 3.4932259751


def scenario(rounds):
    path = Path(os.environ["RAYFED_DATA"]) / "mushroom" / "mushrooms.libsvm"
    problem = {
        "name": "logistic-regression", "intercept": False, "nonconvex": 0.1, "init": "ones",
        "weighting": "uniform", "dataset": str(path),
    }  # fmt: skip
    return {
        "problem": problem,
        "clients": {"count": 20},
        "partition": "contiguous",
        "seeds": [0],
        "rounds": rounds,
        "algorithms": [{"name": "gradient-descent", "lr": 1 / L}],
    }


def test_squared_gradient_norms_of_gradient_descent(tmp_path):
    given = scenario(10) | {"evaluate": {"measures": ["gradient"]}}
    found = rayfed.run(given, out=tmp_path / "run", page=False).rounds.set_index("round")
    squares = found["objective_gradient_norm"] ** 2
    assert squares[0] == pytest.approx(3.9163065079, rel=1e-10)
    assert squares[1] == pytest.approx(4.054791523577, rel=1e-10)
    assert squares[10] == pytest.approx(0.6336205191985, rel=1e-10)
    before = found["gradient_norm"].to_numpy()[1:]  # of the algorithm: before the step of the row
    np.testing.assert_allclose(before**2, squares.to_numpy()[:-1], rtol=1e-12)


def test_constants_of_smoothness():
    plan = prepare(read(scenario(1)))
    clients = plan.runs[0].federation.views.training.with_table(plan.tables)
    high = curvature(clients.shards, clients.objective)[1]
    assert np.sqrt((high**2).mean()) == pytest.approx(L_TILDE, rel=1e-10)
    sizes = clients.shards.sizes(np.arange(20))
    assert sizes.tolist() == [406] * 19 + [410]
    gram = np.zeros((112, 112))
    for i in range(20):
        X = clients.shards.rows(np.array([i]), int(sizes[i]))[0][0]
        gram += X.T @ X / 8124
    # of all rows together: a quarter of the largest eigenvalue, and twice the coefficient
    assert np.linalg.eigvalsh(gram)[-1] / 4 + 0.2 == pytest.approx(L, rel=1e-10)
