"""Running statistics that are averaged, stay at the clients or do not move, against plain loops."""

import copy
import re
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.core.plugins import find
from rayfed.problems.base import Batch, StepKey
from rayfed.testing import loop
from rayfed.testing.studies import mixed_for

SIZES, STEPS, LR = (3, 9, 5), (2, 4, 2), 0.2
MODEL = "rayfed.testing.modules:Normed"
OWN = """
import pandas as pd
import torch
from torch import nn
from rayfed.testing.modules import Normed

ROWS = pd.read_csv({path!r})

def model():
    torch.manual_seed(5)
    return Normed((2,), 3)

def client(i):
    rows = ROWS[ROWS["client"] == i]
    return torch.tensor(rows[["a", "b"]].to_numpy()), torch.tensor(rows["y"].to_numpy())

def size(i, part):
    return int((ROWS["client"] == i).sum()) if part == "train" else 0

def train(model, data, context):
    model.train()
    optimiser, losses = torch.optim.SGD(model.parameters(), {lr}), []
    for _ in range(context.steps):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(data[0]), data[1])
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return {{"loss": sum(losses) / len(losses)}}

def evaluate(model, data, part):
    model.eval()
    with torch.no_grad():
        return {{"loss": nn.functional.cross_entropy(model(data[0]), data[1]).item()}}
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A file of three clients of unequal sizes, whose features differ in scale and place."""
    draws, client = np.random.default_rng(5), np.repeat(np.arange(3), SIZES)
    X = draws.standard_normal((len(client), 2)) * (1 + client[:, None]) + 2 * client[:, None]
    y = draws.integers(0, 3, len(client))
    y[:3] = 0, 1, 2
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    pd.DataFrame({"client": client, "a": X[:, 0], "b": X[:, 1], "y": y}).to_csv(
        path, index=False, float_format="%.17g"
    )
    return path


@pytest.fixture
def scenario(rows):
    """A function that returns a scenario of the built-in problem, with settings of it."""

    def make(algorithm="fedavg", local=None, **problem):
        given = {"steps": 2, "batch": "full", "lr": LR, **(local or {})}
        return {
            "rounds": 5, "dtype": "float64", "executor": "serial",
            "problem": {"name": "network", "model": MODEL, "dataset": str(rows), **problem},
            "clients": {"count": 3, "groups": [{"ids": [1], "local": {"steps": 4}}]},
            "participation": {"cohort": 2},
            "algorithms": [{"name": algorithm, "local": given}],
        }  # fmt: skip

    return make


@pytest.fixture
def own(rows, scenario, tmp_path, monkeypatch):
    """A function that returns the same scenario with own code."""
    (tmp_path / "own_normed.py").write_text(OWN.format(path=str(rows), lr=LR))
    monkeypatch.syspath_prepend(tmp_path)

    def make(algorithm="fedavg", **problem):
        made = scenario(algorithm)
        made["problem"] = {"name": "own-code", "code": "own_normed", **problem}
        made["algorithms"][0]["local"] = {"name": "own-train", "steps": 2}
        return made

    return make


def data_of(rows, i):
    table = pd.read_csv(rows)
    table = table[table["client"] == i]
    return torch.tensor(table[["a", "b"]].to_numpy()), torch.tensor(table["y"].to_numpy())


def looped(rows, module, cohorts, *, frozen=False, mu=0.0, decay=0.0):
    """Returns the losses of FedAvg on state dicts, statistics included, as Flower averages them."""

    def mode(each, training):
        each.train(training)
        if frozen:
            each.norm.eval()
        return each

    def loss_of(each, i):
        X, y = data_of(rows, i)
        return nn.functional.cross_entropy(each(X), y)

    def total():
        with torch.no_grad():
            values = [loss_of(mode(module, False), i).item() for i in range(3)]
        return np.average(values, weights=SIZES)

    losses = [total()]
    for cohort in cohorts:
        locals_ = []
        for i in cohort:
            mine = mode(copy.deepcopy(module), True)
            start = [p.detach().clone() for p in mine.parameters()]
            optimiser = torch.optim.SGD(mine.parameters(), LR, weight_decay=decay)
            for _ in range(STEPS[i]):
                optimiser.zero_grad()
                pull = sum(
                    ((p - s) ** 2).sum() for p, s in zip(mine.parameters(), start, strict=True)
                )
                (loss_of(mine, i) + mu / 2 * pull).backward()
                optimiser.step()
            locals_.append(mine.state_dict())
        for name, value in module.state_dict().items():
            if value.dtype.is_floating_point:
                mean = sum(SIZES[i] * s[name] for i, s in zip(cohort, locals_, strict=True))
                value.copy_(mean / sum(SIZES[i] for i in cohort))
        losses.append(total())
    return losses


