"""Evaluation of the model, and of the clients' own models, for the rows of a run.

It costs no simulated time. The table of own models stays small however long a run is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rayfed.clients import Clients
from rayfed.clients.clients import once
from rayfed.core.arrays import Array, as_matrix, inner, to_numpy
from rayfed.core.columns import Column, names
from rayfed.core.needs import MODEL, OWN_MODELS
from rayfed.messages import State, Upload
from rayfed.numerics.evenness import evenness
from rayfed.problems.base import Batch, Scores
from rayfed.problems.objective import Objective
from rayfed.solvers.sampling import Subsample

SCORES = (
    Column(
        "loss", "loss", better="lower",
        about="Objective F of the global model on the training rows of the evaluated clients, "
        "regulariser included; of the clients' own models if there is no global one. With "
        "`evaluate.rows` an estimate of it on some of these rows.",
    ),
    Column(
        "test_loss", "test loss", better="lower",
        about="Mean loss on held-out rows; with `evaluate.rows` on some of them.",
    ),
    Column(
        "accuracy", "accuracy", better="higher",
        about="Share of correct predictions on held-out rows, on the server's own rows if it has "
        "any, or on training rows if nothing is held out; with `evaluate.rows` on some of them; "
        "NaN for regression.",
    ),
    Column(
        "loss_gap", "gap to the optimum", better="lower",
        about="F(x) - F*; NaN if the optimum is not known, or the loss is that of some rows.",
    ),
)  # fmt: skip
VALIDATION = (
    Column(
        "validation_loss", "validation loss", better="lower",
        about="Mean loss on the rows that are held out to choose settings by (`problem."
        "validation`), of the model that `loss` is about.",
    ),
    Column(
        "validation_accuracy", "validation accuracy", better="higher",
        about="Share of correct predictions on those rows; NaN for regression.",
    ),
)  # fmt: skip
PERSONAL_VALIDATION = (
    Column(
        "personal_validation_loss", better="lower",
        about="Mean over clients of the loss of their own models on their validation rows.",
    ),
    Column(
        "personal_validation_accuracy", better="higher",
        about="Mean over clients of the accuracy of their own models on their validation rows.",
    ),
)  # fmt: skip
TOP = (
    Column(
        "top5_accuracy", "top-5 accuracy", better="higher",
        about="Share of the rows that accuracy is measured on whose class is among the five with "
        "the highest scores.",
    ),
)  # fmt: skip
UNSEEN = (
    Column(
        "unseen_loss", "loss of unseen clients", better="lower",
        about="Mean loss of the global model on the held-out rows of clients that never train.",
    ),
    Column(
        "unseen_accuracy", "accuracy of unseen clients", better="higher",
        about="Share of correct predictions on those rows; NaN for regression.",
    ),
)  # fmt: skip
PERSONAL_UNSEEN = (
    Column(
        "unseen_personal_loss", better="lower",
        about="Mean loss on those rows of the models that unseen clients make from the global one "
        "with their other rows.",
    ),
    Column(
        "unseen_personal_accuracy", better="higher",
        about="Share of correct predictions of these models on those rows.",
    ),
)  # fmt: skip
PERSONAL = (
    Column("personal_loss", better="lower", about="Mean loss of the clients' own models."),
    Column(
        "personal_accuracy", better="higher", about="Mean accuracy of the clients' own models."
    ),
    Column(
        "personal_accuracy_spread", "spread of the personal accuracies", better="lower",
        about="Standard deviation over clients of the accuracy of their own models.",
    ),
    Column(
        "personal_accuracy_worst_decile", "personal accuracy of the worst-served tenth",
        better="higher",
        about="Mean accuracy of their own models over the worst tenth of the clients.",
    ),
)  # fmt: skip
MODELS = (
    Column(
        "distance", "distance from the global model",
        about="Euclidean distance of the client's own model from the global one; NaN if there is "
        "no global model.",
    ),
    Column("personal_loss", better="lower", about="Loss of its own model."),
    Column("personal_accuracy", better="higher", about="Accuracy of its own model."),
    Column(
        "loss", better="lower",
        about="Loss of the global model on the same rows; of its own if there is no global model.",
    ),
    Column(
        "accuracy", better="higher",
        about="Accuracy of the global model on the same rows; of its own if there is no global "
        "model.",
    ),
)  # fmt: skip
"""What is kept of the own model of each evaluated client."""
TERMS = 9
"""Terms of a client: w_i F_i and w_i; summed loss, right predictions and count of the scored rows;
at its own model F_i and 1, accuracy and 1 where it has scored rows. Each is summed over clients."""
VALIDATED = 6
"""Terms of its validation rows: summed loss, right predictions and count; of its own model the mean
loss and the accuracy, and 1 where it has such rows. Each is summed over clients."""
HIGHEST = 5
"""Of many classes, how many with the highest scores count as a prediction of `Evaluation.top`."""
MANY = 20
"""More classes than these are many."""
RECORDED = names(MODELS)
"""The names of what is kept of a client's own model."""
MOST_ROWS = 40_000
"""Clients times rounds of one run; a float64 for each of `RECORDED` makes 1.6 MB of them."""
MOST_CLIENTS = 10_000
"""Of more evaluated clients nothing is kept."""

