"""Outputs at the end of a run: the model, the clients, their absences, what to beware of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from rayfed.channel.faulty import fault_names
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.columns import names
from rayfed.core.parquet import read, schema, table, values
from rayfed.engine import columns
from rayfed.engine.clock import StepCounter
from rayfed.engine.measuring import Measures
from rayfed.engine.run import Run
from rayfed.engine.state import Row, RunState
from rayfed.engine.works import USED, Ended
from rayfed.population import Population
from rayfed.runs.changes import told
from rayfed.runs.files import summaries
from rayfed.runs.files.records import Records, write_parquet
from rayfed.runs.files.store import publish_npz
from rayfed.runs.files.walked import write_walk
from rayfed.runs.forecast import WHY_EMPTY, few_asked

AWAY_CLIENTS = 1000
"""Of so many clients it is recorded when they were away; nobody looks at more bars."""
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
    """Write what is known at the end of a run.

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
    kept = {
        f"measure.{name}.{array}": last.measured[name][array]
        for name, measure in run.measuring.measures.items()
        for array in sorted(measure.kept & set(last.measured.get(name, ())))
    }
    publish_npz(records.folder / "model.npz", {"x": last.model, **server, **kept})
    records.finish(rows, last.personal, _unfinished(run, last))
    write_parquet(clients_table(run, records, measures, last), records.folder / "clients.parquet")
    write_parquet(away_table(run, records), records.folder / "away.parquet")
    summaries.finish(records.folder, run.record)
    write_walk(run, records)


def _unfinished(run: Run, last: RunState) -> Ended | None:
    """Return the works that a run leaves behind; None if it cannot leave any."""
    if last.timeline is None:
        return None
    works = last.timeline.unfinished(in_time=run.training.algorithm.asynchronous)
    return Ended(works, np.full(len(works), np.nan), -1, last.timeline.version)


def run_warnings(run: Run, records: Records) -> list[str]:
    """Return what readers should beware of: data, weights, empty rounds, diagnostics, theory."""
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
    noted += told(run.record.get("changes") or ())
    return [*noted, *warnings, *(text for each in measures.values() for text in each.warnings())]


def _empty(participants: Ints) -> list[str]:
    """Return a warning if all rounds used no reply, or more than a few did."""
    empty, rounds = int(np.sum(participants == 0)), len(participants)
    if empty <= max(_FEW_EMPTY * rounds, 1) and (empty == 0 or empty < rounds):
        return []
    return [f"{empty:,} of {rounds:,} rounds used no reply: {WHY_EMPTY}"]


def _guessing(run: Run, losses: Floats) -> list[str]:
    """Return a warning if the loss of classes ended worse than that of who guesses them."""
    classes, problem = run.record["data"]["classes"], run.training.problem
    known = losses[np.isfinite(losses)]
    ours = type(problem).__module__.startswith("rayfed.problems.")
    if not (ours and getattr(problem, "loss", _LOGARITHMIC[0]) in _LOGARITHMIC):
        return []  # another loss
    if problem.task == "regression" or not classes or not len(known):
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
    further = (*(columns.POWER if power else ()), *(columns.FAULTY if wrong else ()), *named)
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
        },
        schema(declared),
    )


def _participation(records: Records) -> tuple[Ints, Array, Array]:
    """Return the clients that were asked (K,), how often, and how often their replies were used."""
    folder = records.folder / "events.parquet"
    events = read(folder, ["client", "status"])
    clients, status = values(events, "client"), values(events, "status")
    ids, selected = np.unique(clients, return_counts=True)
    of_used = clients[status == USED]
    used_ids, counts = np.unique(of_used, return_counts=True)
    used = np.zeros(len(ids), dtype=np.int64)
    used[np.searchsorted(ids, used_ids)] = counts
    return ids, selected, used


def away_table(run: Run, records: Records) -> pa.Table:
    """Return when the clients that took part were away, a row an interval; see `away`."""
    clients = read(records.folder / "clients.parquet", ["client"])
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
    who, time_s = np.concatenate(whose), np.concatenate(when)
    who, time_s = who[time_s < end_s], time_s[time_s < end_s]
    still = np.flatnonzero(np.bincount(who, minlength=len(ids)) % 2)  # away at the end
    who, time_s = np.append(who, still), np.append(time_s, np.full(len(still), end_s))
    order = np.lexsort((time_s, ids[who]))
    time_s = time_s[order]
    return {"client": ids[who[order]][::2], "start_s": time_s[::2], "end_s": time_s[1::2]}


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
