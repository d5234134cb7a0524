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
