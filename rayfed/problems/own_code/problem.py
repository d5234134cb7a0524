"""Training code of the user's own as a problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.columns import Better
from rayfed.core.errors import ScenarioError, clipped
from rayfed.core.needs import NOTHING, Terms
from rayfed.core.own import Untrusted
from rayfed.core.plugins import raised
from rayfed.core.rng import Key
from rayfed.core.targets import Targets
from rayfed.problems.base import Batch, Problem, Scores, Start
from rayfed.problems.layers import Layer, Normalisation
from rayfed.problems.own_code.functions import (
    EXAMPLES,
    STATE,
    ClientCode,
    Context,
    OwnCodeError,
    bytes_of,
    check_loss,
    check_metrics,
    numbers,
    preserved,
    refuse,
    seed_all,
    seed_of,
)
from rayfed.problems.own_code.models import Arrays, Module, flat, template

ACCURACY = "accuracy"
"""Metric that `ClientCode.evaluate` may return without a declaration."""
NAMES = {"train": "train", "test": "test", "validation": "val"}
"""Parts of a client's data, and their names for `ClientCode.size` and `ClientCode.evaluate`.

They are in the order of `rayfed.datasets.shards.PARTS`.
"""
Trained: TypeAlias = tuple[Array, dict[str, float]]
"""A trained model (p,), and the loss and metrics of the local steps."""


@dataclass(frozen=True, kw_only=True)
class OwnCode(Problem):
    """Own training code: any model, any data and any training loop.

    F_i is the loss that ``evaluate`` returns for the part "train", and F the mean over clients,
    weighted by ``size``. The model x (p,) holds the parameters of a PyTorch module that need
    gradients, or all named arrays. The local solver is ``own-train``; the clients' data come with
    the code.

    Parameters
    ----------
    code : str, mapping or ClientCode
        Name of a module next to the scenario file that defines ``model``, ``client``, ``size``,
        ``train``, ``evaluate`` and perhaps ``cost``; or a mapping of these names to functions, as
        ``module:function``. See `rayfed.problems.own_code.functions.ClientCode`.
    metrics : mapping of str to "higher", "lower" or None
        Further numbers that ``evaluate`` returns, each a mean over examples, and which are better.
        They are columns of `rounds`, means over the examples that accuracy is measured on, and of
        `clients`.
    val : bool
        Whether clients have a part "val", to choose settings by.
    normalisation : "average", "local" or "frozen"
        Running statistics of BatchNorm in a module: averaged as the parameters are; at the clients,
        which an algorithm such as FedBN has to do; or as ``model()`` made them, by which BatchNorm
        then normalises in training as well.
    intercept : bool
        Must be False.

    Notes
    -----
    There are no gradients, Hessians, rows or labels, which some methods need.
    """

    name: ClassVar[str] = "own-code"
    task: ClassVar[Literal["regression", "binary", "multiclass", "own"]] = "own"
    convex: ClassVar[bool] = False
    gives: ClassVar[Terms] = NOTHING
    default_init: ClassVar[Start] = "own"
    starts: ClassVar[tuple[Start, ...]] = ("own",)

    code: Any
    metrics: Mapping[str, Better | None] = field(default_factory=dict)
    val: bool = False
    normalisation: Normalisation = "average"
    intercept: bool = False

    def __post_init__(self) -> None:
        if self.intercept or self.l2:
            place = "intercept" if self.intercept else "l2"
            raise ScenarioError(place, "own code has a model and a loss of its own; leave it out")
        try:
            object.__setattr__(self, "code", ClientCode.of(self.code))
        except Untrusted:
            raise
        except ScenarioError as error:
            raise ScenarioError("code", str(error)) from error
        check_metrics(self.metrics, ("loss", "accuracy", EXAMPLES))

    @property
    def parts(self) -> tuple[str, ...]:
        """Parts of the clients' data, among `NAMES`."""
        return tuple(part for part in NAMES if part != "validation" or self.val)

    @property
    def setting_needs(self) -> Terms:
        """Terms that the code needs."""
        needs: Terms = self.code.needs
        return needs

    @property
    def further(self) -> Mapping[str, Better | None]:
        """The metrics."""
        return self.metrics

    @classmethod
    def example(cls, folder: Path) -> Self:
        """Return code that computes means, for the checks of plug-ins."""
        return cls(code="rayfed.testing.own_code")

    def sizes(self, clients: int) -> dict[str, Ints]:
        """Return the number of examples of each of N clients (N,), by part.

        Raises
        ------
        ScenarioError
            If `ClientCode.size` raises, returns no whole number, or no training examples.
        """
        found = {}
        for part in self.parts:
            try:
                given = [self.code.size(i, NAMES[part]) for i in range(clients)]
            except Exception as error:
                raise ScenarioError("problem.code", f"size fails: {raised(error)}") from error
            least = int(part == "train")
            for i, n in enumerate(given):
                if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < least:
                    text = f"size({i}, '{NAMES[part]}') returns {clipped(repr(n), 40)}"
                    raise ScenarioError("problem.code", f"{text}; return an int from {least} on")
            found[part] = np.array(given, dtype=np.int64)
        return found

    def of_clients(self, clients: int, config: Mapping[str, Any], rounds: int) -> OwnCode:
        """Return the problem of N clients, with the settings of the first local solver.

        `rounds` is the number of rounds of the study, 0 if it has none.
        """
        return self

    def bound(
        self, shape: tuple[int, ...], classes: int, key: Key, target: Targets | None = None
    ) -> Problem:
        """Return the problem with its model; see `Problem.bound`."""
        held = {f.name: getattr(self, f.name) for f in fields(OwnCode)}
        held["code"] = self.code.seeded(seed_of(key))
        bound = BoundOwnCode(**held, key=key)
        bound.layers(0, 0)  # made here, so that mistakes are found before a run
        return bound


