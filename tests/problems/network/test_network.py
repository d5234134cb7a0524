"""The network problem: flat models, derivatives against torch, initial models, bad input."""

import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector

from rayfed.core.arrays import to_numpy
from rayfed.core.errors import LibraryMissing, ScenarioError
from rayfed.core.rng import Key
from rayfed.problems import MLP, Network
from rayfed.problems.base import Batch, StepKey
from rayfed.problems.network import network
from rayfed.problems.network.kernels import bound as kernels
from rayfed.problems.network.kernels.augment import augmented, drawn
from rayfed.problems.network.kernels.bound import BoundNetwork
from rayfed.problems.network.settings import Augment
from rayfed.testing.modules import Small

KEY = Key(0, "init")


class Pixels(nn.Module):
    """A small network of convolutions."""

    def __init__(self, outputs, channels=2, drop=0.0):
        super().__init__()
        self.conv = nn.Conv2d(1, channels, 3)
        self.norm = nn.GroupNorm(1, channels)
        self.drop = nn.Dropout(drop)
        self.head = nn.Linear(channels * 4, outputs)

    def forward(self, x):
        return self.head(self.drop(functional.relu(self.norm(self.conv(x)))).flatten(1))


def tied(inputs, outputs):
    """Return a module two of whose layers share their weights."""
    net = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.Linear(16, outputs))
    net[2].weight = net[0].weight
    return nn.Sequential(nn.Flatten(), net)


def bind(model=Pixels, classes=3, shape=(1, 4, 4), init=None, **settings):
    init = None if init is None else str(init)
    return Network(model=model, init=init, **settings).bound(shape, classes, KEY)


def batch(classes=3, K=2, B=5, dtype=np.float64):
    rng = np.random.default_rng(1)
    y = rng.integers(0, classes, (K, B)) if classes else rng.standard_normal((K, B)).astype(dtype)
    X = rng.standard_normal((K, B, 16)).astype(dtype)
    return Batch(X, y, rng.random((K, B)).astype(dtype), None)


@pytest.fixture
def in_place(monkeypatch):
    """Let small models be computed with where they lie, as large ones are."""
    monkeypatch.setattr("rayfed.problems.network.kernels.flat._FEW", 0)


def run(problem, kernel, x, data, *more):
    """Return what a kernel computes, from NumPy to NumPy."""
    given = problem.arrays({"x": np.atleast_2d(x), **{str(k): v for k, v in enumerate(more)}})
    found = getattr(problem, kernel)(*given.values(), problem.batch(data))
    return tuple(map(to_numpy, found)) if isinstance(found, tuple) else to_numpy(found)


def start(problem):
    return problem.initial("torch", 16, problem.classes, KEY)


@pytest.mark.parametrize("model", [Pixels, tied, "lenet5"])
def test_flat_order_is_that_of_torch(model):
    problem = bind(model)
    x = np.random.default_rng(0).standard_normal(problem.size(16, 3))
    module = problem.module(x)
    np.testing.assert_array_equal(parameters_to_vector(module.parameters()).detach().numpy(), x)
    names = [name for name, _ in module.named_parameters()]
    assert [layer.name for layer in problem.layers(16, 3)] == names