@pytest.mark.parametrize(
    ("algorithm", "local", "settings"),
    [
        ("fedavg", {}, {}),
        ("fedavg", {"weight_decay": 0.1}, {"decay": 0.1}),
        ("fedprox", {"mu": 0.5}, {"mu": 0.5}),
        ("fedavg", {}, {"frozen": True}),
        ("fedavg", {"weight_decay": 0.1}, {"decay": 0.1, "frozen": True}),
    ],
)
def test_statistics_are_averaged_or_fixed_as_in_a_plain_loop(
    rows, scenario, tmp_path, algorithm, local, settings
):
    mode = {"normalisation": "frozen"} if settings.get("frozen") else {}
    given = scenario(algorithm, local, **mode)
    found = rayfed.run(given, out=tmp_path, page=False)
    training = api.prepare(api.read(given)).runs[0].training
    cohorts = found.events.groupby("round")["client"].apply(list)
    expected = looped(rows, training.problem.module(training.x0), cohorts, **settings)
    np.testing.assert_allclose(found.rounds["loss"], expected, rtol=1e-10)
    variance = found.model().norm.running_var.numpy()
    assert (variance == 1).all() == bool(settings.get("frozen"))


@pytest.mark.parametrize(
    ("algorithm", "mode"),
    [("fedavg", "average"), ("fedavg", "frozen"), ("fedbn", "local"), ("fedbn", "average")],
)
def test_own_code_is_as_the_built_in_problem(scenario, own, tmp_path, algorithm, mode):
    built_in = scenario(algorithm, normalisation=mode, model="own_normed:model")
    mine = own(algorithm, normalisation=mode)
    one, two = (
        rayfed.run(given, out=tmp_path / name, page=False)
        for name, given in (("built-in", built_in), ("own", mine))
    )
    np.testing.assert_allclose(one.rounds["loss"], two.rounds["loss"], rtol=1e-10)
    np.testing.assert_allclose(one.weights(), two.weights(), rtol=1e-9, atol=1e-12)
    for name in ("bytes_up", "bytes_down", "local_steps"):
        assert one.rounds[name].tolist() == two.rounds[name].tolist()


def local_steps(rows, net, x, statistics, i, c=0.0, alpha=0.0):
    """Returns parameters and statistics after the local steps of client i, corrected by c.

    They are pulled back to x with the factor alpha.
    """
    mine = copy.deepcopy(net).train()
    parameters = list(mine.parameters())
    nn.utils.vector_to_parameters(x.clone(), parameters)
    moving = [mine.norm.running_mean, mine.norm.running_var]
    for buffer, part in zip(moving, statistics.chunk(2), strict=True):
        buffer.copy_(part)
    X, y = data_of(rows, i)
    for _ in range(STEPS[i]):
        loss = nn.functional.cross_entropy(mine(X), y)
        g = nn.utils.parameters_to_vector(torch.autograd.grad(loss, parameters))
        now = nn.utils.parameters_to_vector(parameters).detach()
        nn.utils.vector_to_parameters(now - LR * (g + c + alpha * (now - x)), parameters)
    return nn.utils.parameters_to_vector(parameters).detach(), torch.cat(moving).clone()


def evaluated(rows, net, x, statistics):
    """Returns the loss of all clients."""
    mine = copy.deepcopy(net).eval()
    nn.utils.vector_to_parameters(x.clone(), mine.parameters())
    mine.norm.running_mean[:], mine.norm.running_var[:] = statistics.chunk(2)
    with torch.no_grad():
        values = [nn.functional.cross_entropy(mine(X), y).item()
                  for X, y in (data_of(rows, i) for i in range(3))]  # fmt: skip
    return np.average(values, weights=SIZES)


