import numpy as np
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.problems import MLP, LogisticRegression
from rayfed.problems.layers import head, matching


def test_the_biases_of_an_mlp_are_its_intercepts():
    problem = MLP(hidden=(4, 3))
    layers = problem.layers(6, 2)
    assert [(layer.name, layer.size) for layer in layers] == [
        ("hidden1.weight", 20), ("hidden1.bias", 4),
        ("hidden2.weight", 12), ("hidden2.bias", 3),
        ("output.weight", 6), ("output.bias", 2),
    ]  # fmt: skip
    biases = [np.arange(b.start, b.stop) for b in matching(layers, ["*.bias"])]
    assert np.concatenate(biases).tolist() == problem.intercepts(6, problem.size(6, 2)).tolist()


def test_without_intercepts_there_are_weights_alone():
    names = [layer.name for layer in MLP(hidden=(4,), intercept=False).layers(6, 2)]
    assert names == ["hidden1.weight", "output.weight"]
    (only,) = LogisticRegression(intercept=False).layers(6, 0)
    assert (only.start, only.stop) == (0, 6)


def test_the_head_is_the_last_module():
    assert [layer.name for layer in head(MLP().layers(6, 2))] == ["output.weight", "output.bias"]


def test_a_pattern_that_matches_nothing_is_refused_with_the_names():
    line = r"^no layer is called 'head\.\*'; the layers are hidden1\.weight, hidden1\.bias, output"
    with pytest.raises(ScenarioError, match=line):
        matching(MLP().layers(6, 2), ["output.*", "head.*"])