LOSSES = {
    "cross-entropy": (3, lambda z, y: functional.cross_entropy(z, y, reduction="none")),
    "squared-error": (0, lambda z, y: (z[:, 0] - y) ** 2 / 2),
    "binary-cross-entropy": (2, lambda z, y: functional.softplus(z[:, 0]) - y * z[:, 0]),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_plain_torch(name):
    classes, loss = LOSSES[name]
    problem, data = bind(loss=name, classes=classes), batch(classes)
    x = start(problem) + 0.1 * np.arange(2)[:, None]
    value, gradient = run(problem, "value_and_gradient", x, data)
    for k in range(2):
        module = problem.module(x[k])
        rows = torch.from_numpy(data.X[k]).view(-1, 1, 4, 4)
        total = (
            torch.from_numpy(data.w[k]) * loss(module(rows), torch.from_numpy(data.y[k]))
        ).sum()
        total.backward()
        expected = parameters_to_vector([p.grad for p in module.parameters()])
        np.testing.assert_allclose(value[k], total.item(), rtol=1e-13)
        np.testing.assert_allclose(gradient[k], expected.numpy(), rtol=1e-11, atol=1e-14)
    np.testing.assert_array_equal(run(problem, "value", x, data), value)


@pytest.mark.parametrize("model", [Pixels, tied, "lenet5"])
@pytest.mark.parametrize("offset", [0, 1])
def test_steps_in_place_are_those_along_gradients_to_the_bit(model, offset, in_place):
    problem, data = bind(model), batch(K=3, dtype=np.float32)
    x = torch.from_numpy(start(problem) + 0.1 * np.arange(3)[:, None]).float()
    held = torch.zeros(x.numel() + offset)
    placed = held[offset:].view(x.shape)  # at the start of a cache line, or beside it
    placed[...] = x
    for _ in range(3):
        rows = problem.batch(data)
        value, gradient = problem.value_and_gradient(x, rows)
        assert torch.equal(problem.descend(placed, rows, 0.3), value)
        x -= 0.3 * gradient
        assert torch.equal(placed, x)


def test_where_gradients_are_formed_no_step_is_taken_in_place(monkeypatch):
    for norm in (nn.Identity, nn.BatchNorm1d):
        problem = bind(
            lambda inputs, outputs, n=norm: nn.Sequential(
                nn.Flatten(), n(16), nn.Linear(16, outputs)
            )
        )
        x = torch.from_numpy(start(problem))[None]
        before, rows = x.clone(), problem.batch(batch(K=1))
        moved = problem.descend(x, rows, 0.3) is not None
        assert moved == (norm is nn.Identity) == (not torch.equal(x, before))
    problem = bind()
    x = torch.from_numpy(start(problem))[None]
    before, ridge = x.clone(), torch.ones(x.shape, dtype=x.dtype)
    assert problem.descend(x, replace(problem.batch(batch(K=1)), ridge=ridge), 0.3) is None
    monkeypatch.setattr(kernels, "ROWS", 4)
    assert problem.descend(x, problem.batch(batch(K=1, B=5)), 0.3) is None
    assert torch.equal(x, before)


class Clamped(Pixels):
    """Writes to a parameter."""

    def forward(self, x):
        with torch.no_grad():
            self.head.weight.clamp_(-0.1, 0.1)
        return super().forward(x)


class Renormed(nn.Module):
    """Has an embedding that writes to its own weights where they are too large."""

    def __init__(self, outputs):
        super().__init__()
        self.codes, self.head = nn.Embedding(4, 2, max_norm=0.5), nn.Linear(32, outputs)

    def forward(self, x):
        return self.head(self.codes((x.abs() * 2).long().clamp(max=3).flatten(1)).flatten(1))


class Hidden(Pixels):
    """Writes to a parameter by a way of which autograd knows nothing."""

    def forward(self, x):
        self.head.weight.data.clamp_(-1, 1)
        return super().forward(x)


class Anxious(Pixels):
    """Refuses to compute with large weights."""

    def forward(self, x):
        if self.head.weight.abs().max() > 100:
            raise ValueError("these are no probabilities")
        return super().forward(x)


def test_a_module_that_does_not_compute_with_large_weights_is_copied():
    assert [bind(model).writes for model in (Anxious, Clamped, Pixels)] == [True, True, False]


@pytest.mark.parametrize("model", [Clamped, Renormed, Hidden])
def test_a_module_that_writes_to_its_parameters_leaves_the_model_as_it_was(model, in_place):
    problem, data = bind(model), batch(K=3, dtype=np.float32)
    x = torch.from_numpy(np.tile(start(problem), (3, 1))).float() * 4
    before = x.clone()
    problem.predict(x, problem.batch(data).X)
    problem.value_and_gradient(x, problem.batch(data))
    assert torch.equal(x, before)
    steps = []
    for offset in (0, 1):
        held = torch.zeros(x.numel() + offset)
        placed = held[offset:].view(x.shape)
        placed[...] = x
        problem.descend(placed, problem.batch(data), 0.3)
        steps.append(placed)
    assert torch.equal(*steps)


def test_no_stack_of_models_is_held_after_a_step(in_place):
    problem = bind()
    stack = torch.from_numpy(start(problem)[None]).float()
    assert stack.data_ptr() % 64 == 0
    problem.descend(stack, problem.batch(batch(K=1, dtype=np.float32)), 0.3)
    kept = problem._flat(torch.float32).x.data_ptr()
    assert not stack.data_ptr() <= kept < stack.data_ptr() + stack.nbytes


def test_running_statistics_are_moved_in_a_copy_of_the_model():
    class Normed(nn.Module):
        def __init__(self, outputs):
            super().__init__()
            self.norm, self.head = nn.BatchNorm1d(16), nn.Linear(16, outputs)

        def forward(self, x):
            return self.head(self.norm(x.flatten(1)))

    problem = bind(Normed)
    x = torch.from_numpy(start(problem))[None]
    before = x.clone()
    key = StepKey(np.arange(1), seed=0, draw=1, ask=0, step=0)
    _, gradient = problem.value_and_gradient(x, replace(problem.batch(batch(K=1)), key=key))
    assert torch.equal(x, before)
    assert gradient[0, problem.size(16, 3) - 32 :].any()


@pytest.mark.parametrize("side", [5, 7, 9])
def test_bits_do_not_depend_on_where_images_of_one_channel_lie(side):
    def flat(inputs, outputs):
        return nn.Sequential(nn.Flatten(), nn.Linear(side * side, 7), nn.Linear(7, outputs))

    problem, rng = bind(flat, shape=(1, side, side)), np.random.default_rng(0)
    X = rng.standard_normal((7, 3, side * side)).astype(np.float32)
    y, w = rng.integers(0, 3, (7, 3)), rng.random((7, 3)).astype(np.float32)
    x = start(problem).astype(np.float32)
    value, gradient = run(problem, "value_and_gradient", x, Batch(X, y, w, None))
    for k in range(7):
        one = Batch(X[k : k + 1].copy(), y[k : k + 1], w[k : k + 1], None)
        alone = run(problem, "value_and_gradient", x, one)
        np.testing.assert_array_equal(value[k], alone[0][0])
        np.testing.assert_array_equal(gradient[k], alone[1][0])


def test_more_rows_than_a_block_holds(monkeypatch):
    problem, data = bind(), batch()
    x = start(problem)
    whole = run(problem, "value_and_gradient", x, data)
    monkeypatch.setattr(kernels, "ROWS", 2)
    for found, expected in zip(run(problem, "value_and_gradient", x, data), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    given = problem.arrays({"x": x[None], "X": data.X})
    assert problem.predict(given["x"], given["X"]).shape == (2, 5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_group_norm_may_come_first(dtype):
    """Nothing before it learns: with the channels last PyTorch's own backward pass would crash."""

    def first(outputs):
        return nn.Sequential(nn.GroupNorm(2, 16), nn.Flatten(), nn.Linear(16, outputs))

    problem, data = bind(first, shape=(16, 1, 1)), batch(dtype=dtype)
    x = start(problem).astype(dtype)
    module, found = problem.module(x), run(problem, "gradient", x, data)
    for k in range(2):
        X, y, w = (torch.from_numpy(rows[k]) for rows in (data.X, data.y, data.w))
        losses = functional.cross_entropy(module(X.view(5, 16, 1, 1)), y, reduction="none")
        parts = torch.autograd.grad((w * losses).sum(), list(module.parameters()))
        expected = parameters_to_vector(parts).numpy()
        np.testing.assert_allclose(found[k], expected, rtol=0, atol=1e-6)


def test_dropout_is_drawn_for_each_client_and_step_in_training_alone():
    problem, data = bind({"name": Pixels, "drop": 0.5}), batch()
    assert problem.random_steps
    assert not bind().random_steps
    x = start(problem)

    def gradient(step, ids=(4, 9)):
        key = StepKey(ids=np.array(ids), seed=0, draw=1, ask=0, step=step)
        return run(problem, "gradient", x, replace(data, key=key))

    before = torch.get_rng_state()
    np.testing.assert_array_equal(gradient(0), gradient(0))
    assert torch.equal(before, torch.get_rng_state())  # the user's own draws go on as they were
    assert (gradient(0) != gradient(1)).any()
    assert (gradient(0, ids=(4, 8))[0] == gradient(0)[0]).all()
    assert (gradient(0, ids=(4, 8))[1] != gradient(0)[1]).any()
    calm = [run(problem, "gradient", x, data) for _ in range(2)]
    np.testing.assert_array_equal(*calm)
    alone = Batch(data.X[1:], data.y[1:], data.w[1:], None)
    key = StepKey(ids=np.array([9]), seed=0, draw=1, ask=0, step=0)
    found = run(problem, "gradient", x, replace(alone, key=key))
    np.testing.assert_array_equal(found[0], gradient(0)[1])


def test_the_key_alone_decides_the_start_and_torch_s_generator_stays_as_it_was():
    problem, before = bind(), torch.get_rng_state()
    first = start(problem)
    np.testing.assert_array_equal(first, start(problem))
    assert (first != problem.initial("torch", 16, 3, Key(1, "init"))).any()
    assert torch.equal(before, torch.get_rng_state())


def test_frozen_parameters_are_outside_the_model_and_travel_with_the_problem():
    problem = pickle.loads(pickle.dumps(bind(frozen=("conv.*",))))
    free = bind()
    assert problem.size(16, 3) == free.size(16, 3) - 2 * 9 - 2
    np.testing.assert_array_equal(start(problem), start(free)[20:])
    value = run(problem, "value", start(problem), batch())
    np.testing.assert_array_equal(value, run(free, "value", start(free), batch()))


def write(path, state):
    if path.suffix == ".safetensors":
        save_file(state, path)
    elif path.suffix == ".npz":
        np.savez(path, **{name: value.numpy() for name, value in state.items()})
    else:
        torch.save(state, path)
    return path


@pytest.mark.parametrize("file", ["a.safetensors", "a.pt", "a.npz"])
def test_a_start_from_a_file(tmp_path, file):
    state = Pixels(3).state_dict()
    path = write(tmp_path / file, state)
    expected = parameters_to_vector(state.values()).double().numpy()
    np.testing.assert_array_equal(bind().read_initial(path, KEY), expected)
    part = bind(init_layers=("conv.*",)).read_initial(path, KEY)
    np.testing.assert_array_equal(part[:20], expected[:20])
    np.testing.assert_array_equal(part[20:], start(bind())[20:])
    frozen = bind(frozen=("conv.*",), init_layers=("conv.*",), init=path)
    np.testing.assert_array_equal(frozen.fixed["conv.weight"], state["conv.weight"].numpy())


@pytest.mark.parametrize("prefix", ["", "module.", "module._orig_mod.", "model."])
@pytest.mark.parametrize("holder", [None, "state_dict", "model_state_dict", "model"])
def test_a_start_from_a_checkpoint_of_a_training_script(tmp_path, holder, prefix):
    state = Pixels(3).state_dict()
    named = {prefix + name: value for name, value in state.items()}
    optimiser = {"state": {0: {"step": torch.ones(1)}}, "param_groups": [{"lr": 0.1}]}
    kept = named if holder is None else {"epoch": 3, "optimizer": optimiser, holder: named}
    path = write(tmp_path / "a.pt", kept)
    expected = parameters_to_vector(state.values()).double().numpy()
    np.testing.assert_array_equal(bind().read_initial(path, KEY), expected)


@pytest.mark.parametrize("place", ["frozen", "init_layers"])
def test_a_pattern_that_fits_nothing_is_refused(place, tmp_path):
    path = write(tmp_path / "a.pt", Pixels(3).state_dict())
    for pattern, hint in (("conv", r"did you mean 'conv\.\*'\?"), ("con", "found conv.weight, ")):
        text = f"problem.{place}: no parameter is called '{pattern}'; {hint}"
        with pytest.raises(ScenarioError, match=text):
            bind(init=path, **{place: (pattern,)})


def test_a_start_from_a_model_of_another_run(tmp_path):
    x = np.arange(bind().size(16, 3), dtype=np.float32)
    np.savez(tmp_path / "model.npz", x=x)
    np.testing.assert_array_equal(bind().read_initial(tmp_path / "model.npz", KEY), x)


def wrong_file(tmp_path, change):
    state = Pixels(3).state_dict()
    change(state)
    return write(tmp_path / "a.pt", state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("head.bias"), "'a.pt' lacks head.bias"),
        (lambda s: s.update(other=torch.ones(1)), "'a.pt' holds the unknown other"),
        (lambda s: s["head.bias"].fill_(torch.nan), "holds NaN or infinite numbers in 'head.bias'"),
        (lambda s: s.update({"head.bias": torch.ones(4)}), r"'head.bias' \(4,\).*has \(3,\)"),
        (
            lambda s: s.update({"head.bias": torch.ones(3) * 1j}),
            "holds 'head.bias' of torch.complex64, .*; save dense tensors of real numbers",
        ),
        (lambda s: s.update({"head.bias": torch.ones(3).to_sparse()}), "torch.sparse_coo, on cpu;"),
        (lambda s: s.update({"head.bias": torch.ones(3, device="meta")}), "on meta; save dense"),
        (lambda s: s.update({3: torch.ones(1)}), "holds no weights; give torch, a model.npz"),
    ],
)
def test_wrong_weights_are_refused(tmp_path, change, message):
    path = wrong_file(tmp_path, change)
    with pytest.raises(ScenarioError, match=message):
        bind(init=path)


def test_files_without_weights_are_refused(tmp_path):
    for name in ("a.pt", "a.safetensors", "a.npz"):
        (tmp_path / name).write_bytes(b"nothing")
        with pytest.raises(ScenarioError, match=r"cannot be read as weights .*give torch"):
            bind(init=tmp_path / name)
    with pytest.raises(ScenarioError, match="No such file or directory; give torch"):
        bind(init=tmp_path / "missing.pt")
    torch.save(Pixels(3), tmp_path / "whole.pt")  # pickled code is never run
    with pytest.raises(
        ScenarioError, match=r"holds objects other than tensors.*save the state dict"
    ):
        bind(init=tmp_path / "whole.pt")
    torch.save({"net": Pixels(3).state_dict(), "epoch": 3}, tmp_path / "other.pt")
    with pytest.raises(ScenarioError, match=r"holds no weights.*; it holds net, epoch"):
        bind(init=tmp_path / "other.pt")


@pytest.mark.parametrize("depth", [0, 1, 200])
def test_a_checkpoint_that_holds_itself_is_refused(depth, tmp_path):
    outer = inner = {}
    for _ in range(depth):
        inner["model"] = inner = {}
    inner["state_dict"] = outer
    torch.save(outer, tmp_path / "a.pt")
    with pytest.raises(ScenarioError, match=r"holds no weights; .*; it holds (model|state_dict)"):
        bind(init=tmp_path / "a.pt")


def test_a_start_that_is_a_pipe_is_refused(tmp_path):
    for name in ("a.pt", "a.safetensors", "a.npz"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(ScenarioError, match="is not a regular file"):
            bind(init=tmp_path / name)


def test_a_start_from_an_averaged_model(tmp_path):
    averaged = torch.optim.swa_utils.AveragedModel(Pixels(3))
    path = write(tmp_path / "a.pt", averaged.state_dict())
    expected = parameters_to_vector(averaged.module.parameters()).detach().double().numpy()
    np.testing.assert_array_equal(bind().read_initial(path, KEY), expected)


class Squeezed(Pixels):
    """Loses the axis of the rows where there is one row."""

    def forward(self, x):
        return super().forward(x).squeeze()


class Standardised(Pixels):
    """Puts another tensor in the place of a parameter."""

    def forward(self, x):
        self.conv.weight.data = self.conv.weight / self.conv.weight.norm()
        return super().forward(x)


class NumPyDropout(Pixels):
    """Draws by NumPy."""

    def forward(self, x):
        return super().forward(x) * float(np.random.random())  # noqa: NPY002  as users do


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Squeezed, r"'Squeezed' returns \(3,\) for 1 rows of shape"),
        (NumPyDropout, "'NumPyDropout' returns other scores for the same rows and random numbers"),
        (Standardised, "'Standardised' puts other tensors in the place of its parameters"),
    ],
)
def test_what_fails_in_some_batches_only_is_refused_before(model, told):
    with pytest.raises(ScenarioError, match=told):
        bind(model)


