"""Walks of a server, as recorded in ``walk.npz``."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rayfed.core.files import read_arrays, reading

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def arrays(
    path: Path, kind: type[DataclassInstance], what: str, prefix: str = ""
) -> dict[str, Any]:
    """Return what a file holds for the fields of a dataclass: arrays, and single values as such.

    The names of the arrays are those of the fields, behind a prefix.
    """
    with reading(path, what):
        held = read_arrays(path)
        found = {field.name: held[prefix + field.name] for field in fields(kind)}
        return {name: value if value.ndim else value.item() for name, value in found.items()}


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
        values = arrays(path, cls, "the walk of a run")
        values["links"] = np.searchsorted(values["clients"], values["links"])
        return cls(**values)

    def links_of(self, graph: int) -> npt.NDArray[Any]:
        """Return the links (E, 2) of one graph."""
        return self.links[self.starts[graph] : self.starts[graph + 1]]

    @property
    def changes(self) -> bool:
        """Whether the graph changed."""
        return len(self.lambda_2) > 1
