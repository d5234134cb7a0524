"""Use of the clients' time: shares, wasted tasks, energy, and the times of rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from rayfed.core.arrays import Floats
from rayfed.report.figures import charts, marks
from rayfed.report.figures.clients import MEANINGS, WORDS, clients_in_rows, tenths
from rayfed.report.figures.palette import LIGHT
from rayfed.report.figures.style import algorithm_styles, canvas, scale, spans_decades
from rayfed.report.panels.base import FigurePanel, RunPanel, Section
from rayfed.report.read import units
from rayfed.report.read.curves import ENERGY, X_AXES
from rayfed.report.read.results import Results, RunRecord
from rayfed.report.read.usage import FAILED, STATES, Usage

MOST_ROWS = 60  # clients beyond this are taken together
_TEXT = 11
_ROW, _WASTE_ROW, _ENERGY_ROW = 34, 58, 38  # pixels
_GREYS = {"finished": "strip", "idle": "waiting", "away": "background"}
_TENTHS = ["fastest tenth", *(f"tenth {k}" for k in range(2, 10)), "slowest tenth"]
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
    names = list(map(str, shares.index))
    figure = charts.rows(names, _ROW, bargap=0.3, uniformtext={"mode": "hide", "minsize": _TEXT})
    _add_states(figure, shares, [styles[name].light for name in names])
    written = {"texttemplate": "%{x:.0f} %", "textfont": {"color": LIGHT["ink"], "size": _TEXT}}
    figure.update_traces(written | marks.INSIDE)
    figure.update_traces(textfont_color=LIGHT["background"], selector=_part("computing"))
    return figure.update_traces(texttemplate="", selector=_part("communicating"))


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
    names = _TENTHS if many else run.called(shares.index)
    figure = canvas(max(200, 64 + (30 if many else 18) * len(shares)), barmode="stack", bargap=0.22)
    _add_states(figure, shares, algorithm_styles(results)[name].light, "" if many else "client ")
    figure.update_traces(customdata=names)
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


def _states(shares: pd.DataFrame) -> dict[str, str]:
    """Return the recorded states and their names."""
    if shares["away"].notna().any():
        return WORDS
    return {s: WORDS[s] for s in STATES[:-1]} | {"idle": f"{WORDS['idle']} or away"}


def _add_states(figure: go.Figure, shares: pd.DataFrame, colours: Any, of: str = "") -> None:
    """Add a bar for each row of shares, from 0 to 1: its states, in percent."""
    states = _states(shares)
    fills = {s: LIGHT[_GREYS[s]] if s in _GREYS else colours for s in states}
    client = f"{of}%{{customdata}}<br>" if of else ""
    lengths = 100 * shares.fillna(0.0)
    hover = f"{client}{{part}}: %{{x:.3~g}} %"
    charts.parts(figure, np.arange(len(shares)), lengths, fills, hover, states)
    finer = {"pattern_size": 4, "pattern_solidity": 0.5}
    figure.update_traces(marker=finer, selector=_part("communicating"))
    rim = {"line": {"width": 1, "color": LIGHT["waiting"]}}
    figure.update_traces(marker=rim, selector=_part("away"))
    figure.update_xaxes(title_text="share of the simulated time (%)", range=[0, 100])


def _part(name: str) -> dict[str, Any]:
    """Return the selector of a part's bars."""
    return {"meta": {"part": name}}


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
        words = _states(algorithm_shares(self.results)) | {"finished": MEANINGS["finished"]}
        return list(words.items())

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
        "The time of each client that took part, in the colours of the figure above; the "
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
    figure = charts.rows(list(map(str, computing.index)), _WASTE_ROW)
    y, failed = np.arange(len(computing)) - 0.2, computing[list(FAILED)].sum(axis=1)
    hover, amounts = "{part}: %{customdata}", computing.map(units.duration)
    charts.parts(figure, y, shares, _fills(FAILED), hover, about=amounts, width=0.34)
    vain = shares[list(FAILED)].sum(axis=1).to_numpy()
    pairs = zip(vain, failed, strict=True)
    charts.ends(figure, y, vain, [f"{units.share(a / 100)}, {units.duration(b)}" for a, b in pairs])
    sent = bytes_wasted(results).reindex(computing.index)
    below, sent = (y + 0.4)[sent["share"].notna()], sent.dropna(subset="share")
    lost, grey = sent.assign(bytes=100 * sent["share"]), {"bytes": LIGHT["muted"]}
    charts.parts(figure, below, lost, grey, "bytes in vain: %{x:.3~g} %", width=0.34)
    known = sent[["share", "wasted"]].to_numpy(float)
    texts = [f"{units.share(a)}, {units.size(b)}" for a, b in known]
    charts.ends(figure, below, lost["bytes"].to_numpy(), texts)
    longest = max(vain.max(), lost["bytes"].max() if len(lost) else 0.0) or 1.0
    return figure.update_xaxes(title_text="in vain (%)", range=[0, _ROOM * longest])


