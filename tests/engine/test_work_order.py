"""Tasks of one client are computed in the order in which it began them, whatever the policy."""

from collections import defaultdict
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from rayfed import testing
from rayfed.algorithms import FedAvg, FedBuff
from rayfed.engine.tasks import USED
from rayfed.messages import Upload
from tests.fakes.stepping import step


class Chain:
    """Client i keeps m, which becomes m / 2 + x + i when it works; it sends m."""

    def client_state(self, x0):
        return {"m": np.zeros_like(x0)}

    def train(self, clients, x):
        m = clients.state["m"] / 2 + x + clients.ids[:, None]
        return Upload({"delta": m}, state={"m": m}, loss=np.ones(len(m)))


@dataclass(frozen=True, kw_only=True)
class ChainRounds(Chain, FedAvg):
    name: ClassVar[str] = "chain-rounds"


@dataclass(frozen=True, kw_only=True)
class ChainArrivals(Chain, FedBuff):
    name: ClassVar[str] = "chain-arrivals"

    def discount(self, staleness):
        return np.ones(len(staleness))


@dataclass(frozen=True, kw_only=True)
class Given(FedAvg):
    """In round r every client sends the vector r of a list."""

    name: ClassVar[str] = "given"
    vectors: ClassVar = ((1.0, 0.8), (0.2, 0.9), (0.5, 0.1))

    def train(self, clients, x):
        delta = np.tile(self.vectors[clients.round - 1], (len(clients.ids), 1))
        return Upload({"delta": delta}, loss=np.ones(len(delta)))


def loop_of(made):
    return testing.loop(made)


def scenario(algorithm, count, features=1, **changes):
    return {
        "name": "order",
        "rounds": 8,
        "problem": {
            "name": "quadratic",
            "dataset": {"name": "quadratic", "clients": count, "features": features},
        },
        "algorithms": [algorithm],
        "executor": "serial",
    } | changes


UNDISCOUNTED = {"name": "polynomial", "power": 0.0}
LOCAL = {"steps": 1, "batch": "full", "lr": 0.1}


def test_error_feedback_takes_the_late_vector_before_the_new_one(monkeypatch):
    """One client works for 1 s and then for 0.5 s; rounds end after 0.6 s.

    Round 2 waits for the client until 1 s and ends at 1.5 s, when its second reply is there, too.
    Of (1, 0.8) it sends (1, 0) and keeps (0, 0.8); with that (0.2, 0.9) is (0.2, 1.7), of which
    it sends (0, 1.7). The mean of both is (0.5, 0.85).
    """
    made = scenario(
        Given(weights="uniform", local=LOCAL), 1, 2,
        uplink=[{"name": "top-k", "k": 1, "memory": "error-feedback"}],
        participation={
            "select": "all", "deadline_s": 0.6, "late": "stale", "staleness": UNDISCOUNTED,
        },
    )  # fmt: skip
    loop = loop_of(made)
    seconds = np.array([np.nan, 1.0, 0.5])
    monkeypatch.setattr(loop.exchange.clock, "pace", lambda ids, draw, ask=0: seconds[[draw]])
    first, _ = loop.start()
    state, row, _ = step(loop, first)
    assert (row["time_s"], row["participants"]) == (0.6, 0)
    state, row, _ = step(loop, state)
    assert (row["time_s"], row["participants"]) == (1.5, 2)
    np.testing.assert_allclose(first.state["x"] - state.state["x"], [0.5, 0.85], rtol=1e-12)


def drawn(rng, asynchronous):
    """Return a random small scenario in which a client's replies may enter one update together."""
    count = int(rng.integers(1, 6))
    clients = {
        "delay": {"name": "exponential", "mean_s": 1.0},
        "network": {"latency_s": float(rng.choice([0.0, 0.1])), "loss": 0.2 * (rng.random() < 0.3)},
    }  # fmt: skip
    rule = {}
    if rng.random() < 0.5:
        rule |= {"timeout_s": float(rng.choice([1.0, 2.5])), "retries": int(rng.integers(3))}
    if asynchronous:
        algorithm = ChainArrivals(
            buffer=int(rng.integers(1, 5)), concurrency=int(rng.integers(1, count + 1)),
            local=LOCAL, overlap=bool(rng.random() < 0.4),
        )  # fmt: skip
    else:
        algorithm = ChainRounds(weights="uniform", local=LOCAL)
        deadline_s = float(rng.choice([0.4, 0.8]))
        rule |= {"late": "stale", "staleness": UNDISCOUNTED, "deadline_s": deadline_s}
        if rng.random() < 0.6:
            cohort = int(rng.integers(1, count + 1))
            retry = str(rng.choice(["same", "other"]))
            rule |= {"cohort": cohort, "over_select": 1.5, "retry": retry}
    shared = {"server": {"uploads_mbps": 1e-3}} if rng.random() < 0.3 else {}
    if asynchronous and algorithm.overlap:
        shared = {}
    return scenario(
        algorithm, count, seeds=[int(rng.integers(1000))], rounds=12,
        clients=clients, participation=rule, **shared,
    )  # fmt: skip


def replayed(loop, rounds):
    """Yield each model of a run, what a plain loop makes of its events, and who was used twice."""
    state, _ = loop.start()
    models, kept = [state.state["x"]], defaultdict(float)
    for _ in range(rounds):
        state, _, ended = step(loop, state)
        used = [
            (start, client, version)
            for part in ended
            for start, client, version, status in zip(
                *(part[name] for name in ("start_s", "client", "version", "status")), strict=True
            )
            if status == USED
        ]
        sent = []
        for _, client, version in sorted(used):  # in the order in which they began
            kept[client] = kept[client] / 2 + models[version][0] + client
            sent.append(kept[client])
        x = models[-1][0] - (np.mean(sent) if sent else 0.0)
        yield state.state["x"][0], x, len(used) - len({client for _, client, _ in used})
        models += [state.state["x"]] if sent or not loop.run.training.algorithm.asynchronous else []
        if state.exhausted:
            return


@pytest.mark.parametrize("asynchronous", [False, True])
def test_states_of_clients_follow_the_order_of_beginnings(asynchronous):
    rng, twice = np.random.default_rng(0), 0
    for _ in range(15):
        loop = loop_of(drawn(rng, asynchronous))
        for found, wanted, again in replayed(loop, 12):
            assert found == pytest.approx(wanted, rel=1e-9)
            twice += again
    assert twice > 5
