"""Plug-ins as fields: odd type hints, plain values, and clients that never import pydantic."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pytest
from annotated_types import Ge
from pydantic import ValidationError

from rayfed.population.delay import Constant, Delay
from rayfed.study.scenario.fields import build, changes_of, plain, settings_of
from rayfed.study.scenario.invalid import complaint


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
    assert settings_of(Constant(mean_s=3.0)) == {"correlation": 0.0, "mean_s": 3.0}
    assert changes_of(Constant(mean_s=3.0)) == {"mean_s": 3.0}
    assert changes_of(Constant()) == {}


def test_plain_values():
    value = {"a": (1, np.float64(0.5)), "b": Constant(mean_s=2.0), "c": Path("x"), 3: np.arange(2)}
    assert plain(value) == {
        "a": [1, 0.5], "b": {"name": "constant", "correlation": 0.0, "mean_s": 2.0}, "c": "x",
        "3": [0, 1],
    }  # fmt: skip
    assert type(plain(np.float64(0.5))) is float
    assert plain(Constant) == "constant"


def test_how_clients_behave_needs_no_pydantic():
    code = (
        "import sys, rayfed.population, rayfed.selection;"
        "sys.exit('pydantic' in sys.modules or 'scipy' in sys.modules)"
    )
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
