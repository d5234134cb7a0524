"""The columns of the result tables.

These are ``rounds``, ``events``, ``clients``, ``away`` and ``personal``; ``usage`` and ``density``
are those of `rayfed.core.summary`. Each column is declared once. Algorithms and selections add
their own to ``rounds`` by their attribute ``diagnostics``, and measures by ``columns``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rayfed.algorithms.base import Algorithm
from rayfed.core.columns import Column, by_name
from rayfed.core.errors import RayfedError
from rayfed.core.plugins import find
from rayfed.core.summary import DENSITY, USAGE
from rayfed.measures.evaluation import (
    MODELS,
    PERSONAL,
    PERSONAL_UNSEEN,
    PERSONAL_VALIDATION,
    SCORES,
    TOP,
    UNSEEN,
    VALIDATION,
)
from rayfed.selection.base import Selection

RUN = (
    Column("algorithm", about="Name of the algorithm.", dtype="string"),
    Column("label", about="Name of the algorithm in this study.", dtype="string"),
    Column("seed", about="Seed of the run.", dtype="int64"),
    Column(
        "round", about="Number of the round; 0 is the state before the first.", dtype="int64"
    ),
    Column(
        "time_s", "simulated time", "s", about="Simulated clock at the end of the round."
    ),
)  # fmt: skip
COUNTS = (
    Column(
        "participants", dtype="int64",
        about="Clients whose replies to the algorithm were used in the round.",
    ),
    Column("dropped", dtype="int64", about="Clients that dropped out before they replied."),
    Column(
        "late", dtype="int64",
        about="Replies past the deadline or a time-out, or not among the first of an over-selected "
        "cohort.",
    ),
    Column(
        "bytes_down", "bytes downloaded", "B", dtype="int64",
        about="Downloaded by all clients. A download counts in the round of its request, "
        "used or not.",
    ),
    Column(
        "bytes_up", "bytes uploaded", "B", dtype="int64",
        about="Uploaded by all clients. An upload counts in the round in which the reply arrives "
        "or is late; clients that drop out earlier upload nothing.",
    ),
    Column(
        "bytes_wasted", "bytes in vain", "B", dtype="int64",
        about="Downloads and uploads, in any round, of tasks that ended unused in this round.",
    ),
    Column(
        "local_steps", dtype="int64",
        about="Local steps behind the replies that the row uses; those of tasks that are late or "
        "dropped do not count.",
    ),
)  # fmt: skip
CHANGES = (
    Column(
        "loss_change", "change of the loss",
        about="Absolute change of the loss since the last evaluated row; NaN without replies.",
    ),
    Column(
        "model_change", "change of the model",
        about="Euclidean norm of the model's change in the round; NaN without replies.",
    ),
)  # fmt: skip
ARRIVALS = (
    Column(
        "staleness_mean", "mean staleness",
        about="Mean over the replies of the update of the number of updates, or rounds, between "
        "the start of their tasks and their arrival.",
    ),
    Column(
        "staleness_max", "largest staleness", about="Largest staleness among those replies."
    ),
    Column(
        "in_flight", "tasks in flight",
        about="Unfinished tasks when the row is written, uploads included.",
    ),
)  # fmt: skip
ENERGY = (
    Column(
        "energy_j", "energy", "J", better="lower",
        about="Energy of computing, transfers and the tails of the radio up to the end of the "
        "round, of tasks that are over or that the server no longer waits for.",
    ),
    Column(
        "energy_radio_j", "energy of transfers", "J", better="lower",
        about="The part of it for transfers and tails.",
    ),
    Column(
        "energy_wasted_j", "energy in vain", "J", better="lower",
        about="The part of it for tasks whose replies were not used.",
    ),
)  # fmt: skip
CARBON = (
    Column(
        "carbon_g", "carbon", "g", better="lower",
        about="CO2 equivalents of that energy, by the intensity of the grid while it was used.",
    ),
)  # fmt: skip
BATTERIES = (
    Column(
        "batteries_empty", "empty batteries", better="lower",
        about="Clients with a task so far whose battery has too little charge for another one at "
        "the end of the round.",
    ),
)  # fmt: skip
SECURE = (
    Column(
        "wrapped", "coordinates that wrapped around",
        about="Coordinates of secure sums outside their range, where the model is wrong.",
    ),
)  # fmt: skip
PRIVATE = (
    Column(
        "epsilon", "privacy spent", better="lower",
        about="Epsilon spent in all rounds so far at the given delta, by the accountant: "
        "that of a client that was available in every round, an upper bound for others.",
    ),
)  # fmt: skip
ADAPTIVE = (
    Column(
        "clip_norm", "norm that uploads are clipped to",
        about="The l2 norm that uploads of the round are clipped to, where it follows a quantile.",
    ),
)  # fmt: skip
LEFT_OUT = (
    Column(
        "left_out", "norm of compression errors", better="lower",
        about="Root mean square, over the replies used, of the l2 norm of the error "
        "memories.",
    ),
)  # fmt: skip
MISSED = (
    Column(
        "missed", "messages that came too late", better="lower",
        about="Messages of the step that came when their receiver had stopped waiting.",
    ),
    Column(
        "influence", "evenness of influence", better="higher",
        about="Effective share of the nodes whose models enter the mean if the mixing of the step "
        "is repeated: 1 if it preserves the mean by mass, 1 / N if one node alone has influence.",
    ),
)  # fmt: skip
CONTROL = (Column("changes", "changes of settings", about="Settings that have changed so far."),)
ROUNDS: Mapping[str, tuple[Column, ...]] = {
    "every run": (*RUN, *SCORES, *COUNTS),
    "problem.validation": VALIDATION,
    "problem.validation, personalised algorithms": PERSONAL_VALIDATION,
    "problem.test.clients": UNSEEN,
    "problem.test.clients, personalised algorithms without client state": PERSONAL_UNSEEN,
    "asynchronous algorithms, participation.late: stale": ARRIVALS,
    "clients.energy": ENERGY,
    "clients.energy.carbon or g_per_kwh": CARBON,
    "clients.energy.battery": BATTERIES,
    "secure sums": SECURE,
    "evaluate.left_out, a memory in the uplink": LEFT_OUT,
    "gossip, participation.patience_s": MISSED,
    "privacy": PRIVATE,
    "privacy, a clip whose norm is a mapping": ADAPTIVE,
    "more than 20 classes": TOP,
    "personalised algorithms": PERSONAL,
    "control": CONTROL,
    "stop.loss_change": CHANGES[:1],
    "stop.model_change": CHANGES[1:],
}
"""The columns of ``rounds`` that are no plug-in's own, by what asks for them."""
TAKEN = frozenset(column.name for group in ROUNDS.values() for column in group)
"""Their names."""

