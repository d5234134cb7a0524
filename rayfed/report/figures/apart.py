"""The colour of a walk's dots: how far clients' own models are from the server's at each step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rayfed.report.figures.palette import LIGHT
from rayfed.report.read import personal
from rayfed.report.read.results import Run
from rayfed.report.read.series import thin
from rayfed.report.read.units import count, number, short_number

Steps = Mapping[str, Any]
Apart = Mapping[str, Any]


def apart_of(run: Run, steps: Steps, most: int) -> Apart | None:
    """Return how far apart models are at the steps of a walk, in about `most` numbers.

    Parameters
    ----------
    run : Run
    steps : mapping
        What `walk.steps_of` returned.
    most : int
        Beyond it, evaluations are left out, evenly.

    Returns
    -------
    dict or None
        None where clients have no models of their own beside a global one. ``round`` (E,): rounds
        of evaluations; ``distance`` (E, K) of the clients of `steps`, None where not evaluated;
        ``of``: for each step the newest evaluation at or before it; ``since`` (K,): the round in
        which each client was asked first, None if never; ``top``: the largest distance that any
        step shows; ``waiting``: the colour of who was not asked so far.
    """
    found = personal.distances(run)
    if found is None:
        return None
    rounds = found.index.to_numpy()
    newest = _newest(rounds, steps)
    chosen = np.unique(newest)
    shown = min(len(chosen), max(2, most // max(1, len(steps["clients"]))))
    chosen = thin(chosen, shown)
    of = _newest(rounds[chosen], steps)
    held = found.iloc[chosen].reindex(columns=steps["clients"]).to_numpy(float)
    first = pd.Series(dtype=float)
    if len(run.events):
        first = run.events.groupby("client")["round"].min()
    since = first.reindex(steps["clients"]).to_numpy(float)
    there = since <= np.array(steps["round"])[:, None]
    return {
        "round": rounds[chosen].tolist(),
        "distance": [[short_number(v, 3) for v in row] for row in held],
        "of": of.tolist(),
        "since": [None if np.isnan(k) else int(k) for k in since],
        "top": float(f"{np.nanmax(np.where(there, held[of], 0.0)):.3g}") or 1.0,
        "waiting": LIGHT["waiting"],
    }


def fill(apart: Apart, steps: Steps, at: int) -> dict[str, list[Any]]:
    """Return ``color`` and ``text`` of each client's dot at one step."""
    row = apart["of"][at]
    colours, texts = [], []
    for distance, since in zip(apart["distance"][row], apart["since"], strict=True):
        if since is None or since > steps["round"][at]:
            colours.append(apart["waiting"])
            texts.append("not asked so far")
        elif distance is None:
            colours.append(apart["waiting"])
            texts.append("its own model was not measured")
        else:
            colours.append(distance)
            told = count(apart["round"][row])
            texts.append(f"its own model {number(distance)} from the server's in round {told}")
    return {"color": colours, "text": texts}


def _newest(rounds: npt.NDArray[Any], steps: Steps) -> npt.NDArray[Any]:
    """Return for each step which evaluation is the newest; the first one where all came later."""
    return np.asarray(np.maximum(0, np.searchsorted(rounds, steps["round"], side="right") - 1))
