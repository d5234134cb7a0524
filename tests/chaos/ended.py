"""A run of the campaign that ended, as invariants see it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rayfed.algorithms.compressed import Compressed
from rayfed.core import parquet
from rayfed.core.errors import RayfedError
from rayfed.engine.run import Run
from rayfed.engine.state import COUNTS
from rayfed.runs.resume import changed_meanwhile
from rayfed.study.plan.controller import CHANGEABLE
from tests.chaos.hosts import Traffic

_ROUNDS = ("round", "time_s", "loss", "accuracy", *COUNTS)
_MEANT = f"{RayfedError.__module__}.{RayfedError.__qualname__}"


@dataclass(frozen=True)
class Ended:
    """A run that ended, and what it left.

    Parameters
    ----------
    run : Run
    folder : Path
    traffic : mapping
        What Asks sent, by run, round and number of the Ask.
    """

    run: Run
    folder: Path
    traffic: Mapping[tuple[str, int, int], Traffic]

    @cached_property
    def record(self) -> dict[str, Any]:
        """What ``run.json`` holds."""
        held: dict[str, Any] = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        return held

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return bool(self.record["status"] == "finished")

    @property
    def by_rounds(self) -> bool:
        """Whether clients work in rounds; if not, a row is an update of the model."""
        return not self.run.training.algorithm.asynchronous

    @property
    def gossip(self) -> bool:
        """Whether clients are nodes without a server, with clocks of their own."""
        return self.run.training.algorithm.gossip

    @property
    def apart(self) -> bool:
        """Whether all work ends in the round in which it begins."""
        return not self.run.overlaps

    @cached_property
    def ahead(self) -> bool:
        """Whether clients may compute before they are asked."""
        ask = self.run.first_ask()
        return ask is not None and ask.overlap

    @cached_property
    def coded(self) -> bool:
        """Whether other bytes travel than those of the arrays that are sent."""
        own = isinstance(self.run.training.algorithm, Compressed)
        changes = (each for entries in changed_meanwhile(self.record).values() for each in entries)
        later = any(each["key"] == CHANGEABLE["uplink"] for each in changes)
        return own or later or self.run.uplink() is not None or self.run.downlink() is not None

    @property
    def stays(self) -> bool:
        """Whether a client that goes away ends its task."""
        return self.run.participation.interrupted == "drop"

    @cached_property
    def log(self) -> str:
        """The log."""
        path = self.folder / "log.txt"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @property
    def meant(self) -> bool:
        """Whether a client function ended the run by an error that says what is wrong."""
        return last_line(self.log).startswith(_MEANT)

    @cached_property
    def rounds(self) -> Any:
        """The table of rounds."""
        parts = self.folder / "rounds.parquet"
        if not any(parts.iterdir()):  # it failed before its first row
            return pd.DataFrame({name: pd.Series(dtype=np.float64) for name in _ROUNDS})
        return pd.read_parquet(parts)

    @cached_property
    def cohorts(self) -> Any:
        """The clients to select in each round, with the changes of a controller."""
        last = int(max(0, *self.rounds["round"], *self.events["round"]))
        made = pd.Series(self.run.participation.cohort, index=range(last + 1), dtype=np.float64)
        for after, entries in changed_meanwhile(self.record).items():
            for each in entries:
                if each["key"] == CHANGEABLE["cohort"]:
                    made.loc[after + 1 :] = each["to"]
        return made

    @cached_property
    def events(self) -> Any:
        """The table of events."""
        parts = self.folder / "events.parquet"
        if not any(parts.iterdir()):
            return parquet.schema(self.run.event_columns).empty_table().to_pandas()
        return pd.read_parquet(parts)

    @cached_property
    def clients(self) -> Any:
        """The table of clients."""
        return pd.read_parquet(self.folder / "clients.parquet")


def last_line(text: str) -> str:
    """Return the last line of a text, empty if there is none."""
    return (text.strip().splitlines() or [""])[-1]
