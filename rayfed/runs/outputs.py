"""Outputs at the end of a run: the model, the clients, and the tables in one part each."""

from __future__ import annotations

from collections.abc import Mapping

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
from rayfed.runs.continued import told
from rayfed.runs.files import summaries
from rayfed.runs.files.away import AWAY_CLIENTS, away
from rayfed.runs.files.records import Records, write_parquet
from rayfed.runs.files.run_json import one_line
from rayfed.runs.files.store import publish_npz
from rayfed.runs.files.walked import WALK, WalkPath, walked
from rayfed.runs.forecast import WHY_EMPTY, few_asked
from rayfed.selection import CONNECTED, POSITION, REPAIRED

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
