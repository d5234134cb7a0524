"""A whole scenario: read, checked, written back, swept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypedDict

from annotated_types import Len
from pydantic import Field, PlainValidator, ValidationError, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue

from rayfed.algorithms.base import Algorithm
from rayfed.channel.aggregators import Aggregator
from rayfed.channel.base import Stage
from rayfed.channel.privacy import Privacy
from rayfed.core.columns import Better
from rayfed.core.distribution import Distribution, Kind
from rayfed.core.dotted import replaced
from rayfed.core.errors import ScenarioError, clipped, under
from rayfed.core.needs import COHORT
from rayfed.core.yamlfile import check_values, yaml_text
from rayfed.datasets.base import Dataset, UnseenClients
from rayfed.datasets.drift import Drift
from rayfed.datasets.partitions.base import Partition
from rayfed.engine.settings import Participation, Stop
from rayfed.population import Server
from rayfed.problems.base import Problem
from rayfed.problems.own_code.problem import OwnCode
from rayfed.selection.simple import All
from rayfed.solvers import override
from rayfed.solvers.base import Solver
from rayfed.solvers.own_train import OwnTrain
from rayfed.solvers.sgd import SGD
from rayfed.study.scenario import fields
from rayfed.study.scenario.fields import Count, Plugin, Seed, SettingsOf
from rayfed.study.scenario.invalid import Refused, complaint, errors_of, short
from rayfed.study.scenario.names import comparable, slug
from rayfed.study.scenario.parts import (
    Checkpoint,
    Clients,
    Clock,
    DataKeys,
    Evaluate,
    Executor,
    Sweep,
    data_keys,
    data_of,
    split_problem,
)
from rayfed.study.scenario.schema import completed
from rayfed.study.scenario.settings import Settings, fail, refuse, settings_of
from rayfed.topology.base import Topology

MOST_RUNS = 10_000
"""Runs of a study: settings of the grid times algorithms times seeds."""
OF_CHANNEL = ("uplink", "downlink", "aggregate", "privacy")
"""Keys of the channel, which an algorithm may override."""
_WHOLE = frozenset({"cases", "executor", "search", "sweep"})  # of the study, not of its settings
_NOT_SEARCHED = (
    "grid",
    "cases",
    "search",
    "sweep",
    "seeds",
    "name",
    "description",
    "executor",
    "clock",
)
"""Keys that no search may change: they are no settings, or change no result."""


class Study(Settings):
    """The content of a scenario file.

    Its parts may be mappings, as in a file, or values: plug-ins of `rayfed.algorithms`,
    `rayfed.datasets` and so on, and the parts of `rayfed.study`.

    Parameters
    ----------
    name : str
        Name of the study and of its result folder; the name of the file if not given.
    description : str
        What the study shows, in a sentence.
    seeds : list of int
        Every algorithm runs once with each.
    rounds : int, optional
        Rounds of a run, unless `stop` ends it earlier.
    stop : mapping
        Rules that end a run.
    evaluate : mapping
        When a run is evaluated, on which clients, and which further columns are recorded.
    checkpoint : mapping
        How often the state of a run is saved.
    clock : mapping
        Whether simulated seconds also pass on the wall clock. It does not change a result.
    executor : mapping
        Where the clients live: in this process or in Ray actors. It does not change a result.
    dtype : "float32" or "float64", optional
        Type of the numbers; the default of the problem if null.
    problem : name or mapping
        The learning problem; in a file also its data.
    data : Dataset, optional
        The data set, with its test rows. In a file its keys stand in `problem`.
    partition : name or mapping, optional
        Partition of the rows over clients; as the data define it, or at random, if null.
    drift : name or mapping, optional
        How the rows of clients change from round to round; they stay as they are if null.
    clients : mapping
        The population.
    server : mapping
        Bandwidth of the server, which all transfers share; unlimited where it is not given.
    participation : mapping
        Who takes part in a round.
    uplink : list of names or mappings
        Stages of uploaded vectors at clients: a codec, and others.
    downlink : list of names or mappings
        A codec of the server's messages, applied once for all receivers.
    privacy : mapping, optional
        Noise that makes means private, with Poisson cohorts and clipped uploads.
    aggregate : name or mapping, optional
        The robust rule that takes the place of means of vectors.
    topology : name or mapping, optional
        The graph of clients, for methods that walk from client to client.
    algorithms : list
        The compared algorithms.
    grid : mapping
        Values for dotted keys; every combination of them is a setting that is run.
    cases : mapping
        Settings by name, each a mapping of dotted keys to values; every one of them is run.
    search : mapping
        For `rayfed sweep`: distributions of dotted keys, `log: [a, b]`, `uniform: [a, b]`,
        `int: [a, b]` or `choice: [...]`.
    sweep : mapping
        How `rayfed sweep` searches.
    """

    name: Annotated[str, Len(1)] = "study"
    description: str = ""
    seeds: Annotated[tuple[Seed, ...], Len(1)] = (0,)
    rounds: Count | None = None
    stop: Annotated[Stop, SettingsOf(Stop)] = Stop()
    evaluate: Evaluate = Evaluate()
    checkpoint: Checkpoint = Checkpoint()
    clock: Clock = Clock()
    dtype: Literal["float32", "float64"] | None = None
    problem: Annotated[Problem, Plugin("problems")]
    data: Annotated[Dataset, PlainValidator(data_of)] | None = None
    partition: Annotated[Partition, Plugin("partitions")] | None = None
    drift: Annotated[Drift, Plugin("drifts")] | None = None
    clients: Clients = Clients()
    server: Annotated[Server, SettingsOf(Server)] = Server()
    participation: Annotated[Participation, SettingsOf(Participation)] = Participation()
    uplink: tuple[Annotated[Stage, Plugin("stages")], ...] = ()
    downlink: tuple[Annotated[Stage, Plugin("stages")], ...] = ()
    privacy: Annotated[Privacy, SettingsOf(Privacy)] | None = None
    aggregate: Annotated[Aggregator, Plugin("aggregators")] | None = None
    topology: Annotated[Topology, Plugin("topologies")] | None = None
    algorithms: Annotated[tuple[Annotated[Algorithm, Plugin("algorithms")], ...], Len(1)]
    executor: Executor = Executor()
    grid: dict[str, Annotated[tuple[Any, ...], Len(1)]] = Field(default_factory=dict)
    cases: dict[Annotated[str, Len(1)], dict[str, Any]] = Field(default_factory=dict)
    search: dict[str, Annotated[dict[Kind, tuple[Any, ...]], Len(1, 1)]] = Field(
        default_factory=dict
    )
    sweep: Sweep = Sweep()

    @classmethod
    def key_places(cls) -> dict[str, str]:
        """Return the places of keys, those of an algorithm's local solver included."""
        places, under = super().key_places(), "in an algorithm"
        local_keys = {
            key: f"local: {{{key}: ...}} {under}" for key in fields.model_of(SGD).model_fields
        }
        found = {key: place for key, place in places.items() if not place.startswith("sweep.")}
        return places | local_keys | {"local": f"local: {{...}} {under}"} | found

    @classmethod
    def parse(cls, raw: Mapping[str, Any], root: Path | str = "") -> Self:
        """Return a checked study.

        Parameters
        ----------
        raw : mapping
            What a scenario file holds; plug-ins may also be classes or values.
        root : Path
            Folder that the paths in it are relative to.

        Raises
        ------
        ScenarioError
            One line: the place, what was found there, what to change.
        """
        if not isinstance(raw, Mapping):
            raise ScenarioError("", "a scenario is a mapping of keys, such as problem: ...")
        check_values(raw)
        if "data" in raw:  # a keyword of Python alone
            raise ScenarioError("data", "unknown key 'data'; write it as problem.dataset")
        try:
            return cls.model_validate(dict(raw), context={"root": root})
        except ValidationError as error:
            raise complaint(error, raw) from None

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the algorithms, in their order."""
        return tuple(algorithm.label or algorithm.name for algorithm in self.algorithms)

    @property
    def validated(self) -> bool:
        """Whether rows are to be held out to choose settings by."""
        own = isinstance(self.problem, OwnCode) and self.problem.val
        return own or (self.data is not None and self.data.validation is not None)

    @property
    def unseen(self) -> bool:
        """Whether some clients never train."""
        return self.data is not None and isinstance(self.data.test, UnseenClients)

    @property
    def own_metrics(self) -> dict[str, Better | None]:
        """Columns of metrics of own training code, and which direction is better."""
        found = dict(self.problem.further)
        for index, algorithm in enumerate(self.algorithms):
            for solver in (algorithm.local, *self.group_solvers(index)):
                if isinstance(solver, OwnTrain):
                    found |= solver.columns
        return found

    def group_solvers(self, index: int) -> tuple[Solver, ...]:
        """Return the local solver of each client group under the algorithm of that index."""
        local = self.algorithms[index].local
        return tuple(_changed(local, group.local) for group in self.clients.groups)

    def participation_of(self, index: int) -> Participation:
        """Return the participation of the algorithm of an index: its keys over the study's.

        A cohort of the study does not apply to a selection of the algorithm that takes all clients
        or defines the cohort itself.
        """
        algorithm = self.algorithms[index]
        own = dict(algorithm.participation)
        if "select" in own and (isinstance(own["select"], All) or COHORT in own["select"].removes):
            own = {"cohort": None} | own
        return replace(self.participation, **own)

    def channel_of(self, index: int) -> dict[str, Any]:
        """Return the channel of the algorithm of an index: its keys over the study's."""
        own = {key: getattr(self.algorithms[index], key) for key in OF_CHANNEL}
        found = {key: getattr(self, key) if held == "study" else held for key, held in own.items()}
        return {**found, "uplink": found["uplink"] or (), "downlink": found["downlink"] or ()}

    def blamed(self, index: int, error: ScenarioError) -> ScenarioError:
        """Return an error of a run at the key of the algorithm of that index, if it sets that key.

        Keys below ``algorithm`` are the algorithm's. It may override participation and the channel
        of the study.
        """
        head, _, rest = error.place.partition(".")
        algorithm, key = self.algorithms[index], rest.partition(".")[0]
        if head == "algorithm":
            return type(error)(rest, error.problem).under(f"algorithms.{index}")
        own = key in algorithm.participation if head == "participation" else head in OF_CHANNEL
        if own and getattr(algorithm, head) != "study":
            return error.under(f"algorithms.{index}")
        return error

    def check_cohort(self, count: int) -> None:
        """Refuse a cohort that a population of so many clients cannot give.

        Raises
        ------
        ScenarioError
            If it is larger, or smaller though all are selected; or if more have to be there.
        """
        self._check_each(count, _check_cohort)

    def _check_each(self, count: int, check: Callable[[Participation, int], None]) -> None:
        """Check the participation of each algorithm with a number of clients."""
        for index in range(len(self.algorithms)):
            try:
                check(self.participation_of(index), count)
            except ScenarioError as error:
                raise self.blamed(index, error) from error

    def check_selection(self, count: int) -> None:
        """Refuse a selection that does not fit a population of so many clients.

        Raises
        ------
        ScenarioError
            If it does not.
        """
        self._check_each(count, _check_selection)

    def given(self) -> dict[str, Any]:
        """Return the keys as a file gives them, with plug-ins as values."""
        keys = super().given()
        data = keys.pop("data")
        keys["problem"] = {"name": type(self.problem), **settings_of(self.problem)}
        keys["problem"] |= dict.fromkeys(DataKeys.model_fields) if data is None else data_keys(data)
        return keys

    def to_dict(self) -> dict[str, Any]:
        """Return the resolved scenario, defaults included, in plain values."""
        return self.model_dump()

    def to_yaml(self) -> str:
        """Return the resolved scenario as YAML; `parse` makes the same study of it."""
        return yaml_text(self.to_dict(), allow_unicode=True)

    @classmethod
    def json_schema(cls) -> JsonSchemaValue:
        """Return the JSON schema of a scenario file, with every plug-in that is found."""
        schema = cls.model_json_schema()
        del schema["properties"]["data"]
        return completed(schema, {"problems": DataKeys.model_json_schema()["properties"]})

    @model_validator(mode="before")
    @classmethod
    def _problem_with_data(cls, given: Any) -> Any:
        """Take the keys of the data out of a problem as files give it."""
        if not isinstance(given, Mapping) or not isinstance(given.get("problem"), Mapping):
            return given
        try:
            problem, keys = split_problem(given["problem"])
        except ValidationError:
            return given  # the field's own validation reports it
        data: dict[str, Any] = {"data": {"dataset": None} | keys}
        if all(value is None for value in keys.values()):
            data = {}
        elif given.get("data") is not None:
            data = {"data": Refused("found problem.dataset as well; give one of them")}
        return {**given, "problem": problem} | data

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Check conditions on several parts; all mistakes are raised together."""
        wrong = [*self._check_counts(), *self._check_labels(), *self._check_groups()]
        wrong += self._check_cases()
        if wrong:
            refuse(wrong, self)
        return self

    @field_validator("seeds", mode="before")
    @classmethod
    def _no_number_of_seeds(cls, given: Any) -> Any:
        """Refuse a number where a list is meant."""
        if isinstance(given, int) and not isinstance(given, bool):
            some = list(range(given)) if 0 < given < 7 else [0, 1, 2]
            fail(f"found {short(given)}; give a list, such as {some}", given)
        return given

    def _check_counts(self) -> Iterator[ScenarioError]:
        if self.rounds is None and self.stop == Stop():
            yield ScenarioError("rounds", "is missing; give rounds, or a rule under stop")
        if len(set(self.seeds)) < len(self.seeds):
            yield ScenarioError("seeds", f"found {short(list(self.seeds))}; give each seed once")
        for key in self.grid:
            head = key.partition(".")[0]
            if head == "grid":
                text = "a grid cannot sweep a grid; list the keys side by side"
                yield ScenarioError(f"grid.{key}", text)
            if head in _WHOLE:
                text = f"found '{head}', which is that of the whole study; move it out of the grid"
                yield ScenarioError(f"grid.{key}", text)
        yield from self._check_replaced()
        yield from self._check_search()
        yield from self._check_runs()
        if self.clients.count is not None:
            try:
                self.check_cohort(self.clients.count)
            except ScenarioError as error:
                yield error

    def _check_runs(self) -> Iterator[ScenarioError]:
        """Yield that there are too many runs, before any of their settings is made."""
        sizes = [len(values) for values in self.grid.values()]
        settings, seeds = math.prod(sizes) * (len(self.cases) or 1), len(self.seeds)
        versions = sum(
            math.prod(len(values) for values in algorithm.grid.values())
            for algorithm in self.algorithms
        )
        if seeds > MOST_RUNS:
            text = f"found {seeds:,} seeds; give at most {MOST_RUNS:,}"
            yield ScenarioError("seeds", text)
        elif settings * versions * seeds > MOST_RUNS:
            text = f"{settings:,} settings, {versions} algorithms and {seeds} seeds are more than"
            yield ScenarioError("grid", f"{text} {MOST_RUNS:,} runs; split the study")

    def _check_replaced(self) -> Iterator[ScenarioError]:
        """Yield keys of which a later one takes the effect away, though names tell of them."""
        raw = {"algorithms": [{"name": label} for label in self.labels]}
        for place, keys in self._listed_keys():
            for earlier, later in replaced(raw, keys):
                text = f"'{later}' replaces '{earlier}', which has no effect then"
                yield ScenarioError(place, f"{text}; leave one of them out")
        for name, values in self.cases.items():
            swept = () if any(key.partition(".")[0] == "grid" for key in values) else self.grid
            pairs = chain.from_iterable(replaced(raw, [key, *swept]) for key in values)
            for earlier, later in dict.fromkeys(pairs):
                if earlier in values:
                    text = f"'{later}' of the grid replaces '{earlier}', which has no effect"
                    yield ScenarioError(f"cases.{name}", f"{text}; leave one of them out")

    def _listed_keys(self) -> Iterator[tuple[str, Iterable[str]]]:
        """Yield the keys of each grid, search and case, with their place."""
        yield "grid", self.grid
        yield "search", self.search
        for name, values in self.cases.items():
            yield f"cases.{name}", values
        for index, algorithm in enumerate(self.algorithms):
            yield f"algorithms.{index}.grid", algorithm.grid

    def _check_search(self) -> Iterator[ScenarioError]:
        if not self.search:
            return
        if self.grid or any(algorithm.grid for algorithm in self.algorithms):
            text = "found a grid as well; leave one out, choice: [...] tries given values"
            yield ScenarioError("search", text)
        for index, algorithm in enumerate(self.algorithms):
            if algorithm.control:  # a resumed trial does not repeat changes
                text = "found a search as well; sweep fixed settings alone"
                yield ScenarioError(f"algorithms.{index}.control", text)
        if self.cases:
            text = "found cases as well; sweep each separately, with --set"
            yield ScenarioError("search", text)
        for key, given in self.search.items():
            if key.partition(".")[0] in _NOT_SEARCHED:
                yield ScenarioError("search", f"found '{key}', which is no setting; leave it out")
                continue
            try:
                Distribution.of(key, given)
            except ScenarioError as error:
                yield ScenarioError("search", str(error).removeprefix("search."))
        runs = self.sweep.trials * len(self.algorithms) * len(self.seeds)
        if runs > MOST_RUNS:
            text = f"found {self.sweep.trials:,}, which makes {runs:,} runs"
            yield ScenarioError("sweep.trials", f"{text}; give fewer, {MOST_RUNS:,} are the most")

    def _check_labels(self) -> Iterator[ScenarioError]:
        seen: dict[str, int] = {}
        for index, label in enumerate(self.labels):
            first = seen.setdefault(comparable(slug(label)), index)
            if first != index:
                text = f"'{clipped(label, 60)}' is taken by algorithms.{first}"
                place = f"algorithms.{index}.label"
                yield ScenarioError(place, f"{text}; set label to tell them apart")
            number = int(label) if label.isdecimal() else index
            if self._by_keys and index != number < len(self.labels):
                text = f"found '{label}', which is the place of another algorithm in dotted keys"
                yield ScenarioError(f"algorithms.{index}.label", f"{text}; give it a name")

    @property
    def _by_keys(self) -> bool:
        """Whether dotted keys of the study may be about single algorithms."""
        return bool(self.grid or self.search or self.cases or any(a.grid for a in self.algorithms))

    def _check_cases(self) -> Iterator[ScenarioError]:
        seen: dict[str, str] = {}
        for name, values in self.cases.items():
            first = seen.setdefault(comparable(slug(name)), name)
            if first != name:
                text = f"is the same as '{clipped(first, 60)}' in names of folders"
                yield ScenarioError(f"cases.{name}", f"{text}; give it another name")
            for key in _WHOLE & {k.split(".")[0] for k in values}:
                text = f"found '{key}', which is that of the whole study; move it out of the case"
                yield ScenarioError(f"cases.{name}", text)

    def _check_groups(self) -> Iterator[ScenarioError]:
        for index, group in enumerate(self.clients.groups):
            place = f"clients.groups.{index}.local"
            for algorithm, label in zip(self.algorithms, self.labels, strict=True):
                wrong = _wrong_solver(algorithm, group.local)
                if wrong:  # of the first algorithm; the others complain of the same
                    text = f"(local of '{clipped(label, 40)}')"
                    yield from (
                        ScenarioError(error.under(place).place, f"{error.problem} {text}")
                        for error in wrong
                    )
                    break


class StudyKeywords(TypedDict, total=False):
    """Keywords of `Study`, for functions that take them, too."""

    name: str
    description: str
    seeds: tuple[int, ...]
    rounds: int | None
    stop: Stop
    evaluate: Evaluate
    checkpoint: Checkpoint
    clock: Clock
    dtype: Literal["float32", "float64"] | None
    problem: Problem
    data: Dataset | None
    partition: Partition | None
    drift: Drift | None
    clients: Clients
    server: Server
    participation: Participation
    uplink: tuple[Stage, ...]
    downlink: tuple[Stage, ...]
    privacy: Privacy | None
    aggregate: Aggregator | None
    topology: Topology | None
    algorithms: tuple[Algorithm, ...]
    executor: Executor
    grid: dict[str, tuple[Any, ...]]
    cases: dict[str, dict[str, Any]]
    search: dict[str, dict[Kind, tuple[Any, ...]]]
    sweep: Sweep


def _check_cohort(part: Participation, count: int) -> None:
    """Refuse a cohort, or a minimum, that a population of so many clients cannot give."""
    cohort, text = part.cohort, ""
    if cohort is not None and cohort > count:
        text = f"found {cohort}, but there are {count} clients; give at most {count}"
    elif cohort is not None and cohort < count and isinstance(part.select, All):
        text = f"found {cohort}, but select takes all; leave cohort out or select uniform"
    if text:
        raise ScenarioError("participation.cohort", text)
    if part.minimum > count:
        text = f"found {part.minimum}, but there are {count} clients; give at most {count}"
        raise ScenarioError("participation.minimum", text)


def _check_selection(part: Participation, count: int) -> None:
    """Refuse settings of a selection that do not fit the cohort or a number of clients."""
    if part.cohort is not None or COHORT in part.select.removes:
        with under("participation.select"):
            part.select.check(part.asked(count), count)


def _wrong_solver(algorithm: Algorithm, local: Mapping[str, Any]) -> Sequence[ScenarioError]:
    """Return the error of a local solver of an algorithm that a group changes."""
    try:
        algorithm.check_solver(_changed(algorithm.local, local))
    except ScenarioError as error:
        return [ScenarioError("", error.problem)]
    except ValidationError as error:
        return errors_of(complaint(error, local))
    return []


def _changed(solver: Solver, settings: Mapping[str, Any]) -> Solver:
    """Return a local solver with some settings changed, or another one if they name it."""
    if not settings:
        return solver
    cls, changes = fields.split("solvers", settings, solver)
    merged = override(settings_of(solver), changes) if cls is type(solver) else changes
    changed: Solver = fields.make(cls, merged)
    return changed
