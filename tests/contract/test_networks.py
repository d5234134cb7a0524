"""Variants of methods and local solvers on a small network; `test_plugins` has every method."""

import pytest

from rayfed import api
from rayfed.testing.compare import assert_same_results
from rayfed.testing.studies import LOCAL, drive, mixed, on_network, tensors_alone

METHODS = {
    "scaffold": {"option": 1},
    "fedexp": {"variance_reduction": True},
    "per-fedavg": {"variant": "exact"},
    "fedhybrid": {"newton": 3, "newton_solver": "cg", "cg_steps": 3},
    "disco": {"tolerance": 0.1, "preconditioner": "none", "max_steps": 3},
    "clusterfedvarp": {"clusters": {"by": "updates", "number": 2}},
    "fedvarp": {"local": {**LOCAL, "steps": {"low": 2, "high": 5}}},
    "rwsadmm": {"formulation": "descent"},
    "rwsadmm released": {"name": "rwsadmm", "formulation": "released-code"},
    "rwsadmm printed": {"name": "rwsadmm", "formulation": "printed"},
    "rwsadmm watched": {"name": "rwsadmm", "watch": True},
}
SOLVERS = {
    "momentum": {"momentum": 0.9, "mu": 0.1, "weight_decay": 0.01, "clip_norm": 0.5},
    "adam": {"name": "adam", "lr": 0.01},
    "adagrad": {"name": "adagrad", "sampling": "shuffle"},
    "full": {"batch": "full"},
}
QUICK = ("per-fedavg", "fedhybrid", "disco", "momentum", "adam")
VARIANTS = {name: {"name": name, **settings} for name, settings in METHODS.items()}
VARIANTS |= {name: {"name": "fedavg", "local": {**LOCAL, **s}} for name, s in SOLVERS.items()}


def driven(scenario, folder):
    """Run a scenario in stacks of 1 and of 7 clients, and compare the bytes."""
    plan = api.prepare(api.read(scenario))
    with tensors_alone():
        for block in (1, 7):
            drive(plan, folder / str(block), block=block)
    assert_same_results(folder / "1", folder / "7")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in VARIANTS]
)
def test_a_variant_trains_a_network_with_the_same_bits_in_every_stack(name, tmp_path):
    algorithm = {"local": dict(LOCAL)} | VARIANTS[name]
    evaluate = {"every": 2, "measures": ["heterogeneity"] if name == "scaffold" else []}
    driven(on_network(mixed(rounds=2, evaluate=evaluate, algorithms=[algorithm])), tmp_path)


@pytest.mark.slow
def test_tokens_of_neighbourhoods_and_polls(tmp_path):
    walk = {"select": "walk", "cohort": None}
    tokens = {"name": "rwsadmm", "tokens": "neighbourhood", "epsilon": 0.01, "local": dict(LOCAL)}
    scenario = on_network(
        mixed(rounds=2, algorithms=[tokens]),
    )
    scenario |= {"participation": walk, "topology": "ring"}
    scenario["clients"] |= {"availability": "always"}
    driven(scenario, tmp_path)
    for select in ("power-of-d", "cpow-d"):
        polled = on_network(mixed(rounds=2))
        polled["participation"] |= {"select": {"name": select, "d": 5}, "over_select": 1}
        driven(polled, tmp_path / select)