def average(values, cohort):
    total = sum(SIZES[i] for i in cohort)
    return sum(SIZES[i] * v for i, v in zip(cohort, values, strict=True)) / total


def top_half(v):
    """Returns the larger half of the coordinates of a vector, by size."""
    kept = torch.zeros_like(v)
    at = v.abs().argsort(descending=True, stable=True)[: -(-len(v) // 2)]
    kept[at] = v[at]
    return kept


def signs(v):
    """Returns the signs of a vector times its mean size."""
    return torch.where(v < 0, -1.0, 1.0).to(v) * v.abs().mean()


def bits_of_half(n):
    return -(-n // 2) * (64 + (n - 1).bit_length())


class Server:
    """Plain server steps on parameters alone; `deltas` are x minus the clients' models."""

    def __init__(self, x):
        self.m = self.c = self.h = torch.zeros_like(x)
        self.v = torch.full_like(x, 0.1**2)
        self.own = {i: torch.zeros_like(x) for i in range(3)}

    def fedadam(self, x, deltas, cohort):
        mean = average(deltas, cohort)
        self.m = 0.9 * self.m + 0.1 * mean
        self.v = 0.99 * self.v + 0.01 * mean**2
        return x - 0.05 * self.m / (self.v.sqrt() + 0.1)

    def fedavgm(self, x, deltas, cohort):
        self.m = 0.9 * self.m + average(deltas, cohort)
        return x - self.m

    def fedexp(self, x, deltas, cohort):
        mean = average(deltas, cohort)
        norms = average([d.square().sum() for d in deltas], cohort)
        return x - max(1.0, norms / (2 * (mean.square().sum() + 1e-3))) * mean

    def fedavg(self, x, deltas, cohort):
        return x - 1.5 * average(deltas, cohort)

    def scaffold(self, x, deltas, cohort):
        for d, i in zip(deltas, cohort, strict=True):
            new = self.own[i] - self.c + d / (STEPS[i] * LR)
            self.change[i], self.own[i] = new - self.own[i], new
        shares = [SIZES[i] / sum(SIZES) for i in cohort]
        self.c = self.c + sum(s * self.change[i] for s, i in zip(shares, cohort, strict=True))
        return x - average(deltas, cohort)

    def feddyn(self, x, deltas, cohort):
        for d, i in zip(deltas, cohort, strict=True):
            self.own[i] = self.own[i] - 0.3 * d  # minus h_i
            self.h = self.h + 0.3 * d * SIZES[i] / sum(SIZES)
        return x - average(deltas, cohort) - self.h / 0.3

    change: dict = {}  # noqa: RUF012


APART = {
    "fedadam": {"server_lr": 0.05, "tau": 0.1}, "fedavgm": {"server_momentum": 0.9},
    "fedexp": {"epsilon": 1e-3}, "fedavg": {"server_lr": 1.5}, "scaffold": {},
    "feddyn": {"alpha": 0.3},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "code"),
    [(name, "built-in") for name in APART]
    + [(name, "own") for name in APART if name not in ("scaffold", "feddyn")],
)
def test_statistics_are_averaged_apart_from_the_update(rows, scenario, own, tmp_path, name, code):
    given = scenario(name) if code == "built-in" else own(name)
    given["algorithms"][0] |= APART[name]
    found = rayfed.run(given, out=tmp_path / "out", page=False)
    training = api.prepare(api.read(given)).runs[0].training
    net = training.problem.module(training.x0)
    whole = torch.from_numpy(training.x0)
    x, statistics = whole[:-8], whole[-8:]
    assert statistics.tolist() == [0.0] * 4 + [1.0] * 4
    server, losses = Server(x), [evaluated(rows, net, x, statistics)]
    for cohort in found.events.groupby("round")["client"].apply(list):
        sign, alpha = (1, 0.3) if name == "feddyn" else (-1, 0.0)
        corrections = [server.c + sign * server.own[i] for i in cohort]
        ends = [local_steps(rows, net, x, statistics, i, c, alpha)
                for i, c in zip(cohort, corrections, strict=True)]  # fmt: skip
        x = getattr(server, name)(x, [x - end for end, _ in ends], cohort)
        statistics = average([moved for _, moved in ends], cohort)
        losses.append(evaluated(rows, net, x, statistics))
    np.testing.assert_allclose(found.rounds["loss"], losses, rtol=1e-12)
    np.testing.assert_allclose(found.weights()[-8:], statistics, rtol=1e-12)
    vectors = 2 if name == "scaffold" else 1
    assert set(found.rounds["bytes_up"][1:]) == {
        2 * 8 * (vectors * len(whole) + (name == "fedexp"))
    }


def contrasted(rows, net, x, previous, i, mu=2.0, tau=0.5):
    """Returns a model after MOON's local steps of client i, all of them state dicts."""

    def module(state, training):
        mine = copy.deepcopy(net).train(training)
        mine.load_state_dict(state)
        return mine

    def under(mine):
        return torch.tanh(mine.norm(mine.hidden(X)))

    (X, y), mine = data_of(rows, i), module(x, True)
    near, far = (under(module(state, False)).detach() for state in (x, previous))
    optimiser = torch.optim.SGD(mine.parameters(), LR)
    for _ in range(STEPS[i]):
        optimiser.zero_grad()
        z = under(mine)
        alike = torch.stack([nn.functional.cosine_similarity(z, to) for to in (near, far)], 1)
        first = torch.zeros(len(X), dtype=torch.int64)
        loss = nn.functional.cross_entropy(mine.head(z), y)
        (loss + mu * nn.functional.cross_entropy(alike / tau, first)).backward()
        optimiser.step()
    return mine.state_dict()


@pytest.mark.parametrize("server_lr", [1.0, 1.5])
def test_moon_compares_models_in_evaluation_with_their_own_statistics(
    rows, scenario, tmp_path, server_lr
):
    given = scenario("moon") | {"rounds": 6}
    given["algorithms"][0] |= {"mu": 2.0, "server_lr": server_lr}
    found = rayfed.run(given, out=tmp_path, page=False)
    training = api.prepare(api.read(given)).runs[0].training
    net = training.problem.module(training.x0)
    x = {k: v.clone() for k, v in net.state_dict().items() if "tracked" not in k}
    count = {"norm.num_batches_tracked": torch.tensor(0)}
    previous, losses = dict.fromkeys(range(3), x), []
    for cohort in [None, *found.events.groupby("round")["client"].apply(list)]:
        if cohort is not None:
            ends = [contrasted(rows, net, x | count, previous[i] | count, i) for i in cohort]
            previous |= dict(zip(cohort, ends, strict=True))
            means = {k: average([end[k] for end in ends], cohort) for k in x}
            factor = {k: 1.0 if "running" in k else server_lr for k in x}
            x = {k: x[k] + factor[k] * (means[k] - x[k]) for k in x}
        net.load_state_dict(x | count)
        parameters = nn.utils.parameters_to_vector(net.parameters()).detach()
        moving = torch.cat([x["norm.running_mean"], x["norm.running_var"]])
        losses.append(evaluated(rows, net, parameters, moving))
    np.testing.assert_allclose(found.rounds["loss"], losses, rtol=1e-12)


def test_padding_is_no_row_of_a_contrasted_batch(scenario):
    """Neither the term, nor its gradient, nor the statistics see it."""
    training = api.prepare(api.read(scenario("moon"))).runs[0].training
    problem, key = training.problem, StepKey(np.arange(1), 1, 1, 0, 0)
    draws = np.random.default_rng(3)
    X, y = draws.normal(size=(1, 5, 2)), np.array([[0, 1, 2, 0, 1]])
    w, x = np.array([[0.25, 0.0, 0.5, 0.25, 0.0]]), problem.arrays({"x": training.x0[None]})["x"]
    real = w[0] > 0
    padded = problem.batch(Batch(X, y, w, None, key))
    alone = problem.batch(Batch(X[:, real], y[:, real], w[:, real], None, key))
    reference = torch.from_numpy(draws.normal(size=(1, 5, 4)))

    def step(batch, rows):
        def term(z, which):
            off, weights = z - reference[:, rows], torch.as_tensor(batch.w)[which]
            return (weights * (off * off).sum(2)).sum(1), 2 * weights[:, :, None] * off

        return problem.value_and_gradient_with(x, batch, term)

    for found, wanted in zip(step(padded, slice(None)), step(alone, real), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)
    assert step(alone, real)[1][0, -8:].abs().min() > 0  # statistics that moved


@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize(
    ("codec", "code", "bits"),
    [
        ({"name": "top-k", "share": 0.5}, top_half, bits_of_half),
        ({"name": "sign"}, signs, lambda n: n + 64),
    ],
)
def test_codecs_leave_statistics_as_they_are(rows, scenario, tmp_path, codec, code, bits, feedback):
    """They see the parameters alone: statistics neither count in k nor in a mean size."""
    given = scenario()
    given["uplink"] = [{**codec, "memory": "error-feedback" if feedback else None}]
    found = rayfed.run(given, out=tmp_path, page=False)
    training = api.prepare(api.read(given)).runs[0].training
    net, whole = training.problem.module(training.x0), torch.from_numpy(training.x0)
    x, statistics = whole[:-8], whole[-8:]
    rest = {i: torch.zeros_like(x) for i in range(3)}
    losses = [evaluated(rows, net, x, statistics)]
    for cohort in found.events.groupby("round")["client"].apply(list):
        ends = [local_steps(rows, net, x, statistics, i) for i in cohort]
        sent = []
        for (end, _), i in zip(ends, cohort, strict=True):
            v = x - end + rest[i]
            sent.append(code(v))
            rest[i] = v - sent[-1] if feedback else rest[i]
        x = x - average(sent, cohort)
        statistics = average([moved for _, moved in ends], cohort)
        losses.append(evaluated(rows, net, x, statistics))
    np.testing.assert_allclose(found.rounds["loss"], losses, rtol=1e-9)
    each = -(-bits(len(x)) // 8) + 8 * len(statistics)
    assert set(found.rounds["bytes_up"][1:]) == {2 * each}


@pytest.mark.parametrize("secure", [False, True])
def test_clips_charge_statistics_once(scenario, tmp_path, secure):
    """A clip leaves the zeros in whose place they travel, so they add no bytes to the model's."""
    sums = [{"name": "secure-sum", "range": 50}] if secure else []
    clip = {"name": "clip", "norm": 1}
    within = rayfed.run(scenario() | {"uplink": sums}, out=tmp_path / "within", page=False)
    apart = rayfed.run(scenario() | {"uplink": [clip, *sums]}, out=tmp_path / "apart", page=False)
    assert list(apart.rounds["bytes_up"]) == list(within.rounds["bytes_up"])


@pytest.mark.parametrize("name", ["clusterfedvarp", "fednova", "fedvarp", "fedyogi", "mifa"])
def test_the_mean_is_that_of_the_clients_of_a_round(rows, scenario, tmp_path, name):
    given = scenario(name) | {"rounds": 1}
    given["algorithms"][0] |= {"clusters": 2} if name == "clusterfedvarp" else {}
    found = rayfed.run(given, out=tmp_path / "out", page=False)
    training = api.prepare(api.read(given)).runs[0].training
    net, whole = training.problem.module(training.x0), torch.from_numpy(training.x0)
    cohort = found.events["client"].tolist()
    ends = [local_steps(rows, net, whole[:-8], whole[-8:], i)[1] for i in cohort]
    np.testing.assert_allclose(found.weights()[-8:], average(ends, cohort), rtol=1e-10)


@pytest.mark.slow
def test_statistics_apart_have_the_same_bytes_on_workers_and_in_secure_sums(
    scenario, tmp_path, assert_same
):
    given = scenario("fedexp")
    given["algorithms"] = [
        {**given["algorithms"][0], "name": name} for name in ("fedexp", "fedbuff")
    ]
    given["algorithms"][1]["buffer"] = 2
    here = rayfed.run(given, out=tmp_path / "here", page=False)
    there = rayfed.run(
        given | {"executor": {"name": "workers", "workers": 2}}, out=tmp_path / "there", page=False
    )
    assert_same(here.folder, there.folder)
    del given["algorithms"][1]
    given["algorithms"][0]["name"] = "fedadam"
    plain, secure = (
        rayfed.run(given | more, out=tmp_path / f"sums{k}", page=False)
        for k, more in enumerate(({}, {"uplink": [{"name": "secure-sum", "range": 64.0}]}))
    )
    np.testing.assert_allclose(plain.weights(), secure.weights(), atol=1e-5)


def test_a_buffer_averages_statistics_by_the_weights_of_its_replies(rows, scenario, tmp_path):
    given = scenario("fedbuff")
    given["algorithms"][0] |= {"buffer": 2, "concurrency": 3, "server_lr": 0.7}
    given["clients"]["delay"] = {"name": "lognormal", "mean_s": 1.0, "sigma": 1.0}
    del given["participation"]
    found = rayfed.run(given, out=tmp_path, page=False)
    training = api.prepare(api.read(given)).runs[0].training
    net, whole = training.problem.module(training.x0), torch.from_numpy(training.x0)
    versions, losses, staleness = [(whole[:-8], whole[-8:])], [], []
    events = found.events[found.events["status"] == "used"]
    for row in [None, *events.groupby("round")]:
        if row is not None:
            x, weights, deltas, stats = versions[-1][0], [], [], []
            for event in row[1].itertuples():
                start = versions[event.version]
                end, moved = local_steps(rows, net, *start, event.client)
                weights.append((1 + event.staleness) ** -0.5)
                deltas.append(weights[-1] * (start[0] - end))
                stats.append(weights[-1] * moved)
                staleness.append(event.staleness)
            versions.append((x - 0.7 * sum(deltas) / len(deltas), sum(stats) / sum(weights)))
        losses.append(evaluated(rows, net, *versions[-1]))
    assert max(staleness) > 0
    np.testing.assert_allclose(found.rounds["loss"], losses, rtol=1e-9)


def test_a_tier_s_statistics_are_the_mean_of_its_clients_and_mixed_as_its_model(
    rows, scenario, tmp_path
):
    given = scenario("fedat") | {"rounds": 12}
    given["algorithms"][0] |= {"tiers": [0, 0, 1], "concurrency": 4, "weights": "size"}
    given["clients"]["delay"] = {"name": "lognormal", "mean_s": 1.0, "sigma": 1.0}
    del given["participation"]
    found = rayfed.run(given, out=tmp_path, page=False)
    training = api.prepare(api.read(given)).runs[0].training
    net, whole = training.problem.module(training.x0), torch.from_numpy(training.x0)
    versions, losses, tiers, updates = [whole], [], [whole, whole], np.zeros(2)
    events = found.events[found.events["status"] == "used"]
    for row in [None, *events.groupby("round")]:
        if row is not None:
            ids, (start,) = row[1]["client"].tolist(), set(row[1]["version"])
            tier, x = int(2 in ids), versions[start]
            ends = [torch.cat(local_steps(rows, net, x[:-8], x[-8:], i)) for i in ids]
            tiers[tier] = average(ends, ids)
            updates[tier] += 1
            shares = updates[::-1] / updates.sum()
            versions.append(shares[0] * tiers[0] + shares[1] * tiers[1])
        losses.append(evaluated(rows, net, versions[-1][:-8], versions[-1][-8:]))
    assert (updates > 1).all()
    assert (events["staleness"] > 0).any()
    np.testing.assert_allclose(found.rounds["loss"], losses, rtol=1e-9)
    np.testing.assert_allclose(found.weights(), versions[-1], rtol=1e-9, atol=1e-12)


KEEPING = {"fedbn", "local-only"}
AVERAGING = {
    "ca2fl", "centralised", "clusterfedvarp", "fedadagrad", "fedadam", "fedasync", "fedat",
    "fedavg", "fedavg-finetuned", "fedavgm", "fedbn", "fedbuff", "feddyn", "fedexp", "fednova",
    "fedper", "fedprox", "fedvarp", "fedyogi", "local-only", "mifa", "moon", "scaffold",
}  # fmt: skip
PARTIAL = {"federated-dropout", "fedrolex", "heterofl"}
"""Methods that train parts of chains of linear and convolutional layers."""


@pytest.mark.parametrize("name", find("algorithms"))
def test_a_method_has_batch_norm_if_it_has_the_module_without(name):
    def made(model, **settings):
        given = mixed_for(find("algorithms")[name], rounds=1)
        data = {key: given["problem"][key] for key in ("dataset", "test")}
        model = f"rayfed.testing.modules:{model}"
        given["problem"] = {"name": "network", "model": model, **data, **settings}
        given["algorithms"][0]["local"]["batch"] = "full"
        return given

    try:
        api.prepare(api.read(made("Small")))
    except ScenarioError as error:
        if name != "fedbn":
            with pytest.raises(ScenarioError, match=re.escape(str(error)[:60])):
                api.prepare(api.read(made("Normed", normalisation="frozen")))
            return
    for mode in ("average", "local", "frozen"):
        given = made("Normed", normalisation=mode)
        works = {"average": name in AVERAGING, "local": name in KEEPING, "frozen": True}[mode]
        if not works or name in PARTIAL:
            text = rf"problem.model: BatchNorm \('norm', {mode}"
            text = "'norm.weight' is in no chain" if name in PARTIAL else text
            with pytest.raises(ScenarioError, match=text):
                api.prepare(api.read(given))
            continue
        engine = loop(given)
        state, _ = engine.start()
        state, row, _ = engine.step(state)
        assert np.isfinite(row["loss"])


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"aggregate": "median", "weights": "uniform"}, "running statistics, but 'median' allows"),
        ({"downlink": [{"name": "qsgd", "levels": 4}]}, "exactly what the server sends"),
        (
            {
                "privacy": {"noise": 1.0, "delta": 1e-3},
                "uplink": [{"name": "clip", "norm": 1.0}],
                "weights": "uniform",
                "participation": {"select": "poisson"},
            },
            "running statistics, but privacy allows none",
        ),
        ({"name": "scaffold", "option": 1}, "gradients of the objective, but BatchNorm"),
        ({"name": "fedasync", "uplink": [{"name": "top-k", "share": 0.5}]}, "its uploads as they"),
        ({"name": "fedat", "uplink": [{"name": "top-k", "share": 0.5}]}, "its uploads as they"),
        ({"name": "ditto"}, "plain local steps .* but 'ditto' takes no such steps"),
    ],
)
def test_what_averages_no_statistics_is_refused(scenario, keys, reason):
    given = scenario()
    given["algorithms"][0] |= keys
    with pytest.raises(ScenarioError, match=reason):
        api.prepare(api.read(given))
    given["problem"]["normalisation"] = "frozen"
    api.prepare(api.read(given))


