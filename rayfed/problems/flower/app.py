"""A Flower app as the functions of own training code."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from rayfed.core.arrays import Array, Ints
from rayfed.core.errors import ScenarioError, clipped, listed
from rayfed.core.needs import ALL_STEPS, Terms
from rayfed.core.plugins import raised
from rayfed.problems.flower.messages import (
    Answer,
    FlowerError,
    Opening,
    call,
    in_process,
    is_legacy,
    pack,
    send,
    unpack,
)
from rayfed.problems.flower.strategies import opened
from rayfed.problems.own_code.functions import (
    ARGUMENTS,
    EXAMPLES,
    OPTIONAL,
    ClientCode,
    Context,
    bytes_of,
    preserved,
    seed_all,
)
from rayfed.problems.own_code.models import flat, template

PARTS = ("train", "test")
STATE = "flower"
"""Name of the client state that holds a packed ``context.state``."""
LOSSES = ("loss", "eval_loss", "eval-loss", "test_loss", "val_loss")
ACCURACIES = ("accuracy", "eval_acc", "eval_accuracy", "eval-accuracy", "test_accuracy", "acc")
TRAIN_LOSSES = ("loss", "train_loss", "train-loss")
"""Names of metrics that are the loss or the accuracy unless the scenario names others."""


@dataclass(frozen=True)
class Settings:
    """Settings of a Flower app, from a scenario and from its pyproject.toml.

    Parameters
    ----------
    app : str
        ClientApp, as ``module:name``.
    server : str, optional
        ServerApp that sends the initial model, as ``module:name``.
    model : str, optional
        Function that makes the initial model in its place, as ``module:name``.
    run_config : tuple of (str, object)
    state_bytes : int
        Bytes of the packed ``context.state``.
    loss, accuracy : str, optional
        Metrics of evaluations that are the loss and the accuracy.
    examples : str, optional
        Function that returns the examples of a client in a part, as ``module:name``.
    """

    app: str
    server: str | None
    model: str | None
    run_config: tuple[tuple[str, Any], ...]
    state_bytes: int
    loss: str | None
    accuracy: str | None
    examples: str | None


@dataclass(frozen=True, eq=False)
class FlowerApp:
    """A Flower app that is called in this process.

    Parameters
    ----------
    settings : Settings
    clients : int
        Number N of partitions.
    rounds : int
        Number of rounds whose settings are asked for; those of the ServerApp if 0.
    opening : Opening, optional
        First training message.
    counts : mapping of str to (N,) array of int
        Examples of each client in "train" and "test".
    """

    settings: Settings
    clients: int = 1
    rounds: int = 1
    opening: Opening | None = None
    counts: Mapping[str, Ints] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the last evaluation."""
        return {name: held for name, held in vars(self).items() if name != "_last"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Import the modules of the app before a function is called, as those of own code are."""
        vars(self).update(state)
        for path in (self.settings.app, self.settings.examples):
            if path is not None:
                found(path)

    @cached_property
    def _last(self) -> dict[str, Any]:
        return {}

    @property
    def _first(self) -> Opening:
        assert self.opening is not None  # since the problem met its clients
        return self.opening

    def opened(self, seed: int) -> FlowerApp:
        """Return the app with its first training message.

        Parameters
        ----------
        seed : int
            Seed of the generators while the model is made.

        Raises
        ------
        ScenarioError
            If there is none.
        """
        given, place, opening = self.settings, "problem.model", None
        with preserved(), in_process():
            seed_all(seed)
            try:
                if given.server is not None:
                    place, config = "problem.server", dict(given.run_config)
                    server = found(given.server)
                    opening = opened(server, self.clients, config, self.rounds, self._parameters)
                    _fitting(opening, is_legacy(found(given.app)))
                if opening is None or given.model is not None:
                    place = "problem.model"
                    opening = replace(opening or Opening({}), arrays=self._parameters())
            except ScenarioError:
                raise
            except (Exception, SystemExit) as error:  # the app may raise anything
                raise ScenarioError(place, raised(error)) from error
        if not any(array.dtype.kind == "f" and array.size for array in opening.arrays.values()):
            raise ScenarioError(place, "has no array of floats; give a model with parameters")
        return replace(self, opening=opening)

    def _parameters(self) -> dict[str, Array]:
        """Return the arrays of `model`, or those that Flower asks the first older client for."""
        from flwr.common import Code, GetParametersIns, parameters_to_ndarrays
        from flwr.compat.common import recorddict_compat as compat

        if self.settings.model is not None:
            return _arrays(found(self.settings.model)())
        text = "is missing"
        if is_legacy(app := found(self.settings.app)):
            ask = compat.getparametersins_to_recorddict(GetParametersIns({}))
            reply = send(app, "get_parameters", ask, self._context(0))
            answer = compat.recorddict_to_getparametersres(reply, keep_input=True)
            if answer.status.code == Code.OK:
                return _arrays(parameters_to_ndarrays(answer.parameters))
            text += ", and the client has no get_parameters"
        raise ScenarioError("problem.model", f"{text}; give it as module:name")

    def _context(self, client: int, state: Any = None) -> Any:
        from flwr.app import Context as FlowerContext
        from flwr.app import RecordDict

        node = {"partition-id": client, "num-partitions": self.clients}
        state = RecordDict() if state is None else state
        return FlowerContext(1, client, node, state, dict(self.settings.run_config))

    def _call(
        self, kind: str, context: Any, model: Mapping[str, Array], config: Mapping[str, Any]
    ) -> Answer:
        """Return the answer of a client to a model, whose arrays have the types of the first."""
        first = self._first.arrays
        arrays = {
            name: np.asarray(model[name], array.dtype, order="C") if name in model else array
            for name, array in first.items()
        }
        opening = replace(self._first, arrays=arrays)
        with in_process():
            return call(found(self.settings.app), kind, opening, config, context)

    def model(self) -> dict[str, Array]:
        """Return the arrays of floats of the initial model; others are sent as they are."""
        arrays = self._first.arrays.items()
        return {name: array for name, array in arrays if array.dtype.kind == "f"}

    def client(self, i: int) -> int:
        """Return the number of a partition, which the app reads itself."""
        return i

    def size(self, i: int, part: str) -> int:
        """Return the number of examples of a client."""
        if self.settings.examples is not None:
            return found(self.settings.examples)(i, part)  # type: ignore[no-any-return]
        return int(self.counts[part][i])

    def train(self, model: dict[str, Array], data: int, context: Context) -> dict[str, float]:
        """Train a client; see `ClientCode.train`."""
        flower = self._context(data, unpack(context.state[STATE]))
        config = {**self._first.config(context.round), **context.config}
        answer = self._call("train", flower, model, config)
        fixed = self._first.arrays.keys() - model.keys()  # integers, say, which are not learned
        model.clear()
        model.update({k: array for k, array in answer.arrays.items() if k not in fixed})
        context.state[STATE] = pack(flower.state, self.settings.state_bytes)
        return self._numbers(answer, "train")

    def evaluate(
        self, model: dict[str, Array], data: int, part: str, context: Context | None = None
    ) -> dict[str, float]:
        """Evaluate a client; both parts have the numbers of the app's one evaluation.

        The app gets the state of the client; changes of it are dropped.
        """
        last, context = self._last, context or Context(data)
        round, of = context.round, (data, context.round, bytes_of(context.state))
        if last.get("of") != of or not _same(last["model"], model):
            state = unpack(context.state[STATE]) if context.state else None
            flower = self._context(data, state)
            config = self._first.config(round, "evaluate")
            answer = self._call("evaluate", flower, model, config)
            last.update(of=of, model=dict(model), found=self._numbers(answer, "test"))
        found: dict[str, float] = dict(last["found"])
        if part == "train":
            found.pop(EXAMPLES)  # those that the app evaluates on
        return found

    def _numbers(self, answer: Answer, part: str) -> dict[str, float]:
        """Return the numbers of an answer by the names of columns, with loss and examples.

        Raises
        ------
        FlowerError
            If an evaluation returns no loss.
        """
        given, train = self.settings, part == "train"
        named = {"loss": (given.loss, LOSSES), "accuracy": (given.accuracy, ACCURACIES)}
        if train:
            named = {"loss": (None, TRAIN_LOSSES)}
        columns = {name: re.sub(r"\W", "_", name) for name in answer.metrics}
        if train:
            columns = {name: text.removeprefix("train_") for name, text in columns.items()}
        for column, (one, usual) in named.items():
            names = usual if one is None else (one,)
            first = next((name for name in names if name in answer.metrics), None)
            if first is not None:  # another metric of this name is not the one that was chosen
                columns = {name: text for name, text in columns.items() if text != column}
                columns[first] = column
        if not train and "loss" not in columns.values():
            text = f"evaluate of the Flower app returns {listed(answer.metrics) or 'no metrics'}"
            raise FlowerError(f"{clipped(text, 100)}; name the loss in problem.loss")
        found = {text: answer.metrics[name] for name, text in columns.items()}
        if len(found) < len(columns):
            same = [name for name, text in columns.items() if [*columns.values()].count(text) > 1]
            text = f"{part} of the Flower app returns {listed(same)}, which have one name here"
            raise FlowerError(f"{clipped(text, 120)}; rename all but one")
        return {"loss": np.nan, **found, EXAMPLES: answer.examples}


def _fitting(opening: Opening, legacy: bool) -> None:
    """Refuse a strategy whose messages the ClientApp does not take in Flower."""
    if opening.legacy != legacy:
        here, there = ("flwr.server", "flwr.serverapp")[:: 1 if opening.legacy else -1]
        wants = "lacks" if opening.legacy else "has"
        text = f"the strategy is one of {here}, but the ClientApp {wants} a client_fn"
        raise FlowerError(f"{text}; use one of {there}, or name problem.model")


def _same(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    return all(np.array_equal(one[name], array) for name, array in other.items())


def _arrays(model: Any) -> dict[str, Array]:
    """Return the arrays of a torch module, or of a dict or a list of arrays, by name."""
    if hasattr(model, "state_dict"):
        return {k: value.detach().cpu().numpy() for k, value in model.state_dict().items()}
    if isinstance(model, list | tuple):  # as Flower numbers them
        model = {str(k): value for k, value in enumerate(model)}
    if not isinstance(model, Mapping):
        text = f"returns {clipped(repr(model), 60)}; return a torch.nn.Module, or arrays"
        raise FlowerError(f"{text} in a dict or a list")
    return {str(name): np.asarray(value) for name, value in model.items()}


def found(path: str) -> Any:
    """Return an object by its name; `rayfed.core.plugins.load` has judged its module."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


@dataclass(frozen=True, kw_only=True)
class FlowerCode(ClientCode):
    """The functions of a Flower app.

    Parameters
    ----------
    app : FlowerApp
    training_metrics : tuple of str
        Metrics of training.
    training_loss : bool
        Whether training returns a loss.
    """

    needs: ClassVar[Terms] = frozenset({ALL_STEPS})

    app: FlowerApp
    training_metrics: tuple[str, ...] = ()
    training_loss: bool = False

    @classmethod
    def of_app(
        cls, app: FlowerApp, training_metrics: tuple[str, ...] = (), training_loss: bool = False
    ) -> FlowerCode:
        """Return the functions of an app."""
        functions = {name: getattr(app, name) for name in ARGUMENTS if name not in OPTIONAL}
        return cls(
            app=app, training_metrics=training_metrics, training_loss=training_loss, **functions
        )

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules of the app, the ServerApp, the model and the numbers of examples."""
        given = self.app.settings
        paths = (given.app, given.server, given.model, given.examples)
        return tuple(path.partition(":")[0] for path in paths if path is not None)

    @property
    def first_state(self) -> Mapping[str, Array]:
        """An empty ``context.state``."""
        return {STATE: np.zeros(self.app.settings.state_bytes, np.uint8)}

    def settings_of(self, config: Mapping[str, Any], solver: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of the scenario, which replace those of the ServerApp."""
        return dict(config)

    def evaluated(self, model: Any, data: Any, part: str, context: Context) -> Any:
        """Return the numbers of an evaluation, which knows the round and the state."""
        return self.app.evaluate(model, data, part, context)

    def seeded(self, seed: int) -> FlowerCode:
        """Return the code with the initial model of a seed."""
        return self.of_app(self.app.opened(seed), self.training_metrics, self.training_loss)


@dataclass(frozen=True, eq=False)
class Survey:
    """Answers of clients before a run.

    Parameters
    ----------
    counts : mapping of str to (N,) array of int
        Examples of each client in "train" and "test".
    metrics : mapping of str to tuple of str
        Columns of the metrics of training and evaluation, without loss and accuracy.
    training_loss : bool
        Whether training returns a loss.
    """

    counts: Mapping[str, Ints]
    metrics: Mapping[str, tuple[str, ...]]
    training_loss: bool


@lru_cache(maxsize=8)
def survey(settings: Settings, clients: int, config: str) -> Survey:
    """Let clients train and evaluate once before a run, which shows sizes and metrics.

    With `Settings.examples` the first client is asked in place of all.

    Parameters
    ----------
    settings : Settings
    clients : int
        Number N of clients.
    config : str
        Settings of the first local solver, as JSON.

    Raises
    ------
    ScenarioError
        If the app fails or answers in another form.
    """
    app, answers = FlowerApp(settings, clients).opened(0), []
    with preserved():
        for i in range(clients if settings.examples is None else 1):
            try:
                answers.append(_asked(app, i, json.loads(config)))
            except (Exception, SystemExit) as error:  # the app may raise anything
                text = f"client {i} fails before the run: {raised(error)}"
                raise ScenarioError("problem.app", text) from error
    usual = {"train": {"loss", EXAMPLES}, "test": {"loss", "accuracy", EXAMPLES}}
    metrics = {part: tuple(sorted(answers[0][part].keys() - usual[part])) for part in PARTS}
    counts = {part: np.array([int(each[part][EXAMPLES]) for each in answers]) for part in PARTS}
    return Survey(counts, metrics, not np.isnan(answers[0]["train"]["loss"]))


def _asked(app: FlowerApp, client: int, config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the numbers of one client that trains and evaluates the first model."""
    seed_all(client)
    code, model = FlowerCode.of_app(app), app.model()
    known, state = template(model), dict(code.first_state)
    config = code.settings_of(config, {})
    trained = {name: array.copy() for name, array in model.items()}
    found = {"train": app.train(trained, client, Context(client, 1, config=config, state=state))}
    flat(known, trained, known.x, app.train)
    found["test"] = app.evaluate(model, client, "test")
    for part in PARTS if app.settings.examples is not None else ():
        if (size := app.size(client, part)) != found[part][EXAMPLES]:
            text = f"has {found[part][EXAMPLES]} examples in {part}, but examples returns {size}"
            raise FlowerError(f"{text}; correct problem.examples")
    return found
