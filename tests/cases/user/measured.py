"""Clients whose seconds of computing are known, in a table next to the scenario."""

import numpy as np


def model():
    return {"mean": np.zeros(1)}


def client(i):
    return float(i)


def size(i, part):
    return 1 + i if part == "train" else 0


def train(model, data, context):
    model["mean"] += 0.5 * (data - model["mean"])
    return {"loss": 0.0}


def evaluate(model, data, part):
    return {"loss": float((model["mean"][0] - data) ** 2)}
