"""MIFA: identities with FedAvg, a round by hand, and its fixed point under uneven absences."""

import numpy as np
import pytest

import rayfed
from rayfed.solvers import Exponential
from rayfed.testing.studies import LOCAL, mixed

N = 12


def study(algorithms, rounds, availability="always", weighting="size", seed=0, **local):
    """Return quadratics with weights of their own."""
    local = {"steps": 4, "batch": "full", "lr": 0.1} | local
    return {
        "rounds": rounds,
        "seeds": [seed],
        "evaluate": {"every": rounds},
        "problem": {
            "name": "quadratic", "weighting": weighting,
            "dataset": {"name": "quadratic", "clients": N, "features": 3},
        },
        "clients": {"count": N, "availability": availability, "delay": {"name": "constant"}},
        "algorithms": [{**a, "local": local} for a in algorithms],
        "executor": "serial",
    }  # fmt: skip


def models(scenario, out):
    result = rayfed.run(scenario, out=out, page=False)
    return {name.rpartition("-")[0]: result.model(name) for name in result.outcome}


def test_where_everyone_takes_part_it_is_fedavg(tmp_path):
    """At the defaults: sizes unequal, minibatches, groups with other steps."""
    made = mixed(
        algorithms=[{"name": name, "local": dict(LOCAL)} for name in ("fedavg", "mifa")],
        participation={},
    )
    made["problem"]["dataset"].pop("samples")  # unequal sizes
    made["clients"]["availability"] = "always"
    found = models(made, tmp_path)
    np.testing.assert_allclose(found["mifa"], found["fedavg"], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("weighting", "seed"), [("size", 0), ("uniform", 1)])
def test_absences_do_not_move_its_fixed_point(tmp_path, weighting, seed):
    """The last third of the clients is there in one round of six, the others in all six."""
    weights = {"weights": weighting}
    calm = study([{"name": "fedavg", **weights}], 300, weighting=weighting, seed=seed)
    wanted = models(calm, tmp_path / "calm")["fedavg"]
    rare = study(
        [{"name": "fedavg", **weights}, {"name": "mifa", **weights}], 600,
        weighting=weighting, seed=seed,
    )  # fmt: skip
    seldom = {"name": "cyclic", "groups": 6, "rounds": 1}
    rare["clients"]["groups"] = [{"ids": list(range(8, N)), "availability": seldom}]
    found = models(rare, tmp_path / "rare")
    biased = np.abs(found["fedavg"] - wanted).max()
    assert biased > 1e-3
    assert np.abs(found["mifa"] - wanted).max() < 1e-6 * biased


def test_updates_are_kept_over_their_learning_rate(tmp_path):
    """Where everyone takes part it is FedAvg with the same schedule."""
    algorithms = [{"name": "fedavg"}, {"name": "mifa"}]
    found = models(study(algorithms, 7, lr=Exponential(start=0.1, factor=0.7)), tmp_path)
    np.testing.assert_allclose(found["mifa"], found["fedavg"], rtol=1e-10)
