"""The path of a model of two numbers, where clients would take it, and F around it."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.core.arrays import Floats
from rayfed.core.columns import Column
from rayfed.core.needs import FIXED_ROWS, Terms
from rayfed.measures.base import Measure, MeasureView
from rayfed.measures.local import LocalWork, next_tasks
from rayfed.messages import State

SIDE = 41
"""Values of F along each side of the map."""
MOST = 100
"""At most so many evaluations have the ends of clients; of more every second one is kept."""
_MARGIN = 0.25  # of what the path takes up, on each side of it


@dataclass(frozen=True, kw_only=True)
class Path(Measure):
    """The first two coordinates of the model; of a model with p = 2 also the drift of its clients.

    Of such a model it keeps where the local steps of the next round would take each of some
    clients, and F on a square around all of it: a map of `SIDE` by `SIDE` values, made anew where
    the path leaves it. Both are in ``model.npz``, and the page draws them.

    Parameters
    ----------
    clients : int
        Of so many clients the ends are kept: the first ones of those that are evaluated.
    """

    name: ClassVar[str] = "path"
    needs: ClassVar[Terms] = frozenset({FIXED_ROWS})
    columns: ClassVar[tuple[Column, ...]] = (
        Column("model_0", "first number of the model", about="The first number of the model."),
        Column("model_1", "second number of the model", about="The second number of the model."),
    )
    saved: ClassVar[Set[str]] = frozenset({"rounds", "starts", "ends", "clients", "box", "map"})

    clients: Annotated[int, Ge(1)] = 8

    def functions(self, algorithm: Any) -> LocalWork:
        """Return the client functions of the measure."""
        return LocalWork(algorithm)

    def init(self) -> State:
        """Return no ends and no map; every row counts until there are too many."""
        return {
            "rounds": np.empty(0, np.int64), "starts": np.empty((0, 2)),
            "ends": np.empty((0, 0, 2)), "clients": np.empty(0, np.int64),
            "box": np.empty((0, 2)), "map": np.empty((0, 0)),
            "seen": np.array(0), "stride": np.array(1),
        }  # fmt: skip

    def measure(self, view: MeasureView, known: State) -> tuple[Mapping[str, float], State]:
        """Return where the model is; in the state, the ends of the clients and the map."""
        if view.model.size < 2 or not np.isfinite(view.model[:2]).all():
            return {}, known
        x = view.model[:2].astype(np.float64)
        row = {"model_0": float(x[0]), "model_1": float(x[1])}
        if view.model.size > 2:
            return row, known
        return row, mapped(view, with_ends(view, dict(known), x, self.clients), x)


def with_ends(view: MeasureView, known: State, x: Floats, most: int) -> State:
    """Return the state with end points of the coming local tasks of `most` clients from x (2,)."""
    seen, stride = int(known["seen"]), int(known["stride"])
    known = {**known, "seen": np.array(seen + 1)}
    send = next_tasks(view)
    if seen % stride or send is None:
        return known
    ids = view.clients[:most]
    each = view.mean("ends", send, {"first": 1, "second": 1}, ids, view.steps(ids)).each
    ends = np.stack([each["first"], each["second"]], axis=1).astype(np.float64)
    before = known["ends"] if len(known["ends"]) else np.empty((0, len(ids), 2))
    rows = {
        "rounds": np.append(known["rounds"], view.round),
        "starts": np.concatenate([known["starts"], x[None]]),
        "ends": np.concatenate([before, ends[None]]),
    }
    if len(rows["rounds"]) > MOST:
        rows = {name: values[::2] for name, values in rows.items()}
        stride *= 2
    return {**known, **rows, "clients": ids, "stride": np.array(stride)}


def mapped(view: MeasureView, known: State, x: Floats) -> State:
    """Return the state with a map of F that contains x (2,) and all end points."""
    places = np.concatenate([x[None], known["starts"], known["ends"].reshape(-1, 2)])
    places = places[np.isfinite(places).all(axis=1)]
    low, high = places.min(axis=0), places.max(axis=0)
    box = known["box"]  # (2, 2): the lower and the upper ends of both axes
    if len(box) and (low >= box[0]).all() and (high <= box[1]).all():
        return known
    half = (0.5 + _MARGIN) * max(float((high - low).max()), 1e-3)
    middle = (low + high) / 2
    box = np.stack([middle - half, middle + half])
    across, up = (np.linspace(box[0, k], box[1, k], SIDE) for k in (0, 1))
    points = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2).astype(view.model.dtype)
    values = view.mean("values", {"points": points}, {"value": len(points)}).mean["value"]
    return {**known, "box": box, "map": values.astype(np.float64).reshape(SIDE, SIDE)}
