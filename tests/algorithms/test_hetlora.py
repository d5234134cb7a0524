"""HetLoRA, and other methods of parts on adapters: against adapters of their own sizes in NumPy."""

import numpy as np
import pytest

import rayfed
from rayfed import api
from rayfed.algorithms import HetLoRA
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.problems.adapters import Adapters
from rayfed.problems.layers import Layer
from rayfed.testing import reply

pytest.importorskip("torch")

SIZES = (6, 11, 4, 9)
CAPACITIES = (0.5, 1.0, 0.5, 0.75)
STEPS, LR, FEATURES, HIDDEN, CLASSES, ROUNDS = 3, 0.3, 3, 5, 4, 6
RANKS = 4, 2
LOCAL = {"steps": STEPS, "batch": "full", "lr": LR}
MODEL = {"name": "rayfed.testing.modules:Adapted", "hidden": HIDDEN, "ranks": list(RANKS)}
NAMES = ("hetlora", "heterofl", "fedrolex", "federated-dropout")


@pytest.fixture(scope="module")
def rows():
    """Four clients of 4 to 11 rows with three features and four classes."""
    rng = np.random.default_rng(5)
    client = np.repeat(np.arange(4), SIZES)
    X = rng.standard_normal((len(client), FEATURES))
    y = rng.integers(0, CLASSES, len(client))
    y[:CLASSES] = range(CLASSES)
    return client, X, y


@pytest.fixture(scope="module")
def scenario(rows):
    client, X, y = rows
    return {
        "rounds": ROUNDS,
        "dtype": "float64",
        "problem": {
            "name": "network",
            "model": {
                "name": "rayfed.testing.modules:Adapted",
                "hidden": HIDDEN,
                "ranks": list(RANKS),
            },
            "dataset": {"name": "arrays", "data": {"X": X, "y": y, "client": client}},
        },
        "clients": {
            "delay": {"name": "constant", "mean_s": 2.0},
            "network": {"down_mbps": 1, "up_mbps": 0.5},
            "groups": [
                {"ids": [i], "capacity": c, "delay": {"mean_s": 2.0 + i}}
                for i, c in enumerate(CAPACITIES)
            ],
        },
        "participation": {"cohort": 2},
        "executor": "serial",
    }


def run(scenario, folder, **changes):
    return rayfed.run(scenario | changes, out=folder, page=False)


def plan_of(scenario, **changes):
    return api.prepare(api.read(scenario | changes))


def gradients(fixed, pairs, X, y):
    """Return the gradients for each adapter of the mean cross-entropy."""
    W1, W2 = (W + B @ A for W, (A, B) in zip(fixed, pairs, strict=True))
    h = np.tanh(X @ W1.T)
    scores = h @ W2.T
    slope = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    slope[np.arange(len(y)), y] -= 1
    slope /= len(y)
    inner = slope @ W2 * (1 - h**2)
    return [(B.T @ G, G @ A.T) for G, (A, B) in zip((inner.T @ X, slope.T @ h), pairs, strict=True)]


def ranks_of(name, adapter, capacity, round):
    """Return the ranks of an adapter that a client of a capacity trains in a round."""
    rank = RANKS[adapter]
    size = int(np.ceil(capacity * rank))
    if name == "fedrolex":
        return [(round - 1 + k) % rank for k in range(size)]
    if name == "federated-dropout":
        key = Key(0, name).sub(f"{adapter}/{sorted(set(CAPACITIES)).index(capacity)}")
        return key.permutation(rank, round=round)(np.arange(size)).tolist()
    return list(range(size))


def after_round(name, pairs, fixed, round, cohort, rows, weights, server_lr):
    """Return the adapters after a round: small ones are cut out, trained and joined."""
    client, X, y = rows
    total = [[np.zeros_like(M) for M in pair] for pair in pairs]
    weight = [[np.zeros_like(M) for M in pair] for pair in pairs]
    for i in cohort:
        ranks = [ranks_of(name, k, CAPACITIES[i], round) for k in range(len(RANKS))]
        own = [(A[r], B[:, r]) for r, (A, B) in zip(ranks, pairs, strict=True)]
        for _ in range(STEPS):
            slopes = gradients(fixed, own, X[client == i], y[client == i])
            own = [(A - LR * dA, B - LR * dB) for (A, B), (dA, dB) in zip(own, slopes, strict=True)]
        for k, (r, (A, B)) in enumerate(zip(ranks, own, strict=True)):
            w = weights[i] * (np.linalg.norm(B @ A) if name == "hetlora" else 1)
            total[k][0][r] += w * A
            total[k][1][:, r] += w * B
            if name == "hetlora":  # zeros of the padding count
                weight[k][0] += w
                weight[k][1] += w
            else:
                weight[k][0][r] += w
                weight[k][1][:, r] += w
    return [
        tuple(
            np.where(w > 0, M + server_lr * (t / np.where(w > 0, w, 1) - M), M)
            for M, t, w in zip(pair, sums, counts, strict=True)
        )
        for pair, sums, counts in zip(pairs, total, weight, strict=True)
    ]


