"""Walks of a server, as recorded in ``walk.npz``, and its visits."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rayfed.core.files import read_arrays, reading

if TYPE_CHECKING:
    from rayfed.report.read.results import Run


@dataclass(frozen=True, eq=False)
class Walked:
    """The graphs of a walk.

    Parameters
    ----------
    round, graph : (F,) array of int
        Rounds, and the index of the graph in each.
    clients : (K,) array of int
        Clients whose links are recorded.
    links : (E, 2) array of int
        Links, as indices into `clients`; those of graph g from ``starts[g]`` to
        ``starts[g + 1]``.
    starts : (G + 1,) array of int
    places : (G, K, 2) array
        Positions in metres; empty if unknown.
    lambda_2 : (G,) array
        Second eigenvalue of the walk on each graph; NaN if not computed.
    law : (G, N) array
        Stationary law on each graph; (G, 0) if not computed, NaN if not unique.
    """

    round: npt.NDArray[np.int64]
    graph: npt.NDArray[np.int64]
    clients: npt.NDArray[np.int64]
    links: npt.NDArray[Any]
    starts: npt.NDArray[np.int64]
    places: npt.NDArray[np.float64]
    lambda_2: npt.NDArray[np.float64]
    law: npt.NDArray[np.float64]

    @classmethod
    def read(cls, path: Path) -> Walked | None:
        """Read a walk, which is written at the end of a run."""
        if not path.is_file():
            return None
        with reading(path, "the walk of a run"):
            held = read_arrays(path)
            values = {field.name: held[field.name] for field in fields(cls)}
        values["links"] = np.searchsorted(values["clients"], values["links"])
        return cls(**values)

    def links_of(self, graph: int) -> npt.NDArray[Any]:
        """Return the links (E, 2) of one graph."""
        return self.links[self.starts[graph] : self.starts[graph + 1]]

    @property
    def changes(self) -> bool:
        """Whether the graph changed."""
        return len(self.lambda_2) > 1


def positions(run: Run) -> pd.Series:
    """Return the server's position, indexed by round from 1."""
    rows = run.rounds[(run.rounds["round"] > 0) & (run.rounds["position"] >= 0)]
    return rows.set_index("round")["position"].astype(int)


def disconnected(run: Run) -> tuple[int, int]:
    """Return in how many rounds the graph was not connected, and in how many it was repaired.

    Both are 0 if that was not recorded.
    """
    rows = run.rounds
    if not {"connected", "repaired"} <= set(rows):
        return 0, 0
    return int((rows["connected"] == 0).sum()), int((rows["repaired"] == 1).sum())


def visits(run: Run) -> pd.DataFrame:
    """Return visits and stationary probability of each client, the most likely first.

    Returns
    -------
    DataFrame
        Indexed by client, with ``visits`` (count), ``share`` and ``law`` (0 to 1; NaN if
        unknown). The law is the mean over the graphs of the recorded rounds; if unknown, only
        visited clients have a row.
    """
    assert run.walk is not None
    counted = positions(run).value_counts()
    law = run.walk.law[run.walk.graph]
    if law.shape[1]:
        frame = pd.DataFrame({"law": law.mean(axis=0)})
        frame["visits"] = counted.reindex(frame.index, fill_value=0)
    else:
        frame = pd.DataFrame({"visits": counted, "law": np.nan})
    frame["share"] = frame["visits"] / max(1, int(counted.sum()))
    frame.index.name = "client"
    ordered = frame.assign(close=-frame["law"].round(9), often=-frame["visits"])
    return ordered.sort_values(["close", "often"], kind="stable")[["visits", "share", "law"]]


def misplaced(run: Run) -> float:
    """Return the total variation distance between visits and stationary law, 0 to 1.

    NaN if the law is unknown.
    """
    frame = visits(run)
    return float((frame["share"] - frame["law"]).abs().sum(skipna=False) / 2)
