"""``walk.npz``: where a walking server went, and the graphs it walked on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.columns import names
from rayfed.core.parquet import read, values
from rayfed.engine.run import Run
from rayfed.runs.files.records import Records
from rayfed.runs.files.run_json import one_line
from rayfed.runs.files.store import publish_npz
from rayfed.selection import CONNECTED, POSITION, REPAIRED

if TYPE_CHECKING:
    from rayfed.topology import Graph, Graphs
    from rayfed.topology.walks import Walk

WALK = "walk.npz"
MOST_CLIENTS = 200
"""At most so many clients are recorded with their links: a figure of more cannot be read."""
MOST_ROUNDS = 300
"""At most so many rounds are recorded, evenly spaced."""
MEASURED = 2000
"""Up to so many clients, the stationary law and the second eigenvalue are computed."""
_DIGITS = 12  # further ones are noise of iterative solvers, which may differ between processes
_MOST_NUMBERS = 60_000  # clients times graphs
_MOST_LINKS = 200_000  # of all graphs together


@dataclass(frozen=True)
class WalkPath:
    """The course of a walk, round by round.

    Parameters
    ----------
    positions : (R,) array of int
        The client that was visited in each round; -1 before there was a first.
    times : (R,) array of float
        The virtual second at which its neighbourhood was asked.
    asked : (n,) array of int
        Whoever was asked, once for each Ask.
    """

    positions: Ints
    times: Floats
    asked: Ints


def write_walk(run: Run, records: Records) -> None:
    """Write where a walking server went; a failure is a line in the log, not the run's end."""
    graphs = run.federation.graphs
    if graphs is None or records.rounds.rows < 2:  # row 0 is before the first round
        return
    try:
        rule = run.participation.select.walk_on(graphs)
        if rule is not None:
            publish_npz(records.folder / WALK, walked(graphs, rule, _walk_path(records)))
            log_disconnected(run, records)
    except OSError:
        raise  # the disk may be full: a resume writes it
    except Exception as error:
        records.log(f"the walk could not be recorded: {one_line(error)}")


def log_disconnected(run: Run, records: Records) -> None:
    """Say in the log in how many rounds the graph under the server was not connected, if any."""
    if not {CONNECTED, REPAIRED} <= set(names(run.participation.select.diagnostics)):
        return
    path = records.folder / "rounds.parquet"
    rows = read(path, [CONNECTED, REPAIRED]).slice(1)  # without row 0
    apart = int(np.sum(values(rows, CONNECTED) == 0))
    repaired = int(np.sum(values(rows, REPAIRED) == 1))
    if apart:
        text = f"the graph was not connected in {apart:,} of {rows.num_rows:,} rounds"
        records.log(f"{text}; links were added to connect it in {repaired:,}")


def _walk_path(records: Records) -> WalkPath:
    """Return where the server was in each round, and when it asked whom."""
    folder = records.folder
    rounds = read(folder / "rounds.parquet", ["time_s", POSITION])
    positions = values(rounds, POSITION)[1:]
    events = read(folder / "events.parquet", ["round", "client", "start_s"])
    numbers, first = np.unique(values(events, "round"), return_index=True)
    times = values(rounds, "time_s")[1:].copy()  # of rounds that nobody was asked in
    times[numbers - 1] = values(events, "start_s")[first]
    return WalkPath(positions.astype(np.int64), times, values(events, "client"))


def walked(graphs: Graphs, rule: Walk, path: WalkPath) -> dict[str, Array]:
    """Return the graphs that a walk was on, and its long-run behaviour on them.

    Parameters
    ----------
    graphs : Graphs
    rule : Walk
        The walk, resolved on these graphs.
    path : WalkPath

    Returns
    -------
    dict of str to array
        ``round`` (F,): rounds, evenly thinned; ``graph`` (F,): which of the G graphs below held
        when its cohort was asked; ``epoch`` (G,); ``clients`` (K,): those whose links are kept, the
        most visited where there are too many; ``links`` (E, 2) among them, those of graph g from
        ``starts[g]`` to ``starts[g + 1]``; ``places`` (G, K, 2) in metres, empty without any;
        ``lambda_2`` (G,) and ``law`` (G, N) of the walk on each whole graph: NaN where it has no
        single law, `law` empty and `lambda_2` NaN beyond `MEASURED` clients.
    """
    shown = _evenly(len(path.positions), _most_rounds(graphs))
    epochs = np.array([graphs.epoch(k + 1, float(path.times[k])) for k in shown], dtype=np.int64)
    kept, graph_of = np.unique(epochs, return_inverse=True)
    clients = _clients(graphs.count, path)
    links, places, eigenvalues, laws = [], [], [], []
    for epoch in kept:
        graph = graphs.of(int(epoch))
        links.append(_links_among(graph, clients))
        if graph.positions is not None:
            places.append(graph.positions[clients])
        eigenvalue, law = _long_run(graph, rule)
        eigenvalues.append(eigenvalue)
        laws.append(law)
    return {
        "round": shown + 1,
        "graph": graph_of.astype(np.int64),
        "epoch": kept,
        "clients": clients,
        "links": np.concatenate([np.empty((0, 2)), *links]).astype(np.int32),
        "starts": np.cumsum([0, *map(len, links)]),
        "places": np.array(places).reshape(len(places), len(clients), 2),
        "lambda_2": np.array(eigenvalues, dtype=np.float64),
        "law": np.array(laws, dtype=np.float64).reshape(len(kept), -1),
    }


def _most_rounds(graphs: Graphs) -> int:
    """Return how many rounds are shown, so that the graphs of all stay small."""
    if graphs.fixed:
        return MOST_ROUNDS
    whole = int(graphs.of(0).degrees(np.arange(graphs.count)).sum()) // 2
    links = max(1.0, whole * min(1.0, MOST_CLIENTS / graphs.count) ** 2)  # between kept clients
    return max(2, min(MOST_ROUNDS, _MOST_NUMBERS // graphs.count, int(_MOST_LINKS / links)))


def _evenly(rounds: int, most: int) -> Ints:
    """Return at most so many evenly spaced rounds, counted from 0, the last included."""
    return np.unique(np.linspace(0, rounds - 1, min(rounds, most)).round().astype(np.int64))


def _clients(count: int, path: WalkPath) -> Ints:
    """Return whose links are kept: the most visited, then those who were asked most."""
    if count <= MOST_CLIENTS:
        return np.arange(count)
    visits, asks = (
        np.bincount(ids[ids >= 0], minlength=count) for ids in (path.positions, path.asked)
    )
    return np.sort(np.lexsort((-asks, -visits))[:MOST_CLIENTS])


def _links_among(graph: Graph, clients: Ints) -> Ints:
    """Return the links (E, 2) between some clients, the lower id first."""
    if len(clients) == graph.count:
        return graph.links
    neighbours = [(i, np.intersect1d(graph.neighbours(int(i)), clients)) for i in clients]
    links = [(i, j) for i, near in neighbours for j in near if i < j]
    return np.array(links, dtype=np.int64).reshape(-1, 2)


def _long_run(graph: Graph, rule: Walk) -> tuple[float, Floats]:
    """Return lambda_2(P) and the stationary law (N,) of a walk on one graph."""
    if graph.count > MEASURED:
        return np.nan, np.empty(0)
    from rayfed.topology.chain import Chain  # here: scipy takes a while to import

    chain = Chain(rule.matrix(graph))
    law = chain.stationary if chain.irreducible else np.full(graph.count, np.nan)
    return round(chain.second_eigenvalue, _DIGITS), law.round(_DIGITS)
