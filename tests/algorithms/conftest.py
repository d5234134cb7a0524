"""What tests of algorithms share: two clients on a line, and terms in closed form.

The two clients have F_i(x) = (x - m_i)^2 / 2 with m = 0 and 4: their gradients are x and x - 4.
"""

import numpy as np
import pandas as pd
import pytest

from rayfed import api
from rayfed.runs.serial import SerialStudy

MINIMA = (0.0, 4.0)


@pytest.fixture
def line(tmp_path):
    """Run algorithms on the two clients, and return their rows by label."""

    def run(*algorithms, rows=(1, 1), rounds=1, x0=10.0, weighting="size", **keys):
        frame = pd.DataFrame(
            {
                "client": np.repeat([0, 1], rows),
                "a": 1.0,
                "y": np.repeat(MINIMA, rows),
            }
        )
        frame.to_csv(tmp_path / "line.csv", index=False)
        np.save(tmp_path / "first.npy", np.array([x0]))
        scenario = {
            "rounds": rounds,
            "problem": {
                "name": "least-squares", "intercept": False, "dataset": str(tmp_path / "line.csv"),
                "init": str(tmp_path / "first.npy"), "weighting": weighting,
            },
            "clients": {},
            "participation": {"select": "all"},
            "evaluate": {"every": rounds},
            "algorithms": list(algorithms),
            "executor": "serial",
        } | keys  # fmt: skip
        plan = api.prepare(api.read(scenario))
        out = tmp_path / f"out{len(list(tmp_path.glob('out*')))}"
        outcome = SerialStudy(out).execute(plan.runs, plan.tables, False, lambda *_: None)
        assert set(outcome.values()) == {"finished"}
        result = api.Result(out, outcome)
        return {run.rsplit("-seed", 1)[0]: result.model(run).item() for run in outcome}

    return run


class Terms:
    """n terms ``x'H_i x / 2 - b_i'x``, and the algorithm on them in plain loops."""

    def __init__(self, n, d, low, seed):
        rng = np.random.default_rng(seed)
        Q, _ = np.linalg.qr(rng.normal(size=(n, d, d)))
        self.n, self.d, self.rng = n, d, rng
        self.H = (Q * 10.0 ** rng.uniform(low, 0.5, (n, 1, d))) @ Q.swapaxes(1, 2)
        self.b = 3 * rng.normal(size=(n, d))
        best = np.linalg.solve(self.H.sum(axis=0), self.b.sum(axis=0))
        self.least = -0.5 * self.b.sum(axis=0) @ best

    def lagrangian(self, x, dual, x0, mu):
        return sum(
            0.5 * x[i] @ self.H[i] @ x[i] - self.b[i] @ x[i]
            + dual[i] @ (x0 - x[i]) + mu / 2 * (x0 - x[i]) @ (x0 - x[i])
            for i in range(self.n)
        )  # fmt: skip

    def merit(self, x, dual, x0, mu):
        """13 (g* - g(lambda)) + L(x, lambda) - g(lambda); g by the minimiser in closed form."""
        inverse = np.linalg.inv(self.H + mu * np.eye(self.d))
        matrix = mu * (self.n * np.eye(self.d) - mu * inverse.sum(axis=0))
        right = sum(mu * inverse[i] @ (self.b[i] + dual[i]) - dual[i] for i in range(self.n))
        z0 = np.linalg.solve(matrix, right)
        z = np.array([inverse[i] @ (self.b[i] + dual[i] + mu * z0) for i in range(self.n)])
        g = self.lagrangian(z, dual, z0, mu)
        return 13 * (self.least - g) + self.lagrangian(x, dual, x0, mu) - g

    def round(self, x, dual, x0, mu, newton, primal, second):
        """Algorithm 1, one client after the other."""
        fresh, lifted = x.copy(), dual.copy()
        for i in range(self.n):
            M = self.H[i] + mu * np.eye(self.d) if newton[i] else np.eye(self.d)
            r = self.H[i] @ x[i] - self.b[i] - dual[i] + mu * (x[i] - x0)
            fresh[i] = x[i] - primal[i] * np.linalg.solve(M, r)
            lifted[i] = dual[i] + second[i] * M @ (x0 - x[i])
        return fresh, lifted, fresh.mean(axis=0) - lifted.mean(axis=0) / mu


@pytest.fixture(scope="session")
def terms():
    """Terms of a sum in closed form, for methods that treat clients one by one."""
    return Terms
