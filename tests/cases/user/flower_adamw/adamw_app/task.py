"""Model and data of the app, and how it trains and evaluates."""

import torch
from sklearn.metrics import f1_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def rows(i):
    sizes = [30 + 10 * i, 15]
    draws = torch.Generator().manual_seed(i)
    X = torch.randn(sum(sizes), 8, generator=draws) + 0.2 * i
    return random_split(TensorDataset(X, X[:, :3].argmax(1)), sizes, draws)


def fit(net, data, epochs, batch, lr, seed):
    loader = DataLoader(data, batch, shuffle=True, generator=torch.Generator().manual_seed(seed))
    optimizer = torch.optim.AdamW(net.parameters(), lr, weight_decay=0.01)
    losses, norms = [], []
    for _ in range(epochs):
        for X, y in loader:
            loss = nn.functional.cross_entropy(net(X), y)
            optimizer.zero_grad()
            loss.backward()
            norms.append(nn.utils.clip_grad_norm_(net.parameters(), 1.0).item())
            optimizer.step()
            losses.append(loss.item())
    return {"loss": sum(losses) / len(losses), "norm": max(norms)}


@torch.no_grad()
def scores(net, data):
    X, y = next(iter(DataLoader(data, len(data))))
    found = net(X)
    return {
        "loss": nn.functional.cross_entropy(found, y).item(),
        "macro_f1": float(f1_score(y, found.argmax(1), average="macro")),
    }