Scored = Literal["held-out", "server", "training"]


@dataclass(frozen=True)
class Evaluation:
    """Client functions of an evaluation, and the columns of its row.

    Parameters
    ----------
    algorithm : rayfed.algorithms.base.Algorithm
        Gives the personal models where it has any.
    scored : "held-out", "server" or "training"
        Which rows accuracy is measured on: those the clients hold out, the server's own, or,
        where nothing is held out, the training rows.
    reported : tuple of str
        Values that `measure` reports of every client in addition to the sums, among `RECORDED`.
    top : bool
        Whether rows count whose class is among the `HIGHEST` with the highest scores.
    validation : bool
        Whether rows are held out to choose settings by.
    subsample : Subsample, optional
        Which rows `measure` looks at; all if None.
    metrics : tuple of str
        Further metrics of the problem.
    trained : tuple of str
        Metrics of local steps, which clients keep of their last replies.
    personalises : bool
        Whether unseen clients can have models of their own; see `personalises_unseen`.
    """

    algorithm: Any
    scored: Scored = "held-out"
    reported: tuple[str, ...] = ()
    top: bool = False
    validation: bool = False
    subsample: Subsample | None = None
    metrics: tuple[str, ...] = ()
    trained: tuple[str, ...] = ()
    personalises: bool = False

    # -- at the clients --------------------------------------------------------------------

    @property
    def up(self) -> dict[str, int]:
        """Uploads of each client for `measure`."""
        validation = {"validation": VALIDATED} if self.validation else {}
        own = {"own": len(self.metrics)} if self.metrics else {}
        reported = dict.fromkeys(self.reported, 1)
        return {"metrics": TERMS, **self._top, **own, **validation, **reported}

    @property
    def up_on_server(self) -> dict[str, int]:
        """Uploads of each piece of the server's rows for `on_server`."""
        return {"metrics": 3, **self._top}

    @property
    def up_unseen(self) -> dict[str, int]:
        """Uploads of each unseen client for `on_unseen`."""
        return {"metrics": 3, **({"personal": 3} if self.personalises else {})}

    @property
    def _top(self) -> dict[str, int]:
        return {"top": 1} if self.top else {}

    def measure(self, clients: Clients, x: Array, **inputs: Array) -> Upload:
        """Return the summed terms of each client (K, ...), and its `reported` values (K,).

        A client's accuracy is that on its own rows, NaN where it has none. They are its training
        rows where the server holds the rows that the others are scored on.
        """
        data, batch = self._looked_at(clients, self.subsample)
        model, own = self._models(clients, x, inputs)
        shared = personal = _Scored.of(clients, model, data, batch)
        if own is not model:
            personal = _Scored.of(clients, own, data, batch)
        weights = clients.objective.weights(clients.mass)
        accuracy = np.where(personal.rows > 0, personal.accuracy, 0.0)
        terms = (
            shared.losses * weights, weights, shared.loss, shared.right, shared.rows,
            personal.losses, np.ones_like(weights), accuracy, personal.rows > 0,
        )  # fmt: skip
        values = {"metrics": np.stack(terms, axis=1)}
        if self.top:
            values["top"] = _in_top(clients, shared.models, batch)[:, None]
        if self.metrics:
            none = np.zeros(len(clients.ids))
            further = [shared.further.get(name, none) for name in self.metrics]
            values["own"] = np.stack(further, axis=1)
        if self.validation:
            values["validation"] = self._validated(clients, model, own)
        return Upload(values | self._by_client(clients, x, data, shared, personal))

    def _by_client(
        self, clients: Clients, x: Array, data: Batch, shared: _Scored, personal: _Scored
    ) -> dict[str, Array]:
        """Return the numbers of each client (K,) that are asked for."""
        numbers = {"loss": shared.losses, "personal_loss": personal.losses}
        if "distance" in self.reported:
            apart = personal.models - x
            squares = to_numpy(inner(apart, apart))
            numbers["distance"] = np.sqrt(squares.astype(np.float64))
        for name, scored in (("accuracy", shared), ("personal_accuracy", personal)):
            if name in self.reported and self.scored == "server":
                on_training = _scores(clients, scored.models, once(data))
                numbers[name] = _share(*on_training[1:])
            elif name in self.reported:
                numbers[name] = scored.accuracy
        return {name: numbers[name] for name in self.reported}

    def _validated(self, clients: Clients, model: Array, own_models: Array) -> Array:
        """Return the terms (K, 6) of the validation rows."""
        batch = clients.part("validation", self.subsample)
        shared = personal = _scores(clients, model, batch)
        if own_models is not model:
            personal = _scores(clients, own_models, batch)
        loss, right, rows = personal
        count = np.maximum(rows, 1.0)  # sums over no rows are 0
        return np.stack([*shared, loss / count, right / count, rows > 0], axis=1)

    def each(self, clients: Clients, x: Array, **inputs: Array) -> Upload:
        """Return loss F_i and accuracy of every client's own model, if it has one (K,).

        Accuracy is NaN where there are no rows.
        """
        _, own = self._models(clients, x, inputs)
        scored = _Scored.of(clients, own, *self._looked_at(clients))
        means = {name: _share(rows, scored.rows) for name, rows in scored.further.items()}
        unknown = np.full(len(clients.ids), np.nan)
        values = {name: means.get(name, unknown) for name in self.metrics}
        values |= {name: clients.state[name] for name in self.trained}
        return Upload({"loss": scored.losses, "accuracy": scored.accuracy, **values})

    def losses(self, clients: Clients, x: Array) -> Upload:
        """Return F_i (K,) at the model x (p,) itself, not at the clients' own models."""
        return Upload({"loss": _losses(clients, x, clients.data)})

    def on_server(self, clients: Clients, x: Array) -> Upload:
        """Return the terms (K, 3) of the server's own rows: loss sum, right, count."""
        batch = clients.part("test")
        values = {"metrics": np.stack(_scores(clients, x[None], batch), axis=1)}
        if self.top:
            values["top"] = _in_top(clients, x[None], batch)[:, None]
        return Upload(values)

    def on_unseen(self, clients: Clients, x: Array, **inputs: Array) -> Upload:
        """Return the terms (K, 3) of unseen clients' held-out rows: loss sum, right, count.

        Also those of their own models, which they make with their other rows, if they can.
        """
        batch = clients.part("test")
        values = {"metrics": np.stack(_scores(clients, x[None], batch), axis=1)}
        if self.personalises:
            own = self.algorithm.models_among(clients, x, **inputs)
            values["personal"] = np.stack(_scores(clients, own, batch), axis=1)
        return Upload(values)

    def widths(self, clients: Clients, x: Array, **inputs: Array) -> Upload:
        """Return the padded number of scored rows (K,), and numbers of a row's targets and outputs.

        These are uploads of `predicted`.
        """
        batch, y, z = self._predicted(clients, x, inputs, 1)
        rows = 0 if batch is None else batch.w.shape[1]
        sizes = {"rows": rows, "targets": y[0].size, "outputs": z[0].size}
        return Upload({n: np.full(len(clients.ids), float(v)) for n, v in sizes.items()})

    def predicted(self, clients: Clients, x: Array, **inputs: Array) -> Upload:
        """Return scored rows: which are real (K, B), their targets and outputs (K, B m)."""
        batch, y, z = self._predicted(clients, x, inputs)
        real = np.zeros((len(clients.ids), 0)) if batch is None else to_numpy(batch.w) > 0
        flat = {"targets": y.reshape(len(y), -1), "outputs": z.reshape(len(z), -1)}
        return Upload({"real": real.astype(np.float64), **flat})

    def _predicted(
        self, clients: Clients, x: Array, inputs: State, most: int | None = None
    ) -> tuple[Batch | None, Array, Array]:
        """Return the scored rows, and targets and outputs (K, B, ...) of the first of them."""
        if self.scored == "server":
            batch, model = clients.part("test"), x[None]
        else:
            _, batch = self._looked_at(clients, self.subsample)
            model = self._models(clients, x, inputs)[0]
        if batch is None:
            none = np.zeros((len(clients.ids), 0))
            return None, none, none
        X, y = batch.X[:, :most], batch.y[:, :most]
        y = to_numpy(X if y.ndim > 2 and y.shape[2] == 0 else y).astype(np.float64)
        return batch, y, to_numpy(clients.problem.measured(model, X)).astype(np.float64)

    def _models(self, clients: Clients, x: Array, inputs: State) -> tuple[Array, Array]:
        """Return the model that is evaluated (1, p), and the clients' own (K, p).

        Where there is one kind alone, it is both.
        """
        shared = x[None]
        if OWN_MODELS not in self.algorithm.gives:
            return shared, shared
        own = self.algorithm.models_among(clients, x, **inputs)
        return (shared if MODEL in self.algorithm.gives else own), own

    def _looked_at(
        self, clients: Clients, subsample: Subsample | None = None
    ) -> tuple[Batch, Batch | None]:
        """Return the training rows, and those that accuracy is measured on, if there are any."""
        data = clients.part("train", subsample)
        assert data is not None  # every client has training rows
        if self.scored == "training":
            return data, once(data)
        return data, clients.part("test", subsample) if self.scored == "held-out" else None

    # -- of a row --------------------------------------------------------------------------

    def unseen(self, sums: Mapping[str, Array]) -> dict[str, float]:
        """Return the columns of unseen clients, given what `on_unseen` comes to over them."""
        loss, right, rows = sums["metrics"].tolist()
        row = dict(zip(names(UNSEEN), (ratio(loss, rows), ratio(right, rows)), strict=True))
        if self.personalises:
            loss, right, rows = sums["personal"].tolist()
            own = (ratio(loss, rows), ratio(right, rows))
            row |= zip(names(PERSONAL_UNSEEN), own, strict=True)
        return row

    def row(
        self, sums: Mapping[str, Array], each: Mapping[str, Array], objective: Objective
    ) -> dict[str, float]:
        """Return the columns of a row.

        Parameters
        ----------
        sums, each : mapping of str to array
            What `measure` comes to over the evaluated clients, and what is reported of each.
        objective : Objective
        """
        loss, weight, *scored, own_loss, own, accuracy, clients = sums["metrics"].tolist()
        row = {"loss": loss / objective.normaliser(weight, int(own)), **self.scores(scored, sums)}
        if self.scored == "training":
            row["test_loss"] = np.nan
        if self.metrics:
            further = zip(self.metrics, sums["own"].tolist(), strict=True)
            row |= {name: ratio(total, scored[-1]) for name, total in further}
        if OWN_MODELS in self.algorithm.gives:
            alone = each["personal_accuracy"]
            spread, worst, _ = evenness(alone)
            if not clients:  # the server holds the rows; a client's are those that it trains on
                accuracy, clients = np.nansum(alone), np.count_nonzero(~np.isnan(alone))
            personal = (own_loss / own, ratio(accuracy, clients), spread, worst)
            row |= zip(names(PERSONAL), personal, strict=True)
        if self.validation:
            loss, right, rows, own_loss, accuracy, clients = sums["validation"].tolist()
            row |= zip(names(VALIDATION), (ratio(loss, rows), ratio(right, rows)), strict=True)
            if OWN_MODELS in self.algorithm.gives:
                own_scores = (ratio(own_loss, clients), ratio(accuracy, clients))
                row |= zip(names(PERSONAL_VALIDATION), own_scores, strict=True)
        return row

    def scores(self, terms: Sequence[float], sums: Mapping[str, Array]) -> dict[str, float]:
        """Return the columns about scored rows.

        Parameters
        ----------
        terms : sequence of float
            Their summed loss, right predictions and count.
        sums : mapping of str to array
            With the sum of what is in the `top`.
        """
        loss, right, rows = terms
        row = {"test_loss": ratio(loss, rows), "accuracy": ratio(right, rows)}
        if self.top:
            row["top5_accuracy"] = ratio(float(sums["top"][0]), rows)
        return row


