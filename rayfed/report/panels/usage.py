"""Use of the clients' time: shares, wasted tasks, energy, and the times of rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import marks
from rayfed.report.figures.clients import PATTERNS, WORDS, clients_in_rows, tenths
from rayfed.report.figures.labels import plain
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import algorithm_styles, canvas, fitted, line, scale, spans_decades
from rayfed.report.panels.base import FigurePanel, RunPanel, Section
from rayfed.report.read import units
from rayfed.report.read.curves import X_AXES, Axis, thin
from rayfed.report.read.results import Results, RunRecord
from rayfed.report.read.usage import FAILED, STATES, Usage

MOST_ROWS = 60  # clients beyond this are taken together
_LEAST_TEXT = 5.0  # percent of the width from which a part is labelled
_TEXT = 11
_ROW, _MARGINS = 30, 64  # pixels
_GREYS = {"finished": "strip", "idle": "waiting", "away": "background"}
_TENTHS = ["fastest tenth", *(f"tenth {k}" for k in range(2, 10)), "slowest tenth"]
_WASTE_ROW = 58  # pixels
_ENERGY = Axis("energy_j", "energy", (("J", 1.0), ("kJ", 1e3), ("MJ", 1e6), ("GJ", 1e9)))
_TIMES_HEIGHT = 320
_MOST = 400  # points of a line
_OUTSIDE = 0.005  # share of the values at each end for which the axis is not made longer
_ROUNDING = 1e-9  # relative to the longest time
_ROOM = 1.9  # the axis against the longest bar: there is text behind it


def utilisation(results: Results) -> go.Figure:
    """Draw the use of client time by state, a bar for each algorithm.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        Shares of the simulated time of all clients that were asked, means over seeds.

    Raises
    ------
    ValueError
        If no run recorded what its clients did.
    """
    shares = algorithm_shares(results)
    if not len(shares):
        raise marks.NothingToDraw("no run recorded what its clients did")
    styles = algorithm_styles(results)
    figure = canvas(_MARGINS + (_ROW + 4) * len(shares), barmode="stack", bargap=0.3)
    names = [plain(str(name)) for name in shares.index]
    _stack(figure, names, shares, [styles[str(name)].light for name in shares.index])
    marks.rows_down(figure, names)
    return figure


def algorithm_shares(results: Results) -> pd.DataFrame:
    """Return the share of the clients' time in each state, a row for each algorithm that has it.

    Runs that go on are left out where others have ended: when clients were away is known at the
    end.
    """
    ended = any(run.status != "running" for run in results.runs_found)
    shares = results.means(
        lambda run: None if ended and run.status == "running" else run.usage.shares
    ).T
    return shares.reindex(columns=list(STATES)) if len(shares) else shares


def utilisation_of_clients(results: Results, name: str, seed: int) -> go.Figure:
    """Draw the use of each client's time in a run, the fastest at the top.

    Parameters
    ----------
    results : Results
        A result folder.
    name : str
        The algorithm.
    seed : int
        The seed.

    Returns
    -------
    Figure
        A bar for each client; of more than 60 clients a bar for each tenth of them by speed.
        ``layout.meta["note"]`` says what was not recorded or taken together.
    """
    run = results.run(name, seed)
    seconds = _seconds(run)
    many = len(seconds) > MOST_ROWS
    note = _never_asked(run)
    if many:
        text = f"{len(seconds):,} clients are taken together in tenths of equal speed rank. "
        note, seconds = text + note, tenths(seconds)
    shares = seconds.div(seconds.sum(axis=1), axis=0)
    height = _MARGINS + (_ROW if many else 18) * len(shares)
    figure = canvas(max(200, height), barmode="stack", bargap=0.22)
    colours = [algorithm_styles(results)[name].light] * len(shares)
    names = _TENTHS if many else run.called(shares.index)
    _stack(figure, np.arange(len(shares)), shares, colours, None if many else names)
    clients_in_rows(figure, names)
    if many:
        figure.update_yaxes(title_text="")
    return figure.update_layout(meta={"note": note})


def _seconds(run: RunRecord) -> pd.DataFrame:
    """Return each client's seconds by state, the fastest first."""
    seconds = run.usage.activity
    if seconds is None:
        raise marks.NothingToDraw.of(run, "has no record of what its clients did")
    order = run.clients_by_speed.index
    return seconds.loc[order[order.isin(seconds.index)]]


