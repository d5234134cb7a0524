"""Outputs at the end of a run: model, clients, their absences, graphs, and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from rayfed.algorithms.gossip import Gossip
from rayfed.algorithms.meeting import Meeting
from rayfed.channel.faulty import fault_names
from rayfed.core.arrays import Array, Floats, Ints, unique_inverse
from rayfed.core.columns import names
from rayfed.core.parquet import read, schema, table, values
from rayfed.core.summary.absence import AWAY_CLIENTS
from rayfed.engine import columns
from rayfed.engine.clock import StepCounter
from rayfed.engine.measuring import Measures
from rayfed.engine.run import Run
from rayfed.engine.state import Row, RunState
from rayfed.engine.tasks import USED, CountedTasks
from rayfed.population import Population
from rayfed.runs.files import summaries
from rayfed.runs.files.records import Records, write_parquet
from rayfed.runs.files.run_json import one_line
from rayfed.runs.files.store import publish_npz
from rayfed.runs.forecast import WHY_EMPTY, few_asked
from rayfed.runs.resume import change_warnings
from rayfed.selection import CONNECTED, POSITION, REPAIRED
from rayfed.topology.mixing import MixingRule, mixing

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from rayfed.topology import Graph, Graphs


MOST_STEPS = 20_000
"""Changes of availability, of a client that changes by the clock or of anybody; a run with more is
recorded up to there."""
MOST_INTERVALS = 100_000
"""Intervals of all clients; a run with more is recorded up to there."""
_WORSE = 1.2  # times the loss of guessing: regularisers and rows that are held by few add to it
_LOGARITHMIC = ("cross-entropy", "binary-cross-entropy")
_FEW_EMPTY = 0.1  # of all rounds: clients that come and go leave some rounds empty


def write_outputs(
    run: Run, records: Records, measures: Measures, last: RunState, rows: tuple[Row, Row]
) -> None:
    """Write the outputs at the end of a run.

    Parameters
    ----------
    run : Run
    records : Records
        The run's folder, with all rows of all rounds.
    measures : Measures
        Asks the clients about the last model.
    last : RunState
        The state after the last round, evaluated.
    rows : pair of dict
        The last row of ``rounds`` as it was recorded, and evaluated.
    """
    server = {f"state.{name}": value for name, value in last.state.items()}
    saved = {
        f"measure.{name}.{array}": last.measured[name][array]
        for name, measure in run.measuring.measures.items()
        for array in sorted(measure.saved & set(last.measured.get(name, ())))
    }
    publish_npz(records.folder / "model.npz", {"x": last.model, **server, **saved})
    records.finish(rows, last.personal, _unfinished(run, last))
    made = {"clients": clients_table(run, records, measures, last)}
    made["away"] = away_table(run, records, made["clients"])
    for name, found in made.items():
        write_parquet(found, records.folder / f"{name}.parquet")
    summaries.finish(records.folder, run.record, **made)
    write_graphs(run, records)


def _unfinished(run: Run, last: RunState) -> CountedTasks | None:
    """Return the works that a run leaves behind; None if it cannot leave any."""
    if last.timeline is None:
        return None
    tasks = last.timeline.unfinished(in_time=run.training.algorithm.asynchronous)
    return CountedTasks(tasks, np.full(len(tasks), np.nan), -1, last.timeline.version)


def run_warnings(run: Run, records: Records) -> list[str]:
    """Return warnings for readers: data, weights, empty rounds, diagnostics, theory."""
    algorithm, measures = run.training.algorithm, run.measuring.measures
    diagnostics = names(algorithm.diagnostics)
    secure = names(columns.SECURE) if run.secure else ()
    wanted = ["participants", "loss", *diagnostics, *secure]
    rows = read(records.folder / "rounds.parquet", wanted)
    warnings = algorithm.warnings({name: values(rows, name) for name in diagnostics})
    noted = [run.record[name] for name in ("data_note", "aim") if run.record.get(name)]
    noted += [*(run.record.get("beware") or ()), *_guessing(run, values(rows, "loss"))]
    if not algorithm.asynchronous:
        noted += _empty(values(rows, "participants")[1:])  # row 0 is before the first round
    noted += _thin(run, records, max(0, rows.num_rows - 1))
    noted += [text for name in secure for text in _wrapped(values(rows, name)[1:])]
    noted += change_warnings(run.record.get("changes") or ())
    return [*noted, *warnings, *(text for each in measures.values() for text in each.warnings())]


def _empty(participants: Ints) -> list[str]:
    """Return a warning if all rounds used no reply, or more than a few did."""
    empty, rounds = int(np.sum(participants == 0)), len(participants)
    if empty <= max(_FEW_EMPTY * rounds, 1) and (empty == 0 or empty < rounds):
        return []
    return [f"{empty:,} of {rounds:,} rounds used no reply: {WHY_EMPTY}"]


def _guessing(run: Run, losses: Floats) -> list[str]:
    """Return a warning if the loss of classes ended worse than that of a guess."""
    classes, problem = run.record["data"]["classes"], run.training.problem
    known = losses[np.isfinite(losses)]
    ours = type(problem).__module__.startswith("rayfed.problems.")
    if not (ours and getattr(problem, "loss", _LOGARITHMIC[0]) in _LOGARITHMIC):
        return []  # another loss
    if problem.task in ("regression", "own") or not classes or not len(known):
        return []
    guess = float(np.log(classes))
    if known[-1] <= _WORSE * guess:
        return []
    return [
        f"the loss ended at {known[-1]:.3g}, that of guessing among {classes:,} classes is "
        f"{guess:.3g}: are steps too long, features unscaled, or labels wrong?"
    ]


def _thin(run: Run, records: Records, rounds: int) -> list[str]:
    """Return a warning if far fewer clients were asked than the scenario wants."""
    usage = read(records.folder / "usage.parquet", ["client", "rounds"])
    asked = np.repeat(values(usage, "client"), values(usage, "rounds"))
    return list(filter(None, [few_asked(run, rounds, asked)]))


def _wrapped(counts: Floats) -> list[str]:
    """Return a warning if coordinates of secure sums wrapped around."""
    some = int(np.nan_to_num(counts).sum())
    if not some:
        return []
    rounds = int(np.count_nonzero(np.nan_to_num(counts)))
    text = f"{some:,} coordinates of secure sums wrapped around, in {rounds:,} rounds"
    return [f"{text}; give secure-sum a larger range"]


def clients_table(run: Run, records: Records, measures: Measures, last: RunState) -> pa.Table:
    """Return a row for each client that took part."""
    ids, selected, used = _participation(records)
    if run.training.algorithm.centralised:  # it stands for everybody
        ids = run.measuring.evaluated
        selected = used = np.full(len(ids), selected.sum() if len(selected) else 0)
    shards = run.federation.views.evaluation.shards.at(last.round)
    clients = run.federation.clients
    rows = None if run.training.algorithm.centralised else StepCounter(run).rows(ids)
    scores: Mapping[str, Array] = {}
    if len(ids):
        scores = measures.each(last.model, ids, last.when, last.round, last.state)
    unknown = np.full(len(ids), np.nan)
    watts = None if run.training.algorithm.centralised else clients.watts(ids)
    power = {} if watts is None else {"watts": watts}
    called = [clients.names[client] for client in ids.tolist()] if clients.names else []
    named = columns.NAMED if clients.names else ()
    wrong = {"fault": fault_names(run.faults, ids)} if run.faults else {}
    own = tuple(column for group in run.own_columns.values() for column in group)
    further = (*(columns.POWER if power else ()), *(columns.FAULTY if wrong else ()), *named, *own)
    declared = (*columns.CLIENTS, *further)
    return table(
        ({"name": called} if clients.names else {})
        | {
            "client": ids,
            "samples": shards.sizes(ids),
            "test_samples": shards.sizes(ids, "test"),
            "speed_s": clients.mean_seconds_per_step(ids, rows),
            "straggler": clients.straggles(ids),
            "group": clients.group_of(ids),
            "selected": selected,
            "used": used,
            "loss": scores.get("loss", unknown),
            "accuracy": scores.get("accuracy", unknown),
            **power,
            **wrong,
            **{name: scores.get(name, unknown) for name in names(own)},
        },
        schema(declared),
    )


def _participation(records: Records) -> tuple[Ints, Array, Array]:
    """Return the clients that were asked (K,), and counts of their requests and used replies."""
    folder = records.folder / "events.parquet"
    events = read(folder, ["client", "status"])
    clients, status = values(events, "client"), values(events, "status")
    ids, places = unique_inverse(clients)
    selected, used = (
        np.bincount(part, minlength=len(ids)) for part in (places, places[status == USED])
    )
    return ids, selected, used


def away_table(run: Run, records: Records, clients: pa.Table) -> pa.Table:
    """Return when the clients that took part were away, a row an interval; see `away`."""
    rounds = read(records.folder / "rounds.parquet", ["time_s"])
    ids = values(clients, "client")[:AWAY_CLIENTS]
    intervals = away(run.federation.population, ids, values(rounds, "time_s"))
    return table(intervals, schema(columns.AWAY))


def away(population: Population, ids: Ints, times: Floats) -> dict[str, Array]:
    """Return the intervals in which clients could not be reached.

    Parameters
    ----------
    population : Population
        Its availability is a pure function of time and round.
    ids : (K,) array of int
        The clients.
    times : (R + 1,) array of float
        The clock at the end of each round, from round 0.

    Returns
    -------
    dict of str to (n,) array
        ``client``, ``start_s`` and ``end_s``; adjacent intervals are one. They end where
        `MOST_STEPS` or `MOST_INTERVALS` are reached.
    """
    if population.own_times:
        return _by_client(population, ids, float(times[0]), float(times[-1]))
    return _by_step(population, ids, times)


def _by_client(population: Population, ids: Ints, start_s: float, end_s: float) -> dict[str, Array]:
    """Return the intervals where each client can go from change to change on its own."""
    away = np.flatnonzero(~population.available(ids, start_s, 1))
    now, going = np.full(len(ids), start_s), np.arange(len(ids))
    whose, when = [away], [now[away]]
    for _ in range(MOST_STEPS):
        if not len(going) or sum(map(len, whose)) > 2 * MOST_INTERVALS:
            break
        now[going] = population.next_change(ids[going], now[going])
        going = going[now[going] < end_s]
        whose.append(going)
        when.append(now[going])
    end_s = float(now[going].min(initial=end_s))  # all changes until then are known
    absent, time_s = np.concatenate(whose), np.concatenate(when)
    absent, time_s = absent[time_s < end_s], time_s[time_s < end_s]
    still = np.flatnonzero(np.bincount(absent, minlength=len(ids)) % 2)  # away at the end
    absent, time_s = np.append(absent, still), np.append(time_s, np.full(len(still), end_s))
    order = np.lexsort((time_s, ids[absent]))
    time_s = time_s[order]
    return {"client": ids[absent[order]][::2], "start_s": time_s[::2], "end_s": time_s[1::2]}


def _by_step(population: Population, ids: Ints, times: Floats) -> dict[str, Array]:
    """Return the intervals, asking all clients whenever one of them may change."""
    since = np.full(len(ids), np.nan)
    found: list[tuple[int, float, float]] = []
    end = float(times[-1])
    for step, (now, number) in enumerate(_moments(population, ids, times)):
        if step == MOST_STEPS or len(found) >= MOST_INTERVALS:
            end = now
            break
        there = population.available(ids, now, number)
        back = there & ~np.isnan(since)
        found += [(int(ids[k]), float(since[k]), now) for k in np.flatnonzero(back)]
        since[there] = np.nan
        since[~there & np.isnan(since)] = now
    found += [(int(ids[k]), float(since[k]), end) for k in np.flatnonzero(since < end)]
    found.sort()
    columns = list(zip(*found, strict=True)) or [(), (), ()]
    kinds = (np.int64, np.float64, np.float64)
    names = ("client", "start_s", "end_s")
    return {n: np.array(c, dtype=k) for n, c, k in zip(names, columns, kinds, strict=True)}


def _moments(population: Population, ids: Ints, times: Floats) -> Iterator[tuple[float, int]]:
    """Yield the times at which availability may change, each with its round."""
    for number in range(1, len(times)):
        now, end = float(times[number - 1]), float(times[number])
        while now < end and len(ids):
            yield now, number
            now = float(population.next_change(ids, now).min())


WALK, GRAPH = "walk.npz", "graph.npz"
"""The graphs under a walking server, and those of gossip."""
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


class Matrix(Protocol):
    """Moves on a graph, or weights of a mean."""

    def matrix(self, graph: Graph) -> csr_array[Any]:
        """Return the matrix (N, N), whose rows add up to 1."""


@dataclass(frozen=True)
class Mixing:
    """The mixing matrices of a gossip method.

    Parameters
    ----------
    mass : (N,) array of float
        Mass of each node.
    rule : str
        See `rayfed.topology.mixing.mixing`.
    """

    mass: Floats
    rule: MixingRule

    def matrix(self, graph: Graph) -> csr_array[Any]:
        """Return W (N, N), whose rows add up to 1; under push the chain that it reverses.

        That is D^-1 W' D with the masses as D, which has the eigenvalues of W.
        """
        w = mixing(graph.listed(), self.mass, self.rule)
        if self.rule != "push":
            return w
        return w.T.multiply(1 / self.mass[:, None]).multiply(self.mass).tocsr()


def write_graphs(run: Run, records: Records) -> None:
    """Write the graphs under a walking server or of gossip; a failure is a line in the log."""
    graphs, algorithm = run.federation.graphs, run.training.algorithm
    if graphs is None or records.rounds.rows < 2:  # row 0 is before the first round
        return
    try:
        if isinstance(algorithm, Meeting):
            publish_npz(records.folder / GRAPH, _of_gossip(graphs, None, records))
        elif isinstance(algorithm, Gossip):
            shards, ids = run.federation.views.training.at(1).shards, np.arange(graphs.count)
            mass = shards.mass(ids) if run.training.weights == "size" else np.ones(graphs.count)
            rule = Mixing(mass, algorithm.mixing)
            publish_npz(records.folder / GRAPH, _of_gossip(graphs, rule, records))
        elif (walk := run.participation.select.walk_on(graphs)) is not None:
            publish_npz(records.folder / WALK, walked(graphs, walk, _walk_path(records)))
            log_disconnected(run, records)
    except OSError:
        raise  # the disk may be full: a resume writes it
    except Exception as error:
        records.log(f"the graphs could not be recorded: {one_line(error)}")


def log_disconnected(run: Run, records: Records) -> None:
    """Log the number of rounds in which the graph under the server was not connected, if any."""
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
    """Return the server's place in each round, and the times of its requests."""
    folder = records.folder
    rounds = read(folder / "rounds.parquet", ["time_s", POSITION])
    positions = values(rounds, POSITION)[1:]
    events = read(folder / "events.parquet", ["round", "client", "start_s"])
    numbers, first = np.unique(values(events, "round"), return_index=True)
    times = values(rounds, "time_s")[1:].copy()  # of rounds that nobody was asked in
    times[numbers - 1] = values(events, "start_s")[first]
    return WalkPath(positions.astype(np.int64), times, values(events, "client"))


