"""Final models: a network's module and files, and what is refused."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn.utils import parameters_to_vector

import rayfed
from rayfed.core.errors import ScenarioError
from rayfed.testing.modules import Normed, Small
from rayfed.testing.toy import tiny_run


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """Two methods on networks, one of which freezes a layer."""
    out = tmp_path_factory.mktemp("networks")
    local = {"steps": 2, "batch": 4, "lr": 0.1}
    scenario = {
        "rounds": 2,
        "problem": {
            "name": "network", "model": "rayfed.testing.modules:Small", "frozen": ["hidden.bias"],
            "dataset": {"name": "synthetic", "features": 5, "classes": 3, "samples": 12},
        },
        "clients": {"count": 3},
        "algorithms": [{"name": name, "local": local} for name in ("fedavg", "fedexp")],
        "executor": "serial",
    }  # fmt: skip
    return rayfed.run(scenario, out=out, page=False)


def test_a_network_comes_back_as_its_module(networks):
    module = networks.model("fedavg-seed0")
    x = networks.weights("fedavg-seed0")
    assert type(module).__name__ == "Small"
    assert not module.training
    trained = [p for name, p in module.named_parameters() if name != "hidden.bias"]
    np.testing.assert_array_equal(parameters_to_vector(trained).detach().numpy(), x)
    frozen = networks.model("fedexp-seed0").hidden.bias  # nobody trained it
    np.testing.assert_array_equal(module.hidden.bias.detach(), frozen.detach())
    assert (module.head.weight != networks.model("fedexp-seed0").head.weight).any()


@pytest.mark.parametrize("file", ["a.safetensors", "a.pt", "a.npz"])
def test_files_load_into_plain_torch(networks, tmp_path, file):
    networks.export(tmp_path / file, "fedavg-seed0")
    if file.endswith("npz"):
        with np.load(tmp_path / file) as arrays:
            state = {name: torch.from_numpy(arrays[name]) for name in arrays}
    elif file.endswith("pt"):
        state = torch.load(tmp_path / file, weights_only=True)
    else:
        state = load_file(tmp_path / file)
    module = Small(inputs=(5,), outputs=3)
    module.load_state_dict(state)  # strict: no name is missing or too many
    expected = networks.model("fedavg-seed0")(torch.ones(1, 5))
    np.testing.assert_array_equal(module(torch.ones(1, 5)).detach(), expected.detach())


def test_running_statistics_are_in_the_file(tmp_path):
    problem = {
        "name": "network", "model": "rayfed.testing.modules:Normed",
        "dataset": {"name": "synthetic", "features": 5, "classes": 3, "samples": 12},
    }  # fmt: skip
    scenario = {
        "rounds": 1,
        "problem": problem,
        "clients": {"count": 2},
        "algorithms": [{"name": "fedbn", "local": {"steps": 1}}],
        "executor": "serial",
    }
    result = rayfed.run(scenario, out=tmp_path / "out", page=False)
    result.export(tmp_path / "a.safetensors")
    Normed((5,), 3).load_state_dict(load_file(tmp_path / "a.safetensors"))


def test_other_problems_keep_arrays_and_have_their_layers_in_the_file(tmp_path):
    result = tiny_run(tmp_path / "out", "fedavg", rounds=2)
    x = result.model()
    assert x.tolist() == result.weights().tolist()
    result.export(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as arrays:
        assert arrays["weight"].tolist() == x[:1].tolist()
        assert arrays["bias"].tolist() == x[1:].tolist()


def test_wrong_files_and_runs_are_refused(networks, tmp_path):
    with pytest.raises(ScenarioError, match=r"found '\.onnx'; give a file that ends in \.safet"):
        networks.export(tmp_path / "a.onnx", "fedavg-seed0")
    with pytest.raises(ScenarioError, match="holds 2 runs; name one: fedavg-seed0, fedexp-seed0"):
        networks.export(tmp_path / "a.npz")
    with pytest.raises(ScenarioError, match="unknown run 'fedavg-seed1'"):
        networks.model("fedavg-seed1")
    with pytest.raises(ScenarioError, match=r"cannot be written \(no such file or directory\)"):
        networks.export(tmp_path / "missing" / "a.npz", "fedavg-seed0")
