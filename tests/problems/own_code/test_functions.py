"""Functions of own code: signatures, return values, seeds."""

import random
import sys

import numpy as np
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.datasets.shards import PARTS
from rayfed.problems.own_code.functions import (
    ClientCode,
    OwnCodeError,
    numbers,
    preserved,
    seed_all,
)
from rayfed.problems.own_code.problem import NAMES


def model():
    return {"w": np.zeros(2)}


def client(i):
    return i


def size(i, part):
    return 3


def train(model, data, context):
    return {"loss": 1.0}


def evaluate(model, data, part):
    return {"loss": 1.0}


GIVEN = {
    "model": model, "client": client, "size": size, "train": train, "evaluate": evaluate,
}  # fmt: skip


def test_functions_may_be_given_by_name():
    by_name = {name: f"{__name__}:{name}" for name in GIVEN}
    sys.modules.setdefault(__name__, sys.modules[train.__module__])
    assert ClientCode(**by_name) == ClientCode(**GIVEN)


@pytest.mark.parametrize(
    ("name", "function", "message"),
    [
        (
            "train",
            lambda model, data: {},
            r"train: takes \(model, data\) .*write train\(model, data",
        ),
        ("size", lambda i: 3, r"size: takes \(i\) .*write size\(i, part\)"),
        ("model", {"w": 0}, "model: found {'w': 0}; give a function"),
        ("cost", lambda: 1, r"cost: takes \(\) .*write cost\(i, n, context\)"),
        ("evaluate", None, "evaluate: found None; give a function"),
    ],
)
def test_another_signature_is_one_line(name, function, message):
    with pytest.raises(ScenarioError, match=message):
        ClientCode(**{**GIVEN, name: function})


def test_a_module_without_a_function_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "half_code.py").write_text("def model():\n    return {}\ndef client(i): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ScenarioError, match="size: half_code:size: module 'half_code' has no 's"):
        ClientCode.of("half_code")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("mine:model", "found 'mine:model'; give the name of a module"),
        (3, "found 3; give the name of a module"),
        ({**GIVEN, "fit": train}, "'fit' is unknown; give model, client, size, train, evaluate,"),
        ({"model": model}, "'client' is missing; give model,"),
        ("json", "'json' is of Python's own library"),
    ],
)
def test_other_code_is_one_line(given, message):
    with pytest.raises(ScenarioError, match=message):
        ClientCode.of(given)


def test_parts_are_in_the_order_of_the_shards():
    assert tuple(NAMES) == PARTS


def test_numbers_are_floats_of_the_declared_names():
    found = numbers(train, {"loss": np.float32(2), "f1": 1}, ["f1"], "here", 3)
    assert found == {"loss": 2.0, "f1": 1.0}
    assert numbers(train, {"loss": 2, "examples": 3}, [], "here", 3) == {"loss": 2.0}


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, r'train \(test_functions.py:\d+\) returns None; return {"loss": ...}'),
        ({"f1": 1.0}, 'returns f1; return {"loss": ...}'),
        (
            {"loss": 1, "f1": 1, "auc": 1},
            r"returns 'auc', which is not declared; add it to here, with higher",
        ),
        ({"loss": 1}, "returns no 'f1', which here declares; return it"),
        ({"loss": 1, "f1": float("nan")}, "returns NaN for 'f1'; return a number"),
        ({"loss": "low", "f1": 1}, "returns 'low' for 'loss'; return a number"),
        ({"loss": 1, "f1": 1, "examples": 4}, "saw 4 examples, but size returns 3; correct size"),
    ],
)
def test_other_returns_are_one_line(returned, message):
    with pytest.raises(OwnCodeError, match=message):
        numbers(train, returned, ["f1"], "here", 3)


def drawn():
    return random.random(), np.random.random()  # noqa: NPY002 -- as users draw


def test_generators_are_seeded_and_left_as_they_were():
    seed_all(1)
    expected = drawn()
    seed_all(1)
    with preserved():
        seed_all(5)
        first = drawn()
        seed_all(5)
        assert drawn() == first
    assert drawn() == expected


def test_a_late_import_of_torch_is_one_line(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(OwnCodeError, match="import it at the top of the module"), preserved():
        monkeypatch.setitem(sys.modules, "torch", object())


def test_torch_computes_with_one_thread_where_openmp_has_one(monkeypatch):
    torch, given = pytest.importorskip("torch"), []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(torch, "set_num_threads", given.append)
    with preserved():
        assert given == [1]  # MKL may have more
