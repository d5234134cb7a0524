"""Small torch modules for tests of networks."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor, nn


class Small(nn.Module):
    """One hidden layer of smooth units, on rows of any shape.

    Parameters
    ----------
    inputs : tuple of int
        Shape of a row.
    outputs : int
    hidden : int
        Units of the hidden layer.
    dropout : float
        Share of them that is dropped in training.
    """

    def __init__(
        self, inputs: tuple[int, ...], outputs: int, hidden: int = 4, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.hidden = nn.Linear(prod(inputs), hidden)
        self.drop = nn.Dropout(dropout) if dropout else nn.Identity()
        self.head = nn.Linear(hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores (B, outputs) of rows (B, *inputs)."""
        scores: Tensor = self.head(self.drop(torch.tanh(self.hidden(x.flatten(1)))))
        return scores


class Normed(nn.Module):
    """One hidden layer with batch normalisation.

    Parameters
    ----------
    inputs : tuple of int
        Shape of a row.
    outputs : int
    hidden : int
        Units of the hidden layer.
    """

    def __init__(self, inputs: tuple[int, ...], outputs: int, hidden: int = 4) -> None:
        super().__init__()
        self.hidden = nn.Linear(prod(inputs), hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.head = nn.Linear(hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores (B, outputs) of rows (B, *inputs)."""
        scores: Tensor = self.head(torch.tanh(self.norm(self.hidden(x.flatten(1)))))
        return scores


class LowRank(nn.Module):
    """A frozen matrix (e, d) with an adapter.

    Parameters
    ----------
    d, e : int
        Number of inputs and of outputs.
    rank : int
    """

    def __init__(self, d: int, e: int, rank: int) -> None:
        super().__init__()
        self.fixed = nn.Parameter(torch.randn(e, d) / d**0.5, requires_grad=False)
        self.lora_A = nn.Parameter(torch.randn(rank, d))
        self.lora_B = nn.Parameter(torch.randn(e, rank) / 4)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs (B, e) of inputs (B, d)."""
        y: Tensor = x @ self.fixed.mT + x @ self.lora_A.mT @ self.lora_B.mT
        return y


class Adapted(nn.Module):
    """One hidden layer of smooth units, of which adapters alone are trained.

    Parameters
    ----------
    inputs : tuple of int
        Shape of a row.
    outputs : int
    hidden : int
        Units of the hidden layer.
    ranks : (int, int)
        Ranks of both adapters.
    """

    def __init__(
        self,
        inputs: tuple[int, ...],
        outputs: int,
        hidden: int = 4,
        ranks: tuple[int, int] = (4, 2),
    ) -> None:
        super().__init__()
        self.hidden = LowRank(prod(inputs), hidden, ranks[0])
        self.head = LowRank(hidden, outputs, ranks[1])

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores (B, outputs) of rows (B, *inputs)."""
        scores: Tensor = self.head(torch.tanh(self.hidden(x.flatten(1))))
        return scores
