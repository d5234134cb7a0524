"""Models of the clients' own: what each gives its client, at the end and over the rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures.palette import LIGHT, LineStyle
from rayfed.report.figures.style import (
    NAMED,
    algorithm_styles,
    canvas,
    colorbar,
    fade,
    log_ticks,
    powers,
    spans_decades,
    y_range,
)
from rayfed.report.read import personal as own
from rayfed.report.read.results import Results, Run
from rayfed.report.read.series import thin
from rayfed.report.read.units import short_number

HEIGHT = 360
SINGLE = 60  # clients up to which each has a dot
_BANDS = 40  # groups of clients beyond, in a map
_GROUPS, _POINTS = 20, 200  # of a curve
MOST_ROWS = max(SINGLE, _BANDS)


def personal(results: Results, name: str, seed: int) -> go.Figure:
    """Draw what every client's own model gives it, and what the shared one would.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed; its run must have models of the clients' own.

    Returns
    -------
    Figure
        Of few clients two joined dots each, of many a line with a band.
    """
    run = _run(results, name, seed)
    found, kind, style = own.ends(run), own.measure(run), algorithm_styles(results)[name]
    figure = canvas(HEIGHT, hovermode="closest")
    values = found[["own", "shared"]].to_numpy(float)
    log = kind == "loss" and spans_decades([values[np.isfinite(values)]])
    extent = y_range([values.ravel()], log)
    ticks = log_ticks(extent) if log else {}
    figure.update_yaxes(
        title_text=f"{kind} of the client", type="log" if log else "linear", range=extent, **ticks
    )
    figure.update_xaxes(showgrid=False)
    if len(found) <= SINGLE:
        _add_dots(figure, found, kind, style)
    else:
        _add_curves(figure, found, kind, style)
    return figure


def _add_dots(figure: go.Figure, found: pd.DataFrame, kind: str, style: LineStyle) -> None:
    at = np.arange(len(found))
    joined = [[a, b, None] for a, b in found[["own", "shared"]].to_numpy(float).tolist()]
    figure.add_scatter(
        x=np.repeat(at, 3).tolist(),
        y=[value for three in joined for value in three],
        mode="lines",
        line={"color": LIGHT["strip"], "width": 3},
        hoverinfo="skip",
        meta={"part": "change"},
    )
    few = len(found) <= NAMED
    for part in ("shared", "own"):
        colours = [style.light if asked else LIGHT["muted"] for asked in found["asked"]]
        figure.add_scatter(
            x=at.tolist(),
            y=found[part].tolist(),
            mode="markers",
            marker={
                "size": 11 if few else 8,
                "color": colours if part == "own" else LIGHT["background"],
                "line": {"color": colours, "width": 2},
                "opacity": 1,
            },
            customdata=_about(found),
            hovertemplate=_said(found, kind),
            cliponaxis=False,
            meta={"part": part},
        )
    figure.update_xaxes(title_text="client, the worst served by its own model first")
    figure.update_xaxes(range=[-0.7, len(found) - 0.3], showticklabels=few)
    if few:
        figure.update_xaxes(tickvals=at.tolist(), ticktext=[str(client) for client in found.index])


def _said(found: pd.DataFrame, kind: str) -> str:
    """Return what is said of a client whose `_about` is known."""
    said = f"client %{{customdata[0]}}<br>{kind} %{{customdata[1]:.3~g}} with its own model"
    if found["shared"].notna().any():
        said += ", %{customdata[2]:.3~g} with the shared one"
    return said + "%{customdata[3]}<extra></extra>"


def _about(found: pd.DataFrame) -> list[list[Any]]:
    asked = ["" if asked else "<br>never asked" for asked in found["asked"]]
    values = found[["own", "shared"]].to_numpy(float)
    return [
        [client, *(short_number(v, 4) for v in row), text]
        for client, row, text in zip(found.index.tolist(), values, asked, strict=True)
    ]


def _add_curves(figure: go.Figure, found: pd.DataFrame, kind: str, style: LineStyle) -> None:
    """Add the sorted values of clients' own models, and what the shared one gives the same ones."""
    own_values, shared = (found[part].to_numpy(float) for part in ("own", "shared"))
    if np.isfinite(shared).any():
        groups = np.array_split(shared, _GROUPS)
        edges = [100 * k / _GROUPS for k in range(_GROUPS + 1)]
        low, middle, high = (
            [float(np.nanquantile(group, q)) for group in (*groups, groups[-1])]
            for q in (0.1, 0.5, 0.9)
        )
        lines: tuple[tuple[str, list[float], dict[str, Any]], ...] = (
            ("low", low, {"width": 0, "color": LIGHT["waiting"]}),
            ("high", high, {"width": 0, "color": LIGHT["waiting"]}),
            ("shared", middle, {"width": 1.5, "color": LIGHT["ink"], "dash": "3px,3px"}),
        )
        for part, y, outline in lines:
            band = {"fill": "tonexty", "fillcolor": LIGHT["waiting"]} if part == "high" else {}
            figure.add_scatter(
                x=edges, y=y, mode="lines", line=outline | {"shape": "hv"},
                hoverinfo="skip", meta={"part": part}, **band,
            )  # fmt: skip
    at = thin(np.arange(len(found)), _POINTS)
    figure.add_scatter(
        x=(100 * (at + 0.5) / len(found)).tolist(),
        y=own_values[at].tolist(),
        mode="lines",
        line={"color": style.light, "width": 2.5},
        customdata=_about(found.iloc[at]),
        hovertemplate=_said(found, kind),
        meta={"part": "own"},
    )
    figure.update_xaxes(title_text="clients, the worst served by their own model first (%)")
    figure.update_xaxes(range=[0, 100], dtick=20)