@dataclass(frozen=True)
class _Scored:
    """Models of clients (K, p), or one for all (1, p), and their quality.

    ``losses`` are F_i (K,); of the rows that are scored, ``loss`` is the sum, ``right`` counts the
    right predictions, ``rows`` all, and ``further`` are sums of metrics, (K,) each.
    """

    models: Array
    losses: Array
    loss: Array
    right: Array
    rows: Array
    further: Mapping[str, Array]

    @classmethod
    def of(cls, clients: Clients, models: Array, data: Batch, batch: Batch | None) -> _Scored:
        return cls(models, _losses(clients, models, data), *_scored(clients, models, batch))

    @property
    def accuracy(self) -> Array:
        """Which share of the rows is right (K,), NaN where there are none."""
        return _share(self.right, self.rows)


def _losses(clients: Clients, models: Array, data: Batch) -> Array:
    """Return F_i (K,) at models (K, p) or (1, p), on training rows that stand for all."""
    losses = to_numpy(clients.problem.value(as_matrix(models), data))
    return np.broadcast_to(losses, clients.ids.shape).astype(np.float64)


def _share(right: Array, rows: Array) -> Array:
    """Return which share of the rows is right (K,), NaN where there are none."""
    return np.divide(right, rows, out=np.full_like(rows, np.nan), where=rows > 0)