def energy(results: Results) -> go.Figure:
    """Draw the energy of computing and of transfers.

    Parameters
    ----------
    results : Results
        A result folder.

    Returns
    -------
    Figure
        A bar for each algorithm, mean over seeds, with its wasted share and its carbon.

    Raises
    ------
    NothingToDraw
        If no run recorded energy.
    """
    found = results.means(lambda run: run.usage.energy).T
    if not len(found):
        raise marks.NothingToDraw("no energy was recorded; give clients.energy")
    styles, names = algorithm_styles(results), list(map(str, found.index))
    figure = charts.rows(names, _ENERGY_ROW)
    total, sent = found["energy_j"], found["energy_radio_j"]
    joules = pd.DataFrame({"computing": total - sent, "communicating": sent})
    unit, worth = X_AXES[ENERGY].unit(float(total.max()))
    colours = [styles[name].light for name in names]
    y, fills = np.arange(len(joules)), {"computing": colours, "communicating": colours}
    hover, amounts = "{part}: %{customdata}", joules.map(units.energy)
    charts.parts(figure, y, joules / worth, fills, hover, about=amounts, width=0.6)
    finer = {"pattern_size": 4, "pattern_solidity": 0.5}
    figure.update_traces(marker=finer, selector=_part("communicating"))
    shares = (found["energy_wasted_j"] / total.replace(0.0, np.nan)).fillna(0.0).map(units.share)
    texts = total.map(units.energy) + ", " + shares + " in vain"
    if "carbon_g" in found:
        texts += ", " + found["carbon_g"].map(units.number) + " g CO2e"
    charts.ends(figure, y, total / worth, texts.tolist())
    top = float(total.max()) / worth or 1.0
    return figure.update_xaxes(title_text=f"energy ({unit})", range=[0, _ROOM * top])


def _fills(failed: Iterable[str]) -> dict[str, str]:
    """Return the colours of tasks without a used reply."""
    return {status: LIGHT.get(status, LIGHT["strip"]) for status in failed}


def computing_by_status(results: Results) -> pd.DataFrame:
    """Return seconds of computing by the fate of the task, a row for each algorithm, means."""
    return _means(results, lambda usage: usage.computing)


def _means(results: Results, what: Callable[[Usage], pd.Series | None]) -> pd.DataFrame:
    """Return means over the runs with recorded client activity."""
    return results.means(lambda run: None if run.usage.shares is None else what(run.usage)).T


def bytes_wasted(results: Results) -> pd.DataFrame:
    """Return the bytes in vain and their share of all, a row an algorithm, means over seeds."""
    found = results.means(lambda run: pd.Series(run.usage.totals, dtype=float)).T
    columns = ["wasted_bytes", "wasted_bytes_share"]
    return found.reindex(columns=columns).set_axis(["wasted", "share"], axis=1)


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
    """The energy of computing and of transfers, where it is recorded."""

    name: ClassVar[str] = "energy"
    section = Section.CLIENTS
    rank = 40
    draws = (energy,)
    heading = "Energy"
    best_only = True
    how = (
        "The energy of all tasks that are over by the settings of clients.energy, mean over "
        "seeds: computing, and, patterned, transfers with the tails of the radio. Idle devices "
        "are not counted."
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
    of = "rounds and updates" if results.asynchronous else "rounds"
    return charts.steps(results, values, log, hover, title, of)


def staleness(results: Results) -> go.Figure:
    """Draw the distribution of staleness: the share of updates up to each staleness.

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
    return charts.steps(results, values, False, hover, title, "the updates")


def values_of(results: Results, what: Callable[[Usage], Floats]) -> Mapping[str, Floats]:
    """Return the values of all seeds of each algorithm that is no baseline and has any."""
    found = {
        name: np.concatenate([np.empty(0), *(what(run.usage) for run in results.usable(name))])
        for name in results.names
        if name not in results.baselines
    }
    return {name: np.sort(values) for name, values in found.items() if len(values)}


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
    """Staleness of the updates of asynchronous algorithms."""

    name: ClassVar[str] = "staleness"
    section = Section.CLIENTS
    rank = 60
    draws = (staleness,)
    heading = "Staleness of the updates"
    best_only = True
    keyed = True
