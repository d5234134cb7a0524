"""The parts of a scenario file, each a pydantic model that holds plug-ins as frozen values."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import fields as all_fields
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args

from annotated_types import Ge, Gt, Interval, Len, Lt
from pydantic import (
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from rayfed.channel.faults import Fault
from rayfed.core import plugins
from rayfed.core.errors import Missing, ScenarioError, under
from rayfed.core.names import numbered
from rayfed.core.needs import OPTIMUM
from rayfed.core.plugins import PLACE, name_of
from rayfed.core.shares import rounded
from rayfed.datasets.base import Dataset, UnseenClients
from rayfed.datasets.tabular import Tabular
from rayfed.engine.settings import Stop
from rayfed.measures.base import Measure
from rayfed.population import Connection, Crash, Energy, Group, Population, Stragglers
from rayfed.population.availability.base import Always, Availability
from rayfed.population.delay.base import Delay
from rayfed.population.delay.distributions import ConstantDelay
from rayfed.problems.base import Problem
from rayfed.study.scenario import fields
from rayfed.study.scenario.fields import LARGEST, Count, Integer, Plugin, Seconds, SettingsOf
from rayfed.study.scenario.invalid import complaint, errors_of
from rayfed.study.scenario.settings import Settings, fail, mark_unknown, refuse

PositiveSeconds = Annotated[Seconds, Gt(0)]
Capacity: TypeAlias = Annotated[float, Interval(gt=0, le=1)]
Adaptive: TypeAlias = Literal["tpe", "gp", "cmaes", "nsgaii"]
ADAPTIVE = get_args(Adaptive)
"""Samplers of Optuna, which learn from what trials reached."""
_INHERITED = {"delay": "delays", "availability": "availability"}
"""Keys of groups that change what the population has, with the kinds of their plug-ins."""
_OF_TABLES = ("client", "categorical", "missing", "standardise")
"""Settings of a user's table, which some users give next to `dataset`."""
_PLACES = {f.name: f.metadata[PLACE] for f in all_fields(Dataset) if PLACE in f.metadata}
"""Settings of data sets at the level of `dataset` in files, with their places there."""
_TABLE = re.compile(r"\.((csv|parquet)(\.gz)?|libsvm|svm)$", re.IGNORECASE)


class Evaluate(Settings):
    """When and on which clients the loss and the accuracy are computed.

    Parameters
    ----------
    every : int
        Rounds from one evaluation to the next.
    every_s : float, optional
        Simulated seconds from one evaluation to the next, in place of `every`.
    clients : "all", "auto" or int
        "all", a number of clients, or "auto" (all of up to 10,000, else a sample).
    rows : int, optional
        At most so many training rows and so many held-out or test rows that losses and accuracies
        are estimated on: a fixed draw, the same for all algorithms of a seed. All if null.
    gap : bool
        Whether the optimum is computed, so that `loss_gap` is known.
    left_out : bool
        Whether rows have the norm of what memories of `uplink` have left out of uploads so far.
    measures : list of names or mappings
        Further columns of evaluated rows, such as ``[fairness, {name: appeal, steps: 10}]``.
    """

    every: Count = 1
    every_s: PositiveSeconds | None = None
    clients: Literal["all", "auto"] | Count = "auto"
    rows: Count | None = None
    gap: bool = False
    left_out: bool = False
    measures: tuple[Annotated[Measure, Plugin("measures")], ...] = ()

    @property
    def asked(self) -> dict[str, Measure]:
        """The measures by their places in the scenario."""
        return {f"evaluate.measures.{k}": value for k, value in enumerate(self.measures)}

    @classmethod
    def key_places(cls) -> dict[str, str]:
        """Return the places of measures, some of which were keys of their own."""
        return {name: f"measures: [{name}]" for name in plugins.declared("measures")}

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        asked = [name_of(measure) for measure in self.measures]
        for k, name in enumerate(asked):
            if name in asked[:k]:
                text = f"found '{name}', which is asked for already; leave it out"
                fail(text, name, "measures", k)
        return self

    def needs_optimum(self, stop: Stop) -> str | None:
        """Return the first key that cannot do without the optimum, if there is one."""
        asked = {
            "evaluate.gap": self.gap,
            **{place: OPTIMUM in measure.needs for place, measure in self.asked.items()},
            "stop.loss_gap": stop.loss_gap is not None,
        }
        return next((key for key, given in asked.items() if given), None)

    def given(self) -> dict[str, Any]:
        """Return the keys; those that older records do not have only where they are set."""
        shown = super().given()
        return {k: v for k, v in shown.items() if v or k not in ("measures", "left_out")}


