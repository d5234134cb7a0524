"""Measured times: seconds of each client in each round, from a table."""

import csv
from functools import lru_cache
from pathlib import Path

import numpy as np


@lru_cache
def seconds():
    with open(Path(__file__).with_name("seconds.csv")) as file:
        rows = csv.DictReader(file)
        return {(int(r["client"]), int(r["round"])): float(r["seconds"]) for r in rows}


def cost(i, n, context):
    return round(1000 * seconds()[i, context.round])  # steps of a millisecond


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
