"""Models of own code as flat vectors."""

from dataclasses import replace

import numpy as np
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.problems import OwnCode
from rayfed.problems.own_code.functions import ClientCode, Context, OwnCodeError
from rayfed.problems.own_code.models import flat, template
from rayfed.solvers import OwnTrain


def train(model, data, context):
    """A function to blame."""


def named():
    return template({"w": np.arange(6.0).reshape(2, 3), "b": np.array(7.0)})


def test_arrays_are_one_vector_in_their_order():
    known = named()
    np.testing.assert_array_equal(known.x, np.arange(8.0)[[0, 1, 2, 3, 4, 5, 7]])
    x = np.arange(7, dtype=np.float32)
    model = known.load(x, "cpu")
    assert model["w"].shape == (2, 3)
    assert model["w"].dtype == np.float32
    model["w"] += 1  # a copy
    assert x[0] == 0
    model["b"] = np.array(-1.0)  # may be replaced as well
    np.testing.assert_array_equal(flat(known, model, x, train), [1, 2, 3, 4, 5, 6, -1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(w=np.zeros(6)), r"changes 'w' from shape \(2, 3\) to \(6,\)"),
        (lambda m: m.pop("b"), "adds or removes 'b'; keep the names"),
        (lambda m: m.update(c=np.zeros(1)), "adds or removes 'c'; keep the names"),
    ],
)
def test_other_shapes_and_names_are_one_line(change, message):
    known = named()
    model = known.load(known.x, "cpu")
    change(model)
    with pytest.raises(OwnCodeError, match=message):
        flat(known, model, known.x, train)


@pytest.mark.parametrize("made", [None, {}, [np.zeros(2)]])
def test_other_models_are_one_line(made):
    with pytest.raises(ScenarioError, match=r"return a torch\.nn\.Module or a dict of arrays"):
        template(made)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({"n": np.zeros(2, dtype=np.int64)}, "'n' holds int64; give an array of floats"),
        ({"n": [0.0, [1.0]]}, "'n' is no NumPy array .*; give an array of floats"),
        ({1: np.zeros(2)}, "found the name 1; give strings"),
        ({"n": np.zeros(0)}, "has no numbers to train; give an array of floats"),
    ],
)
def test_other_values_are_one_line(made, message):
    with pytest.raises(ScenarioError, match=message):
        template(made)


def test_a_module_is_copied_with_its_trained_parameters():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Linear(1, 1))
    module[0].bias.requires_grad_(False)
    known = template(module)
    assert [layer.name for layer in known.layers] == ["0.weight", "1.weight", "1.bias"]
    x = np.arange(4, dtype=np.float32)
    model = known.load(x, "cpu")
    assert model is not module
    np.testing.assert_array_equal(model[0].weight.detach(), [[0, 1]])
    assert torch.equal(model[0].bias, module[0].bias)
    with torch.no_grad():
        model[1].weight += 1
    np.testing.assert_array_equal(flat(known, model, x, train), [0, 1, 3, 3])
    assert known.load(x.astype(np.float64), "cpu")[0].weight.dtype == torch.float64
    model[1] = torch.nn.Linear(2, 1)
    with pytest.raises(OwnCodeError, match=r"'1.weight' from shape \(1, 1\) to \(1, 2\)"):
        flat(known, model, x, train)


def test_attributes_of_parameters_are_kept():
    nn = pytest.importorskip("torch").nn
    module = nn.Linear(2, 1)
    module.weight.seen = []
    module.bias.requires_grad_(False).decay = False
    known = template(module)
    for _ in range(2):  # each client has its own
        model = known.load(np.zeros(2), "cpu")
        assert model.weight.seen == []
        assert model.bias.decay is False
        assert not hasattr(model.weight, "decay")
        model.weight.seen.append(1)


def test_parameters_that_a_copy_is_not_like_are_one_line():
    nn = pytest.importorskip("torch").nn
    module = nn.Linear(2, 1)
    module.weight.register_hook(lambda gradient: gradient * 0)
    with pytest.raises(ScenarioError, match=r"'weight' has a hook on its gradient, .*; register"):
        template(module)
    after = nn.Linear(2, 1)
    after.bias.register_post_accumulate_grad_hook(lambda parameter: None)
    with pytest.raises(ScenarioError, match="'bias' has a hook on its gradient"):
        template(after)
    with pytest.raises(ScenarioError, match=r"'weight' has no shape before the first row; call"):
        template(nn.LazyLinear(1))


def test_a_module_may_call_something_else_momentum():
    nn = pytest.importorskip("torch").nn
    module = nn.Linear(2, 1)
    module.momentum = None
    assert len(template(module).layers) == 2


def test_statistics_without_momentum_are_one_line():
    nn = pytest.importorskip("torch").nn
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, momentum=None))
    with pytest.raises(ScenarioError, match=r"BatchNorm \('1'\) has no momentum.*; give it one"):
        template(module)
    names = [layer.name for layer in template(module, "frozen").layers]
    assert names == ["0.weight", "0.bias", "1.weight", "1.bias"]
    untracked = nn.Sequential(nn.BatchNorm1d(2, momentum=None, track_running_stats=False))
    assert len(template(untracked).layers) == 2


def test_all_of_a_module_is_on_the_device_of_the_run():
    """The device "meta" is everywhere; it has no numbers, so training leaves others on the CPU."""
    nn = pytest.importorskip("torch.nn")
    seen = []

    def made():
        net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        net[0].bias.requires_grad_(False)
        return net

    def filled(model, data, context):
        seen.extend((*model.parameters(), *model.buffers()))
        seen.append(context)
        model.to_empty(device="cpu")
        for value in model.state_dict().values():
            value.fill_(3)
        return {"loss": 0.0}

    code = ClientCode(
        model=made, client=lambda i: i, size=lambda i, part: 1, train=filled,
        evaluate=lambda model, data, part: {"loss": 0.0},
    )  # fmt: skip
    problem = replace(OwnCode(code=code).bound((), 0, Key(0, "test")), device="meta")
    x = problem.initial("own", 0, 0, Key(0, "test"))[None]
    local, _, _ = OwnTrain().train(problem, x, [Context(0, 1, 1)], np.ones(1, int), {})
    assert len(seen) == 4 + 3 + 1
    assert {str(each.device) for each in seen} == {"meta"}
    assert local.x.tolist() == [[3.0] * (6 + 3 + 3 + 3 + 3)]  # the frozen bias is not sent
