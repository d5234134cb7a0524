"""A large model that is only carried about: what the engine does to it, and a bare exchange."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import getpid
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from benchmarks.bare import Array, Model
from benchmarks.clocked import Metered
from rayfed.core.arrays import Floats
from rayfed.core.rng import Key
from rayfed.messages import Upload
from rayfed.problems.base import Batch, Problem, Start

if TYPE_CHECKING:
    from rayfed.clients import Clients


@dataclass(frozen=True, kw_only=True)
class Parabola(Problem):
    """Half the squared length of a model of so many numbers, whatever the rows are."""

    name: ClassVar[str] = "parabola"
    task: ClassVar[Literal["regression", "binary", "multiclass"]] = "regression"

    parameters: int = 1000
    intercept: bool = False

    def size(self, features: int, classes: int) -> int:
        """Return the number of parameters."""
        return self.parameters

    def initial(self, kind: Start, features: int, classes: int, key: Key) -> Floats:
        """Return ones."""
        return np.ones(self.parameters)

    def predict(self, x: Array, X: Array) -> Array:
        """Return zeros (K, B)."""
        return np.zeros(X.shape[:2], X.dtype)

    def data_value_and_gradient(self, x: Array, batch: Batch) -> tuple[Array, Array]:
        """Return the weighted sum of values (K,) and its gradient (K, p)."""
        w = batch.w.sum(axis=1)
        return 0.5 * w * np.vecdot(x, x), w[:, None] * x


@dataclass(frozen=True, kw_only=True)
class Carried(Metered):
    """FedAvg whose clients take hardly any time: each uploads half of the model."""

    name: ClassVar[str] = "carried"

    def train(self, clients: Clients, x: Array) -> Upload:
        """Client function: one pass over the model."""
        began = perf_counter()
        half = np.empty((len(clients.ids), x.size), x.dtype)
        np.multiply(x, 0.5, out=half)
        one = np.ones(len(half))
        spent = one * (perf_counter() - began) / len(one)
        return Upload({"delta": half, "spent": spent, "process": one * getpid()}, loss=one)


@dataclass
class Copied:
    """A model that is copied down and up again.

    Parameters
    ----------
    parameters : int
    """

    parameters: int

    def start(self) -> Model:
        """Return ones (p,)."""
        return [np.ones(self.parameters, np.float32)]

    def round(self, model: Model) -> Model:
        """Copy it twice."""
        return [model[0].copy().copy()]


@dataclass
class Sent:
    """A model of which each of some Ray actors gets a copy and sends one back, by Ray alone.

    Parameters
    ----------
    parameters, actors : int
    """

    parameters: int
    actors: int
    handles: list[Any] = field(default_factory=list)

    def start(self) -> Model:
        """Start the actors; return ones (p,)."""
        import ray

        class Echo:
            def back(self, x: Array) -> Array:
                return x

        echo = ray.remote(num_cpus=0)(Echo)
        self.handles = [echo.remote() for _ in range(self.actors)]
        return [np.ones(self.parameters, np.float32)]

    def round(self, model: Model) -> Model:
        """Send the model to each actor, and return what one of them sends back."""
        import ray

        answers: list[Array] = ray.get([actor.back.remote(model[0]) for actor in self.handles])
        return [answers[0]]
