"""Federated averaging by pfl, which `benchmarks.peers` starts in an environment of its own.

The environment has pfl, torch and threadpoolctl, and not rayfed's requirements. Each line of
standard input is the length of a block of rounds in seconds; the mean seconds of a round answer it.
Of several processes, which share the cohort, the first one reads and answers; the others wait for
it in every round.
"""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from time import perf_counter
from typing import Any

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import nn
from torch.nn import functional

from benchmarks.networks import NETWORKS, PERCEPTRON, NetworkCase

_FOREVER = 10**9


class Trained(nn.Module):
    """A module with the methods that pfl asks for."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def loss(self, x: torch.Tensor, y: torch.Tensor, eval: bool = False) -> torch.Tensor:
        """Return the mean cross-entropy of some rows."""
        return functional.cross_entropy(self.module(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor, eval: bool = False) -> dict[str, Any]:
        """Return nothing: rounds are not evaluated."""
        return {}


class Blocks(TrainingProcessCallback):  # type: ignore[misc]  # pfl has no types
    """Wait for a line, and answer it after so many seconds; see the module."""

    def __init__(self) -> None:
        self.began, self.block_s, self.rounds = 0.0, 0.0, -1

    def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Metrics]:
        """Count a round; the first of a block is not timed."""
        self.rounds += 1
        if self.rounds == 0:
            self.began = perf_counter()
        spent = perf_counter() - self.began
        if self.rounds > 0 and spent >= self.block_s:
            print(spent / self.rounds, file=sys.__stdout__, flush=True)
            line = sys.stdin.readline()
            if not line:
                return True, Metrics()
            self.block_s, self.rounds = float(line), -1
        return False, Metrics()


def main(case: NetworkCase) -> None:
    """Serve one case until standard input ends."""
    torch.set_num_threads(1)
    np.random.seed(0)  # noqa: NPY002  # of the cohorts, which are drawn in each process
    rng, n = np.random.default_rng(0), case.steps * case.batch
    users = {i: _rows(case, n, rng) for i in range(case.clients)}
    module = case.bare()
    trained = [p for p in module.parameters() if p.requires_grad]
    model = PyTorchModel(
        Trained(module), local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(trained, lr=1.0),
    )  # fmt: skip
    data = FederatedDataset(
        lambda user: Dataset(users[user]), get_user_sampler("random", list(users))
    )
    training = NNTrainHyperParams(
        local_num_epochs=1, local_learning_rate=0.01, local_batch_size=case.batch
    )
    settings = NNAlgorithmParams(
        central_num_iterations=_FOREVER, evaluation_frequency=_FOREVER,
        train_cohort_size=case.cohort, val_cohort_size=None,
    )  # fmt: skip
    FederatedAveraging().run(
        algorithm_params=settings, backend=SimulatedBackend(training_data=data, val_data=None),
        model=model, model_train_params=training, model_eval_params=NNEvalHyperParams(None),
        callbacks=[Blocks()] if os.environ.get("RANK", "0") == "0" else [],
    )  # fmt: skip


def _rows(case: NetworkCase, n: int, rng: np.random.Generator) -> list[torch.Tensor]:
    """Return the rows of one user: what its local steps read, since pfl reads them in order."""
    shape = (n, *case.shape)
    X = rng.integers(case.symbols, size=shape) if case.symbols else rng.standard_normal(shape)
    y = torch.from_numpy(rng.integers(case.classes, size=n))
    return [torch.from_numpy(X.astype(np.float32)), y]


if __name__ == "__main__":
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):  # pfl prints every round
        main({case.name: case for case in (PERCEPTRON, *NETWORKS)}[sys.argv[1]])