def _of_gossip(graphs: Graphs, rule: Matrix | None, records: Records) -> dict[str, Array]:
    """Return `walked`, and as ``repaired`` (G,) whether links were added to connect each graph."""
    found = walked(graphs, rule, _steps(records))
    return found | {"repaired": np.array([graphs.repaired(int(epoch)) for epoch in found["epoch"]])}


def _steps(records: Records) -> WalkPath:
    """Return the times at which steps of all nodes, or rows of meetings, began."""
    times = values(read(records.folder / "rounds.parquet", ["time_s"]), "time_s")[:-1]
    return WalkPath(np.full(len(times), -1), times, np.zeros(0, np.int64))


def walked(graphs: Graphs, rule: Matrix | None, path: WalkPath) -> dict[str, Array]:
    """Return the graphs of a walk or of gossip, and the long-run behaviour on them.

    Parameters
    ----------
    graphs : Graphs
    rule : Matrix, optional
        The walk, resolved on these graphs, or the mixing; None for meetings.
    path : WalkPath

    Returns
    -------
    dict of str to array
        ``round`` (F,): rounds, evenly thinned; ``graph`` (F,): which of the G graphs below held
        when its cohort was asked; ``epoch`` (G,); ``clients`` (K,): those whose links are kept, the
        most visited where there are too many; ``links`` (E, 2) among them, those of graph g from
        ``starts[g]`` to ``starts[g + 1]``; ``places`` (G, K, 2) in metres, empty without any;
        ``lambda_2`` (G,) and ``law`` (G, N) of the matrix of each whole graph: NaN where it has no
        single law, `law` empty and `lambda_2` NaN beyond `MEASURED` clients.
    """
    shown = _evenly(len(path.positions), _most_rounds(graphs))
    epochs = np.array([graphs.epoch(k + 1, float(path.times[k])) for k in shown], dtype=np.int64)
    saved, graph_of = np.unique(epochs, return_inverse=True)
    clients = _clients(graphs.count, path)
    links, places, eigenvalues, laws = [], [], [], []
    for epoch in saved:
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
        "epoch": saved,
        "clients": clients,
        "links": np.concatenate([np.empty((0, 2)), *links]).astype(np.int32),
        "starts": np.cumsum([0, *map(len, links)]),
        "places": np.array(places).reshape(len(places), len(clients), 2),
        "lambda_2": np.array(eigenvalues, dtype=np.float64),
        "law": np.array(laws, dtype=np.float64).reshape(len(saved), -1),
    }