def personal_over_rounds(results: Results, name: str, seed: int, columns: int = 100) -> go.Figure:
    """Draw how good every client's own model was in every evaluated round.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed; its run must have models of the clients' own.
    columns : int
        Most rounds that are drawn, evenly spaced.
    """
    run = _run(results, name, seed)
    kind, style = own.measure(run), algorithm_styles(results)[name]
    found = own.over_rounds(run)
    found = found.iloc[thin(np.arange(len(found)), columns)]
    bands = min(_BANDS, found.shape[1]) if found.shape[1] > SINGLE else found.shape[1]
    single = bands == found.shape[1]
    groups = np.array_split(np.arange(found.shape[1]), bands)
    cells = np.array([np.nanmean(found.to_numpy(float)[:, rows], axis=1) for rows in groups])
    figure = canvas(max(240, 15 * bands + 64) if bands <= NAMED else 400, hovermode="closest")
    known = cells[np.isfinite(cells)]
    log = kind == "loss" and spans_decades([known])
    figure.add_heatmap(
        z=_rounded(np.log10(cells) if log else cells),
        x=found.index.tolist(),
        y=list(range(bands)) if single else [100 * (k + 0.5) / bands for k in range(bands)],
        customdata=[[str(client)] * len(found) for client in found.columns] if single else None,
        colorscale=fade(style),
        colorbar=colorbar(f"{kind} of its own model")
        | (powers(known.min(), known.max()) if log else {}),
        text=_rounded(cells) if log else None,
        ygap=1,
        hovertemplate=("client %{customdata}" if single else "clients around %{y:.0f} %")
        + f", round %{{x}}: {kind} %{{{'text' if log else 'z:.3~g'}}}<extra></extra>",
        meta={"part": "own"},
    )
    figure.update_xaxes(title_text="round", showgrid=False)
    low, high = (-0.5, bands - 0.5) if single else (0.0, 100.0)
    unit = "" if single else " (%)"
    figure.update_yaxes(title_text=f"client, worst served at the top{unit}", range=[high, low])
    figure.update_yaxes(showgrid=False)
    if single and bands <= NAMED:
        names = [str(client) for client in found.columns]
        figure.update_yaxes(tickvals=list(range(bands)), ticktext=names)
    return figure


def _rounded(cells: Floats) -> list[list[float | None]]:
    return [[short_number(v, 3) for v in row] for row in cells]


def _run(results: Results, name: str, seed: int) -> Run:
    run = results.run(name, seed)
    if not len(run.personal):
        raise ValueError(f"{run.name}, seed {run.seed}, has no models of the clients' own")
    return run
