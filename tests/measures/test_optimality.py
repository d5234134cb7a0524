"""The norm of the gradient of F, whatever weights F has."""

import numpy as np
import pytest

from rayfed.testing import tiny_run
from rayfed.testing.toy import toy_scenario


@pytest.mark.parametrize("weighting", ["size", "uniform", "sum"])
def test_it_is_that_of_central_differences_of_the_loss(tmp_path, weighting):
    problem = {**toy_scenario()["problem"], "weighting": weighting, "l2": 0.5}
    x0 = np.array([0.5, -2.0])
    h, losses = 1e-4, {}
    points = {"at": x0} | {(j, s): x0 + s * h * np.eye(2)[j] for j in (0, 1) for s in (1, -1)}
    for number, (name, x) in enumerate(points.items()):
        np.save(tmp_path / "x.npy", x)
        changes = {"problem": problem | {"init": str(tmp_path / "x.npy")}, "rounds": 1}
        rows = tiny_run(tmp_path / str(number), "fedavg", **changes,
                        evaluate={"measures": ["gradient"]}).rounds  # fmt: skip
        losses[name] = rows.loss[0]
        if name == "at":
            norm = rows.objective_gradient_norm[0]
    slopes = [(losses[j, 1] - losses[j, -1]) / (2 * h) for j in (0, 1)]
    assert norm == pytest.approx(np.hypot(*slopes), rel=1e-6)
