"""Measures of a model during a run: the columns of an evaluated row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from rayfed.channel.faulty import honest
from rayfed.clients.request import Owner, Request, uncharged
from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.columns import names
from rayfed.core.errors import RunFailed, clipped
from rayfed.core.files import check_room
from rayfed.core.needs import MODEL
from rayfed.engine import replies
from rayfed.engine.clock import StepCounter
from rayfed.engine.run import Run
from rayfed.engine.state import Measured, RunState
from rayfed.executors.base import Gathered
from rayfed.measures import MeasureView, Method, Predictions
from rayfed.measures.evaluation import RECORDED, evaluated
from rayfed.messages import Reply, State, Upload

_FEWER = "give evaluate.rows, or fewer clients"


class Measures:
    """Asks the clients of one run about a model. It costs no simulated time.

    Parameters
    ----------
    run : Run
        What is run.
    exchange : callable
        Runs the client functions of a request: ``exchange(request, send, when)``, where `when`
        is reported if a client fails.
    """

    def __init__(
        self, run: Run, exchange: Callable[[Request, Mapping[str, Array], str], Gathered]
    ) -> None:
        self.run, self.exchange, self.counter = run, exchange, StepCounter(run)
        self.declared = {name: names(group) for name, group in run.measured.items()}
        self.layers, self.evaluation = run.layers, run.evaluation
        self.columns = (
            *evaluated(
                run.training.algorithm,
                classes=run.federation.views.evaluation.shards.classes,
                validation=run.measuring.validation,
                unseen=run.federation.views.unseen is not None,
                own=self.evaluation.personalises,
            ),
            *(column for group in self.declared.values() for column in group),
        )

    def init(self) -> Measured:
        """Return the state of each measure before the first row."""
        return {name: measure.init() for name, measure in self.run.measuring.measures.items()}

    def of(self, run_state: RunState) -> tuple[dict[str, float], RunState]:
        """Return the columns of the row of a state, and the state after measuring.

        That is the state of the measures, and ``round``, ``client`` and `RECORDED` of
        every evaluated client, where they are kept.
        """
        run, evaluation, x = self.run, self.evaluation, run_state.model
        ids, when, views = run.measuring.evaluated, run_state.when, run.federation.views
        send = {"x": x, **run.training.algorithm.evaluation_state(run_state.state)}
        function, up = evaluation.measure, evaluation.up
        found = self.ask("evaluation", function, up, ids, send, when, run_state.round)
        row = evaluation.row(found.sums, found.each, views.evaluation.objective)
        if views.server is not None and MODEL in run.training.algorithm.gives:  # it knows no others
            pieces, up = np.arange(views.server.shards.clients), evaluation.up_on_server
            sums = self.ask("server", evaluation.on_server, up, pieces, {"x": x}, when).sums
            row |= evaluation.scores(sums["metrics"].tolist(), sums)
        if views.unseen is not None and MODEL in run.training.algorithm.gives:
            unseen, up, function = run.measuring.unseen, evaluation.up_unseen, evaluation.on_unseen
            row |= evaluation.unseen(self.ask("unseen", function, up, unseen, send, when).sums)
        best = run.measuring.optimum
        if best is not None and run.measuring.exact:
            row["loss_gap"] = row["loss"] - best.value
        values, measured = self.measured(run_state, x, found.each)
        own_rows = self._personal(found.each, run_state.round) or run_state.personal
        return row | values, replace(run_state, personal=own_rows, measured=measured)

    def measured(
        self,
        run_state: RunState,
        x: Array,
        each: Mapping[str, Array],
        cohort: RequestedCohort | None = None,
    ) -> tuple[dict[str, float], Measured]:
        """Return the values of the measures of rows, or of a cohort, and the state of all.

        Parameters
        ----------
        x : (p,) array
            The model that is measured.
        each : mapping of str to (K,) array
            What the evaluation said of every client.
        cohort : RequestedCohort, optional
            Whom the coming round asks.

        Raises
        ------
        RunFailed
            If a measure returns other columns than it declares.
        """
        row: dict[str, float] = {}
        known = dict(run_state.measured)
        for name, measure in self.run.measuring.measures.items():
            if ("cohort" in measure.uses) != (cohort is not None) or not self.declared[name]:
                continue
            before = known[name] if name in known else measure.init()
            view = _View(self, name, run_state, x, each, cohort)
            values, known[name] = measure.measure(view, before)
            others = sorted(set(values) - set(self.declared[name]))
            if others:
                text = f"returns {clipped(', '.join(others), 60)}, not among its columns"
                raise RunFailed(f"{run_state.when}: measure '{name}' {text}; declare them")
            row |= {column: float(value) for column, value in values.items()}
        return row, known

    def _personal(self, by_client: Mapping[str, Array], round: int) -> Mapping[str, Array]:
        """Return the per-client columns of a round for all evaluated clients."""
        if self.run.thinning is None:
            return {}
        ids = self.run.measuring.evaluated
        none = np.full(len(ids), np.nan)
        columns = {name: by_client.get(name, none) for name in RECORDED}
        return {"round": np.full(len(ids), round), "client": ids, **columns}

    def each(
        self, x: Array, ids: Ints, when: str, round: int = 0, state: State | None = None
    ) -> Mapping[str, Array]:
        """Return loss and accuracy of clients (K,) each, of their own models if they have any.

        Rows are those of a round; inputs other than x are from the server's state after it.
        """
        send = {"x": x, **self.run.training.algorithm.evaluation_state(state or {})}
        further = (*self.evaluation.metrics, *self.evaluation.trained)
        up = dict.fromkeys(("loss", "accuracy", *further), 1)
        return self.ask("evaluation", self.evaluation.each, up, ids, send, when, round).each

    def ask(
        self, owner: Owner, function: Callable[..., Upload], up: Mapping[str, int], ids: Ints,
        send: Mapping[str, Array], when: str, round: int = 0,
    ) -> Gathered:  # fmt: skip
        """Run a client function, a method of `Evaluation`, on rows of a round."""
        request = uncharged(owner, function.__name__, up, ids, data_round=round)
        return self.exchange(request, send, when)


class RequestedCohort:
    """The cohort of a round and the expected shares of clients in such cohorts.

    Parameters
    ----------
    ids : (C,) array of int
    shares : callable
        ``shares(losses, draws)``; see `rayfed.measures.base.MeasureView.shares`.
    """

    def __init__(self, ids: Ints, shares: Callable[[Floats, int], Floats | None]) -> None:
        self.ids, self.shares = ids, shares


class _View(MeasureView):
    """A measure's view of a state."""

    def __init__(
        self, measures: Measures, name: str, run_state: RunState, x: Array,
        each: Mapping[str, Array], cohort: RequestedCohort | None,
    ) -> None:  # fmt: skip
        run = measures.run
        self._measures, self._owner, self._state, self._cohort = (
            measures, f"measure {name}", run_state, cohort,
        )  # fmt: skip
        self.model, self.server, self.round = x, run_state.state, run_state.round
        self.first, self.solvers = run.training.x0, run.training.solvers
        self.clients, self.optimum = run.measuring.evaluated, run.measuring.optimum
        self.algorithm: Method = run.training.algorithm
        self.population = run.federation.clients
        self._row = self.round if cohort is None else self.round + 1  # its rows are looked at
        self.data = run.federation.views.evaluation.at(self._row)
        self.layers = measures.layers
        self.honest = honest(run.faults, self.clients)
        self.seed, self.size = run.seed, run.participation.cohort
        if "accuracy" in each:
            self.accuracy = each["accuracy"]
        if cohort is not None:
            self.cohort = cohort.ids

    def ask(
        self, task: str, send: Mapping[str, Array], up: Mapping[str, int], *, solving: bool = False
    ) -> Gathered:
        """Run the measure's method at the evaluated clients."""
        request = uncharged(self._owner, task, up, self.clients, data_round=self._row)
        if solving:
            groups = self._measures.run.federation.population.group_of(self.clients)
            request = replace(request, groups=groups)
        return self._measures.exchange(request, send, self._state.when)

    def mean(
        self,
        task: str,
        send: Mapping[str, Array],
        up: Mapping[str, int],
        ids: Ints | None = None,
        steps: Ints | None = None,
    ) -> Reply:
        """Run a method at clients (K,) and return means by the weights of F."""
        ids = self.clients if ids is None else ids
        federation, data, round = self._measures.run.federation, self.data, 0
        taken = np.zeros(len(ids), dtype=np.int64)
        if steps is not None:
            taken, round = steps, self.round + 1
            data = federation.views.evaluation.at(round)
        weights = data.objective.weights(data.shards.mass(ids)).astype(np.float64)
        request = Request(
            self._owner, task, up, ids, weights, taken, federation.population.group_of(ids), round,
            0, data_round=round or self._row,
        )  # fmt: skip
        gathered = self._measures.exchange(request, send, self._state.when)
        answer = replies.TaskAnswer.to(request, gathered)
        return replies.reply_of([answer], replies.MeanInputs(up, self.population.count), round)

    def predictions(self) -> Predictions:
        """Return targets and outputs of the rows that accuracy is measured on."""
        measures, run, when = self._measures, self._measures.run, self._state.when
        evaluation, owner, ids = measures.evaluation, "evaluation", self.clients
        send: dict[str, Array] = {"x": self.model}
        if evaluation.scored == "server":
            server = run.federation.views.server
            if server is None or MODEL not in run.training.algorithm.gives:
                return Predictions.joined([])  # the server knows no model of theirs
            owner, ids = "server", np.arange(server.shards.clients)
        else:
            send |= run.training.algorithm.evaluation_state(self.server)
        names = ("rows", "targets", "outputs")
        up = dict.fromkeys(names, 1)
        found = measures.ask(owner, evaluation.widths, up, ids, send, when, self._row).each
        each = np.stack([found[name] for name in names], axis=1).astype(np.int64)
        parts = []
        for rows, y, z in np.unique(each[each[:, 0] > 0], axis=0).tolist():
            some = ids[(each == (rows, y, z)).all(axis=1)]
            check_room(8 * len(some) * rows * (1 + y + z), "evaluate", "the outputs", _FEWER)
            up = {"real": rows, "targets": rows * y, "outputs": rows * z}
            request = uncharged(owner, "predicted", up, some, data_round=self._row)
            request = replace(request, vectors=True, sums=False)
            got = measures.exchange(request, send, when).each
            real = got["real"] > 0
            shaped = (got[name].reshape(*real.shape, -1)[real] for name in names[1:])
            parts.append(Predictions(some[np.nonzero(real)[0]], *shaped))
        return Predictions.joined(parts)

    def losses(self, x: Array, ids: Ints) -> Floats:
        """Return F_i(x) (K,) of clients at a model (p,)."""
        function, when = self._measures.evaluation.losses, self._state.when
        up, send = {"loss": 1}, {"x": x}
        found = self._measures.ask("evaluation", function, up, ids, send, when, self._row)
        return found.each["loss"]

    def own_losses(self) -> Floats:
        """Return F_i (K,) of the evaluated clients at the models that they use."""
        when, state = self._state.when, self._state.state
        return self._measures.each(self.model, self.clients, when, self._row, state)["loss"]

    def weights(self, ids: Ints) -> Floats:
        """Return the raw weights (K,) of clients in F."""
        return self.data.objective.weights(self.data.shards.mass(ids))

    def steps(self, ids: Ints) -> Ints:
        """Return the local steps (K,) of clients in the coming round."""
        run, counter, coming = self._measures.run, self._measures.counter, self.round + 1
        counter.shards = run.federation.views.training.at(coming).shards
        pace = run.federation.population.seconds_per_step(ids, coming, 0, counter.rows(ids))
        return counter.steps(ids, pace, coming, self._state.step_state)

    def shares(self, losses: Floats, draws: int) -> Floats | None:
        """Return the expected share of each client (N,) in the cohort; None if it is not known."""
        return None if self._cohort is None else self._cohort.shares(losses, draws)