class Pair(Pixels):
    """Returns something besides the scores."""

    def forward(self, x):
        return super().forward(x), x


def nothing(inputs, outputs):
    """Return no module."""
    return {}


@pytest.mark.parametrize(
    ("settings", "place", "message"),
    [
        (
            {"shape": (784,)},
            "model",
            r"'Pixels' cannot take 2 rows of shape \(784,\): RuntimeError",
        ),
        ({"model": {"name": Pixels, "outputs": 7}}, "model", r"returns \(2, 7\).*needs \(2, 3\)"),
        ({"model": {"name": Pixels, "hidden": 3}}, "model", "cannot be made: TypeError.*hidden"),
        ({"model": nothing}, "model", "makes a dict; give a torch.nn.Module"),
        (
            {"model": Pixels(3)},
            "model",
            "found a module of class 'Pixels'; give the class, or a fun",
        ),
        (
            {"model": Pair},
            "model",
            r"returns \(\(B, 3\), \(B, 1, 4, 4\)\); return the scores alone",
        ),
        ({"frozen": ("body.*",)}, "frozen", r"no parameter is called 'body.\*'; found conv.weight"),
        ({"frozen": ("*",)}, "frozen", "leaves no parameter to train"),
        ({"loss": lambda z, y: z.sum(0)}, "loss", r"returns \(3,\) for 2 rows"),
        ({"loss": nn.L1Loss()}, "loss", r"Using a target size"),
        ({"loss": lambda z, y: z.nothing}, "loss", "cannot take outputs"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(settings, place, message):
    settings = dict(settings)
    shape = settings.pop("shape", (1, 4, 4))
    with pytest.raises(ScenarioError, match=message) as raised:
        Network(**{"model": Pixels, **settings}).bound(shape, 3, KEY)
    assert raised.value.place == f"problem.{place}"
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "lenet6"}, "model: unknown model 'lenet6'; did you mean 'lenet5'"),
        ({"model": 7}, "model: found 7; give a name"),
        ({"model": {"hidden": 3}}, "model: the name is missing"),
        ({"model": Small, "loss": "hinge"}, "loss: unknown loss 'hinge'"),
        ({"model": Small, "loss": "squared-error", "label_smoothing": 0.1}, "label_smoothing"),
        ({"model": Small, "intercept": True}, "intercept: a network has biases of its own"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ScenarioError, match=message):
        Network(**settings)


def test_shape_of_rows_may_be_given():
    flat = Network(model=Pixels, shape=(1, 4, 4)).bound((16,), 3, KEY)
    np.testing.assert_array_equal(start(flat), start(bind()))
    with pytest.raises(ScenarioError, match=r"problem.shape: found \[1, 5, 5\] for rows of 16"):
        Network(model=Pixels, shape=(1, 5, 5)).bound((16,), 3, KEY)


def image_key(step=0, ids=(4, 9)):
    return StepKey(ids=np.array(ids), seed=0, draw=1, ask=0, step=step)


def test_images_are_shifted_and_mirrored_by_client_and_step_alone():
    problem, data = bind(augment=Augment(crop=1, flip=True)), batch()
    assert problem.random_steps
    x = start(problem)

    def value(key):
        return run(problem, "value", x, replace(data, key=key))

    np.testing.assert_array_equal(value(image_key()), value(image_key()))
    assert (value(image_key()) != value(image_key(step=1))).any()
    other = value(image_key(ids=(4, 8)))
    assert other[0] == value(image_key())[0]
    assert other[1] != value(image_key())[1]
    np.testing.assert_array_equal(value(None), run(bind(), "value", x, data))


def test_a_representation_is_that_of_the_rows_of_the_step_without_dropout():
    """Against the module itself, in evaluation mode, on images augmented one client at a time."""
    how, data, key = Augment(crop=1, flip=True), batch(), image_key()
    problem = bind(lambda outputs: Pixels(outputs, drop=0.5), augment=how)
    x = start(problem)
    module, models, rows = problem.module(x), torch.from_numpy(x[None]), torch.from_numpy(data.X)
    plain = rows.view(2, 5, 1, 4, 4)
    draws = [drawn(how, key.only(k), 5)[0] for k in range(2)]
    changed = [augmented(X, how, draw) for X, draw in zip(plain, draws, strict=True)]
    for given, images in ((key, changed), (None, plain)):
        with torch.no_grad():
            expected = [functional.relu(module.norm(module.conv(X))).flatten(1) for X in images]
        found = problem.representation(models, rows, given)
        np.testing.assert_allclose(found, torch.stack(expected), rtol=1e-12)


def test_every_image_is_cut_out_of_the_padded_one():
    how, rows = Augment(crop=2, flip=True), 40
    draws = drawn(how, image_key(ids=(3,)), rows)[0]
    assert set(draws[:, 0]) == set(draws[:, 1]) == set(range(5))
    assert set(draws[:, 2]) == {0, 1}
    images = torch.arange(rows * 2 * 4 * 3, dtype=torch.float64).view(rows, 2, 4, 3)
    for image, cut, (down, right, mirrored) in zip(
        images, augmented(images, how, draws), draws, strict=True
    ):
        padded = np.pad(image.numpy(), ((0, 0), (2, 2), (2, 2)))
        expected = padded[:, down : down + 4, right : right + 3]
        np.testing.assert_array_equal(cut, expected[:, :, ::-1] if mirrored else expected)


@pytest.mark.parametrize("shared", [True, False])
def test_clients_computed_together_have_the_values_of_the_loop(monkeypatch, shared):
    problem, data = bind(augment=Augment(flip=True)), batch()
    data = replace(data, key=image_key())
    x = start(problem) + (0 if shared else 0.1 * np.arange(2)[:, None])
    expected = run(problem, "value_and_gradient", x, data)
    monkeypatch.setattr(BoundNetwork, "_vmapped", lambda self, batch: True)
    monkeypatch.setattr(kernels, "ROWS", 3)
    for found, wanted in zip(run(problem, "value_and_gradient", x, data), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-14)


def test_half_precision_is_near_and_leaves_the_type_of_the_model():
    data = batch(dtype=np.float32)
    x = start(bind()).astype(np.float32)
    value, gradient = run(bind(precision="bfloat16"), "value_and_gradient", x, data)
    exact = run(bind(), "value_and_gradient", x, data)
    assert value.dtype == gradient.dtype == np.float32
    assert (value != exact[0]).any()
    np.testing.assert_allclose(value, exact[0], rtol=0.02)
    np.testing.assert_allclose(gradient, exact[1], atol=0.05)


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(ScenarioError, match=r"executor.device: found 'gpu7', which torch does not"):
        bind().on_device("gpu7")
    with pytest.raises(ScenarioError, match="'mlp' computes on the CPU"):
        MLP().on_device("cuda")
    assert bind().on_device("cpu").exact == MLP().exact


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: kernels on one were not run")
def test_a_gpu_has_the_values_of_the_cpu():
    problem, data = bind(), batch()
    there = problem.on_device("cuda")
    assert there.exact != problem.exact
    for kernel in ("value", "gradient"):
        expected = run(problem, kernel, start(problem), data)
        np.testing.assert_allclose(run(there, kernel, start(problem), data), expected, rtol=1e-6)


def test_a_missing_library_is_named_and_the_scenario_is_not_at_fault(monkeypatch):
    monkeypatch.setattr(network, "find_spec", lambda name: None)
    with pytest.raises(LibraryMissing, match=r"needs torch; install it with: pip install 'arr"):
        network.need_torch()
