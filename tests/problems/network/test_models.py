"""Networks that come with rayfed: parameter counts as published, and shapes."""

import subprocess
import sys

import pytest
import torch

from rayfed.core.errors import ScenarioError
from rayfed.problems.network.models.charlstm import CharLSTM
from rayfed.problems.network.models.chartransformer import CharTransformer
from rayfed.problems.network.models.cnn import CNN
from rayfed.problems.network.models.dpcnn import DPCNN
from rayfed.problems.network.models.dropoutcnn import DropoutCNN
from rayfed.problems.network.models.lenet5 import LeNet5
from rayfed.problems.network.models.resnet18 import ResNet18
from rayfed.problems.network.models.vgg11 import VGG11

DIGIT, COLOUR = (1, 28, 28), (3, 32, 32)
IMAGES = [CNN, DPCNN, DropoutCNN, LeNet5, ResNet18, VGG11]


def parameters(net):
    return sum(p.numel() for p in net.parameters())


# The counts of McMahan et al., of Opacus' example, of PyTorch's example on MNIST (9 * 32 + 32,
# 9 * 32 * 64 + 64, 9216 * 128 + 128 and 128 * 10 + 10), of LeNet-5 with all channels connected, of
# ResNet-18 with an affine normalisation after every convolution (one grey channel saves 2 * 64 * 9
# weights, 90 classes more take 513 numbers each), and of VGG-11 with two layers of 512 units.
@pytest.mark.parametrize(
    ("net", "inputs", "outputs", "count"),
    [
        (CNN, DIGIT, 10, 1_663_370),
        (DPCNN, DIGIT, 10, 26_010),
        (DropoutCNN, DIGIT, 10, 1_199_882),
        (LeNet5, DIGIT, 10, 61_706),
        (LeNet5, COLOUR, 10, 62_006),
        (ResNet18, COLOUR, 10, 11_173_962),
        (ResNet18, DIGIT, 10, 11_173_962 - 2 * 64 * 9),
        (ResNet18, COLOUR, 100, 11_173_962 + 90 * 513),
        (VGG11, COLOUR, 10, 9_750_922),
    ],
)
def test_published_parameter_counts(net, inputs, outputs, count):
    assert parameters(net(inputs, outputs)) == count


def test_lenet5_normalises_if_asked():
    """A scale and a shift for each of 6 and 16 channels."""
    net = LeNet5(DIGIT, 10, groups=2)
    assert parameters(net) == 61_706 + 2 * (6 + 16)
    with pytest.raises(ScenarioError, match="found 3; give 0, 1 or 2"):
        LeNet5(DIGIT, 10, groups=3)


def test_charlstm_has_the_paper_s_weights_and_torch_s_second_bias():
    def layer(inputs, units):
        return 4 * ((inputs + units) * units + units)

    weights = 80 * 8 + layer(8, 256) + layer(256, 256) + 256 * 80 + 80
    assert weights == 817_872
    assert parameters(CharLSTM((80,), 80)) == weights + 2 * 4 * 256


@pytest.mark.parametrize("net", IMAGES)
def test_scores_of_images_and_no_buffers(net):
    made = net(DIGIT, 7)
    assert made(torch.rand(2, *DIGIT)).shape == (2, 7)
    assert not list(made.buffers())


def test_scores_of_a_text_tell_characters_apart():
    net = CharLSTM((5,), 11, hidden=8)
    rows = torch.tensor([[0.0, 1, 2, 3, 10], [0, 1, 2, 4, 10]])  # rows of a study are floats
    scores = net(rows)
    assert scores.shape == (2, 11)
    assert not torch.equal(scores[0], scores[1])


def test_chartransformer_has_weights_of_two_blocks_and_trains_adapters_alone():
    block = 4 * 32 + (32 + 1) * 4 * 32 + (32 + 1) * 4 * 32 + (4 * 32 + 1) * 32
    weights = 28 * 32 + 32 * 32 + 2 * block + 2 * 32 + (32 + 1) * 28
    assert parameters(CharTransformer((32,), 28)) == weights == 28_316
    net = CharTransformer((32,), 28, rank=4)
    trained = {name: p.numel() for name, p in net.named_parameters() if p.requires_grad}
    assert sum(trained.values()) == 2 * 4 * (32 + 96 + 32 + 32) == 1_536
    assert all("lora_" in name for name in trained)