def _scored(clients: Clients, x: Array, batch: Batch | None) -> Scores:
    """Return the scores of rows, 0 where there are none."""
    if batch is None:
        none = np.zeros(len(clients.ids))
        return Scores(none, none, none)
    return clients.problem.scored(x, batch)


def _scores(clients: Clients, x: Array, batch: Batch | None) -> tuple[Array, Array, Array]:
    """Return summed loss, right predictions and row count of each client (K,)."""
    loss, right, rows, _ = _scored(clients, x, batch)
    return loss, right, rows


def _in_top(clients: Clients, x: Array, batch: Batch | None) -> Array:
    """Return the number of rows of each client (K,) with their class among the `HIGHEST`.

    Of classes with equal scores the first come first. NaN if the problem has no scores.
    """
    if batch is None:
        return np.zeros(len(clients.ids))
    found = clients.problem.scores(x, batch.X)
    if found is None:
        return np.full(len(clients.ids), np.nan)
    z, y = to_numpy(found), to_numpy(batch.y)[:, :, None]
    of_class = np.take_along_axis(z, y, axis=2)
    before = (z > of_class) | ((z == of_class) & (np.arange(z.shape[2]) < y))
    hits = (np.sum(before, axis=2) < HIGHEST) & (to_numpy(batch.w) > 0)
    return np.asarray(np.sum(hits, axis=1, dtype=np.float64))


