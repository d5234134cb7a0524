"""Algorithms that read the wall clock, so that rounds are timed from inside a run.

The readings are diagnostics: they land in ``rounds.parquet`` beside the loss. The clock is the
machine's monotonic one, the same in every process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import getpid
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rayfed.algorithms.base import Round
from rayfed.algorithms.fedasync import FedAsync
from rayfed.algorithms.fedavg import FedAvg
from rayfed.algorithms.fedbuff import FedBuff
from rayfed.core.arrays import Array
from rayfed.core.columns import Column
from rayfed.messages import Diagnostics, Reply, State, Upload

if TYPE_CHECKING:
    from rayfed.clients import Clients

ASKED_S = Column("asked_s", "when the Ask was made", "s", about="Monotonic clock of the machine.")
COMPUTE_S = Column(
    "compute_s", "computing time", "s", about="Of the slowest process, and of the server function."
)


@dataclass(frozen=True, kw_only=True)
class Clocked(FedAvg):
    """FedAvg whose rows tell when the round's Ask was made, ``asked_s``."""

    name: ClassVar[str] = "clocked"
    diagnostics: ClassVar[tuple[Column, ...]] = (ASKED_S,)

    def round(self, state: State) -> Round:
        """Server function of FedAvg, between two looks at the clock."""
        asked = perf_counter()
        state, _ = yield from super().round(state)
        return state, {"asked_s": asked}


@dataclass(frozen=True, kw_only=True)
class Metered(FedAvg):
    """FedAvg whose rows tell also how long the client functions took, ``compute_s``.

    A client function measures itself. Of several processes the one that computed longest counts,
    since they work at the same time. The server function comes after them and is added.
    """

    name: ClassVar[str] = "metered"
    diagnostics: ClassVar[tuple[Column, ...]] = (ASKED_S, COMPUTE_S)

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function of FedAvg; upload its seconds, in equal shares (K,), and its process."""
        began = perf_counter()
        upload = super().train(clients, x)
        one = np.ones(len(clients.ids))
        meter = {"spent": one * (perf_counter() - began) / len(one), "process": one * getpid()}
        return replace(upload, values={**upload.values, **meter})

    def round(self, state: State) -> Round:
        """Server function of FedAvg, with two more numbers up."""
        asked = perf_counter()
        half = super().round(state)
        ask = next(half)
        reply = yield replace(ask, up={**ask.up, "spent": 1, "process": 1})
        spent, process = reply.each["spent"], reply.each["process"]
        longest = max(float(spent[process == one].sum()) for one in set(process.tolist()))
        began = perf_counter()
        try:
            half.send(reply)
        except StopIteration as end:
            state, _ = end.value
        longest += perf_counter() - began
        return state, {"asked_s": asked, "compute_s": longest}


@dataclass(frozen=True, kw_only=True)
class ClockedFedAsync(FedAsync):
    """FedAsync whose rows tell when the update was made, ``asked_s``."""

    name: ClassVar[str] = "clocked-fedasync"
    diagnostics: ClassVar[tuple[Column, ...]] = (*FedAsync.diagnostics, ASKED_S)

    def arrival(self, state: State, reply: Reply) -> tuple[State, Diagnostics]:
        """Server function of FedAsync, after a look at the clock."""
        asked = perf_counter()
        state, told = super().arrival(state, reply)
        return state, {**told, "asked_s": asked}


@dataclass(frozen=True, kw_only=True)
class ClockedFedBuff(FedBuff):
    """FedBuff whose rows tell when the update was made, ``asked_s``."""

    name: ClassVar[str] = "clocked-fedbuff"
    diagnostics: ClassVar[tuple[Column, ...]] = (ASKED_S,)

    def arrival(self, state: State, reply: Reply) -> tuple[State, Diagnostics]:
        """Server function of FedBuff, after a look at the clock."""
        asked = perf_counter()
        state, _ = super().arrival(state, reply)
        return state, {"asked_s": asked}