NAMES = ("fedavg", "fedadam", "fedexp", "scaffold", "fedbuff", "fedvarp")
PRIVATE = {
    "privacy": {"noise": 1.0, "delta": 1e-3}, "uplink": [{"name": "clip", "norm": 1.0}],
    "weights": "uniform", "participation": {"select": "poisson", "cohort": 1},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("torchvision"), reason="needs torchvision")
@pytest.mark.parametrize("model", ["resnet18", "mobilenet_v3_small"])
@pytest.mark.parametrize("mode", ["average", "frozen"])
def test_models_of_torchvision_run(tmp_path, model, mode):
    pixels = tmp_path / "pixels.csv"
    draws = np.random.default_rng(0)
    table = pd.DataFrame(draws.normal(size=(12, 3 * 32 * 32)).astype(np.float32))
    table.columns = [f"p{k}" for k in table]
    table.assign(y=np.arange(12) % 3, client=np.arange(12) // 6).to_csv(pixels, index=False)
    given = {
        "rounds": 1, "executor": "serial",
        "problem": {
            "name": "network", "dataset": str(pixels), "shape": [3, 32, 32],
            "model": {"name": f"torchvision.models:{model}", "num_classes": 3},
            "normalisation": mode,
        },
        "algorithms": [
            {"name": name, "local": {"steps": 2, "batch": 4, "lr": 0.01}} for name in NAMES
        ],
    }  # fmt: skip
    if mode == "frozen":
        given["algorithms"].append(given["algorithms"][0] | {"label": "private"} | PRIVATE)
    found = rayfed.run(given, out=tmp_path / "out", page=False)
    assert set(found.outcome.values()) == {"finished"}
    assert np.isfinite(found.rounds["loss"]).all()
    for run in found.outcome:
        norms = [m for m in found.model(run).modules() if isinstance(m, nn.BatchNorm2d)]
        assert all((n.running_mean.abs().sum().item() > 0) == (mode == "average") for n in norms)
        assert all((n.running_var > 0).all() for n in norms)