def test_scores_of_a_character_depend_on_those_before_alone():
    net = CharTransformer((5,), 11, width=8, heads=2)
    rows = torch.tensor([[0, 1, 2, 3, 10], [0, 1, 2, 4, 10]])
    scores = net(rows)
    assert scores.shape == (2, 11, 5)
    torch.testing.assert_close(scores[0, :, :3], scores[1, :, :3])
    assert not torch.allclose(scores[0, :, 3], scores[1, :, 3])
    assert not torch.allclose(scores[0, :, 4], scores[1, :, 4])


def test_an_adapter_adds_its_product_to_the_matrix():
    plain, adapted = CharTransformer((5,), 11, width=8), CharTransformer((5,), 11, width=8, rank=2)
    adapted.load_state_dict(plain.state_dict(), strict=False)
    rows = torch.tensor([[0, 1, 2, 3, 10]])
    torch.testing.assert_close(adapted(rows), plain(rows))  # B starts as 0
    with torch.no_grad():
        for one, other in zip(plain.blocks, adapted.blocks, strict=True):
            for name in ("attention", "joined"):
                adapter = getattr(other, name)
                adapter.lora_B.normal_()
                getattr(one, name).weight += adapter.lora_B @ adapter.lora_A
    torch.testing.assert_close(adapted(rows), plain(rows))


def test_images_are_refused_by_chartransformer():
    with pytest.raises(ScenarioError, match="'chartransformer' takes texts"):
        CharTransformer(DIGIT, 10)


@pytest.mark.parametrize("kind", [VGG11, DropoutCNN])
def test_it_drops_in_training_only(kind):
    net, x = kind(COLOUR, 3), torch.rand(1, *COLOUR)
    assert not torch.equal(net(x), net(x))
    net.eval()
    assert torch.equal(net(x), net(x))


@pytest.mark.parametrize(("net", "least"), [(DPCNN, 14), (DropoutCNN, 6), (ResNet18, 8)])
def test_the_smallest_images_fit_and_smaller_ones_are_refused(net, least):
    assert net((1, least, least), 3)(torch.rand(2, 1, least, least)).shape == (2, 3)
    with pytest.raises(ScenarioError, match=f"images of {least} x {least} or more"):
        net((1, least, least - 1), 3)


def test_larger_images_fit():
    for net in (LeNet5, VGG11):
        assert net((1, 64, 40), 2)(torch.rand(1, 1, 64, 40)).shape == (1, 2)


@pytest.mark.parametrize("net", IMAGES)
def test_rows_that_are_no_images_are_refused(net):
    with pytest.raises(ScenarioError, match=r"takes images \(C, H, W\).*\(784,\)"):
        net((784,), 10)


def test_images_that_are_too_small_and_wrong_settings_are_refused():
    with pytest.raises(ScenarioError, match=r"images of 8 x 8 or more.* 4 x 32"):
        ResNet18((3, 4, 32), 10)
    with pytest.raises(ScenarioError, match="divisor of 64"):
        ResNet18(COLOUR, 10, groups=3)
    with pytest.raises(ScenarioError, match="from 0 to below 1"):
        VGG11(COLOUR, 10, dropout=1.0)
    with pytest.raises(ScenarioError, match=r"takes texts \(L,\)"):
        CharLSTM(DIGIT, 10)


def test_the_second_convolution_may_have_no_relu():
    both, first = DropoutCNN(DIGIT, 10).eval(), DropoutCNN(DIGIT, 10, relu="first").eval()
    first.load_state_dict(both.state_dict())
    rows = torch.rand(4, *DIGIT)
    maps = [part for part in both.features if not isinstance(part, torch.nn.Dropout)][:4]
    before = torch.nn.Sequential(*maps)(rows)  # of the second convolution, pooled
    assert (before < 0).any()
    after = list(both.features)[6:]
    found = first.head(torch.nn.Sequential(*after)(before))
    assert torch.equal(first(rows), found)
    assert torch.equal(both(rows), both.head(torch.nn.Sequential(*after)(before.relu())))
    with pytest.raises(ScenarioError, match="found 'none'; give both or first"):
        DropoutCNN(DIGIT, 10, relu="none")


def test_finding_problems_does_not_import_torch():
    program = (
        "import sys; from rayfed.core.plugins import find; find('problems'); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "rayfed.problems.mlp" in done.stdout.split()
    assert "torch" not in done.stdout.split()
