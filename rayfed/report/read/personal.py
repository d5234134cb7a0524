"""The clients' personal models, as recorded in ``personal.parquet``."""

from __future__ import annotations

import pandas as pd

from rayfed.report.read.results import Results, RunRecord


def distances(run: RunRecord) -> pd.DataFrame | None:
    """Return the distances of the clients' models from the global one.

    Returns
    -------
    DataFrame or None
        Indexed by evaluated round, one column per client; None unless both models exist.
    """
    if not len(run.personal) or run.personal["distance"].isna().all():
        return None
    return run.personal.pivot(index="round", columns="client", values="distance")


def without_global(results: Results) -> frozenset[str]:
    """Return the names of algorithms with personal models and no global one."""
    return frozenset(
        name
        for name in results.names
        if any(len(run.personal) for run in results.of(name))
        and all(distances(run) is None for run in results.of(name))
    )


def measure(run: RunRecord) -> str:
    """Return the measure of comparisons: "accuracy" if any is recorded, else "loss"."""
    known = run.personal["personal_accuracy"].notna().any()
    return "accuracy" if known else "loss"


def over_rounds(run: RunRecord) -> pd.DataFrame:
    """Return the `measure` of each client's model.

    Returns
    -------
    DataFrame
        Indexed by evaluated round; one column per client with rows to score, the worst at the end
        first.
    """
    column = f"personal_{measure(run)}"
    return run.personal.pivot(index="round", columns="client", values=column)[ends(run).index]


def ends(run: RunRecord) -> pd.DataFrame:
    """Return the final measure of each client's model, and of the shared model at the client.

    Returns
    -------
    DataFrame
        Indexed by client, the worst first, without clients that have no rows to score: ``own`` and
        ``shared`` are the `measure` of each model (``shared`` is NaN without a global model),
        ``asked`` is whether the client took part.
    """
    kind, last = measure(run), run.personal["round"].max()
    rows = run.personal[run.personal["round"] == last].set_index("client")
    frame = pd.DataFrame({"own": rows[f"personal_{kind}"], "shared": rows[kind]})
    if distances(run) is None:
        frame["shared"] = float("nan")
    asked = run.usage.asked
    frame["name"] = run.called(frame.index)
    frame["asked"] = frame.index.isin(asked["client"]) if len(asked) else True
    frame = frame[frame["own"].notna()]
    return frame.sort_values("own", ascending=kind == "accuracy", kind="stable")


def global_value(run: RunRecord) -> float | None:
    """Return the last `measure` of the global model, None if there is none."""
    column = measure(run)
    if distances(run) is None or column not in run.rounds:
        return None
    known = run.rounds[column].dropna()
    return float(known.iloc[-1]) if len(known) else None