class Checkpoint(Settings):
    """Checkpoint settings of a run.

    Parameters
    ----------
    every_s : float
        Wall-clock seconds from one checkpoint to the next.
    """

    every_s: Annotated[Seconds, Ge(0)] = 10.0


class Named(Settings):
    """Base of parts that may be given as a bare name."""

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, given: Any) -> Any:
        return {"name": given} if isinstance(given, str) else given

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Show that the name alone is enough."""
        mapping = super().__get_pydantic_json_schema__(schema, handler)
        names = handler.resolve_ref_schema(mapping)["properties"]["name"]["enum"]
        return {"anyOf": [{"enum": names}, mapping]}


class Clock(Named):
    """Whether simulated time takes wall-clock time.

    Parameters
    ----------
    name : "virtual" or "wall"
        "virtual" waits for nothing; "wall" sleeps, to demonstrate or to load a cluster.
    scale : float
        Wall-clock seconds to a virtual second, with "wall".
    """

    name: Literal["virtual", "wall"] = "virtual"
    scale: Annotated[float, Interval(gt=0, le=LARGEST)] = 1.0


class Executor(Named):
    """Processes of the clients.

    Parameters
    ----------
    name : "auto", "serial", "workers" or "ray"
        "serial" (one run after the other in this process), "workers" (whole runs in processes of
        their own on this machine, for studies of many runs), "ray" (actors), or "auto" for the
        fastest by a timed round. Settings that only one of them has imply its name.
    workers : "auto" or int
        Processes of "workers": a number, or "auto" for one per CPU.
    clients_per_actor : "auto" or int
        A number of clients, or "auto" for one process per CPU.
    driver_hosts : "auto" or bool
        Whether the driver of a run hosts a share of the clients itself, in the place of one of the
        actors. "auto": where ``clients_per_actor`` is "auto" and ``device`` "cpu".
    address : str, optional
        Of an existing Ray cluster; a local one is started without.
    memory_gb : float, optional
        Memory that the clients' state may take on each node, in 10^9 bytes; a quarter of the node's
        memory if null. A state that needs more is kept in a scratch file.
    device : str
        Where networks compute: "cpu", "cuda", or another name that PyTorch knows.
    gpus_per_actor : float
        GPUs, or the share of one, that Ray gives each client actor on another device than "cpu".
    """

    name: Literal["auto", "serial", "workers", "ray"] = "auto"
    workers: Literal["auto"] | Count = "auto"
    clients_per_actor: Literal["auto"] | Count = "auto"
    driver_hosts: Literal["auto"] | bool = "auto"
    address: str | None = None
    memory_gb: Annotated[float, Interval(gt=0, le=LARGEST)] | None = None
    device: Annotated[str, Len(1)] = "cpu"
    gpus_per_actor: Annotated[float, Gt(0)] = 1.0

    @model_validator(mode="after")
    def _named_by_its_settings(self) -> Self:
        """Take the name that settings of one kind of executor imply."""
        if self.name == "auto":
            packed = self.clients_per_actor != "auto" or self.gpus_per_actor != 1.0
            if packed or self.driver_hosts != "auto" or self.address is not None:
                object.__setattr__(self, "name", "ray")
            elif self.workers != "auto":
                object.__setattr__(self, "name", "workers")
        return self

    @model_validator(mode="after")
    def _drivers_have_no_gpu(self) -> Self:
        if self.driver_hosts is True and self.device != "cpu":
            text = f"found true with device {self.device}, which client actors alone are given"
            fail(f"{text}; leave it out", True, "driver_hosts")
        return self

    @property
    def gpus(self) -> float:
        """GPUs of each client actor."""
        return 0.0 if self.device == "cpu" else self.gpus_per_actor

    @property
    def hosting_driver(self) -> bool:
        """Whether drivers on Ray host a share of the clients."""
        hosts = self.driver_hosts
        if hosts == "auto":
            hosts = self.clients_per_actor == "auto" and self.device == "cpu"
        return hosts and self.name == "ray"


def _without(given: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    """Return keys without those that older records do not have, unless they are set."""
    return {k: v for k, v in given.items() if k not in defaults or v != defaults[k]}


class ClientGroup(Settings):
    """Some clients that differ from the others.

    Parameters
    ----------
    name : str, optional
        What the group is called.
    ids : list of int or str, optional
        Who belongs to it, by number or by the name that the data give; or else `count` or
        `fraction`.
    count : int, optional
        How many clients, chosen by the seed.
    fraction : float, optional
        Share of all clients, chosen by the seed.
    delay, availability : name or mapping, optional
        In place of that of the population. A mapping without a name changes some of its settings.
    network, crash : mapping, optional
        In place of that of the population.
    capacity : float, optional
        In place of that of the population.
    energy : mapping, optional
        In place of that of the population.
    local : mapping
        Settings of the local solver that replace those of every algorithm.
    """

    name: str | None = None
    ids: Annotated[tuple[Integer | str, ...], Len(1)] | None = None
    count: Count | None = None
    fraction: Annotated[float, Interval(gt=0, le=1)] | None = None
    delay: Annotated[Delay | dict[str, Any], Plugin("delays", some=True)] | None = None
    network: Annotated[Connection, SettingsOf(Connection)] | None = None
    availability: (
        Annotated[Availability | dict[str, Any], Plugin("availability", some=True)] | None
    ) = None
    crash: Annotated[Crash, SettingsOf(Crash)] | None = None
    capacity: Capacity | None = None
    energy: Annotated[Energy, SettingsOf(Energy)] | None = None
    local: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        given = [key for key in ("ids", "count", "fraction") if getattr(self, key) is not None]
        if len(given) != 1:
            keys = " and ".join(given) or "none of ids, count and fraction"
            fail(f"found {keys}; give one of ids, count and fraction", given)
        return self

    def over(self, clients: Clients, context: Any = None) -> dict[str, Any]:
        """Return by key the values of mappings without a name over those of the population.

        Raises
        ------
        ScenarioError
            If a setting is unknown or wrong; places are keys of the group.
        """
        made = {}
        for key, kind in _INHERITED.items():
            own = getattr(self, key)
            if isinstance(own, Mapping):
                try:
                    made[key] = fields.build(kind, own, getattr(clients, key), context)
                except ValidationError as error:
                    raise complaint(error, own).under(key) from None
        return made

    def group(
        self, index: int, clients: Clients, population: int, names: tuple[str, ...] | None
    ) -> Group:
        """Return the group of a population of so many clients.

        Parameters
        ----------
        clients : Clients
            What it has in common with the others.
        names : tuple of str or None
            Of the clients in the data; None if the data are not read yet, when members that are
            given by name are left out.
        """
        chosen = rounded(self.fraction or 0.0, population) if self.count is None else self.count
        ids = self.ids
        if names is None and ids is not None:
            ids = tuple(i for i in ids if not isinstance(i, str))
        place = f"clients.groups.{index}"
        with under(f"{place}.ids"):
            known = None if ids is None else numbered(ids, names or ())
        changed = self.over(clients)
        there = changed.get("availability", self.availability)
        delay = changed.get("delay", self.delay)
        if there is not None and names is not None:
            there = there.named(names)
        if delay is not None and names is not None:
            with under(f"{place}.delay"):
                delay = delay.named(names)
        network = self.network
        if network is not None and names is not None:
            network = network.named(names)
        return Group(
            self.name or f"group {index}", known, chosen,
            delay, network, there, self.crash, self.capacity, self.energy,
        )  # fmt: skip

    def given(self) -> dict[str, Any]:
        """Return the keys; those that older records do not have only where they are set."""
        return _without(super().given(), capacity=None, energy=None)


class Clients(Settings):
    """The population.

    Parameters
    ----------
    count : int, optional
        Number of clients; as many as the data name if null.
    delay : name or mapping
        Virtual seconds of one local step.
    stragglers : mapping
        A fixed share of the clients, slowed down by a factor.
    network : mapping
        Speed of the transfers; they take no time where it is not given.
    availability : name or mapping
        When a client can be reached.
    crash : mapping
        Crashes of clients while they compute.
    capacity : float or list of float
        Share of the units of each hidden layer that a client trains, with methods that train parts
        of a model (``heterofl``, ``fedrolex``, ``federated-dropout``), or of the ranks of each
        adapter (those and ``hetlora``). Several shares are those of equal parts of the clients,
        from the shortest mean step to the longest, ties by id.
    energy : mapping, optional
        Energy of the devices; not recorded if null.
    groups : list of mappings
        Clients that differ.
    faults : list of names or mappings
        Clients with corrupted uploads; a client has at most one fault.
    """

    count: Annotated[int, Interval(ge=1, lt=2**32)] | None = None
    delay: Annotated[Delay, Plugin("delays")] = ConstantDelay()
    stragglers: Annotated[Stragglers, SettingsOf(Stragglers)] = Stragglers()
    network: Annotated[Connection, SettingsOf(Connection)] = Connection()
    availability: Annotated[Availability, Plugin("availability")] = Always()
    crash: Annotated[Crash, SettingsOf(Crash)] = Crash()
    capacity: Capacity | Annotated[tuple[Capacity, ...], Len(1)] = 1.0
    energy: Annotated[Energy, SettingsOf(Energy)] | None = None
    groups: tuple[ClientGroup, ...] = ()
    faults: tuple[Annotated[Fault, Plugin("faults")], ...] = ()

    def population(
        self, seed: int, count: int | None = None, names: tuple[str, ...] | None = None
    ) -> Population:
        """Return the population of a run.

        Parameters
        ----------
        seed : int
            Seed of the run.
        count : int, optional
            Number of clients that the data name; `count` if None.
        names : tuple of str, optional
            Of the clients in the data; None if the data are not read yet.

        Raises
        ------
        ScenarioError
            If the number is not known, or the groups do not fit it.
        """
        count = self.count if count is None else count
        if count is None:
            raise ScenarioError("clients.count", "is missing; say how many clients there are")
        there, delay, network = self.availability, self.delay, self.network
        if names is not None:
            there, network = there.named(names), network.named(names)
            with under("clients.delay"):
                delay = delay.named(names)
        return Population(
            count, seed, delay, self.stragglers, network, there,
            tuple(part.group(i, self, count, names) for i, part in enumerate(self.groups)),
            self.crash, self.capacity, self.energy, names or (),
        )  # fmt: skip

    def given(self) -> dict[str, Any]:
        """Return the keys; those that older records do not have only where they are set."""
        return _without(super().given(), capacity=1.0, energy=None)

    @property
    def availabilities(self) -> dict[str, Availability]:
        """The availabilities of all clients and of groups, by their places in the scenario."""
        found = {"clients.availability": self.availability}
        for index, group in enumerate(self.groups):
            own = group.over(self).get("availability", group.availability)
            found |= {} if own is None else {f"clients.groups.{index}.availability": own}
        return found

    @model_validator(mode="after")
    def _groups_change_what_is_there(self, info: ValidationInfo) -> Self:
        """Keep the changes of groups in the form of the plug-ins: paths hold from any folder."""
        groups = []
        for index, group in enumerate(self.groups):
            try:
                made = group.over(self, info.context)
            except ScenarioError as error:
                refuse(errors_of(error.under(f"groups.{index}")), self)
            changed = {
                key: {name: getattr(value, name) for name in getattr(group, key)}
                for key, value in made.items()
            }
            groups.append(group.model_copy(update=changed))
        object.__setattr__(self, "groups", tuple(groups))
        return self

    @model_validator(mode="after")
    def _groups_fit(self) -> Self:
        if self.count is None:
            return self
        try:
            self.population(0)
        except Missing:
            return self  # the plan reports it: the scenario itself is valid
        except ScenarioError as error:
            fail(error.problem, self, *error.place.split(".")[1:])
        return self


class DataKeys(Settings):
    """The data set of a study, and its test rows.

    In a file these keys are part of ``problem``, with the settings of the problem.

    Parameters
    ----------
    dataset : name, mapping or path
        A name, a name with settings, or the path of a CSV, Parquet or LIBSVM file.
    target : str or list of str, optional
        Column of the user's file that is predicted; "y" if null. Columns of several targets.
    test : float, path or mapping, optional
        Fraction of each client's rows that is held out, or the path of a test file. A mapping has
        the fraction of ``clients`` that never train, and that of the ``rows`` that each holds out.
    validation : float, optional
        Fraction of each client's rows that is also held out, to choose settings; none if null.
    """

    dataset: Annotated[Dataset, Plugin("datasets")] | str | None = None
    target: str | Annotated[tuple[str, ...], Len(1)] | None = None
    test: (
        Annotated[float, Ge(0), Lt(1)] | str | Annotated[UnseenClients, SettingsOf(UnseenClients)]
    ) | None = None
    validation: Annotated[float, Gt(0), Lt(1)] | None = None

    @field_validator("dataset", mode="wrap")
    @classmethod
    def _path_or_name(cls, given: Any, handler: Any, info: ValidationInfo) -> Dataset:
        """Take the path of a table."""
        if given is None:
            fail("is missing; name a data set or a file", given)
        if isinstance(given, str) and _TABLE.search(given):
            return Tabular(path=fields.absolute(given, info))
        if isinstance(given, Mapping):
            present = {k: v for k, v in given.items() if k not in _PLACES or v is not None}
            given = mark_unknown(present, present.keys() - _PLACES.keys(), _PLACES)
        made: Dataset = fields.build("datasets", given, context=info.context)
        return made

    @field_validator("test", mode="after")
    @classmethod
    def _test_path(cls, given: Any, info: ValidationInfo) -> Any:
        if not isinstance(given, str):
            return given
        path = fields.absolute(given, info)
        if not _TABLE.search(given) and not os.path.exists(path):
            fail(
                f"found '{given}'; give a fraction, or a path ending in .csv, .parquet or .libsvm",
                given,
            )
        return path


def data_of(given: Any, info: ValidationInfo) -> Dataset:
    """Return the data set that a value, a name or the `DataKeys` of a file give."""
    if isinstance(given, Dataset):
        given = data_keys(given)
    elif not isinstance(given, Mapping) or "dataset" not in given:
        given = {"dataset": given}
    keys = DataKeys.model_validate(given, context=info.context)
    assert isinstance(keys.dataset, Dataset)
    return replace(keys.dataset, **{key: getattr(keys, key) for key in _PLACES})


def data_keys(data: Dataset) -> dict[str, Any]:
    """Return a data set as the `DataKeys` of a file; a table with its defaults is its path."""
    bare = replace(data, **dict.fromkeys(_PLACES))
    dataset: Dataset | str = bare
    if isinstance(bare, Tabular) and _TABLE.search(bare.path) and bare == Tabular(path=bare.path):
        dataset = bare.path
    return {"dataset": dataset} | {key: getattr(data, key) for key in _PLACES}


def split_problem(given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the settings of the problem and the keys of the data, which stand together in files.

    Parameters
    ----------
    given : mapping
        What a file holds under ``problem``.
    """
    problem, settings = fields.split("problems", given)
    known = [*fields.model_of(problem).model_fields, *DataKeys.model_fields]
    inside = {key: f"dataset: {{name: table, path: ..., {key}: ...}}" for key in _OF_TABLES}
    settings = mark_unknown(settings, known, inside)
    data = {key: settings.pop(key) for key in DataKeys.model_fields if key in settings}
    return {"name": problem, **settings}, data


