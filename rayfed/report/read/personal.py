"""What became of clients' own models (``personal.parquet``; see DESIGN.md)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rayfed.report.read.results import Run


def distances(run: Run) -> pd.DataFrame | None:
    """Return how far each client's own model was from the global one.

    Returns
    -------
    DataFrame or None
        Indexed by evaluated round, a column a client; None where there are not both models.
    """
    if not len(run.personal) or run.personal["distance"].isna().all():
        return None
    return run.personal.pivot(index="round", columns="client", values="distance")


def measure(run: Run) -> str:
    """Return what models are compared by: "accuracy" where any is recorded, else "loss"."""
    known = run.personal["personal_accuracy"].notna().any()
    return "accuracy" if known else "loss"


def over_rounds(run: Run) -> pd.DataFrame:
    """Return the `measure` of each client's own model.

    Returns
    -------
    DataFrame
        Indexed by evaluated round; a column a client that has rows to score, the worst served at
        the end first.
    """
    column = f"personal_{measure(run)}"
    return run.personal.pivot(index="round", columns="client", values=column)[ends(run).index]


def ends(run: Run) -> pd.DataFrame:
    """Return how good each client's own model was at last, and the shared one for the same client.

    Returns
    -------
    DataFrame
        Indexed by client, the worst served first, without clients that have no rows to score:
        ``own`` and ``shared`` are the `measure` of each (`shared` is NaN where there is no global
        model), ``asked`` is whether the client ever was.
    """
    kind, last = measure(run), run.personal["round"].max()
    rows = run.personal[run.personal["round"] == last].set_index("client")
    frame = pd.DataFrame({"own": rows[f"personal_{kind}"], "shared": rows[kind]})
    if distances(run) is None:
        frame["shared"] = float("nan")
    events = run.events
    frame["asked"] = frame.index.isin(events["client"]) if len(events) else True
    frame = frame[frame["own"].notna()]
    return frame.sort_values("own", ascending=kind == "accuracy", kind="stable")


def gains(run: Run) -> tuple[int, int, int]:
    """Return how many clients their own model serves better than the shared one, worse, alike.

    Alike are accuracies within half a point, and losses within 1 % of the shared model's.
    """
    found, scored = ends(run), measure(run) == "accuracy"
    change = (found["own"] - found["shared"]) * (1 if scored else -1)
    margin = 0.005 if scored else 0.01 * found["shared"].abs()
    # Rounding must not part a tie: 0.905 - 0.9 is more than 0.005. A model that diverged has none.
    tied = np.isfinite(change) & (change.abs() <= margin * (1 + 1e-9))
    better, worse = (int((part & ~tied).sum()) for part in (change > 0, change < 0))
    return better, worse, len(found) - better - worse
