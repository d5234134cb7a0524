"""What `check` forecasts of the models that an asynchronous run keeps, and what runs keep."""

from dataclasses import replace

import numpy as np
import pytest

from rayfed import api, testing
from rayfed.study.forecast.cost import Cost
from rayfed.testing.studies import drive

FEATURES = 3000
METHODS = [
    ({"name": "fedasync"}, {}, 8),
    ({"name": "fedasync", "concurrency": 5}, {}, 5),
    ({"name": "fedasync", "concurrency": 50}, {}, 8),  # no more than there are clients
    ({"name": "fedasync", "concurrency": 2}, {"select": "all"}, 8),  # all are at work all the same
    ({"name": "async-sgd"}, {"cohort": 4}, 4),
    ({"name": "fedbuff", "buffer": 3}, {"cohort": 4}, 4 + 2),
    ({"name": "fedat", "tiers": 2}, {}, 8 + 3),
]


def plan_of(algorithm, participation):
    return api.prepare(api.read({
        "name": "forecast",
        "rounds": 30,
        "problem": {
            "name": "least-squares", "intercept": False, "test": 0,
            "dataset": {"name": "linear", "features": FEATURES, "samples": 2},
        },
        "clients": {
            "count": 8, "delay": {"name": "pareto", "mean_s": 1.0, "shape": 1.2},
            "network": {"loss": 0.4},
        },
        "participation": participation,
        "checkpoint": {"every_s": 0},
        "algorithms": [{**algorithm, "local": {"steps": 1, "batch": "full", "lr": 1e-4}}],
        "executor": "serial",
    }))  # fmt: skip


def cost_of(plan, **changes):
    runs = [replace(run, **changes) for run in plan.runs]
    return Cost.of(plan.study.executor, runs, plan.tables, 1)


@pytest.mark.parametrize(("algorithm", "participation", "most"), METHODS)
def test_a_run_keeps_no_more_models_than_forecast(algorithm, participation, most):
    plan = plan_of(algorithm, participation)
    (run,) = plan.runs
    loop = testing.loop(plan, run)
    state, _ = loop.start()
    kept = []
    for _ in range(30):
        state, _, _ = loop.step(state)
        kept.append(len(state.timeline.sends))
    assert max(kept) <= most
    if "tiers" not in algorithm:  # whose clients share the model that they start from
        assert max(kept) >= most - 3
    model = 8 * FEATURES
    server = {"fedat": 3}.get(algorithm["name"], 1)  # its state, in models
    forecast = cost_of(plan).checkpoints
    assert 2 * model * (most + server) <= forecast <= 2 * model * (most + server) + 100


def test_a_checkpoint_is_as_large_as_forecast(tmp_path):
    plan = plan_of({"name": "fedasync"}, {})
    drive(plan, tmp_path / "out")
    files = [path.stat().st_size for path in (tmp_path / "out").rglob("server-*.npz")]
    models = np.array(files) / (8 * FEATURES)
    assert 2 < models.max() <= 10  # 8 in flight, x, and the small values
    assert sum(files) <= cost_of(plan).checkpoints + 2**15
