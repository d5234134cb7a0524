"""Plug-ins as fields: odd type hints, bounds of numbers, and clients without pydantic."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pytest
from annotated_types import Ge
from pydantic import TypeAdapter, ValidationError

from rayfed import api
from rayfed.core import plugins
from rayfed.core.errors import ScenarioError
from rayfed.population import ConstantDelay, Delay
from rayfed.study import Study, apply_overrides
from rayfed.study.scenario.fields import (
    LARGEST,
    LARGEST_SEED,
    LONGEST_S,
    build,
    changes_of,
    model_of,
)
from rayfed.study.scenario.invalid import complaint
from rayfed.study.scenario.settings import plain, settings_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trace(Delay):
    """A user's own delay.

    Parameters
    ----------
    seconds : tuple of float
        One for each client.
    table : array
        Anything that NumPy holds.
    """

    name = "trace-of-my-own"
    seconds: tuple[Annotated[float, Ge(0)], ...]
    table: npt.NDArray[Any] | None = None
    strict: bool = False


def test_lists_become_tuples_and_numbers_floats():
    assert build("delays", {"name": Trace, "seconds": [1, 2]}) == Trace(seconds=(1.0, 2.0))


def test_what_pydantic_does_not_know_is_let_through():
    table = np.arange(3)
    assert build("delays", {"name": Trace, "seconds": [], "table": table}).table is table


def test_yes_and_no_where_they_belong():
    assert build("delays", {"name": Trace, "seconds": [], "strict": True}).strict is True
    given = {"name": "constant", "mean_s": True}
    with pytest.raises(ValidationError) as error:
        build("delays", given)
    assert str(complaint(error.value, given)) == "mean_s: found true; give a value, not yes or no"


def test_a_setting_without_a_default_must_be_given():
    with pytest.raises(ValidationError, match="Field required"):
        build("delays", Trace)


def test_entries_of_lists_are_checked():
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        build("delays", {"name": Trace, "seconds": [1, -2]})


def test_settings_and_changes_of_a_value():
    assert settings_of(ConstantDelay(mean_s=3.0)) == {"correlation": 0.0, "mean_s": 3.0}
    assert changes_of(ConstantDelay(mean_s=3.0)) == {"mean_s": 3.0}
    assert changes_of(ConstantDelay()) == {}


def test_plain_values():
    value = {
        "a": (1, np.float64(0.5)),
        "b": ConstantDelay(mean_s=2.0),
        "c": Path("x"),
        3: np.arange(2),
    }
    assert plain(value) == {
        "a": [1, 0.5], "b": {"name": "constant", "correlation": 0.0, "mean_s": 2.0}, "c": "x",
        "3": [0, 1],
    }  # fmt: skip
    assert type(plain(np.float64(0.5))) is float
    assert plain(ConstantDelay) == "constant"


def test_how_clients_behave_needs_no_pydantic():
    code = (
        "import sys, rayfed.population, rayfed.selection;"
        "sys.exit('pydantic' in sys.modules or 'scipy' in sys.modules)"
    )
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


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
        hints = {f.name: f.type for f in plugins.settings(cls)}
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
