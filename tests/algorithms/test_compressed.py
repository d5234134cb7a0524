"""MARINA, DASHA and ProxSkip against plain loops of their papers' pseudo-code."""

import numpy as np
import pytest

from rayfed import api, testing
from rayfed.algorithms import Dasha, Marina, ProxSkip
from rayfed.channel import Draws, RandK
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.solvers import SharedCoin

LR = 0.05


def scenario(algorithm, **changes):
    return {
        "name": "small", "seeds": [3], "rounds": 12, "clients": {"count": 4}, "executor": "serial",
        "problem": {"name": "logistic-regression", "dataset": "mushroom", "test": 0.0, "l2": 0.1},
        "partition": {"name": "contiguous", "rows": [2000, 3000, 3000, 124]},
        "algorithms": [algorithm], "dtype": "float64", **changes,
    }  # fmt: skip


def models(given, rounds):
    """Return the models after each round, the rows and the plan."""
    plan = api.prepare(api.read(given))
    loop = testing.loop(plan)
    state, _ = loop.start()
    found, rows = [], []
    for _ in range(rounds):
        state, row, _ = loop.step(state)
        found.append(state.state["x"])
        rows.append(row)
    return found, rows, plan


def oracle(plan):
    """Return grad F_i(x) (N, p) as a function, and the weights of the clients."""
    shards = plan.runs[0].federation.views.training.with_table(plan.tables).shards
    data = []
    for i in range(4):
        size = int(shards.sizes(np.array([i]))[0])
        X, y = shards.rows(np.array([i]), size)
        data.append((X[0], y[0].astype(float)))

    def gradients(x):
        x = np.broadcast_to(x, (4, len(data[0][0][0])))
        return np.stack(
            [X.T @ (1 / (1 + np.exp(-X @ x[i])) - y) / len(y) + 0.1 * x[i]
             for i, (X, y) in enumerate(data)]
        )  # fmt: skip

    sizes = np.array([len(y) for _, y in data], float)
    return gradients, sizes / sizes.sum(), data[0][0].shape[1]