def ratio(a: float, b: float) -> float:
    """Divide, NaN where there is nothing to divide by."""
    return a / b if b else float("nan")


def personalises_unseen(algorithm: Any, x0: Array) -> bool:
    """Return whether clients that never train have own models: those made from x and rows alone."""
    own, state = OWN_MODELS in algorithm.gives, algorithm.client_state(x0)
    return own and MODEL in algorithm.gives and not state


def evaluated(
    algorithm: Any, *, classes: int, validation: bool, unseen: bool = False, own: bool = True
) -> tuple[str, ...]:
    """Return the columns of evaluated rows, those of measures left out.

    Parameters
    ----------
    algorithm : rayfed.algorithms.base.Algorithm
    classes : int
        Of the data; 0 for regression.
    validation : bool
        Whether clients hold rows out to choose settings by.
    unseen : bool
        Whether some clients never train.
    own : bool
        Whether such clients can have own models.
    """
    unseen = unseen and MODEL in algorithm.gives
    wanted = {
        SCORES: True,
        VALIDATION: validation,
        PERSONAL_VALIDATION: validation and OWN_MODELS in algorithm.gives,
        TOP: classes > MANY,
        PERSONAL: OWN_MODELS in algorithm.gives,
        UNSEEN: unseen,
        PERSONAL_UNSEEN: unseen and own and OWN_MODELS in algorithm.gives,
    }
    return tuple(column.name for group, given in wanted.items() if given for column in group)