EVENTS = (
    Column("round", about="Number of the round.", dtype="int64"),
    Column(
        "ask", dtype="int64",
        about="Number of the Ask within the round, from 0, where asking again counts; in "
        "asynchronous runs the number of the client's task within the row. Late replies of earlier "
        "rounds that are used come last.",
    ),
    Column("client", about="Id of the client.", dtype="int64"),
    Column("start_s", "start", "s", about="Simulated time at which the Ask was sent."),
    Column("compute_s", "computing time", "s", about="Computing time alone, without the network."),
    Column(
        "end_s", "end", "s",
        about="Simulated time at which the reply arrives (of a late task, at which it would have), "
        "at which the client dropped out, or at which the task timed out.",
    ),
    Column(
        "status", dtype="category",
        about='"used", "late" or "dropped"; "unfinished" if the run ended before, where tasks may '
        "outlast their round.",
    ),
    Column("loss", about="Mean loss over the local steps; NaN if nothing was computed."),
    Column("steps", "local steps", about="Local steps of the client.", dtype="int64"),
)  # fmt: skip
VERSIONS = (
    Column(
        "version", "version of the model", dtype="int64",
        about="Updates of the model before the task began; rounds, in runs that have them.",
    ),
    Column(
        "staleness", dtype="int64",
        about="Updates between the start of the task and the arrival of the reply; rounds, in runs "
        "that have them; -1 if the reply was not used.",
    ),
)  # fmt: skip
"""Further columns of the events of runs in which tasks may end in a later row."""
DRAWS = (
    Column(
        "draws", dtype="int64",
        about="How often the client was drawn for the Ask, of which there is one event; its reply "
        "counts as often in the mean.",
    ),
)  # fmt: skip
"""Further columns of the events of runs of rounds in which a client may be drawn repeatedly."""
WAITS = (
    Column(
        "wait_s", "wait", "s",
        about="From the end of the node's own step until it mixes; 0 if it does not mix.",
    ),
    Column(
        "awaited", "awaited neighbour", dtype="int64",
        about="Neighbour whose message of the step comes last; -1 without a wait. With a patience "
        "it may come after the node has mixed, and a neighbour that drops out sends a notice.",
    ),
)  # fmt: skip
"""Further columns of the events of gossip in steps."""
CLIENTS = (
    Column("client", about="Id of the client.", dtype="int64"),
    Column("samples", "training rows", about="Training rows of the client.", dtype="int64"),
    Column("test_samples", "held-out rows", about="Rows that it holds out.", dtype="int64"),
    Column("speed_s", "time of a step", "s", about="Mean seconds of one local step."),
    Column("straggler", about="Whether the client is one of the stragglers.", dtype="bool"),
    Column(
        "group", dtype="int64",
        about="Number of its group under clients.groups, from 1; 0 for none.",
    ),
    Column("selected", "times selected", about="How often it was asked.", dtype="int64"),
    Column("used", "times used", about="How often its reply was used.", dtype="int64"),
    Column(
        "loss", better="lower",
        about="F_i of its own model if the algorithm has personal models, otherwise of the final "
        "model.",
    ),
    Column(
        "accuracy", better="higher",
        about="Accuracy of that model; NaN if the client has no rows to measure it on.",
    ),
)  # fmt: skip
POWER = (
    Column(
        "watts", "power while computing", "W",
        about="Power of the client while it computes.",
    ),
)  # fmt: skip
"""Further columns of the clients where energy is recorded."""
FAULTY = (
    Column(
        "fault", dtype="string", about="Name of its fault; empty for one that is honest.",
    ),
)  # fmt: skip
"""Further columns of the clients where some are faulty."""
NAMED = (Column("name", about="Name of the client in the data.", dtype="string"),)
"""Further columns of ``clients`` where the data name the clients."""
AWAY = (
    Column(
        "client", about="Id of the client; at most 1,000 clients are recorded.", dtype="int64"
    ),
    Column("start_s", "start", "s", about="Simulated time at which it went away."),
    Column("end_s", "end", "s", about="Simulated time at which it was back, or the run's end."),
)  # fmt: skip
OWN_MODELS = (
    Column("round", about="Number of the round.", dtype="int64"),
    Column("client", about="Id of the client.", dtype="int64"),
    *MODELS,
)
"""The table ``personal``."""


