"""Rows of clients whose labels are wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rayfed.channel.faulty import Faulty
from rayfed.clients.setup import DataView
from rayfed.core.errors import ScenarioError
from rayfed.datasets.table import TableShards


def flipped(view: DataView, faults: Sequence[Faulty], tables: Mapping[str, Any]) -> DataView:
    """Return a view of the data in which the training labels of some clients are wrong.

    Raises
    ------
    ScenarioError
        If the targets are no classes, or the rows no table that stays as it is.
    """
    wrong = [faulty for faulty in faults if faulty.fault.rows]
    if not wrong:
        return view
    place, shards = f"clients.faults.{wrong[0].number}", view.shards
    name = f"'{wrong[0].fault.name}'"
    if not isinstance(shards, TableShards):
        text = f"{name} needs a table of rows that stay as they are; leave drift and generators out"
        raise ScenarioError(place, text)
    if not shards.classes:
        raise ScenarioError(place, f"{name} is for classes, and the targets are numbers")
    train = shards.split.train
    rows = np.zeros(len(tables[view.table].y), np.bool_)
    for faulty in wrong:
        for client in faulty.clients.tolist():
            rows[train.rows[train.offsets[client] : train.offsets[client + 1]]] = True
    if shards.split.flipped is not None:
        rows ^= shards.split.flipped
    return replace(view, shards=replace(shards, split=replace(shards.split, flipped=rows)))
