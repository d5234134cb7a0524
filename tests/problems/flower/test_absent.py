"""Where flwr is not installed."""

import pytest

from rayfed.core.errors import ScenarioError
from rayfed.problems import Flower
from rayfed.problems.flower import problem


def test_a_missing_flwr_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(problem, "find_spec", lambda name: None)
    monkeypatch.setattr(problem, "install", lambda extra: f"pip install {extra}")
    with pytest.raises(ScenarioError, match=r"'flower' needs flwr; .* pip install flower"):
        Flower(app="mine.client:app")