@pytest.mark.parametrize("weights", ["size", "uniform"])
def test_marina_is_its_pseudo_code(weights):
    algorithm = Marina(codec=RandK(k=7), lr=LR, p=0.3, weights=weights)
    found, rows, plan = models(scenario(algorithm), 12)
    gradients, shares, p = oracle(plan)
    w = shares if weights == "size" else np.full(4, 0.25)
    x, before, g, coins = np.zeros(p), None, None, []
    for t in range(12):
        coin = t == 0 or Key(3, "marina/coin").uniforms([0], round=t)[0] < 0.3
        now = gradients(x)
        if coin:
            g = w @ now
        else:
            draw = Draws(Key(3, "marina"), np.arange(4), t + 1, 0, t + 1)
            g = g + w @ RandK(k=7).coded(now - before, draw)
        before, x = now, x - LR * g
        coins.append(bool(coin))
        np.testing.assert_allclose(found[t], x, rtol=1e-12, atol=1e-14)
    assert len(set(coins[1:])) == 2
    full, coded = p * 8, -(-(7 * 64 + 64) // 8)  # 7 numbers and a seed of 64 bits
    assert [row["bytes_up"] for row in rows] == [4 * (full if coin else coded) for coin in coins]


@pytest.mark.parametrize("a", [None, 0.4])
def test_dasha_is_its_pseudo_code(a):
    algorithm = Dasha(codec=RandK(k=7), lr=LR, a=a, weights="uniform")
    found, rows, plan = models(scenario(algorithm), 12)
    gradients, _, p = oracle(plan)
    momentum = 1 / (2 * (p / 7 - 1) + 1) if a is None else a
    x = np.zeros(p)
    h = g_i = gradients(x)
    for t in range(12):
        if t:
            new = gradients(x)
            draw = Draws(Key(3, "dasha"), np.arange(4), t + 1, 0, t + 1)
            m = RandK(k=7).coded(new - h - momentum * (g_i - h), draw)
            h, g_i = new, g_i + m
        x = x - LR * g_i.mean(axis=0)
        np.testing.assert_allclose(found[t], x, rtol=1e-12, atol=1e-14)
    assert rows[0]["bytes_up"] == 4 * p * 8
    assert {row["bytes_up"] for row in rows[1:]} == {4 * 64}


@pytest.mark.parametrize("weights", ["size", "uniform"])
def test_proxskip_is_its_pseudo_code_one_coin_after_the_other(weights):
    algorithm = {"name": "proxskip", "p": 0.25, "local": {"lr": LR, "batch": "full"},
                 "weights": weights}  # fmt: skip
    found, rows, plan = models(scenario(algorithm), 8)
    gradients, shares, p = oracle(plan)
    w = shares if weights == "size" else np.full(4, 0.25)
    x, h = np.zeros((4, p)), np.zeros((4, p))
    for t in range(8):
        number = int(SharedCoin(p=0.25).draw(np.array([0]), seed=3, draw=t + 1)[0])
        for step in range(number):  # heads comes after the last
            ahead = x - LR * (gradients(x) - h)
            x = np.tile(w @ ahead, (4, 1)) if step == number - 1 else ahead
            h = h + 0.25 / LR * (x - ahead)
        np.testing.assert_allclose(w @ h, 0, atol=1e-12)
        np.testing.assert_allclose(found[t], x[0], rtol=1e-11, atol=1e-13)
        assert rows[t]["local_steps"] == 4 * number


def test_the_shared_coin_is_geometric_and_the_same_for_all():
    coin = SharedCoin(p=0.2)
    drawn = [coin.draw(np.arange(3), seed=1, draw=round) for round in range(1, 4001)]
    assert all(len(set(row.tolist())) == 1 for row in drawn)
    lengths = np.array([row[0] for row in drawn])
    assert lengths.min() == 1
    for k in (1, 2, 5):
        expected = 0.2 * 0.8 ** (k - 1)
        deviation = np.sqrt(expected * (1 - expected) / 4000)
        assert abs((lengths == k).mean() - expected) < 4.5 * deviation
    assert abs(lengths.mean() - 1 / 0.2) < 4.5 * np.sqrt(0.8 / 0.04 / 4000)
    assert SharedCoin(p=1.0).draw(np.arange(3), seed=1, draw=1).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("algorithm", "changes", "message"),
    [
        ({"name": "proxskip", "local": {"steps": 5}}, {},
         "algorithms.0.local: a coin determines the number of local steps of 'proxskip' takes"),
        ({"name": "proxskip", "local": {"momentum": 0.9}}, {}, "takes plain steps of sgd with one"),
        ("proxskip", {"clients": {"count": 4, "groups": [{"ids": [0], "local": {"lr": 0.02}}]}},
         "takes plain steps of sgd with one lr"),
        ({"name": "proxskip", "local": {"name": "adam"}}, {}, "takes plain steps of sgd with one"),
        ("marina", {"participation": {"cohort": 2}},
         "participation.cohort: 'marina' needs all clients in every round, but cohort: 2"),
        ({"name": "marina", "codec": {"name": "top-k", "k": 2}}, {},
         "algorithms.0.codec: found 'top-k'; 'marina' needs an unbiased codec, no memory"),
        ("dasha", {"participation": {"select": "poisson", "cohort": 4}},
         "participation.select: 'dasha' needs all clients in every round, but 'poisson'"),
        ("marina", {"participation": {"select": "weighted"}},
         "participation.select: 'marina' needs all clients in every round, but 'weighted'"),
        ("dasha", {"clients": {"count": 8, "availability": {
            "name": "cyclic", "groups": 2, "rounds": 1}}, "partition": "iid"},
         "clients: 'dasha' needs all clients in every round, but absence"),
    ],
)  # fmt: skip
def test_refusals_are_one_line(algorithm, changes, message):
    with pytest.raises(ScenarioError) as error:
        api.prepare(api.read(scenario(algorithm, **changes)))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_scenario_with_proxskip_can_be_written_and_read():
    study = api.read(scenario({"name": "proxskip", "p": 0.5, "local": {"lr": 0.3}}))
    again = api.read(study.to_dict())
    assert again.algorithms == study.algorithms
    assert isinstance(again.algorithms[0], ProxSkip)
    grid = api.read(scenario("proxskip") | {"grid": {"algorithms.0.p": [0.2, 0.4]}})
    assert [run.training.algorithm.p for run in api.prepare(grid).runs] == [0.2, 0.4]


@pytest.mark.parametrize(
    ("given", "codec"),
    [
        ({"name": "rand-k", "k": 3}, RandK(k=3)),
        ({"k": 3}, RandK(k=3)),
        ({"name": "rand-k", "share": 0.5}, RandK(share=0.5)),
        ("rand-k", RandK(share=0.1)),
    ],
)
def test_a_number_of_coordinates_replaces_the_default_share(given, codec):
    plan = api.prepare(api.read(scenario({"name": "marina", "codec": given})))
    assert plan.runs[0].training.algorithm.codec == codec