def reported(algorithm: Any, evaluated: int, accuracies: bool) -> tuple[str, ...]:
    """Return which of `RECORDED` an evaluation reports of every client.

    Parameters
    ----------
    algorithm : rayfed.algorithms.base.Algorithm
    evaluated : int
        How many clients it asks.
    accuracies : bool
        Whether a measure needs their accuracies under the model.
    """
    if OWN_MODELS in algorithm.gives and evaluated <= MOST_CLIENTS:
        return RECORDED if MODEL in algorithm.gives else RECORDED[1:]
    wanted = {"personal_accuracy": OWN_MODELS in algorithm.gives, "accuracy": accuracies}
    return tuple(name for name, given in wanted.items() if given)


@dataclass(frozen=True)
class Thinning:
    """Which evaluated rounds are kept of the clients' own models.

    Every evaluation is at first. As often as there would be too many, every other one goes, so
    what is left at the end depends on the last round alone, not on how the run came there.

    Parameters
    ----------
    every : int
        Rounds from one evaluation to the next.
    clients : int
        How many clients each is about.

    Examples
    --------
    >>> thinning = Thinning(every=5, clients=10_000)  # 4 evaluations of each are kept
    >>> [k for k in range(0, 41, 5) if thinning.keeps(k, last=40)]
    [0, 20, 40]
    """

    every: int
    clients: int

    def keeps(self, round: int, last: int) -> bool:
        """Whether the evaluation of a round is kept once the newest is that of round `last`."""
        return round % self._step(last) == 0

    def of(self, rounds: Array, last: int) -> Array:
        """Return which rows (n,) of these rounds are kept when a run ends; its last round's are."""
        return np.asarray((rounds % self._step(last) == 0) | (rounds == last))

    def _step(self, last: int) -> int:
        most = max(2, MOST_ROWS // self.clients)
        step = self.every
        while last // step + 1 > most:
            step *= 2
        return step
