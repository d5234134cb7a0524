"""The bare loops of gossip: steps are those of one node after another, in formulas."""

import numpy as np
import pytest

from benchmarks import bare_gossip
from benchmarks.bare_gossip import BATCH, CLASSES, FEATURES, LR, Half, Nodes


def gradient(x, rows, labels):
    """Return the gradient of the mean cross-entropy of some rows, in float64."""
    out = np.zeros(x.shape)
    for a, label in zip(rows.astype(float), labels, strict=True):
        e = np.exp(x @ a - (x @ a).max())
        out += np.outer(e / e.sum() - (np.arange(CLASSES) == label), a) / len(rows)
    return out


@pytest.mark.parametrize("cut", [1, 6])
@pytest.mark.parametrize("own", [slice(0, 11), slice(4, 9)])
def test_a_step_mixes_all_models_and_takes_a_step_from_the_own_one(own, cut, monkeypatch):
    monkeypatch.setattr(bare_gossip, "WIDTH", 3000)
    nodes = Nodes(11, own)
    x = np.random.default_rng(1).standard_normal((11, CLASSES, FEATURES)).astype(np.float32) / 9
    picked, w = nodes.picked(), nodes.w.toarray()
    found = nodes.mixed(x[own], [x[:cut], x[cut:]], picked)
    for k, i in enumerate(range(11)[own]):
        expected = sum(w[k, j] * x[j].astype(float) for j in range(11))
        expected -= LR * gradient(x[i].astype(float), nodes.X[k][picked[k]], nodes.y[k][picked[k]])
        assert found[k] == pytest.approx(expected, abs=1e-5)
    assert picked.shape == (len(found), BATCH)
    assert w.sum(axis=1) == pytest.approx(1)
    assert all(w[k, i] > 0 for k, i in enumerate(range(11)[own]))


def test_a_round_takes_the_mean_of_the_steps():
    nodes = Nodes(9, slice(9))
    x = np.random.default_rng(2).standard_normal((CLASSES, FEATURES)).astype(np.float32) / 9
    picked = nodes.picked()
    steps = [
        gradient(x.astype(float), nodes.X[k][picked[k]], nodes.y[k][picked[k]]) for k in range(9)
    ]
    assert nodes.round(x, picked) == pytest.approx(x - LR * np.mean(steps, axis=0), abs=1e-5)


def test_halves_take_the_steps_of_one_process():
    """With the same minibatches and weights, in the order of ids."""
    halves = [Half(8, k) for k in range(2)]
    x = np.random.default_rng(3).standard_normal((8, CLASSES, FEATURES)).astype(np.float32)
    expected = [half.nodes.mixed(x[half.nodes.own], [x], half.nodes.picked()) for half in halves]
    assert not np.array_equal(expected[0], expected[1])
    halves = [Half(8, k) for k in range(2)]
    for half in halves:
        half.x = x[half.nodes.own]
    sent = [half.outgoing() for half in halves]
    for half, others, wanted in zip(halves, sent[::-1], expected, strict=True):
        assert half.mix(others) > 0
        assert half.x.tobytes() == wanted.tobytes()


@pytest.mark.ray
@pytest.mark.slow
def test_both_loops_and_two_halves_are_timed(capsys):
    assert bare_gossip.main(["--nodes", "12", "--repeats", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["FedAvg", "two", "two"]
    assert all(float(line.split(" ms: ")[0].split()[-1]) > 0 for line in lines[1:])