def _never_asked(run: RunRecord) -> str:
    """Return the number of clients without a bar, where the run records their number."""
    count = ((run.info.get("scenario") or {}).get("clients") or {}).get("count")
    never = int(count or 0) - len(run.usage.asked)
    if never <= 0:
        return ""
    return f"{never:,} of {count:,} clients {'was' if never == 1 else 'were'} never asked."


def _stack(
    figure: go.Figure, rows: Any, shares: pd.DataFrame, colours: list[str], ids: Any = None
) -> None:
    """Add a bar for each row: its states one after the other, in percent."""
    away = shares["away"].notna().any()
    for state in STATES if away else STATES[:-1]:
        words = WORDS[state] if away or state != "idle" else f"{WORDS[state]}, or away"
        values = 100 * shares[state].fillna(0.0).to_numpy(float)
        text = [f"{v:.0f} %" if v >= _LEAST_TEXT else "" for v in values]
        bare = state == "communicating" or ids is not None  # too thin, or on a pattern
        ink = LIGHT["background" if state == "computing" else "ink"]
        client = "" if ids is None else "client %{customdata}<br>"
        marks.bars(
            figure, state, values.round(4), rows, LIGHT[_GREYS[state]] if state in _GREYS else
            colours, f"{client}{words}: %{{x:.3~g}} %", "|" * (state == "communicating"),
            orientation="h", name=words, customdata=ids, text=None if bare else text,
            textfont={"color": ink, "size": _TEXT}, **marks.INSIDE,
        )  # fmt: skip
    finer = {"pattern_size": 4, "pattern_solidity": 0.5}
    figure.update_traces(marker=finer, selector={"meta": {"part": "communicating"}})
    rim = {"line": {"width": 1, "color": LIGHT["waiting"]}}
    figure.update_traces(marker=rim, selector={"meta": {"part": "away"}})
    figure.update_xaxes(title_text="share of the simulated time (%)", range=[0, 100])
    # Numbers that would have to shrink to fit are left out.
    figure.update_layout(uniformtext={"mode": "hide", "minsize": _TEXT})


class UtilisationPanel(FigurePanel):
    """A bar for each algorithm: the shares of the time of its clients."""

    name: ClassVar[str] = "utilisation"
    section = Section.CLIENTS
    rank = 10
    draws = (utilisation,)
    heading = "Use of the clients' time"
    best_only = True

    @property
    def key(self) -> list[tuple[str, str]]:
        """The key of the bars: the class of each box, and its meaning."""
        away = algorithm_shares(self.results)["away"].notna().any()
        words = WORDS | ({} if away else {"idle": f"{WORDS['idle']}, or away"})
        return [(state, text) for state, text in words.items() if away or state != "away"]

    @property
    def colour(self) -> str:
        """The colour of the first algorithm that has a bar, as the style sheet names it."""
        first = str(algorithm_shares(self.results).index[0])
        return f"var(--a{self.source.colour_place(first)})"


class ClientsUtilisationPanel(RunPanel):
    """A bar for each client of the chosen run, or for each tenth of them by speed."""

    name: ClassVar[str] = "utilisation-clients"
    section = Section.CLIENTS
    rank = 20
    draws = (utilisation_of_clients,)
    heading = "Use of each client's time"
    how = (
        "The time of each client that was asked, in the colours of the figure above; the "
        "fastest client is at the top. Shows the run chosen above."
    )


