"""Every number of a scenario has a bound that the arithmetic bears, and local work an end."""

import dataclasses

import numpy as np
import pytest
from pydantic import TypeAdapter

from rayfed import api
from rayfed.clients.solvers import SGD
from rayfed.clients.step_counts import UniformSteps
from rayfed.core import plugins
from rayfed.core.errors import ScenarioError
from rayfed.study import Study, apply_overrides
from rayfed.study.forecast.work import MOST_STEPS, check_steps
from rayfed.study.scenario.bounds import LARGEST, LARGEST_SEED, LONGEST_S
from rayfed.study.scenario.fields import model_of

DELAY = "clients.delay.mean_s"
RAW = {
    "rounds": 1,
    "executor": "serial",
    "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 2}},
    "clients": {"count": 3},
    "algorithms": [{"name": "fedavg", "local": {"lr": 0.1}}],
}


def wrong(*overrides, check=Study.parse):
    with pytest.raises(ScenarioError) as error:
        check(apply_overrides(RAW, overrides))
    return str(error.value)


@pytest.mark.parametrize(
    ("key", "largest"),
    [
        ("rounds", LARGEST),
        ("participation.cohort", LARGEST),
        ("evaluate.every", LARGEST),
        ("evaluate.clients", LARGEST),
        ("executor.clients_per_actor", LARGEST),
        ("algorithms.0.local.steps", LARGEST),
        ("algorithms.0.local.batch", LARGEST),
        ("algorithms.0.local.steps.high", LARGEST),
        ("problem.dataset.samples", LARGEST),
        ("problem.dataset.seed", LARGEST_SEED),
        ("partition.min_size", LARGEST),
    ],
)
def test_whole_numbers_beyond_the_bound_are_refused(key, largest):
    changes = {
        "algorithms.0.local.steps.high": [("algorithms.0.local.steps", {"low": 1})],
        "partition.min_size": [("partition", {"name": "dirichlet", "alpha": 1})],
    }.get(key, [])
    for value in (largest + 1, 2**63, 10**20, 10**4000):
        line = wrong(*changes, (key, value))
        assert line.startswith(f"{key}: found "), line
        assert f"at most {largest}" in line
        assert len(line) < 200


@pytest.mark.parametrize("seed", [2**53, 2**63, 2**64, 10**30])
def test_seeds_that_float64_cannot_hold_are_refused(seed):
    assert f"it should be at most {LARGEST_SEED}" in wrong(("seeds", [0, seed]))


def test_the_largest_seed_is_recorded_exactly(tmp_path):
    study = api.run({**RAW, "seeds": [LARGEST_SEED], "rounds": 1}, out=tmp_path / "out")
    assert study.rounds.seed.unique().tolist() == [LARGEST_SEED]


@pytest.mark.parametrize(
    "key", ["stop.time_s", "participation.deadline_s", "checkpoint.every_s", DELAY]
)
def test_seconds_have_a_bound(key):
    raw = apply_overrides(RAW, [("clients.delay", "constant")])
    assert wrong(("clients.delay", "constant"), (key, 1e300)).endswith("it should be at most 1e+12")
    Study.parse(apply_overrides(raw, [(key, LONGEST_S)]))


@pytest.mark.parametrize("kind", plugins.KINDS)
def test_every_whole_number_of_every_plugin_has_a_bound(kind):
    """The adapter of each setting refuses 2**63, whatever else it takes."""
    for cls in plugins.find(kind).values():
        model = model_of(cls)
        hints = {f.name: f.type for f in dataclasses.fields(cls) if f.init}
        for name in hints:
            field = model.model_fields[name]
            if "int" not in str(hints[name]) or "Interval" in str(hints[name]):
                continue
            adapter = TypeAdapter(field.rebuild_annotation())
            values = [2**63, [2**63] * 3]
            taken = [value for value in values if _takes(adapter, value, int)]
            assert not taken, f"{cls.name}.{name} takes {taken}"


def _takes(adapter, value, kind):
    try:
        found = adapter.validate_python(value)
    except Exception:
        return False
    parts = found if isinstance(found, (list, tuple)) else [found]
    return any(type(part) is kind for part in parts)