def diagnostics(
    algorithm: Algorithm,
    selection: Selection,
    measured: Mapping[str, tuple[Column, ...]] | None = None,
) -> tuple[Column, ...]:
    """Return the columns of ``rounds`` that the plug-ins of a run declare.

    Parameters
    ----------
    measured : mapping of str to tuple of Column, optional
        The columns of each measure.

    Raises
    ------
    RayfedError
        If one has the name of a column that ``rounds`` has anyway, or another type than float64.
    """
    columns_of_measures = (column for each in (measured or {}).values() for column in each)
    found = by_name((*selection.diagnostics, *algorithm.diagnostics, *columns_of_measures))
    for column in found.values():
        if column.name in TAKEN:
            raise RayfedError(f"'{column.name}' is a column of rayfed's own; rename the diagnostic")
        if column.dtype != "float64":
            raise RayfedError(f"diagnostic '{column.name}': found {column.dtype}; use float64")
    return tuple(found.values())


@dataclass(frozen=True)
class ColumnEntry:
    """A column as the catalogue lists it.

    Parameters
    ----------
    table : str
        "rounds", "events", "clients", "away", "personal", "usage" or "density".
    column : Column
        Its declaration.
    declared_by : tuple of str
        What makes a table have it: "every run", a key of the scenario, or plug-ins such as
        "algorithm fedexp".
    """

    table: str
    column: Column
    declared_by: tuple[str, ...]


def catalogue() -> tuple[ColumnEntry, ...]:
    """Return every column of every table, those of the plug-ins that are found included."""
    declared: dict[tuple[str, Column], list[str]] = {}
    for table, column, owner in _declarations():
        declared.setdefault((table, column), []).append(owner)
    return tuple(ColumnEntry(*where, tuple(owner)) for where, owner in declared.items())


def _declarations() -> Iterator[tuple[str, Column, str]]:
    for owner, columns in ROUNDS.items():
        yield from (("rounds", column, owner) for column in columns)
    for name, plugin in find("measures").items():
        yield from (("rounds", column, f"measure {name}") for column in plugin.columns)
    for kind in ("selection", "algorithm"):
        for name, plugin in find(f"{kind}s").items():
            yield from (("rounds", column, f"{kind} {name}") for column in plugin.diagnostics)
            for measure in getattr(plugin, "theory", ()):
                yield from (("rounds", column, f"{kind} {name}") for column in measure.columns)
    overlapping = "asynchronous algorithms, participation.late: stale"
    yield from (("events", column, overlapping) for column in VERSIONS)
    for name, plugin in find("selections").items():
        yield from (("events", column, f"selection {name}") for column in DRAWS if plugin.repeats)
    yield from (("events", column, "gossip in steps") for column in WAITS)
    yield from (("clients", column, "clients.energy") for column in POWER)
    yield from (("clients", column, "data that name the clients") for column in NAMED)
    yield from (("clients", column, "clients.faults") for column in FAULTY)
    tables = {"events": EVENTS, "clients": CLIENTS, "away": AWAY}
    tables |= {"usage": USAGE, "density": DENSITY}
    for table, columns in tables.items():
        yield from ((table, column, "every run") for column in columns)
    yield from (("personal", column, "personalised algorithms") for column in OWN_MODELS)
