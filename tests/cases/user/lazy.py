"""Sequences of different lengths, which are read from their files when a batch needs them."""

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader, Dataset

FOLDER = Path(__file__).parent / "sequences"


class Sequences(Dataset):
    def __init__(self, folder):
        self.files = sorted(folder.glob("*.npy"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, k):
        steps = torch.from_numpy(np.load(self.files[k])).float()
        return steps, steps.mean()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.GRU(2, 6), nn.Linear(6, 1)

    def forward(self, sequences):
        _, last = self.cells(pack_sequence(sequences, enforce_sorted=False))
        return self.head(last[0])[:, 0]


def model():
    torch.manual_seed(0)
    return Net()


def client(i):
    return {part: Sequences(FOLDER / str(i) / part) for part in ("train", "test")}


def size(i, part):
    return len(list((FOLDER / str(i) / part).iterdir()))


def batches(rows, batch, draws=None):
    return DataLoader(
        rows, batch, shuffle=draws is not None, generator=draws,
        collate_fn=lambda items: ([x for x, _ in items], torch.stack([y for _, y in items])),
    )  # fmt: skip


def train(model, data, context):
    optimizer, losses = torch.optim.SGD(model.parameters(), context.config["lr"]), []
    draws = torch.Generator().manual_seed(1000 * context.round + context.client)
    for X, y in batches(data["train"], context.config["batch"], draws):
        loss = nn.functional.mse_loss(model(X), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"loss": sum(losses) / len(losses)}


@torch.no_grad()
def evaluate(model, data, part):
    ((X, y),) = batches(data[part], len(data[part]))
    return {"loss": nn.functional.mse_loss(model(X), y).item()}
