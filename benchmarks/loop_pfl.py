"""Federated averaging by pfl, which `benchmarks.peers` starts in an environment of its own.

Of several processes, which share the cohort, the first one reads and answers; the others wait for
it in every round.
"""

from __future__ import annotations

import os
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

from benchmarks.loops import FOREVER, LR, Blocks, rows, serve
from benchmarks.networks import NetworkCase


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


class Answers(TrainingProcessCallback):  # type: ignore[misc]  # pfl has no types
    """Count the rounds of blocks."""

    def __init__(self) -> None:
        self.blocks = Blocks()

    def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Metrics]:
        """Return whether to stop, and no metrics."""
        return not self.blocks.round_ended(), Metrics()


def main(case: NetworkCase, processes: int) -> None:
    """Run one case until standard input ends."""
    np.random.seed(0)  # noqa: NPY002  # of the cohorts, which are drawn in each process
    users = {i: rows(case, i) for i in range(case.clients)}
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
        local_num_epochs=1, local_learning_rate=LR, local_batch_size=case.batch
    )
    settings = NNAlgorithmParams(
        central_num_iterations=FOREVER, evaluation_frequency=FOREVER,
        train_cohort_size=case.cohort, val_cohort_size=None,
    )  # fmt: skip
    FederatedAveraging().run(
        algorithm_params=settings, backend=SimulatedBackend(training_data=data, val_data=None),
        model=model, model_train_params=training, model_eval_params=NNEvalHyperParams(None),
        callbacks=[Answers()] if os.environ.get("RANK", "0") == "0" else [],
    )  # fmt: skip


if __name__ == "__main__":
    serve(main)