@dataclass(frozen=True, kw_only=True)
class BoundOwnCode(OwnCode):
    """Own code that has made its model, and computes.

    Parameters
    ----------
    key : Key
        Of seeds.
    device : str
        Where functions compute, as PyTorch names it.
    """

    key: Key
    device: str = "cpu"

    @property
    def exact(self) -> str:
        """Level of numerical reproducibility, for ``run.json``."""
        text = f"{super().exact}, if the functions of problem.code depend on their arguments alone"
        return text if self.device == "cpu" else f"{text} and are deterministic on {self.device}"

    def on_device(self, device: str) -> Self:
        """Return the problem on a device; see `Problem.on_device`."""
        if device != "cpu" and isinstance(self._template, Module):
            from rayfed.problems.network.kernels.stacked import device_of

            if device_of(device) is None:
                text = f"found '{device}', which torch does not find here; use cpu"
                raise ScenarioError("executor.device", text)
        return replace(self, device=device)

    @cached_property
    def _template(self) -> Arrays | Module:
        with preserved():
            seed_all(seed_of(self.key))
            try:
                made = self.code.model()
            except Exception as error:
                raise ScenarioError("problem.code", f"model fails: {raised(error)}") from error
        return template(made, self.normalisation)

    @cached_property
    def _last(self) -> dict[str, Any]:
        return {}

    def at(self, round: int, ids: Ints, state: Mapping[str, Array]) -> Problem:
        """Return the problem for clients with their state in a round, if the code has state."""
        if not self.code.first_state:
            return self
        places = {i: k for k, i in enumerate(ids.tolist())}
        held = object.__new__(type(self))
        shared = {"_template": self._template, "_last": self._last}  # made once
        vars(held).update(vars(self), **shared, _now=(round, places, state))
        return held

    def _context(self, client: int) -> Context:
        """Return the context of an evaluation of a client."""
        round, places, state = vars(self).get("_now", (0, {}, {}))
        if client not in places:
            return Context(client, round)
        own = {name: state[f"{STATE}{name}"][places[client]] for name in self.code.first_state}
        return Context(client, round, state=own)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the model behind: another process makes its own."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def size(self, features: int, classes: int) -> int:
        """Return the number of trained parameters."""
        return self._template.layers[-1].stop

    def layers(self, features: int, classes: int) -> tuple[Layer, ...]:
        """Return the trained parameters or arrays, as the model names them."""
        return self._template.layers

    def named(self, x: Array, features: int, classes: int) -> Mapping[str, Array]:
        """Return the arrays of a model (p,) by name; of a module its state dict."""
        model = self.module(x)
        if isinstance(self._template, Arrays):
            return dict(model)
        return {name: value.numpy() for name, value in model.state_dict().items()}

    def module(self, x: Array) -> Any:
        """Return what ``model()`` returns, with a model (p,); a module is in evaluation mode."""
        model: Any = self._template.load(x, "cpu")
        return model if isinstance(self._template, Arrays) else model.eval()

    def initial(self, kind: Start, features: int, classes: int, key: Key) -> Floats:
        """Return the initial model (p,), as ``model()`` made it."""
        return self._template.x

    def trained(self, x: Array, context: Context, size: int, metrics: Sequence[str]) -> Trained:
        """Train one client from x (p,).

        Parameters
        ----------
        x : (p,) array
        context : Context
            Its seed is drawn for the task; its state is changed.
        size : int
            Number of training examples.
        metrics : sequence of str
            Declared metrics of the local solver.

        Raises
        ------
        OwnCodeError
            If the code returns something else than it should, or a loss that is not finite of
            models that are.
        """
        model = self._template.load(x, self.device)
        with preserved():
            data = self._data(context.client)
            seed_all(context.seed)
            returned = self.code.train(model, data, context)
            found = numbers(self.code.train, returned, metrics, "local.metrics", size)
            end = flat(self._template, model, x, self.code.train)
        if self.code.training_loss:
            check_loss(self.code.train, found["loss"], x, end)
        return end, found

    def _data(self, client: int) -> Any:
        """Return the data of a client, made anew: training may change them."""
        seed_all(seed_of(self.key.sub("client"), client))
        return self.code.client(client)

    def data_value(self, x: Array, batch: Batch) -> Array:
        """Return the mean loss of each client's training examples, times n_i/D_i, (K,)."""
        means = [found["loss"] for found in self._found(x, batch)]
        value: Array = batch.w[:, 0] * batch.y[:, 0] * np.array(means)
        return value

    def scored(self, x: Array, batch: Batch) -> Scores:
        """Return the scores of clients' examples; see `Problem.scored`."""
        found, rows = self._found(x, batch), batch.y[:, 0]
        columns = {
            name: rows * np.array([each.get(name, np.nan) for each in found])
            for name in ("loss", ACCURACY, *self.metrics)
        }
        further = {name: columns[name] for name in self.metrics}
        return Scores(columns["loss"], columns[ACCURACY], rows, further)

    def _found(self, x: Array, batch: Batch) -> list[dict[str, float]]:
        """Return the numbers of each client of a batch at x, (K, p) or (1, p); 0 of no examples."""
        clients, parts = batch.X[:, 0].astype(np.int64).T
        sizes = batch.y[:, 0].astype(np.int64).tolist()
        none, names = dict.fromkeys(("loss", ACCURACY, *self.metrics), 0.0), tuple(NAMES)
        return [
            self.evaluated(x[min(k, len(x) - 1)], i, names[part], sizes[k]) if sizes[k] else none
            for k, (i, part) in enumerate(zip(clients.tolist(), parts.tolist(), strict=True))
        ]

    def evaluated(self, x: Array, client: int, part: str, size: int) -> dict[str, float]:
        """Return the loss, perhaps the accuracy, and the metrics of one client's examples.

        The last ones are held: losses of all clients come first, then their scores.

        Parameters
        ----------
        x : (p,) array
        client : int
        part : "train", "test" or "validation"
        size : int
            Number of examples.

        Raises
        ------
        OwnCodeError
            If the code returns something else than it should, or a loss that is not finite for a
            model that is.
        """
        last, context = self._last, self._context(client)
        of = (client, part, context.round, bytes_of(context.state))
        if last.get("of") == of and np.array_equal(last["x"], x):
            found: dict[str, float] = last["found"]
            return found
        model, evaluate = self._template.load(x, self.device), self.code.evaluate
        with preserved():
            data = self._data(client)
            seed_all(seed_of(self.key.sub(f"evaluate/{part}"), client))
            returned = self.code.evaluated(model, data, NAMES[part], context)
            given = isinstance(returned, Mapping) and ACCURACY in returned
            found = numbers(
                evaluate, returned, (*self.metrics, *([ACCURACY] if given else [])),
                "problem.metrics", size,
            )  # fmt: skip
        check_loss(evaluate, found["loss"], x)
        if not 0 <= found.get(ACCURACY, 0.0) <= 1:
            refuse(evaluate, f"returns accuracy {found[ACCURACY]:g}; return a share from 0 to 1")
        last.update(of=of, x=x.copy(), found=found)
        return found

    def data_value_and_gradient(self, x: Array, batch: Batch) -> tuple[Array, Array]:
        """Refuse gradients, which own code has not.

        Raises
        ------
        OwnCodeError
            Always.
        """
        raise OwnCodeError("own code has no gradients of F_i; choose a method that needs none")
