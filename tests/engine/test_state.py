"""What a server function of a user's gives back: each mistake is named where it was made."""

from dataclasses import dataclass

import numpy as np
import pytest

from rayfed import testing
from rayfed.algorithms import FedAsync, FedAvg
from rayfed.core.errors import RunFailed
from rayfed.messages import Ask
from rayfed.testing.studies import on_network


def loop_for(scenario):
    return testing.loop(scenario)


@dataclass(frozen=True, kw_only=True)
class Own(FedAvg):
    """FedAvg that returns what it is told."""

    name = "own"
    give: str = ""

    def round(self, state):
        """Return something else."""
        reply = yield Ask("train", send={"x": state["x"]}, up={"delta": state["x"].size})
        x = state["x"] + reply.mean["delta"]
        return {
            "none": None,
            "state": {"x": x},
            "three": ({"x": x}, {}, {}),
            "model": (x, {}),
            "no x": ({"y": x}, {}),
            "short": ({"x": x[:-1]}, {}),
            "mood": ({"x": x}, {"mood": 1.0, 3: 4}),
            "right": ({"x": x, "count": np.ones(2)}, {}),
        }[self.give]


TOLD = {
    "none": "returns None; end it by: return state, diagnostics (two dicts)",
    "state": "returns a dict; end it by: return state, diagnostics (two dicts)",
    "three": "returns (dict, dict, dict); end it by",
    "model": "returns (ndarray, dict); end it by",
    "no x": "returns a state without 'x', the model; add it",
    "short": "returns x of shape (17,) for a model of shape (18,); correct it",
    "mood": "returns 3, mood, which its `diagnostics` do not declare; add the name there",
}


@pytest.mark.parametrize("give", TOLD)
def test_what_round_returns(mixed, give):
    loop = loop_for(mixed(algorithms=[Own(give=give)]))
    with pytest.raises(RunFailed) as failed:
        loop.step(loop.start()[0])
    assert str(failed.value).startswith(f"round 1: 'round' of 'own' {TOLD[give]}")


def test_further_names_in_a_state_are_welcome(mixed):
    loop = loop_for(mixed(algorithms=[Own(give="right")]))
    after, *_ = loop.step(loop.start()[0])
    assert after.state.keys() == {"x", "count"}


@dataclass(frozen=True, kw_only=True)
class Silent(FedAvg):
    """Forgot its yield."""

    name = "silent"

    def round(self, state):
        """Ask nobody."""
        return state, {}


@dataclass(frozen=True, kw_only=True)
class Odd(FedAvg):
    """Yields what it wants to send."""

    name = "odd"

    def round(self, state):
        """Ask wrongly."""
        yield {"x": state["x"]}


@dataclass(frozen=True, kw_only=True)
class Late(FedAsync):
    """Returns the model alone."""

    name = "late"

    def arrival(self, state, reply):
        """Return no diagnostics."""
        return super().arrival(state, reply)[0]


@pytest.mark.parametrize(
    ("algorithm", "told"),
    [
        (Silent(), "'round' of 'silent' returns (dict, dict) without an Ask; ask by: "),
        (Odd(), "'round' of 'odd' yields a dict; yield an Ask or a Wait"),
    ],
)
def test_what_round_yields(mixed, algorithm, told):
    loop = loop_for(mixed(algorithms=[algorithm]))
    with pytest.raises(RunFailed) as failed:
        loop.step(loop.start()[0])
    assert str(failed.value).startswith(f"round 1: {told}")


def test_what_arrival_returns(mixed):
    clients = {"count": 6, "delay": {"name": "constant", "mean_s": 1.0}}
    scenario = mixed(algorithms=[Late()], clients=clients, participation={"cohort": 2})
    loop = loop_for(scenario)
    with pytest.raises(RunFailed, match="round 1: 'arrival' of 'late' returns a dict; end it by"):
        loop.step(loop.start()[0])


@dataclass(frozen=True, kw_only=True)
class Hasty(FedAvg):
    """Changes the model in place."""

    name = "hasty"

    def round(self, state):
        """Add in place."""
        new, diagnostics = yield from super().round(state)
        state["x"] += 1.0
        return new, diagnostics


def test_a_state_cannot_be_changed_in_place(mixed):
    """The iterates before may still be evaluated, and sent to clients."""
    loop = loop_for(mixed(algorithms=[Hasty()]))
    before, _ = loop.start()
    with pytest.raises(ValueError, match="read-only"):
        loop.step(before)


@dataclass(frozen=True, kw_only=True)
class Greedy(FedAvg):
    """Changes what all clients are sent."""

    name = "greedy"

    def train(self, clients, x):
        """Train from another model than the others."""
        x[..., 0] += 1.0
        return super().train(clients, x)


@dataclass(frozen=True, kw_only=True)
class Ahead(Greedy):
    """Sends what it has just computed, which is nobody's state."""

    name = "ahead"

    def round(self, state):
        """Send twice the model."""
        p = state["x"].size
        reply = yield Ask("train", send={"x": 2 * state["x"]}, up={"delta": p})
        return {"x": state["x"] - reply.mean["delta"]}, {}


@pytest.mark.parametrize("where", ["numpy", "torch"])
@pytest.mark.parametrize("algorithm", [Greedy, Ahead])
def test_what_clients_are_sent_cannot_be_changed_in_place(mixed, where, algorithm):
    """The next clients would begin with another model, and which they are depends on the host."""
    scenario = mixed(algorithms=[algorithm()])
    loop = loop_for(on_network(scenario) if where == "torch" else scenario)
    before, _ = loop.start()
    with pytest.raises(RunFailed, match="in place") as failed:
        loop.step(before)
    assert "'train' failed: " in str(failed.value)


@dataclass(frozen=True, kw_only=True)
class Lost(FedAvg):
    """Begins with NaN."""

    name = "lost"

    def init(self, x0):
        """Return no model."""
        return {"x": x0 * np.nan}


def test_a_start_that_is_not_finite_is_not_blamed_on_the_step(mixed):
    loop = loop_for(mixed(algorithms=[Lost()]))
    told = "round 0: the model is not finite before any step; correct the start or the data"
    assert loop.failure(*loop.start()) == told
