"""Convolutions of few channels are computed otherwise than by PyTorch, to the same numbers.

Rows, weights and slopes are small whole numbers: every sum is exact whatever its order, and many of
the numbers that are pooled are equal.
"""

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from rayfed.core.rng import Key
from rayfed.problems import Network
from rayfed.problems.base import Batch
from rayfed.problems.network.kernels.few import quicken
from rayfed.problems.network.kernels.flat import Flat, layers_of


def whole(*shape):
    return torch.randint(-1, 2, shape).float()


def model(*layers):
    torch.manual_seed(0)
    module = nn.Sequential(*layers)
    for parameter in module.parameters():
        parameter.data = whole(*parameter.shape)
    return module


CASES = {
    "pooled": ([nn.Conv2d(3, 6, 5), nn.MaxPool2d(2), nn.ReLU()], (3, 12, 10)),
    "padded": ([nn.Conv2d(1, 2, 3, padding=1, bias=False), nn.MaxPool2d((2, 2))], (1, 8, 6)),
    "padded more one way": ([nn.Conv2d(2, 8, (3, 2), padding=(1, 0)), nn.MaxPool2d(2)], (2, 4, 5)),
    "no row left over": ([nn.Conv2d(2, 3, 2), nn.MaxPool2d(2)], (2, 6, 6)),
    "few channels in": ([nn.ReLU(), nn.Conv2d(6, 9, 3, padding=1)], (6, 5, 4)),
    "one after another": (
        [nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(4, 16, 2), nn.MaxPool2d(2)],
        (1, 10, 10),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_values_and_slopes_are_those_of_pytorch(case):
    layers, shape = CASES[case]
    plain = model(*layers)
    quick = deepcopy(plain)
    quicken(quick)
    x = whole(3, *shape)
    results = []
    for module in (plain, quick):
        rows = x.clone().requires_grad_()
        values = module(rows)
        tensors = [rows, *module.parameters()]
        torch.manual_seed(1)
        slopes = torch.autograd.grad((values * whole(*values.shape)).sum(), tensors)
        again = torch.autograd.grad((module(rows) ** 2).sum(), tensors, create_graph=True)
        toward = sum((slope * whole(*slope.shape)).sum() for slope in again)
        with torch.no_grad():
            unrecorded = module(rows)
        results.append([values, unrecorded, *slopes, *torch.autograd.grad(toward, tensors)])
    assert all(torch.equal(ours, theirs) for theirs, ours in zip(*results, strict=True))


def test_a_module_stays_what_it_is_but_for_how_it_computes():
    plain = model(nn.Identity(), nn.Conv2d(3, 6, 5), nn.MaxPool2d(2), nn.Flatten())
    quick = deepcopy(plain)
    assert quicken(quick)
    assert [type(part) for part in quick] == [type(part) for part in plain]
    assert list(quick.state_dict()) == list(plain.state_dict())
    flattened = quick(whole(1, 3, 8, 8)).grad_fn
    assert type(flattened.next_functions[0][0]).__name__ == "_PooledBackward"


def test_other_modules_are_left_alone():
    heard = nn.Conv2d(3, 6, 5)
    heard.register_forward_hook(lambda *_: None)
    others = (
        nn.Sequential(heard, nn.MaxPool2d(2)),
        nn.Sequential(nn.Conv2d(3, 6, 5, stride=2), nn.MaxPool2d(2)),
        nn.Sequential(nn.Conv2d(9, 6, 5), nn.MaxPool2d(3, 2)),
        nn.Sequential(nn.Conv2d(9, 16, 5), nn.MaxPool2d(2)),
        type("Own", (nn.Sequential,), {})(nn.Conv2d(3, 6, 5), nn.MaxPool2d(2)),
    )
    for module in others:
        assert not quicken(module)
        assert "forward" not in vars(module)


@pytest.mark.parametrize("head", ["2", "1"])
def test_who_listens_later_is_told_too(head):
    layers = (nn.ReLU(), nn.Conv2d(3, 6, 5), *([nn.MaxPool2d(2)] if head == "1" else []))
    module = nn.Sequential(*layers, *([nn.Conv2d(6, 2, 3)] if head == "2" else []))
    flat = Flat(module, layers_of(module, ()), torch.float32, torch.device("cpu"))
    with flat.tapped(head) as seen:
        module(whole(4, 3, 8, 8).requires_grad_())
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("place", "listen"), [(0, "register_forward_hook"), (1, "register_forward_pre_hook")]
)
def test_listeners_of_the_convolution_and_of_the_pooling_are_told(place, listen):
    module, told = nn.Sequential(nn.Conv2d(3, 6, 5), nn.MaxPool2d(2)), []
    assert quicken(module)
    at = getattr(module[place], listen)(lambda *given: told.append(given[0]))
    module(whole(4, 3, 8, 8))
    assert told == [module[place]]
    at.remove()
    assert type(module(whole(4, 3, 8, 8)).grad_fn).__name__ == "_PooledBackward"


@pytest.mark.parametrize(("dtype", "quick"), [(torch.float32, True), (torch.float64, False)])
def test_double_precision_is_left_to_pytorch(dtype, quick):
    module = nn.Sequential(nn.Conv2d(3, 6, 5), nn.MaxPool2d(2))
    flat = Flat(module, layers_of(module, ()), dtype, torch.device("cpu"))
    assert ("forward" in vars(flat.module)) == quick


def test_bits_of_a_client_do_not_depend_on_the_stack():
    problem = Network(model="lenet5").bound((3, 9, 8), 4, Key(0, "init"))
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((3, 5, 216), np.float32), np.full((3, 5), np.float32(0.2))
    y = rng.integers(4, size=(3, 5))
    x = problem.initial("torch", 216, 4, Key(0, "init")) + 0.01 * np.arange(3)[:, None]
    models = torch.from_numpy(x.astype(np.float32))

    def gradients(k):
        batch = problem.batch(Batch(X[k], y[k], w[k], None))
        return problem.value_and_gradient(models[k], batch)[1]

    together = gradients(slice(3))
    for k in range(3):
        assert torch.equal(gradients(slice(k, k + 1))[0], together[k])
