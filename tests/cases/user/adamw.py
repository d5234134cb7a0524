"""A PyTorch loop with AdamW, gradient clipping and macro F1."""

import torch
from sklearn.metrics import f1_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def client(i):
    draws = torch.Generator().manual_seed(i)
    X = torch.randn(size(i, "train") + size(i, "test"), 8, generator=draws) + 0.2 * i
    rows = TensorDataset(X, X[:, :3].argmax(1))
    parts = random_split(rows, [size(i, "train"), size(i, "test")], draws)
    return dict(zip(("train", "test"), parts, strict=True))


def size(i, part):
    return 30 + 10 * i if part == "train" else 15


def train(model, data, context):
    draws = torch.Generator().manual_seed(1000 * context.round + context.client)
    loader = DataLoader(data["train"], context.config["batch"], shuffle=True, generator=draws)
    optimizer = torch.optim.AdamW(model.parameters(), context.config["lr"], weight_decay=0.01)
    losses, norms = [], []
    for _ in range(context.config["epochs"]):
        for X, y in loader:
            loss = nn.functional.cross_entropy(model(X), y)
            optimizer.zero_grad()
            loss.backward()
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
            optimizer.step()
            losses.append(loss.item())
    return {"loss": sum(losses) / len(losses), "norm": max(norms)}


@torch.no_grad()
def evaluate(model, data, part):
    X, y = next(iter(DataLoader(data[part], len(data[part]))))
    scores = model(X)
    return {
        "loss": nn.functional.cross_entropy(scores, y).item(),
        "macro_f1": f1_score(y, scores.argmax(1), average="macro"),
    }
