"""Models of nodes without a server: their distance from the mean, and their accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge

from rayfed.clients import Clients
from rayfed.clients.clients import once
from rayfed.core.arrays import Array, Floats, to_numpy
from rayfed.core.columns import Column, names
from rayfed.core.needs import OWN_MODELS
from rayfed.core.rng import Key
from rayfed.measures.base import Measure, MeasureView
from rayfed.measures.local import squares
from rayfed.messages import State, Upload
from rayfed.numerics.evenness import evenness


@dataclass(frozen=True, kw_only=True)
class Consensus(Measure):
    """Distance of the nodes' models from their mean, a measure of gossip methods."""

    columns: ClassVar[tuple[Column, ...]] = (
        Column(
            "consensus", "consensus distance", better="lower",
            about="Root mean square distance of the evaluated nodes' models from the mean of all "
            "models by mass.",
        ),
    )  # fmt: skip

    def functions(self, algorithm: Any) -> OwnModels:
        """Return the client functions of the measure."""
        return OwnModels(algorithm)

    def measure(self, view: MeasureView, known: State) -> tuple[Mapping[str, float], State]:
        """Return the root of the mean."""
        each = view.ask("apart", {"x": view.model}, {"apart": 1}).each["apart"]
        return {"consensus": float(np.sqrt(each.mean()))}, known


@dataclass(frozen=True)
class OwnModels:
    """Client functions of `Consensus` and `Nodes`.

    Parameters
    ----------
    algorithm : rayfed.algorithms.base.Algorithm
        Gives the clients' own models.
    """

    algorithm: Any

    def apart(self, clients: Clients, x: Array) -> Upload:
        """Return the squared distances (K,) of the nodes' models from x (p,)."""
        models = to_numpy(self.algorithm.models(clients, x)).astype(np.float64)
        return Upload({"apart": squares(models - to_numpy(x))})

    def own(self, clients: Clients, x: Array, **inputs: Array) -> Upload:
        """Return the clients' own models (K, p)."""
        return Upload({"own": self.algorithm.models_among(clients, x, **inputs)})

    def right(self, clients: Clients, models: Array) -> Upload:
        """Return the right predictions (K, M) of models (M, p), and the number of rows (K, 1).

        The rows are those that clients hold out, and training rows where none are held out.
        """
        batch = clients.part("test")
        if batch is None:
            batch = once(clients.data)
        scores = [clients.problem.scored(model[None], batch) for model in models]
        right = np.stack([score.right for score in scores], axis=1)
        return Upload({"right": right, "rows": scores[0].rows[:, None]})


@dataclass(frozen=True, kw_only=True)
class Nodes(Measure):
    """Accuracy of the nodes' models, each on the rows of all evaluated clients.

    The literature on learning without a server reports the mean over nodes on a common test set. It
    costs as many evaluations as there are nodes, so that `count` of them are drawn, the same in all
    rows of a run. Methods without models of the clients' own have one model at all of them.

    Parameters
    ----------
    count : int
        Number of nodes; all if there are fewer.
    """

    name: ClassVar[str] = "nodes"
    columns: ClassVar[tuple[Column, ...]] = (
        Column(
            "node_accuracy", "mean accuracy of the nodes", better="higher",
            about="Mean over drawn nodes of the accuracy of their models on the held-out rows of "
            "all evaluated clients (their training rows if they hold out none).",
        ),
        Column(
            "node_accuracy_spread", "spread of the nodes' accuracies", better="lower",
            about="Standard deviation over these nodes.",
        ),
        Column(
            "node_accuracy_worst_decile", "accuracy of the worst tenth of the nodes",
            better="higher", about="Mean accuracy over the worst tenth of these nodes, rounded up.",
        ),
    )  # fmt: skip

    count: Annotated[int, Ge(1)] = 32

    def functions(self, algorithm: Any) -> OwnModels:
        """Return the client functions of the measure."""
        return OwnModels(algorithm)

    def measure(self, view: MeasureView, known: State) -> tuple[Mapping[str, float], State]:
        """Return the mean, the spread and the worst tenth."""
        models = self._models(view)
        size = {"right": len(models), "rows": 1}
        sums = view.ask("right", {"models": np.stack(models)}, size).sums
        if not sums["rows"][0]:
            return {}, known
        accuracies: Floats = np.asarray(sums["right"] / sums["rows"], np.float64)
        spread, worst, _ = evenness(accuracies)
        values = (float(accuracies.mean()), spread, worst)
        return dict(zip(names(self.columns), values, strict=True)), known

    def _models(self, view: MeasureView) -> list[Array]:
        """Return the different models (p,) of the drawn nodes."""
        if OWN_MODELS not in view.algorithm.gives:
            return [view.model]
        draw, count = Key(view.seed, "nodes").generator(), min(self.count, len(view.clients))
        drawn = np.sort(draw.choice(view.clients, count, replace=False))
        send = {"x": view.model, **view.algorithm.evaluation_state(view.server)}
        up = {"own": view.model.size}
        return [view.mean("own", send, up, drawn[k : k + 1]).mean["own"] for k in range(count)]