def waste(results: Results) -> go.Figure:
    """Draw which share of computing and of bytes went into replies that were not used.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        Two bars for each algorithm, means over seeds: above computing by what became of the task,
        below bytes.

    Raises
    ------
    NothingToDraw
        If no run recorded what its clients did.
    """
    computing = computing_by_status(results)
    if not len(computing):
        raise marks.NothingToDraw("no run recorded what its clients did")
    shares = 100 * computing.div(computing.sum(axis=1).replace(0.0, np.nan), axis=0).fillna(0.0)
    figure = _named_rows(list(map(str, computing.index)))
    y = np.arange(len(computing), dtype=np.float64) - 0.2
    _add_works(figure, y, shares, computing, units.duration, FAILED)
    ends = shares[list(FAILED)].sum(axis=1).to_numpy()
    _add_ends(figure, y, ends, map(units.duration, computing[list(FAILED)].sum(axis=1)))
    sent = bytes_wasted(results).reindex(computing.index)
    known = sent["share"].notna().to_numpy()
    below, lost = (y + 0.4)[known], 100 * sent["share"].to_numpy()[known]
    marks.bars(
        figure, "bytes", lost.round(4), below, LIGHT["muted"], "bytes in vain: %{x:.3~g} %",
        orientation="h", name="bytes", width=0.34,
    )  # fmt: skip
    _add_ends(figure, below, lost, map(units.size, sent["wasted"][known]))
    longest = max(ends.max(), lost.max(initial=0.0)) or 1.0
    figure.update_xaxes(title_text="in vain (%)", range=[0, _ROOM * longest])
    return figure


def energy(results: Results) -> go.Figure:
    """Draw the energy of computing, and its wasted part.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        A bar for each algorithm, mean over seeds, by what became of the task.

    Raises
    ------
    NothingToDraw
        If the power of no client is recorded.
    """
    joules = energy_by_status(results)
    if not len(joules):
        raise marks.NothingToDraw("no power of clients is known; give a delay trace with watts")
    figure = _named_rows(list(map(str, joules.index)), 38)
    whole = joules.sum(axis=1).to_numpy(float)
    unit, worth = _ENERGY.unit(float(whole.max()))
    y = np.arange(len(joules), dtype=float)
    styles = algorithm_styles(results)
    own = [styles[str(name)].light for name in joules.index]
    _add_works(figure, y, joules / worth, joules, units.energy, ("used", *FAILED), 0.6, own)
    failed = joules[list(FAILED)].sum(axis=1)
    texts = [
        f"{units.energy(all_)}, {units.share(lost / all_ if all_ else 0.0)} in vain"
        for all_, lost in zip(whole, failed, strict=True)
    ]
    _add_texts(figure, y, whole / worth, texts)
    top = float(whole.max()) / worth or 1.0
    figure.update_xaxes(title_text=f"energy of computing ({unit})", range=[0, _ROOM * top])
    return figure


def computing_by_status(results: Results) -> pd.DataFrame:
    """Return seconds of computing by the fate of the task, a row for each algorithm, means."""
    return _means(results, lambda usage: usage.computing)


def energy_by_status(results: Results) -> pd.DataFrame:
    """Return joules of computing by the fate of the task, a row for each algorithm, means."""
    return _means(results, lambda usage: usage.energy)


def _means(results: Results, what: Callable[[Usage], pd.Series | None]) -> pd.DataFrame:
    """Return means over the runs with recorded client activity."""
    return results.means(lambda run: None if run.usage.shares is None else what(run.usage)).T


def bytes_wasted(results: Results) -> pd.DataFrame:
    """Return the bytes in vain and their share of all, a row an algorithm, means over seeds."""
    found = results.means(lambda run: pd.Series(run.usage.totals, dtype=float)).T
    columns = ["wasted_bytes", "wasted_bytes_share"]
    return found.reindex(columns=columns).set_axis(["wasted", "share"], axis=1)