class TestSteps:
    SIZES = np.array([10, 1000])

    @pytest.mark.parametrize(
        ("solver", "pace", "place"),
        [
            (SGD(steps=MOST_STEPS + 1), 1.0, "local.steps"),
            (SGD(epochs=1e300, batch=1), 1.0, "local.epochs"),
            (SGD(epochs=1e6, batch=1), 1.0, "local.epochs"),  # 1e6 passes over 1000 rows
            (SGD(time_s=3.0), 1e-12, "local.time_s"),
            (SGD(time_s=1e12), 1e-300, "local.time_s"),
            (SGD(steps=UniformSteps(low=10**9, high=10**9)), 1.0, "local.steps"),
        ],
    )
    def test_too_many_are_refused(self, solver, pace, place):
        with pytest.raises(
            ScenarioError, match=r"comes to .* more than 100,000,000; use fewer"
        ) as e:
            check_steps(solver, self.SIZES, np.full(2, pace))
        assert e.value.place == place

    def test_as_many_as_allowed_are_not(self):
        check_steps(SGD(steps=MOST_STEPS), self.SIZES, np.ones(2))
        check_steps(SGD(epochs=1e5, batch=1), self.SIZES, np.ones(2))

    def test_no_number_overflows(self):
        assert SGD(epochs=1e300, batch=1).step_counts(self.SIZES).min() > 2**60
        assert SGD(time_s=1.0).step_counts(self.SIZES, np.full(2, 1e-300)).min() > 2**60

    @pytest.mark.parametrize(
        ("local", "delay"),
        [
            ({"time_s": 3}, {"name": "constant", "mean_s": 1e-9}),
            ({"time_s": 3}, {"name": "gamma", "shape": 0.1}),  # at times 1e-27 s a step
            ({"epochs": 1e300}, {"name": "constant"}),
            ({"steps": 2**31 - 1}, {"name": "constant"}),
        ],
    )
    def test_the_plan_refuses_them(self, local, delay):
        raw = {**RAW, "clients": {"count": 3, "delay": delay}}
        raw["algorithms"] = [{"name": "fedavg", "local": local}]
        with pytest.raises(ScenarioError, match=r"more than 100,000,000") as error:
            api.prepare(api.read(raw))
        assert error.value.place == f"local.{next(iter(local))}"


def test_fine_tuning_takes_no_simulated_time():
    raw = {**RAW, "algorithms": [{"name": "fedavg-finetuned", "tune": {"time_s": 3}}]}
    with pytest.raises(ScenarioError) as error:
        api.prepare(api.read(raw))
    assert str(error.value) == (
        "algorithms.0.tune: found time_s, but evaluation takes no simulated time; "
        "give steps or epochs"
    )


def test_fine_tuning_comes_to_an_end():
    raw = {**RAW, "algorithms": [{"name": "fedavg-finetuned", "tune": {"epochs": 1e300}}]}
    with pytest.raises(ScenarioError, match=r"^tune.epochs: comes to 4.61e\+18 local steps"):
        api.prepare(api.read(raw))


def test_data_of_a_legacy_generator_take_32_bits_of_seeds():
    raw = {**RAW, "problem": {"name": "least-squares", "dataset": "fedexp-regression"}}
    raw |= {"seeds": [2**32], "clients": {}}
    with pytest.raises(ScenarioError, match="takes seeds below 2\\*\\*32, give a smaller one"):
        api.prepare(api.read(raw))


class TestRuns:
    def test_seeds_are_counted(self):
        assert wrong(("seeds", list(range(20_000)))) == (
            "seeds: found 20,000 seeds; give at most 10,000"
        )
        assert wrong(("seeds", list(range(300_000)))) == (
            "seeds: holds more than 100,000 values; give fewer"
        )

    def test_settings_are_counted_before_they_are_made(self):
        grid = {f"clients.groups.{k}": list(range(1000)) for k in range(3)}
        assert wrong(("grid", grid)) == (
            "grid: 1,000,000,000 settings, 1 algorithms and 1 seeds are more than 10,000 runs; "
            "split the study"
        )