def problem_of(given: Mapping[str, Any]) -> Problem:
    """Return the problem of a file or a record from its key ``problem``.

    Raises
    ------
    ScenarioError
        If its settings are wrong.
    """
    try:
        made: Problem = fields.build("problems", split_problem(given)[0])
    except ValidationError as error:
        raise complaint(error, given).under("problem") from None
    return made


class Sweep(Settings):
    """Search settings of `rayfed sweep`.

    Parameters
    ----------
    trials : int
        Settings that are tried of each algorithm, every one with all seeds.
    sampler : "latin", "random", "tpe", "gp", "cmaes" or "nsgaii"
        How they are chosen: a Latin hypercube, which spreads evenly over each key; at random; or by
        what earlier ones reached, by a sampler of Optuna (needs Optuna): tree-structured
        Parzen estimator, Gaussian process (needs PyTorch, too), CMA-ES (needs `cmaes`, too) or a
        genetic algorithm. The last two have a generation in each batch of four or more.
    batch : int
        Settings of each algorithm that are chosen together where others depend on what they
        reached, which is so with samplers of Optuna and with `prune`. Results depend on it, but not
        on the number of concurrent runs.
    prune : bool
        Whether to stop runs below the median of earlier batches at the same simulated time.
    by : str, optional
        The column of `rounds` to optimise at the end of a run; `validation_loss` if null and rows
        are held out for it, else `loss`.
    """

    trials: Count = 20
    sampler: Literal["latin", "random"] | Adaptive = "latin"
    batch: Count = 8
    prune: bool = False
    by: Annotated[str, Len(1)] | None = None
