"""Final outputs of a run as arrays: predictions, labels, a walk, and pulls of clients."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rayfed.core.files import read_arrays, reading

_T = TypeVar("_T")


@dataclass(frozen=True)
class Fit:
    """Predictions of a final model for some rows, as in ``fit.npz``.

    Parameters
    ----------
    kind : str
        "curve", "numbers" or "classes".
    text : str
        Description of a curve, as the object of a sentence.
    square : bool
        Whether both axes have the same scale.
    points : (n, 2) array
    curve : (m, 2) array
    counts : (c, c) array
    """

    kind: str
    text: str
    square: bool
    points: npt.NDArray[Any]
    curve: npt.NDArray[Any]
    counts: npt.NDArray[Any]


@dataclass(frozen=True)
class LabelCounts:
    """The labels that clients hold, as in ``labels.npz``.

    Parameters
    ----------
    clients : (K,) array of int
        Ids of clients.
    counts : (K, c) array of int
        Training rows of each client and class.
    """

    clients: npt.NDArray[Any]
    counts: npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Pulls:
    """Where clients would take a model of two numbers, as the measure ``path`` keeps it.

    Parameters
    ----------
    rounds : (R,) array of int
        Rounds with recorded local updates.
    clients : (K,) array of int
        Ids of clients.
    starts : (R, 2) array
        The server's model after these rounds.
    ends : (R, K, 2) array
        The local model of each client after its update.
    box : (2, 2) array
        Lower and upper ends of both axes of the map.
    map : (n, n) array
        F over the second number down and the first across.
    """

    rounds: npt.NDArray[Any]
    clients: npt.NDArray[Any]
    starts: npt.NDArray[Any]
    ends: npt.NDArray[Any]
    box: npt.NDArray[Any]
    map: npt.NDArray[Any]

    @property
    def lowest(self) -> npt.NDArray[Any]:
        """The place (2,) of the least F on the map."""
        up, across = np.unravel_index(int(np.nanargmin(self.map)), self.map.shape)
        steps = np.array([across, up]) / (len(self.map) - 1)
        return np.asarray(self.box[0] + steps * (self.box[1] - self.box[0]))


@dataclass(frozen=True, eq=False)
class Walked:
    """The graphs of a walk.

    Parameters
    ----------
    round, graph : (F,) array of int
        Rounds, and the index of the graph in each.
    clients : (K,) array of int
        Clients with recorded links.
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
    repaired : (G,) array of bool
        Whether links were added to connect each graph; empty if not recorded.
    """

    round: npt.NDArray[np.int64]
    graph: npt.NDArray[np.int64]
    clients: npt.NDArray[np.int64]
    links: npt.NDArray[Any]
    starts: npt.NDArray[np.int64]
    places: npt.NDArray[np.float64]
    lambda_2: npt.NDArray[np.float64]
    law: npt.NDArray[np.float64]
    repaired: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    def links_of(self, graph: int) -> npt.NDArray[Any]:
        """Return the links (E, 2) of one graph."""
        return self.links[self.starts[graph] : self.starts[graph + 1]]

    @property
    def changes(self) -> bool:
        """Whether the graph changed."""
        return len(self.lambda_2) > 1


def read_as(kind: type[_T], path: Path, what: str, prefix: str = "") -> _T:
    """Return the arrays of a file as a dataclass, and single values as such.

    The names of the arrays are those of the fields, behind a prefix. A field with a default may
    be missing.
    """
    with reading(path, what):
        held = read_arrays(path, results=True)
        names = [
            each.name
            for each in fields(kind)  # type: ignore[arg-type]
            if each.default_factory is MISSING or prefix + each.name in held
        ]
        found = {name: held[prefix + name] for name in names}
        return kind(**{name: v if v.ndim else v.item() for name, v in found.items()})
