"""HeteroFL, FedRolex and federated dropout: against small models in plain NumPy, by hand."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed import api
from rayfed.algorithms import FedBuff, FedRolex, HeteroFL
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.problems import MLP
from rayfed.solvers import SGD
from rayfed.testing import reply

SIZES = (6, 11, 4, 9)
LR, STEPS, HIDDEN, FEATURES, CLASSES, ROUNDS = 0.2, 3, (5, 4), 2, 3, 7
CAPACITIES = (0.4, 1.0, 0.4, 0.7)
LOCAL = {"steps": STEPS, "batch": "full", "lr": LR}
NAMES = ("heterofl", "fedrolex", "federated-dropout")


@pytest.fixture(scope="module")
def rows():
    """Four clients of 4 to 11 rows with two features and three classes."""
    rng = np.random.default_rng(4)
    client = np.repeat(np.arange(4), SIZES)
    X = rng.standard_normal((len(client), FEATURES))
    y = rng.integers(0, CLASSES, len(client))
    y[:3] = 0, 1, 2
    return client, X, y


@pytest.fixture(scope="module")
def scenario(rows, tmp_path_factory):
    """A scenario on the four clients of three capacities, one or two of which reply to a round."""
    client, X, y = rows
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    frame = pd.DataFrame({"client": client, "a": X[:, 0], "b": X[:, 1], "y": y})
    frame.to_csv(path, index=False, float_format="%.17g")
    return {
        "rounds": ROUNDS,
        "dtype": "float64",
        "problem": {"name": "mlp", "hidden": list(HIDDEN), "dataset": str(path)},
        "clients": {
            "delay": {"name": "constant", "mean_s": 2.0},
            "network": {"down_mbps": 1, "up_mbps": 0.5},
            "capacity": 1.0,
            "groups": [{"ids": [0, 2], "capacity": 0.4}, {"ids": [3], "capacity": 0.7}],
        },
        "participation": {"cohort": 2},
        "executor": "serial",
        "algorithms": [{"name": name, "local": LOCAL} for name in NAMES],
    }


def run(scenario, folder, **changes):
    return rayfed.run(scenario | changes, out=folder, page=False)


def plan_of(scenario, **changes):
    return api.prepare(api.read(scenario | changes))


def channels(name, layer, width, capacity, round, seed=0):
    size = int(np.ceil(np.round(capacity * width, 9)))
    if name == "fedrolex":
        return [(round - 1 + k) % width for k in range(size)]
    if name == "federated-dropout":
        kind = sorted(set(CAPACITIES)).index(capacity)
        key = Key(seed, "federated-dropout").sub(f"{layer}/{kind}")
        return key.permutation(width, round=round)(np.arange(size)).tolist()
    return list(range(size))


def matrices(x, widths):
    """Return the matrices of a model, each with the row of its bias last."""
    found, start = [], 0
    for inputs, outputs in pairwise(widths):
        size = (inputs + 1) * outputs
        found.append(x[start : start + size].reshape(inputs + 1, outputs).copy())
        start += size
    return found


def gradients(layers, X, y):
    """Return the gradients of the mean cross-entropy of a perceptron with ReLU."""
    inputs = [np.column_stack([X, np.ones(len(X))])]
    for W in layers[:-1]:
        hidden = np.maximum(inputs[-1] @ W, 0)
        inputs.append(np.column_stack([hidden, np.ones(len(X))]))
    scores = inputs[-1] @ layers[-1]
    slope = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    slope[np.arange(len(y)), y] -= 1
    slope /= len(y)
    found = []
    for a, W in zip(inputs[::-1], layers[::-1], strict=True):
        found.append(a.T @ slope)
        slope = (slope @ W[:-1].T) * (a[:, :-1] > 0)
    return found[::-1]


def small(layers, chosen):
    """Return the places of a small model in each matrix of a large one."""
    read = list(range(FEATURES))
    for W, written in zip(layers, [*chosen, list(range(CLASSES))], strict=True):
        yield np.ix_([*read, len(W) - 1], written)
        read = written


def after_round(x, name, round, cohort, rows, weights):
    """Return the model after a round: small models are cut out, trained and put back."""
    client, X, y = rows
    widths = [FEATURES, *HIDDEN, CLASSES]
    large = matrices(x, widths)
    total, weight = ([np.zeros_like(W) for W in large] for _ in range(2))
    for i in cohort:
        chosen = [
            channels(name, layer, width, CAPACITIES[i], round) for layer, width in enumerate(HIDDEN)
        ]
        places = list(small(large, chosen))
        own = [W[at] for W, at in zip(large, places, strict=True)]
        for _ in range(STEPS):
            slopes = gradients(own, X[client == i], y[client == i])
            own = [W - LR * g for W, g in zip(own, slopes, strict=True)]
        for k, at in enumerate(places):
            total[k][at] += weights[i] * own[k]
            weight[k][at] += weights[i]
    new = [np.divide(t, w, out=W.copy(), where=w > 0)
           for t, w, W in zip(total, weight, large, strict=True)]  # fmt: skip
    return np.concatenate([W.ravel() for W in new])


@pytest.mark.parametrize("weights", ["size", "uniform"])
def test_parts_are_those_of_small_models_and_means_those_of_the_clients_that_have_them(
    scenario, rows, tmp_path, weights
):
    algorithms = [{"name": name, "weights": weights, "local": LOCAL} for name in NAMES]
    found = run(scenario, tmp_path / "out", algorithms=algorithms)
    start = plan_of(scenario).runs[0].training.x0
    raw = SIZES if weights == "size" else (1, 1, 1, 1)
    never = 0
    for name in NAMES:
        x, events = start, found.events[found.events.label == name]
        for round in range(1, ROUNDS + 1):
            cohort = sorted(events[events["round"] == round].client)
            assert len(cohort) == 2
            never += 1 not in cohort
            x = after_round(x, name, round, cohort, rows, raw)
        np.testing.assert_allclose(found.model(f"{name}-seed0"), x, rtol=0, atol=1e-13)
        assert not np.allclose(x, start)
    assert never  # the only client with all parameters is not always there


def test_with_the_whole_model_all_are_fedavg_to_the_bit(scenario, tmp_path):
    clients = {key: scenario["clients"][key] for key in ("delay", "network")}
    algorithms = [{"name": name, "local": LOCAL} for name in ("fedavg", *NAMES)]
    found = run(scenario, tmp_path / "out", clients=clients, algorithms=algorithms)
    for name in NAMES:
        np.testing.assert_array_equal(found.model(f"{name}-seed0"), found.model("fedavg-seed0"))
    rounds = found.rounds.set_index(["label", "round"])
    for name in NAMES:
        for column in ("time_s", "bytes_down", "bytes_up", "loss"):
            assert (rounds.loc[name, column] == rounds.loc["fedavg", column]).all()
        assert (rounds.loc[name, "covered"][1:] == 1).all()


def test_parameters_that_no_reply_has_stay(scenario, tmp_path):
    participation = {"select": {"name": "all"}, "deadline_s": 3.5}  # the small ones alone
    found = run(scenario, tmp_path / "out", rounds=1, participation=participation)
    start = plan_of(scenario).runs[0].training.x0
    part = small_part()
    assert set(found.events[found.events.status == "used"].client) == {0, 2}
    after = found.model("heterofl-seed0")
    np.testing.assert_array_equal(after[~part], start[~part])
    assert (after[part] != start[part]).sum() > part.sum() / 2
    rows = found.rounds.set_index(["label", "round"])
    assert rows.loc[("heterofl", 1), "covered"] == part.mean()


def small_part():
    """The parameters between both inputs, 2 of 5 and 2 of 4 channels, and all outputs."""
    first, second, third = np.zeros((3, 5), bool), np.zeros((6, 4), bool), np.zeros((5, 3), bool)
    first[:, :2] = True
    second[np.ix_([0, 1, 5], [0, 1])] = True
    third[[0, 1, 4]] = True
    return np.concatenate([first.ravel(), second.ravel(), third.ravel()])


def test_bytes_and_times_are_those_of_the_parts(scenario, tmp_path):
    found = run(scenario, tmp_path / "out", participation={"select": "all"}, rounds=3)
    p = 3 * 5 + 6 * 4 + 5 * 3
    sizes = {
        0.4: 3 * 2 + 3 * 2 + 3 * 3,
        0.7: 3 * 4 + 5 * 3 + 4 * 3,
        1.0: p,
    }
    events = found.events[found.events["round"] == 2]
    assert len(events) == 4 * len(NAMES)
    for event in events.itertuples():
        n = sizes[CAPACITIES[event.client]]
        assert event.compute_s == pytest.approx(2.0 * STEPS * n / p, rel=1e-12)
        transfers = 8 * n * 8e-6 * (1 + 1 / 0.5)
        assert event.end_s - event.start_s == pytest.approx(event.compute_s + transfers, rel=1e-9)
    rows = found.rounds[found.rounds["round"] == 2]
    once = 8 * sum(sizes[capacity] for capacity in CAPACITIES)
    assert (rows.bytes_up == once).all()
    assert (rows.bytes_up == rows.bytes_down).all()


class HalfOfFedBuff(FedBuff):
    """FedBuff whose clients 0 and 2 are charged for half of the model."""

    name = "half"

    def ask(self, state):
        return replace(super().ask(state), share=lambda ids: np.where(ids % 2, 1.0, 0.5))


def test_asynchronous_tasks_are_charged_for_parts_too(scenario, tmp_path):
    made = scenario | {"participation": {}, "algorithms": [HalfOfFedBuff(local=SGD(**LOCAL))]}
    events = run(made, tmp_path / "out", rounds=6).events
    events = events[events.status == "used"]
    assert set(events.client) == {0, 1, 2, 3}
    for event in events.itertuples():
        share = 1.0 if event.client % 2 else 0.5
        assert event.compute_s == pytest.approx(2.0 * STEPS * share, rel=1e-12)
        transfers = share * 8 * 54 * 8e-6 * 3
        assert event.end_s - event.start_s == pytest.approx(event.compute_s + transfers, rel=1e-9)


def test_codecs_are_refused_for_all_methods_with_parts(scenario):
    made = {"algorithms": [HalfOfFedBuff(local=SGD(**LOCAL))], "participation": {}}
    plan_of(scenario, **made)
    with pytest.raises(ScenarioError, match="needs its uploads as they are"):
        plan_of(scenario, uplink=[{"name": "top-k", "share": 0.1}], **made)


def test_partial_replies_fit_as_many_steps_as_their_part_allows(scenario, tmp_path):
    participation = {"select": "all", "deadline_s": 4.5, "late": "partial"}
    found = run(scenario, tmp_path / "out", participation=participation, rounds=1)
    steps = found.events[found.events.label == "heterofl"].set_index("client").steps
    transfers = 8 * 54 * 8e-6 * 3
    assert transfers < 0.1  # two whole steps take 4 s, three of 39 of 54 parameters 4.33 s
    assert steps.to_dict() == {0: 3, 1: 2, 2: 3, 3: 3}


def test_late_replies_count_for_the_part_of_their_own_round(scenario):
    chain = MLP(hidden=(4,)).layers(3, 2)
    method = FedRolex().on_parts(chain, np.array([0.5, 0.5, 1.0]), seed=0)
    x = np.zeros(3 * 4 + 5 * 2)
    late = reply({"delta": x}, ids=[0, 1, 2], weights=[2.0, 3.0, 4.0], round=5, staleness=[0, 3, 0])
    expected = 2.0 * method.part(0, 5) + 3.0 * method.part(0, 2) + 4.0
    np.testing.assert_array_equal(method.weight(late), expected)
    assert (method.part(0, 5) != method.part(0, 2)).any()


def test_stale_replies_are_means_of_their_parts(scenario, tmp_path):
    late = {"select": "all", "deadline_s": 5.0, "late": "stale"}
    found = run(scenario, tmp_path / "out", participation=late, rounds=5)
    assert (found.events.staleness > 0).any()
    assert np.isfinite(found.model("fedrolex-seed0")).all()


def faulty(name):
    return {"clients": {"capacity": [1.0, 0.5], "faults": [{"name": name, "ids": [0]}]}}


REFUSED = {
    "uplink": ({"uplink": [{"name": "top-k", "share": 0.1}]}, "changes uploads"),
    "memory": ({"uplink": [{"name": "top-k", "share": 0.1, "memory": "ef21"}]}, "changes uploads"),
    "clip": ({"uplink": [{"name": "clip", "norm": 1}]}, "changes uploads"),
    "secure": ({"uplink": [{"name": "secure-sum", "range": 4.0}]}, "hides sums"),
    "downlink": ({"downlink": [{"name": "qsgd"}]}, "changes downloads"),
    "rule": ({"aggregate": "median"}, "replaces that mean by an estimate"),
    "correct": ({"participation": {"cohort": 2, "correct": "known"}}, "replaces that mean"),
    "fault": (faulty("noise"), "may send anything"),
    "collusion": (faulty("ipm"), "may send anything"),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", REFUSED)
def test_what_parts_cannot_have_is_refused_before_the_run(scenario, name, case):
    changes, reason = REFUSED[case]
    with pytest.raises(ScenarioError, match=reason):
        plan_of(scenario, algorithms=[{"name": name, "local": LOCAL}], **changes)


@pytest.mark.parametrize("problem", ["softmax-regression", "least-squares"])
def test_a_model_without_hidden_layers_is_refused(scenario, problem):
    given = {"name": problem, "dataset": scenario["problem"]["dataset"]}
    with pytest.raises(ScenarioError, match=r"^algorithms\.0: .*in no chain"):
        plan_of(scenario, problem=given, algorithms=[{"name": "heterofl", "local": LOCAL}])


@pytest.mark.parametrize("fault", ["silent", "label-flip"])
def test_faults_that_send_no_other_parameters_run(scenario, tmp_path, fault):
    clients = scenario["clients"] | {"faults": [{"name": fault, "ids": [0]}]}
    found = run(scenario, tmp_path / "out", clients=clients, rounds=2)
    assert np.isfinite(found.model("fedrolex-seed0")).all()


def test_ten_times_a_tenth_is_no_channel_more():
    method = HeteroFL().on_parts(MLP(hidden=(30,)).layers(3, 2), np.array([0.1]), seed=0)
    assert method.part(0, 1)[:30].sum() == 3


def test_windows_of_fedrolex_reach_every_channel_and_return():
    windows = [FedRolex().channels(0, 5, 2, 0, round).tolist() for round in range(1, 7)]
    assert windows == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [0, 1]]


def test_half_of_a_torch_network_is_trained_as_the_small_network_is(scenario, tmp_path):
    pytest.importorskip("torch")

    def network(hidden, **more):
        model = {"name": "rayfed.testing.modules:Small", "hidden": hidden}
        data = {"dataset": scenario["problem"]["dataset"], "init": str(tmp_path / f"{hidden}.npy")}
        return scenario | {"problem": {"name": "network", "model": model} | data} | more

    rng = np.random.default_rng(1)
    large = rng.standard_normal(2 * 4 + 4 + 4 * 3 + 3)
    method = HeteroFL().on_parts(small_network(4), np.array([0.5]), seed=0)
    part = method.part(0, 1)
    np.save(tmp_path / "4.npy", large)
    np.save(tmp_path / "2.npy", large[part])
    local = LOCAL | {"momentum": 0.9, "weight_decay": 0.1, "clip_norm": 0.5, "batch": 3}
    parts, whole = ([{"name": name, "local": local}] for name in ("heterofl", "fedavg"))
    half = run(network(4, algorithms=parts), tmp_path / "a", clients={"capacity": 0.5})
    small = run(network(2, algorithms=whole), tmp_path / "b", clients={})
    found, expected = (
        np.load(tmp_path / run / "model.npz")["x"] for run in ("a/heterofl-seed0", "b/fedavg-seed0")
    )
    np.testing.assert_allclose(found[part], expected, rtol=1e-12)
    np.testing.assert_array_equal(found[~part], large[~part])
    assert half.rounds.bytes_up.tolist() == small.rounds.bytes_up.tolist()


def small_network(hidden):
    from rayfed.problems.network.kernels.flat import layers_of
    from rayfed.testing.modules import Small

    return layers_of(Small((2,), 3, hidden), ())
