"""A transformer of two blocks whose base is frozen: adapters and a head are trained."""

from __future__ import annotations

from typing import Self

import torch
from torch import nn

WIDTH = 128
_NARROW = 16


class Adapted(nn.Module):
    """Two encoder blocks, an adapter behind each, and a head that predicts a character.

    Adapters are those of Houlsby et al., "Parameter-Efficient Transfer Learning for NLP", ICML
    2019, https://arxiv.org/abs/1902.00751: down to a few units and up again, beside the identity.

    Parameters
    ----------
    inputs : (L,)
        Number of characters of a row.
    outputs : int
        Number of different characters.
    """

    def __init__(self, inputs: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        blocks = [
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
            for _ in range(2)
        ]
        self.base = nn.ModuleDict(
            {"embedding": nn.Embedding(outputs, WIDTH), "blocks": nn.ModuleList(blocks)}
        )
        self.adapters = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, _NARROW), nn.ReLU(), nn.Linear(_NARROW, WIDTH))
            for _ in range(2)
        )
        self.head = nn.Linear(WIDTH, outputs)

    def frozen(self) -> Self:
        """Return it with a base that is not trained."""
        self.base.requires_grad_(False)
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores (B, outputs) of the next character, given numbers (B, L) of some."""
        a = self.base["embedding"](x.long())
        for block, adapter in zip(self.base["blocks"], self.adapters, strict=True):  # type: ignore[call-overload]
            a = block(a)
            a = a + adapter(a)
        scores: torch.Tensor = self.head(a[:, -1])
        return scores
