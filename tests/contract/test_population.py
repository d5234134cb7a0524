"""Cost grows with the cohort: ten million clients on generated data cost what a thousand do."""

import tracemalloc

import pytest

from rayfed import api
from rayfed.runs.backend import ProgressDisplay

MANY = 10_000_000
STUDY = {
    "rounds": 2,
    "evaluate": {"every": 2, "clients": 20},
    "problem": {
        "name": "softmax-regression", "dataset": {"name": "synthetic", "features": 4}, "test": 0.2
    },
    "clients": {
        "count": 1_000,
        "delay": {"name": "lognormal"},
        "stragglers": {"fraction": 0.1, "slowdown": 8},
        "availability": {"name": "bernoulli", "p": 0.6},
    },
    "participation": {"cohort": 10},
    "algorithms": [{"name": "scaffold", "local": {"steps": 2, "batch": 5, "lr": 0.1}}],
    "executor": "serial",
}  # fmt: skip


def peak(count, work):
    """Return the most bytes that a task with so many clients held at a time."""
    tracemalloc.start()
    try:
        work(STUDY | {"name": f"n{count}", "clients": STUDY["clients"] | {"count": count}})
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("samples", [20, {"low": 10, "high": 30}], ids=["equal", "drawn"])
def test_a_plan_of_ten_million_clients_is_small(samples):
    def plan(study):
        problem = study["problem"] | {"dataset": study["problem"]["dataset"] | {"samples": samples}}
        api.prepare(api.read(study | {"problem": problem}))

    count = MANY if samples == 20 else MANY // 10  # their total is a sum over all clients
    plan(STUDY | {"name": "warm"})
    assert peak(count, plan) < 4 * 2**20  # numbers of 8 bytes would be 8 MB at least


def test_a_run_of_ten_million_clients_is_small(tmp_path):
    def run(study):
        plan = api.prepare(api.read(study))
        folder = api.begin(plan, tmp_path / study["name"])
        with api._started(plan, folder, ProgressDisplay(), False) as backend:
            outcome = backend.execute(plan.runs, plan.tables, False, lambda *_: None)
        assert outcome == {"scaffold-seed0": "finished"}

    run(STUDY | {"name": "warm"})  # what is imported and cached
    assert peak(MANY, run) < MANY  # less than a byte a client
