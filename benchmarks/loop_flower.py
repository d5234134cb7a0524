"""Federated averaging by Flower's simulation, which `benchmarks.peers` starts in its environment.

The app is that of Flower's PyTorch quickstart, except that an actor holds its module and its rows
from one task to the next. Each process is a Ray actor; the server has one more.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn
from torch.nn import functional

from benchmarks.loops import FOREVER, LR, Blocks, case_of, rows, serve
from benchmarks.networks import NetworkCase

CASE = "RAYFED_BENCHMARK_CASE"
"""Environment variable with the name of the case, for the actors."""
client = ClientApp()


@cache
def _rows(name: str, client: int) -> list[torch.Tensor]:
    return rows(case_of(name), client)


@cache
def _module(name: str) -> nn.Module:
    return case_of(name).bare()


@client.train()  # type: ignore[untyped-decorator]  # flwr is not installed here
def train(message: Message, context: Context) -> Message:
    """Take the local steps of one client."""
    torch.set_num_threads(1)
    case = case_of(os.environ[CASE])
    module = _module(case.name)
    module.load_state_dict(message.content["arrays"].to_torch_state_dict())
    X, y = _rows(case.name, int(context.node_config["partition-id"]))
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=LR)
    for start in range(0, len(y), case.batch):
        chosen = slice(start, start + case.batch)
        optimizer.zero_grad()
        loss = functional.cross_entropy(module(X[chosen]), y[chosen])
        loss.backward()  # type: ignore[no-untyped-call]  # torch does not type it
        optimizer.step()
    arrays = ArrayRecord(module.state_dict())
    metrics = MetricRecord({"num-examples": len(y)})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


class Timed(FedAvg):  # type: ignore[misc]  # flwr is not installed here
    """Federated averaging that counts the rounds of blocks."""

    blocks = Blocks()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the messages of a round, of which the last one has ended."""
        if server_round > 1 and not self.blocks.round_ended():
            os._exit(0)
        messages: Iterable[Message] = super().configure_train(server_round, arrays, config, grid)
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        """Return the mean of the local models; end if a client failed."""
        found = list(replies)
        if failed := [reply.error for reply in found if reply.has_error()]:
            sys.exit(f"{len(failed)} of {len(found)} clients failed: {failed[0].reason}")
        return super().aggregate_train(server_round, found)


def main(case: NetworkCase, processes: int) -> None:
    """Run one case until standard input ends."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    os.environ[CASE] = case.name
    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator]  # flwr is not installed here
    def train_all(grid: Grid, context: Context) -> None:
        share = case.cohort / case.clients
        strategy = Timed(share, fraction_evaluate=0.0, min_available_nodes=case.clients)
        strategy.start(grid, ArrayRecord(case.bare().state_dict()), num_rounds=FOREVER)

    each: dict[str, Any] = {"num_cpus": 1, "num_gpus": 0.0}
    start = {"num_cpus": max(processes, 1), "address": "local", "include_dashboard": False}
    config = {"client_resources": each, "init_args": start}
    run_simulation(app, client, case.clients, backend_config=config)


if __name__ == "__main__":
    from benchmarks import loop_flower  # actors import the app in place of unpickling it

    serve(loop_flower.main)
