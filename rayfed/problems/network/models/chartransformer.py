"""CharTransformer: predicts the next character at each place of a text, with adapters if wanted."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional

from rayfed.core.errors import ScenarioError


class LowRank(nn.Linear):
    """A linear map W x + b, and B A x of an adapter A (r, d), B (e, r), which is 0 at first.

    Parameters
    ----------
    d, e : int
        Number of inputs and of outputs.
    rank : int
        r; 0 for no adapter.
    """

    def __init__(self, d: int, e: int, rank: int) -> None:
        super().__init__(d, e)
        self.rank = rank
        if rank:
            self.lora_A = nn.Parameter(torch.randn(rank, d) / d**0.5)
            self.lora_B = nn.Parameter(torch.zeros(e, rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the outputs (..., e) of inputs (..., d)."""
        y = super().forward(x)
        return y + x @ self.lora_A.mT @ self.lora_B.mT if self.rank else y


class Block(nn.Module):
    """Causal attention and a hidden layer, each after a normalisation and with a shortcut.

    Parameters
    ----------
    width, heads : int
        Numbers that stand for a character, and attention heads, which share them.
    rank : int
        Rank of the adapters of the attention's two maps.
    """

    def __init__(self, width: int, heads: int, rank: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = LowRank(width, 3 * width, rank)
        self.joined = LowRank(width, width, rank)
        self.hidden, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the outputs (B, L, width) of inputs of the same shape."""
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(-3, -2)
            for part in self.attention(self.before(x)).chunk(3, -1)
        )
        scores = q @ k.mT / q.shape[-1] ** 0.5
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        seen = scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        x = x + self.joined(seen.transpose(-3, -2).flatten(-2))
        y: torch.Tensor = x + self.out(functional.gelu(self.hidden(self.between(x))))
        return y


class CharTransformer(nn.Module):
    """A small causal transformer on characters, for targets at every place of a row.

    Vaswani et al., "Attention Is All You Need", NeurIPS 2017, https://arxiv.org/abs/1706.03762, in
    the form of GPT-2 (normalisation first, learned places). With a rank it has adapters as in Hu et
    al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022,
    https://arxiv.org/abs/2106.09685, on the maps of the attention, with alpha = r, and these alone
    are trained. 28,316 parameters for 28 characters and rows of 32; with rank 4 another 1,536.

    Parameters
    ----------
    inputs : (L,)
        Number of characters of a row.
    outputs : int
        Number of different characters.
    width, heads, blocks : int
        Numbers that stand for a character, attention heads, which share them, and blocks.
    rank : int
        Rank of the adapters; 0 for none: all parameters are trained.
    """

    name: ClassVar[str] = "chartransformer"

    def __init__(
        self,
        inputs: tuple[int, ...],
        outputs: int,
        width: int = 32,
        heads: int = 4,
        blocks: int = 2,
        rank: int = 0,
    ) -> None:
        super().__init__()
        if len(inputs) != 1:
            text = f"'{self.name}' takes texts (L,), but a row of this data has shape {inputs}"
            raise ScenarioError("problem.model", f"{text}; use 'cnn' or 'lenet5' for images")
        self.letters, self.places = nn.Embedding(outputs, width), nn.Embedding(inputs[0], width)
        self.blocks = nn.Sequential(*(Block(width, heads, rank) for _ in range(blocks)))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, outputs)
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(not rank or "lora" in name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores (B, outputs, L) of the characters after each of some (B, L)."""
        states = self.blocks(self.letters(x.long()) + self.places.weight[: x.shape[-1]])
        scores: torch.Tensor = self.head(self.last(states)).mT
        return scores