def _add_works(
    figure: go.Figure, y: Floats, lengths: pd.DataFrame, amounts: pd.DataFrame,
    text: Callable[[float], str], parts: Sequence[str], width: float = 0.34,
    own: Sequence[str] = (),
) -> None:  # fmt: skip
    """Add a part of each bar for every status of tasks; `own` are the colours of those used."""
    for status in parts:
        colour = own if status == "used" else LIGHT.get(status, LIGHT["strip"])
        marks.bars(
            figure, status, lengths[status].to_numpy(float).round(6), y, colour,
            f"{status}: %{{customdata}}", PATTERNS.get(status, ""), orientation="h", name=status,
            width=width, customdata=[text(float(value)) for value in amounts[status]],
        )  # fmt: skip


def _add_ends(figure: go.Figure, y: Floats, ends: Floats, amounts: Iterable[str]) -> None:
    """Write percentages and amounts behind the ends of bars."""
    pairs = zip(ends, amounts, strict=True)
    _add_texts(figure, y, ends, [f"{units.share(end / 100)}, {amount}" for end, amount in pairs])


def _add_texts(figure: go.Figure, y: Floats, ends: Floats, texts: Sequence[str]) -> None:
    """Write behind the ends of bars."""
    font, shown = {"size": 12, "color": LIGHT["ink"]}, [f" {text}" for text in texts]
    marks.texts(figure, "text", ends, y, shown, font, textposition="middle right")


def _named_rows(names: Sequence[str], row: int = _WASTE_ROW) -> go.Figure:
    """Return a canvas with a row for each algorithm."""
    figure = canvas(_MARGINS + row * len(names), barmode="stack", hovermode="closest")
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=[plain(name) for name in names],
        range=[len(names) - 0.5, -0.5], automargin=True, showgrid=False, nticks=None,
    )  # fmt: skip
    return figure


class WastePanel(FigurePanel):
    """The shares of computing and of bytes that went into replies that were not used."""

    name: ClassVar[str] = "waste"
    section = Section.CLIENTS
    rank = 30
    draws = (waste,)
    heading = "Computing and bytes in vain"
    best_only = True

    @property
    def applies(self) -> bool:
        """Whether any reply was not used."""
        computing, sent = computing_by_status(self.results), bytes_wasted(self.results)
        vain = (computing.reindex(columns=list(FAILED)) > 0).to_numpy().any()
        return len(computing) > 0 and bool(vain or (sent["wasted"] > 0).any())

    @property
    def key(self) -> list[tuple[str, str, str]]:
        """The key of the bars: class and style of each box, and its meaning."""
        computing = computing_by_status(self.results)
        styles = {"unfinished": "background:var(--strip)"}
        found = [status for status in FAILED if (computing[status] > 0).any()]
        boxes = [("" if s in styles else s, styles.get(s, ""), s) for s in found]
        return [*boxes, ("", "background:var(--muted)", "bytes")]


class EnergyPanel(FigurePanel):
    """The energy of computing, where the power of devices is known."""

    name: ClassVar[str] = "energy"
    section = Section.CLIENTS
    rank = 40
    draws = (energy,)
    heading = "Energy of computing"
    best_only = True
    how = (
        "The power of each client's device times the seconds that it computed, over all "
        "clients, mean over seeds; patterned what was in vain, as above. Communicating and "
        "waiting are not counted."
    )


def round_times(results: Results) -> go.Figure:
    """Draw the distribution of round times: the share of rounds up to each time.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        A rising line for each algorithm, over all seeds; in asynchronous runs the time between two
        updates. The axis of times is logarithmic if they span a factor of 10.

    Raises
    ------
    ValueError
        If no round took any time.
    """
    values = values_of(results, lambda usage: usage.round_times)
    if not any((times > 0).any() for times in values.values()):
        raise marks.NothingToDraw("no round took any time")
    scaled = scale(X_AXES["time_s"], max(float(times.max()) for times in values.values()))
    values = {name: times / scaled["worth"] for name, times in values.items()}
    log = spans_decades([times[times > 0] for times in values.values()])
    what = "round or update" if results.asynchronous else "round"
    title = f"time of a {what} ({scaled['unit']})"
    hover = "%{y:.0f} % took at most %{x:.3~g} " + scaled["unit"]
    return _rising(results, values, log, hover, title, "them")


