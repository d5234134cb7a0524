"""Every workload in a small size: it runs, it tells what it should, and the bare loop is right."""

import math
from dataclasses import replace

import numpy as np
import pytest

import rayfed
from benchmarks import bare as bare_loops
from benchmarks import measure as measuring
from benchmarks import table
from benchmarks.bare import Perceptron, Softmax, bare_seconds
from benchmarks.large import Copied
from benchmarks.measure import measure
from benchmarks.workloads import WORKLOADS, Size, Target, overhead, w1

SMALL = Size(clients=0.02, rounds=0.01)


def here(workload):
    """The same workload without Ray."""
    bare = (lambda: Copied(10),) if workload.name == "sent" else workload.bare
    scenario = {**workload.scenario, "executor": "serial"}
    return replace(workload, scenario=scenario, processes=0, bare=bare)


ALONE = [make for make in WORKLOADS if not make(SMALL).name.endswith("-actors")]
LONG = ("resnet18", "charlstm", "cnn", "adapters", "W5")  # longer than all others together


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(
            make, marks=pytest.mark.slow if make(SMALL).name in LONG else (), id=make(SMALL).name
        )
        for make in ALONE
    ],
)
def test_a_small_workload_is_measured_and_judged(make):
    workload = here(make(SMALL))
    cases = measure(workload, repeats=1)
    assert len(cases) == len(workload.bare)
    for case in cases:
        assert case.round_s > 0
        assert case.bare_s > 0
        assert case.start_s > 0
        assert case.memory_gb > 0.01
        assert case.ratio == case.bare_s / case.round_s
        assert math.isnan(case.pair)
    assert cases[0].growth == 1.0
    shown = table.empty()
    table.add(shown, workload, cases)
    assert shown.row_count == len(cases)
    for target in workload.targets:
        assert workload.name in table.verdict(workload, target, cases)[1]


@pytest.mark.slow
@pytest.mark.ray
def test_computing_in_two_processes_is_metered():
    (case,) = measure(overhead(SMALL), repeats=1)
    assert 0 < case.overhead_ms < 1e3 * case.round_s


def test_where_computing_is_not_metered_nothing_is_told_of_it():
    (case,) = measure(w1(SMALL), repeats=1)
    assert math.isnan(case.overhead_ms)


def test_rayfed_takes_the_gradient_steps_of_the_bare_loop(tmp_path):
    workload = w1(Size(clients=0.05, rounds=0.02))
    result = rayfed.run(workload.scenario, out=tmp_path / "out", page=False)
    loop = workload.bare[0]()
    model = loop.start()
    for _ in range(workload.scenario["rounds"]):
        model = loop.round(model)
    assert np.abs(model[0]).max() > 0.1  # it has moved
    np.testing.assert_allclose(result.model("clocked-seed0"), model[0], atol=1e-10, rtol=0)


def test_a_step_of_the_bare_softmax_by_hand():
    # at W = 0 both classes have probability 1/2: the gradient is a times (1/2, -1/2)
    loop = Softmax(np.array([[[1.0, 2.0]]]), np.array([[1]]), 2, 1, steps=1, batch=1, lr=0.1)
    (W,) = loop.round(loop.start())
    np.testing.assert_allclose(W, [[-0.05, 0.05], [-0.1, 0.1]], atol=1e-15)


def test_a_step_of_the_bare_perceptron_by_hand():
    # one hidden unit that is 1, scores (2, 0): the first class has probability q
    loop = Perceptron(np.ones((1, 1, 1)), np.array([[1]]), 2, 1, 1, 1, lr=0.1, hidden=1)
    model = [np.ones((1, 1)), np.zeros(1), np.array([[2.0, 0.0]]), np.zeros(2)]
    q = 1 / (1 + math.exp(-2))
    W, a, V, b = loop.round(model)
    np.testing.assert_allclose([W[0, 0], a[0]], [1 - 0.2 * q, -0.2 * q], atol=1e-15)
    np.testing.assert_allclose(V[0], [2 - 0.1 * q, 0.1 * q], atol=1e-15)
    np.testing.assert_allclose(b, [-0.1 * q, 0.1 * q], atol=1e-15)


def test_a_bare_block_takes_as_long_as_it_is_told(monkeypatch):
    class Counts:
        rounds = 0

        def start(self):
            return []

        def round(self, model):
            self.rounds += 1
            return model

    counts = Counts()  # whose every round takes a second of this clock
    monkeypatch.setattr(bare_loops, "perf_counter", lambda: float(counts.rounds))
    assert bare_seconds(counts, 4.0) == 1.0
    assert counts.rounds == 5  # the first does not count
    assert bare_seconds(counts, 0.0) == 1.0  # one round at least


def test_comparisons_are_medians_over_pairs_of_blocks(monkeypatch):
    # the second pair had the machine to itself, the third shared it in our block alone
    ours = iter([(0.1, 0.1), (2.0, 1.0), (1.0, 0.5), (4.0, 3.0)])  # the first is not counted
    bares = iter([3.0, 1.2, 2.0])
    asked = []

    def block(*given):
        round_s, compute_s = next(ours)
        return measuring.Block(10, round_s, compute_s, 0.0)

    def bare(loop, block_s):
        asked.append(block_s)
        return next(bares)

    monkeypatch.setattr(measuring, "_block", block)
    monkeypatch.setattr(measuring, "bare_seconds", bare)
    (case,) = measure(w1(SMALL), repeats=3)
    assert asked == [20.0, 10.0, 40.0]
    assert (case.round_s, case.bare_s, case.overhead_ms) == (1.0, 1.2, 500.0)
    assert case.ratio == 1.2  # of 1.5, 1.2, 0.5
    assert case.carrying == pytest.approx(0.5 / 1.2)  # of 1/3, 5/12, 1/2


def test_a_ratio_is_bounded_from_below_and_all_else_from_above():
    assert Target("ratio", 4.0).holds(4.0)
    assert not Target("ratio", 4.0).holds(3.9)
    assert Target("memory_gb", 2.0).holds(1.9)
    assert not Target("growth", 1.2).holds(1.3)
