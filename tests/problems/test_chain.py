"""Parts of chains of layers: masked models compute what smaller ones do."""

import numpy as np
import pytest

from rayfed.core.errors import ScenarioError
from rayfed.problems import MLP, SoftmaxRegression
from rayfed.problems.chain import Chain
from rayfed.problems.layers import Layer

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from rayfed.problems.network.kernels.flat import layers_of  # noqa: E402


def images(widths, classes=3):
    """Two convolutions and two linear layers on images of 6 x 6."""
    a, b, c = widths
    return nn.Sequential(
        nn.Conv2d(2, a, 3), nn.ReLU(), nn.Conv2d(a, b, 3, bias=False), nn.ReLU(), nn.Flatten(),
        nn.Linear(b * 4, c), nn.Sigmoid(), nn.Linear(c, classes),
    )  # fmt: skip


def vector(module):
    return nn.utils.parameters_to_vector(module.parameters()).detach().numpy()


def fill(module, x):
    nn.utils.vector_to_parameters(torch.from_numpy(x), module.parameters())


def test_a_masked_network_is_the_network_of_its_channels():
    torch.manual_seed(3)
    large = images((4, 5, 6))
    chain = Chain.of(layers_of(large, ()))
    assert chain.hidden == (4, 5, 6)
    mask = chain.part([np.array([0, 3]), np.array([2, 3, 4]), np.array([5, 0])])
    x = vector(large)
    assert mask.shape == x.shape
    small = images((2, 3, 2))
    fill(small, x[mask])  # in the order of the large one, whatever that of the channels
    fill(large, np.where(mask, x, np.float32(0)))
    rows = torch.randn(7, 2, 6, 6)
    torch.testing.assert_close(large(rows), small(rows))
    assert (large(rows) != images((4, 5, 6))(rows)).any()


def test_a_masked_perceptron_is_the_perceptron_of_its_channels():
    rng = np.random.default_rng(2)
    large, small = MLP(hidden=(4, 3)), MLP(hidden=(2, 2))
    mask = Chain.of(large.layers(3, 2)).part([np.array([1, 3]), np.array([0, 2])])
    x = rng.standard_normal((1, large.size(3, 2)))
    rows = rng.standard_normal((1, 5, 3))
    np.testing.assert_allclose(large.scores(x * mask, rows), small.scores(x[:, mask], rows))


def refusal(layers):
    with pytest.raises(ScenarioError) as error:
        Chain.of(layers)
    return str(error.value)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (nn.Sequential(nn.Linear(2, 3), nn.LSTM(3, 4), nn.Linear(4, 2)), "'1.weight_ih_l0'"),
        (nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 3), nn.Linear(3, 2)), "'0.weight'"),
        (nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.Conv2d(4, 2, 3)), "'1.weight'"),
        (nn.Sequential(nn.Conv2d(2, 4, 3), nn.Conv2d(4, 4, 3, groups=2)), "'1.weight'"),
        (nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 3)), "'1.weight'"),
        (nn.Sequential(nn.ConvTranspose2d(2, 4, 3), nn.Conv2d(4, 2, 3)), "'0.weight'"),
    ],
)
def test_a_layer_of_another_kind_is_refused_by_its_name(module, name):
    text = refusal(layers_of(module, ()))
    assert text.startswith(
        f"{name} is in no chain of fully connected and convolutional layers; choose"
    )


def test_a_chain_with_frozen_layers_is_refused():
    module = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 4), nn.Linear(4, 3))
    assert refusal(layers_of(module, ("1.*",))).startswith("'0.weight' is in no chain")


def test_layers_that_do_not_follow_one_another_are_refused():
    text = refusal(layers_of(nn.Sequential(nn.Linear(2, 3), nn.Linear(4, 2)), ()))
    assert text.startswith("'1.weight' has 4 inputs after '0.weight' with 3 outputs; choose")


def test_a_single_layer_has_no_parts():
    layers = layers_of(nn.Sequential(nn.Linear(2, 3)), ())
    assert refusal(layers).startswith("the model has no hidden layers;")
    assert "'weight' is in no" in refusal(SoftmaxRegression().layers(3, 2))


def test_a_parameter_of_another_length_is_no_bias():
    layers = [Layer("a.weight", 0, 6, shape=(3, 2), outputs=0), Layer("a.scale", 6, 8)]
    assert refusal(layers).startswith("'a.scale' is in no")
    assert refusal([*layers[:1], Layer("a.bias", 6, 9), Layer("a.u", 9, 12)]).startswith("'a.u'")