@pytest.mark.parametrize("weights", ["size", "uniform"])
@pytest.mark.parametrize("server_lr", [1.0, 0.5])
@pytest.mark.parametrize("name", NAMES)
def test_ranks_are_those_of_adapters_of_their_own_sizes(
    scenario, rows, tmp_path, name, weights, server_lr
):
    algorithm = {"name": name, "weights": weights, "server_lr": server_lr, "local": LOCAL}
    found = run(scenario, tmp_path / "out", algorithms=[algorithm])
    training = plan_of(scenario, algorithms=[algorithm]).runs[0].training
    shapes = [(RANKS[0], FEATURES), (HIDDEN, RANKS[0]), (RANKS[1], HIDDEN), (CLASSES, RANKS[1])]
    ends = np.cumsum([a * b for a, b in shapes])
    A1, B1, A2, B2 = (
        part.reshape(shape)
        for part, shape in zip(np.split(training.x0, ends[:-1]), shapes, strict=True)
    )
    pairs, fixed = [(A1, B1), (A2, B2)], fixed_of(found, name)
    seen = set()
    for round in range(1, ROUNDS + 1):
        cohort = sorted(found.events[found.events["round"] == round].client)
        seen.update(cohort)
        raw = SIZES if weights == "size" else (1, 1, 1, 1)
        pairs = after_round(name, pairs, fixed, round, cohort, rows, raw, server_lr)
    assert seen == {0, 1, 2, 3}
    x = np.concatenate([M.ravel() for pair in pairs for M in pair])
    np.testing.assert_allclose(found.weights(f"{name}-seed0"), x, rtol=0, atol=1e-12)


def fixed_of(found, name):
    """Return the frozen matrices of the model of a run."""
    module = found.model(f"{name}-seed0")
    return [part.fixed.detach().numpy() for part in (module.hidden, module.head)]


def test_norms_are_those_of_each_product():
    layers = Layer("lora_A", 0, 6, shape=(2, 3)), Layer("lora_B", 6, 14, shape=(4, 2))
    x = np.random.default_rng(0).standard_normal((3, 14))
    expected = [[np.linalg.norm(row[6:].reshape(4, 2) @ row[:6].reshape(2, 3))] for row in x]
    np.testing.assert_allclose(Adapters.of(layers).norms(x), expected, rtol=1e-14)


def test_adapters_that_are_zero_stay_as_they_are():
    """B is 0 at first in LoRA, so that norms are 0 where a client takes no step."""
    layers = Layer("lora_A", 0, 2, shape=(2, 1)), Layer("lora_B", 2, 4, shape=(1, 2))
    method = HetLoRA().on_parts(layers, np.array([1.0, 0.5]), seed=0)
    x = np.array([1.0, 2.0, 0.0, 0.0])
    round = method.round({"x": x})
    next(round)
    with pytest.raises(StopIteration) as end:
        round.send(reply({"padded": np.zeros(4), "norm": np.zeros(1)}))
    np.testing.assert_array_equal(end.value.value[0]["x"], x)


def test_bytes_and_times_are_those_of_the_ranks(scenario, tmp_path):
    algorithms = [{"name": name, "local": LOCAL} for name in NAMES]
    participation = {"select": "all"}
    found = run(
        scenario, tmp_path / "out", algorithms=algorithms, participation=participation, rounds=2
    )
    of_rank = FEATURES + HIDDEN, HIDDEN + CLASSES
    p = sum(r * n for r, n in zip(RANKS, of_rank, strict=True))
    sizes = [
        sum(int(np.ceil(c * r)) * n for r, n in zip(RANKS, of_rank, strict=True))
        for c in CAPACITIES
    ]
    rows = found.rounds[found.rounds["round"] == 2].set_index("label")
    assert (rows.bytes_down == 8 * sum(sizes)).all()
    assert (rows.bytes_up.drop("hetlora") == 8 * sum(sizes)).all()
    assert rows.bytes_up["hetlora"] == pytest.approx(8 * sum(sizes) * (p + 2) / p, abs=4)
    for event in found.events[found.events["round"] == 2].itertuples():
        share = sizes[event.client] / p
        assert event.compute_s == pytest.approx((2.0 + event.client) * STEPS * share, rel=1e-12)


REFUSED = {
    "codec": ({"uplink": [{"name": "top-k", "share": 0.1}]}, "changes uploads"),
    "secure": ({"uplink": [{"name": "secure-sum", "range": 4.0}]}, "hides sums"),
    "downlink": ({"downlink": [{"name": "qsgd"}]}, "changes downloads"),
    "rule": ({"aggregate": "median"}, "replaces that mean by an estimate"),
    "stale": (
        {"participation": {"cohort": 2, "deadline_s": 5.0, "late": "stale"}},
        "uses replies of earlier rounds",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_norms_cannot_have_is_refused_before_the_run(scenario, case):
    changes, reason = REFUSED[case]
    with pytest.raises(ScenarioError, match=reason):
        plan_of(scenario, algorithms=[{"name": "hetlora", "local": LOCAL}], **changes)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        ({"name": "mlp", "hidden": [3]}, "needs low-rank adapters"),
        ({"name": "network", "model": "rayfed.testing.modules:Small"}, "is no matrix lora_A"),
    ],
)
def test_other_parameters_than_adapters_are_refused(scenario, problem, reason):
    given = {**problem, "dataset": scenario["problem"]["dataset"]}
    with pytest.raises(ScenarioError, match=rf"^algorithms\.0: .*{reason}"):
        plan_of(scenario, problem=given, algorithms=[{"name": "hetlora", "local": LOCAL}])
