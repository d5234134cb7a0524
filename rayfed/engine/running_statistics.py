"""Running statistics of BatchNorm that are averaged apart from the update of a method.

A method whose next model is a mean of the clients' models averages them with the parameters. Other
methods update the parameters alone: clients upload their statistics in addition, and the server
takes their mean over the replies of an update, with the weights of the update. Optimizers, step
sizes, control variates, memories and codecs see statistics that do not change.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rayfed.algorithms.asynchronous import Asynchronous
from rayfed.algorithms.base import TimedRound
from rayfed.clients.request import STATISTICS
from rayfed.messages import Ask, Reply, State


def asked(ask: Ask, count: int) -> Ask:
    """Return an Ask with an upload of `count` statistics.

    They take the place of zeros in the update, so that both are as long as the model.
    """
    up = {**ask.up, STATISTICS: count}
    return replace(ask, up=up, bits={**ask.bits, STATISTICS: 0})


def averaged(rounds: TimedRound, count: int) -> TimedRound:
    """Yield the Asks of a round; return its state with the mean of the clients' statistics."""
    reply: Reply | None = None
    mean = np.zeros(0)
    try:
        while True:
            ask = next(rounds) if reply is None else rounds.send(reply)
            first = isinstance(ask, Ask) and ask.local and not len(mean)
            reply = yield asked(ask, count) if first and isinstance(ask, Ask) else ask
            mean = reply.mean[STATISTICS] if first else mean
    except StopIteration as end:
        state, diagnostics = end.value
        return with_mean(state, mean), diagnostics


def arrived(algorithm: Asynchronous, state: State, reply: Reply) -> State:
    """Return the state after an update of an asynchronous method, with the mean of its replies."""
    factors = algorithm.discount(reply.staleness)
    share = np.sum(reply.weights * factors) / np.sum(reply.weights)
    return with_mean(state, reply.mean[STATISTICS] / share)


def with_mean(state: State, mean: np.ndarray) -> State:
    """Return a state with the mean statistics (s,) at the end of its model."""
    x = np.array(state["x"])
    x[x.size - mean.size :] = mean
    return {**state, "x": x}
