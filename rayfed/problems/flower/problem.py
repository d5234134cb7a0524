"""Flower apps as problems."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from annotated_types import Ge

from rayfed.core.errors import LibraryMissing, ScenarioError, clipped, unknown
from rayfed.core.extras import install
from rayfed.core.own import Untrusted, settled
from rayfed.core.plugins import load
from rayfed.problems.flower.app import FlowerApp, FlowerCode, Settings, survey
from rayfed.problems.own_code.problem import OwnCode


@dataclass(frozen=True, kw_only=True)
class Flower(OwnCode):
    """A Flower app: its ClientApp trains and evaluates the clients, unchanged.

    F_i is the loss of the app's evaluation of client i, and F the mean over clients, weighted by
    the ``num-examples`` of training. Client i has the partition-id i. The local solver is
    ``own-train``, whose ``steps``, or ``epochs`` and ``batch``, are the time that a task takes.

    Parameters
    ----------
    app : str
        ClientApp, as ``module:name``; with a ``client_fn`` or functions for train and evaluate.
    server : str, optional
        ServerApp, as ``module:name``, that is run up to its strategy, which has the initial model
        and configures each round; that of pyproject.toml if neither it nor `model` is given.
    model : str, optional
        Function of the initial model in place of that of the ServerApp, as ``module:name``: it
        returns a ``torch.nn.Module``, or arrays in a dict or a list.
    config : mapping of str to object
        Settings of the app (``context.run_config``) in place of those in pyproject.toml, next to
        the package of the app.
    examples : str, optional
        Function, as ``module:name``, that returns the number of examples of client i in "train" or
        "test". If not given, all clients train and evaluate once before the run.
    state_bytes : int
        Bytes that ``context.state`` of a client may take.
    loss, accuracy : str, optional
        Metrics of evaluations that are the loss and the accuracy, if others than usual.
    metrics : mapping of str to "higher", "lower" or None
        Which values of further metrics of evaluations are better; all of them are columns.

    Notes
    -----
    Evaluations have the state of their client, and the settings of the last round; before the first
    round those of round 1, with the ``server-round`` 0.
    """

    name: ClassVar[str] = "flower"

    app: str
    server: str | None = None
    model: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    examples: str | None = None
    state_bytes: Annotated[int, Ge(0)] = 1024
    loss: str | None = None
    accuracy: str | None = None
    code: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        if find_spec("flwr") is None:
            raise ScenarioError("", f"'flower' needs flwr; install it with: {install('flower')}")
        from flwr.clientapp import ClientApp
        from flwr.serverapp import ServerApp

        _check("app", self.app, ClientApp)
        project = _project(self.app)
        object.__setattr__(self, "config", dict(_config(project, self.config)))
        if self.server is None and self.model is None:
            object.__setattr__(self, "server", _component(project, "serverapp"))
        for name, kind in (("server", ServerApp), ("model", None), ("examples", None)):
            if (path := getattr(self, name)) is not None:
                _check(name, path, kind)
        given = Settings(
            self.app, self.server, self.model, tuple(self.config.items()), self.state_bytes,
            self.loss, self.accuracy, self.examples,
        )  # fmt: skip
        object.__setattr__(self, "code", FlowerCode.of_app(FlowerApp(given)))
        super().__post_init__()

    @classmethod
    def example(cls, folder: Path) -> Self:
        """Return no example: it takes an app."""
        raise LibraryMissing("problem", "'flower' needs an app")

    def of_clients(self, clients: int, config: Mapping[str, Any], rounds: int) -> OwnCode:
        """Return the problem of N clients; see `OwnCode.of_clients`."""
        found = survey(self.code.app.settings, clients, json.dumps(config, sort_keys=True))
        app = FlowerApp(self.code.app.settings, clients, rounds, counts=found.counts)
        held = {f.name: getattr(self, f.name) for f in fields(OwnCode)}
        metrics = {**dict.fromkeys(found.metrics["test"]), **self.metrics}
        code = FlowerCode.of_app(app, found.metrics["train"], found.training_loss)
        return OwnCode(**held | {"code": code, "metrics": metrics})


def _check(name: str, path: str, kind: type[Any] | None) -> None:
    """Refuse a name of something else than a value of a kind, or than a function."""
    if ":" not in path:
        raise ScenarioError(name, f"found '{clipped(path, 60)}'; write module:name")
    try:
        item = load(path)
    except Untrusted:
        raise
    except ScenarioError as error:
        raise ScenarioError(name, str(error)) from error
    if kind is None and not callable(item):
        raise ScenarioError(name, f"found {clipped(repr(item), 60)}; name a function")
    if kind is not None and not isinstance(item, kind):
        raise ScenarioError(name, f"found {clipped(repr(item), 60)}; name a {kind.__name__}")


def _project(app: str) -> Mapping[str, Any]:
    """Return the settings of Flower in the pyproject.toml next to the package of an app."""
    home = settled().get(app.partition(":")[0].partition(".")[0])
    path = Path(home or "", "pyproject.toml")
    if home is None or not path.is_file():
        return {}
    return read_project(path)


def read_project(path: Path) -> Mapping[str, Any]:
    """Return the settings of Flower in a pyproject.toml, ``[tool.flwr.app]``.

    Raises
    ------
    ScenarioError
        If it cannot be read.
    """
    try:
        held = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        text = f"{path} cannot be read: {clipped(str(error), 80)}; correct it"
        raise ScenarioError("app", text) from error
    for key in ("tool", "flwr", "app"):
        held = held.get(key, {}) if isinstance(held, Mapping) else {}
    return held if isinstance(held, Mapping) else {}


def _component(project: Mapping[str, Any], name: str) -> str | None:
    components = project.get("components")
    path = components.get(name) if isinstance(components, Mapping) else None
    return path if isinstance(path, str) else None


def _config(project: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of an app, with those given in place of those in its project.

    Raises
    ------
    ScenarioError
        If one is given that the project lacks, or is no number, text or bool.
    """
    held = project.get("config", {})
    known = dict(_flattened(held.items())) if isinstance(held, Mapping) else {}
    found = {**known, **dict(_flattened(given.items()))}
    for name, value in found.items():
        if known and name not in known:
            raise ScenarioError("config", unknown("setting of the app", name, tuple(known)))
        if not isinstance(value, bool | int | float | str):
            text = f"found {clipped(repr(value), 40)}; give a number, a text, true or false"
            raise ScenarioError(f"config.{name}", text)
    return found


def _flattened(items: Iterable[tuple[str, Any]], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested settings by names with points, as Flower has them."""
    for name, value in items:
        if isinstance(value, Mapping):
            yield from _flattened(value.items(), f"{above}{name}.")
        else:
            yield f"{above}{name}", value
