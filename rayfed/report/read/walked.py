"""Where a server walked (``walk.npz``; see DESIGN.md, "The walk"), and how often it was where."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

if TYPE_CHECKING:
    from rayfed.report.read.results import Run


@dataclass(frozen=True, eq=False)
class Walked:
    """The graphs that a walk was on.

    Parameters
    ----------
    round, graph : (F,) array of int
        Rounds, and which of the G graphs held in each.
    clients : (K,) array of int
        Those whose links are told.
    links : (E, 2) array of int
        Links, their ends as places among `clients`; those of graph g from ``starts[g]`` to
        ``starts[g + 1]``.
    starts : (G + 1,) array of int
    places : (G, K, 2) array
        In metres; empty where nobody knows them.
    lambda_2 : (G,) array
        Second eigenvalue of the walk on each graph; NaN where it was not computed.
    law : (G, N) array
        Its stationary law; (G, 0) where it was not computed, NaN where there is no single one.
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
        """Read a walk, which is written whole at the end of a run or not at all."""
        if not path.is_file():
            return None
        with np.load(path, allow_pickle=False) as held:
            found = {field.name: held[field.name] for field in fields(cls)}
        found["links"] = np.searchsorted(found["clients"], found["links"])
        return cls(**found)

    def links_of(self, graph: int) -> npt.NDArray[Any]:
        """Return the links (E, 2) of one graph."""
        return self.links[self.starts[graph] : self.starts[graph + 1]]

    @property
    def changes(self) -> bool:
        """Whether it was on several graphs."""
        return len(self.lambda_2) > 1


def positions(run: Run) -> pd.Series:
    """Return the client that the server was at, indexed by round from 1."""
    rows = run.rounds[(run.rounds["round"] > 0) & (run.rounds["position"] >= 0)]
    return rows.set_index("round")["position"].astype(int)


def visits(run: Run) -> pd.DataFrame:
    """Return the share of the visits and of the law of each client, the likeliest first.

    Returns
    -------
    DataFrame
        Indexed by client, with ``visits`` (a number), ``share`` and ``law`` (0 to 1; NaN where it
        is not known). The law is the mean over the recorded rounds of those of their graphs;
        without one, only clients that were visited have a row.
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
    """Return the share of the visits that would have to go elsewhere to follow the law, 0 to 1.

    It is the distance in total variation; NaN where the law is not known.
    """
    found = visits(run)
    return float((found["share"] - found["law"]).abs().sum(skipna=False) / 2)
