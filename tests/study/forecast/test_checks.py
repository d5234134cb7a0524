"""What is refused before a run starts, because it could not be run."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from rayfed import api
from rayfed.algorithms.base import Algorithm
from rayfed.core.errors import ScenarioError
from rayfed.messages import Ask


@dataclass(frozen=True, kw_only=True)
class Mistyped(Algorithm):
    """Asks for a client function that it does not have."""

    name: ClassVar[str] = "mistyped"

    def train(self, clients):
        raise NotImplementedError

    def round(self, state):
        yield Ask("trian", send={}, up={})
        return state, {}


@dataclass(frozen=True, kw_only=True)
class Silent(Algorithm):
    """Asks nothing."""

    name: ClassVar[str] = "silent"

    def round(self, state):
        yield from ()
        return state, {}


@dataclass(frozen=True, kw_only=True)
class Broken(Algorithm):
    """Raises before it asks anything."""

    name: ClassVar[str] = "broken"

    def round(self, state):
        raise ValueError("not yet")
        yield


def test_a_client_half_that_does_not_exist_is_refused_before_the_run(mixed):
    made = mixed()
    study = api.read(made | {"algorithms": [*made["algorithms"], Mistyped()]})
    with pytest.raises(ScenarioError, match="'mistyped' asks for 'trian', but has no such method"):
        api.prepare(study)


@pytest.mark.parametrize("algorithm", [Silent(), Broken()])
def test_what_asks_nothing_or_raises_is_left_to_the_run(mixed, algorithm):
    (run,) = api.prepare(api.read(mixed(algorithms=[algorithm]))).runs
    assert run.first_ask() is None
