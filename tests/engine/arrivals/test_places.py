"""Tasks that are drawn ahead take what they take when they are drawn alone."""

import numpy as np
import pytest

from rayfed import api
from rayfed.engine.clock import Traffic
from rayfed.engine.exchange import Exchange
from rayfed.engine.places import Durations
from rayfed.executors.serial import SerialExecutor
from rayfed.testing.studies import LOCAL, mixed

SENT = Traffic(40_000, 20_000)


def durations(crash=None, **network):
    """Return those of clients with groups, stragglers, correlated luck and unequal links."""
    made = mixed(algorithms=[{"name": "fedbuff", "local": dict(LOCAL)}], participation={})
    made["clients"] |= {
        "availability": "always",
        "delay": {"name": "pareto", "shape": 2.5, "mean_s": 1.0, "correlation": 0.5},
        "stragglers": {"fraction": 0.3, "slowdown": 3},
        "network": {"down_mbps": 3, "up_mbps": 1, "latency_s": 0.1, **network},
        "crash": crash or {},
        "groups": [{"fraction": 0.4, "local": {"steps": 3}, "network": {"up_mbps": 7, **network}}],
    }
    plan = api.prepare(api.read(made))
    (run,) = plan.runs
    exchange = Exchange(run, SerialExecutor(plan.tables))
    ask = run.training.algorithm.ask({"x": run.training.x0})
    return Durations(exchange, ask), exchange, ask


@pytest.mark.parametrize(
    ("loss", "crash"),
    [
        (0.0, {}),
        (0.4, {}),
        (0.0, {"probability": 0.4, "restart_s": 3}),
        (0.2, {"probability": 0.4}),
    ],
)
def test_work_drawn_ahead_is_work_drawn_alone(loss, crash):
    ahead, exchange, ask = durations(crash, loss=loss)
    for ids, numbers in [
        ([0, 3, 5], [1, 1, 1]), ([3], [2]), ([3, 7], [3, 1]), ([0, 3], [2, 4]), ([3], [40]),
        ([3, 5], [50, 2]), ([0], [1]),
    ]:  # fmt: skip
        who, which = np.array(ids), np.array(numbers)
        found, broken = ahead.of(who, which, SENT, 0.0)
        clock = exchange.clock
        pace = clock.pace(who, which)
        steps = exchange.counter.steps(who, pace, which, exchange.counter.init())
        wanted = clock.duration(ask, SENT, who, pace, steps)
        wanted, lost = clock.crash_losses(who, wanted, SENT, 0.0, which)
        for name in ("steps", "down_s", "compute_s", "up_s"):
            np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
        assert (broken is None) == (lost is None) == (loss == 0 and not crash)
        np.testing.assert_array_equal(broken, lost)


def test_no_more_clients_are_kept_than_fit(monkeypatch):
    monkeypatch.setattr("rayfed.engine.places._CACHED", 4)
    ahead, _, _ = durations()
    for number in range(1, 9):
        for client in range(10):
            ahead.of(np.array([client]), np.array([number]), SENT, 0.0)
            assert len(ahead.known) <= 4


def test_known_work_that_makes_room_is_drawn_again(monkeypatch):
    monkeypatch.setattr("rayfed.engine.places._CACHED", 2)
    ahead, _, _ = durations()
    before, _ = ahead.of(np.array([3, 7]), np.array([1, 1]), SENT, 0.0)
    after, _ = ahead.of(np.array([3, 5]), np.array([1, 1]), SENT, 0.0)
    assert after.compute_s[0] == before.compute_s[0]
    assert sorted(ahead.known) == [3, 5]


def test_where_all_clients_can_be_kept_neighbours_are_drawn_along():
    ahead, exchange, _ = durations()
    ahead.of(np.array([3]), np.array([2]), SENT, 0.0)
    count = exchange.clock.population.count
    assert sorted(ahead.known) == list(range(count))
    assert {i for i, (first, _) in ahead.known.items() if first == 1} == set(range(count)) - {3}