def staleness(results: Results) -> go.Figure:
    """Draw the distribution of staleness: the share of replies up to each staleness.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        A rising line for each asynchronous algorithm, over all seeds.

    Raises
    ------
    ValueError
        If no run is asynchronous.
    """
    values = values_of(results, lambda usage: usage.staleness)
    if not values:
        raise marks.NothingToDraw("no reply has a staleness: all algorithms have rounds")
    title = "staleness (updates of the model meanwhile)"
    hover = "%{y:.0f} % are at most %{x:.0f} updates old"
    return _rising(results, values, False, hover, title, "the replies")


def values_of(results: Results, what: Callable[[Usage], Floats]) -> Mapping[str, Floats]:
    """Return the values of all seeds of each algorithm that is no baseline and has any."""
    found = {
        name: np.concatenate([np.empty(0), *(what(run.usage) for run in results.usable(name))])
        for name in results.names
        if name not in results.baselines
    }
    return {name: np.sort(values) for name, values in found.items() if len(values)}


def _most(values: Floats) -> Floats:
    """Return the least and the largest of sorted values, but for half a percent at each end."""
    low = np.quantile(values, _OUTSIDE, method="lower")
    return np.array([low, np.quantile(values, 1 - _OUTSIDE, method="higher")])


def _rising(
    results: Results, values: Mapping[str, Floats], log: bool, hover: str, title: str, of: str
) -> go.Figure:
    """Return a figure of the empirical distribution of each algorithm's values, in percent."""
    styles = algorithm_styles(results)
    figure = canvas(_TIMES_HEIGHT, hovermode="closest", dragmode="zoom")
    for name, sorted_ in values.items():
        at = thin(np.arange(len(sorted_)), _MOST)
        # The line begins on the ground, at the least value.
        x = np.concatenate([sorted_[:1], sorted_[at]])
        y = np.concatenate([[0.0], 100 * (at + 1) / len(sorted_)]).round(3)
        outline = {**line(styles[name]), "shape": "hv"}
        as_ = {"hover": f"{plain(name)}: {hover}", "of": name, "name": plain(name)}
        marks.lines(figure, "line", x.round(6), y, outline, **as_)
    every = [_most(part[part > 0] if log else part) for part in values.values()]
    figure.update_xaxes(fitted(title, every, log))
    what = f"share of {of} (%)"
    return figure.update_yaxes(title_text=what, range=[0, 102], tickvals=[0, 25, 50, 75, 100])


class RoundTimesPanel(FigurePanel):
    """Round times of each algorithm."""

    name: ClassVar[str] = "round-times"
    section = Section.CLIENTS
    rank = 50
    draws = (round_times,)
    heading = "Round times"
    best_only = True
    keyed = True

    @property
    def applies(self) -> bool:
        """Whether some rounds of an algorithm took longer than others, by more than rounding."""
        values = values_of(self.results, lambda usage: usage.round_times)
        return any(times[-1] - times[0] > _ROUNDING * times[-1] for times in values.values())

    @property
    def how(self) -> str:
        """Caption of the figure."""
        if self.results.asynchronous:
            return (
                "Each line rises from the shortest time to the longest, over all seeds. For "
                "asynchronous algorithms it is the time between two updates of the model."
            )
        return "Each line rises from the shortest round to the longest, over all seeds."


class StalenessPanel(FigurePanel):
    """Staleness of the replies of asynchronous algorithms."""

    name: ClassVar[str] = "staleness"
    section = Section.CLIENTS
    rank = 60
    draws = (staleness,)
    heading = "Staleness of the replies"
    best_only = True
    keyed = True
