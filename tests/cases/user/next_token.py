"""Next-token prediction: every position has a target, and texts have different lengths."""

import numpy as np
import torch
from torch import nn

LETTERS, LENGTH = 27, 12


class Characters(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.cells = nn.Embedding(LETTERS, 8), nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, LETTERS)

    def forward(self, ids):
        return self.head(self.cells(self.embedding(ids))[0])


def model():
    torch.manual_seed(0)
    return Characters()


def rows(texts):
    X, y = np.zeros((len(texts), LENGTH), np.int64), np.full((len(texts), LENGTH), -100)
    for row, text in enumerate(texts):
        ids = [" abcdefghijklmnopqrstuvwxyz".index(letter) for letter in text[: LENGTH + 1]]
        X[row, : len(ids) - 1], y[row, : len(ids) - 1] = ids[:-1], ids[1:]
    return {"X": X, "y": y}
