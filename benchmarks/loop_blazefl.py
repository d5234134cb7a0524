"""Federated averaging by BlazeFL, which `benchmarks.peers` starts in its environment.

One process trains the cohort in sequence; several are BlazeFL's pool with shared memory. Both are
its own trainers for federated averaging.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from blazefl.contrib import fedavg
from blazefl.core import IPCMode, PartitionedDataset
from torch import Generator, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.loops import FOREVER, LR, Blocks, case_of, rows, serve
from benchmarks.networks import NetworkCase


@cache
def _rows(name: str, client: int) -> TensorDataset:
    return TensorDataset(*rows(case_of(name), client))


class Model:
    """The module of a case, by its name."""

    def select_model(self, model_name: str) -> nn.Module:
        """Return a new module."""
        return case_of(model_name).bare()


class Rows(PartitionedDataset):  # type: ignore[misc]  # blazefl is not installed here
    """Rows of all clients, in the memory that forked processes share: the pool pickles its data."""

    def __init__(self, case: NetworkCase) -> None:
        self._case = case.name
        for client in range(case.clients):
            _rows(case.name, client)

    def get_dataset(self, type_: str, cid: int) -> TensorDataset:
        """Return the rows of a client."""
        return _rows(self._case, cid)

    def get_dataloader(
        self, type_: str, cid: int, batch_size: int, generator: Generator | None = None
    ) -> DataLoader[tuple[object, ...]]:
        """Return the batches of a client."""
        return DataLoader(_rows(self._case, cid), batch_size, shuffle=True, generator=generator)


def main(case: NetworkCase, processes: int) -> None:
    """Run one case until standard input ends."""
    data, blocks = Rows(case), Blocks()
    server = fedavg.FedAvgBaseServerHandler(
        Model(), case.name, data, FOREVER, case.clients, case.cohort / case.clients, "cpu",
        case.batch, seed=0,
    )  # fmt: skip
    work = (case.clients, 1, case.batch, LR)
    with tempfile.TemporaryDirectory() as folder:
        if processes < 2:
            trainer = fedavg.FedAvgBaseClientTrainer(Model(), case.name, data, "cpu", *work, 0)
        else:
            shared, states = Path(folder, "shared"), Path(folder, "states")
            trainer = fedavg.FedAvgProcessPoolClientTrainer(
                Model(), case.name, shared, states, data, "cpu", *work, 0, processes,
                ipc_mode=IPCMode.SHARED_MEMORY,
            )  # fmt: skip
        going_on = True
        while going_on:
            trainer.local_process(server.downlink_package(), server.sample_clients())
            for package in trainer.uplink_package():
                server.load(package)
            going_on = blocks.round_ended()


if __name__ == "__main__":
    from benchmarks import loop_blazefl  # the pool imports classes in place of unpickling them

    serve(loop_blazefl.main)