def _most_rounds(graphs: Graphs) -> int:
    """Return the number of rounds to show, so that the graphs of all stay small."""
    if graphs.fixed:
        return MOST_ROUNDS
    ends = int(graphs.of(0).degrees(np.arange(graphs.count)).sum()) // 2
    links = max(1.0, ends * min(1.0, MOST_CLIENTS / graphs.count) ** 2)  # between kept clients
    return max(2, min(MOST_ROUNDS, _MOST_NUMBERS // graphs.count, int(_MOST_LINKS / links)))


def _evenly(rounds: int, most: int) -> Ints:
    """Return at most so many evenly spaced rounds, counted from 0, the last included."""
    return np.unique(np.linspace(0, rounds - 1, min(rounds, most)).round().astype(np.int64))


def _clients(count: int, path: WalkPath) -> Ints:
    """Return the clients to keep links of: the most visited, then the most asked."""
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


def _long_run(graph: Graph, rule: Matrix | None) -> tuple[float, Floats]:
    """Return lambda_2 and the left eigenvector of 1 (N,), adding up to 1, on one graph."""
    if rule is None or graph.count > MEASURED:
        return np.nan, np.empty(0)
    from rayfed.topology.chain import Chain  # here: scipy takes a while to import

    chain = Chain(rule.matrix(graph))
    law = chain.stationary if chain.irreducible else np.full(graph.count, np.nan)
    return round(chain.second_eigenvalue, _DIGITS), law.round(_DIGITS)
