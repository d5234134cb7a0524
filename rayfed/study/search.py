"""Search over settings: trials from a sampler for each algorithm, batch by batch."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import repeat
from typing import Any, Protocol, TypeAlias

from rayfed.core.arrays import Floats
from rayfed.core.distribution import Distribution
from rayfed.core.dotted import put, resolved, setting_name
from rayfed.core.errors import ScenarioError
from rayfed.core.extras import install
from rayfed.core.rng import Key
from rayfed.study.scenario.expansion import changed
from rayfed.study.scenario.names import canonical, run_folder
from rayfed.study.scenario.parts import ADAPTIVE, Sweep
from rayfed.study.scenario.study import Study

Recorded: TypeAlias = Mapping[tuple[int, int], Mapping[str, Any]]
Space: TypeAlias = Mapping[str, Distribution]
Values: TypeAlias = Mapping[str, Any]

_OPTUNA = {
    "tpe": "TPESampler",
    "gp": "GPSampler",
    "cmaes": "CmaEsSampler",
    "nsgaii": "NSGAIISampler",
}
_NEEDS = {"gp": ("torch",), "cmaes": ("cmaes",)}
_GENERATIONS = ("cmaes", "nsgaii")  # these note at each trial which generation it is of
_SMALLEST = 4  # members of a generation
_ALGORITHMS = "algorithms"


@dataclass(frozen=True)
class Trial:
    """A setting of one algorithm.

    Parameters
    ----------
    number : int
        From 1, for each algorithm.
    algorithm : int
        Index of the algorithm in the scenario.
    label : str
        Of the algorithm.
    values : dict
        What the search chose, by dotted key of the whole scenario.
    same_as : int, optional
        Number of an earlier trial of the algorithm with the same values, which is not run again.
    """

    number: int
    algorithm: int
    label: str
    values: dict[str, Any]
    same_as: int | None = None

    @property
    def setting(self) -> str:
        """The name of the setting; empty where there was nothing to choose."""
        return f"trial {self.number}, {setting_name(self.values)}" if self.values else ""

    def folder(self, seed: int) -> str:
        """Return the name of the folder of its run with a seed."""
        return run_folder(self.label, self.setting, seed)

    @property
    def own(self) -> dict[str, Any]:
        """The values by the keys of the algorithm, or of the study where they are its."""
        prefix = f"{_ALGORITHMS}.{self.algorithm}."
        return {key.removeprefix(prefix): value for key, value in self.values.items()}


class Search:
    """Proposes trials of every algorithm, a batch at a time.

    Parameters
    ----------
    study : Study
        A scenario with `search`.
    recorded : mapping of (int, int) to mapping
        The values of trials that were proposed before, by algorithm and number. They take their
        places and are not proposed anew.

    Raises
    ------
    ScenarioError
        If a key does not exist, a value does not fit it, or the sampler is not installed.
    """

    def __init__(self, study: Study, recorded: Recorded | None = None) -> None:
        self.study, self.sweep, self.recorded = study, study.sweep, recorded or {}
        self.base = study.given() | {"grid": {}, "search": {}, "sweep": {}}
        for key in study.search:  # one that names no algorithm would be in no space
            try:
                put(self.base, key, None)
            except ScenarioError as error:
                raise ScenarioError(f"search.{key}", error.problem) from None
        self.origins: dict[str, str] = {}  # places of the searched keys
        self.spaces = [self._space(index) for index in range(len(study.algorithms))]
        for index, space in enumerate(self.spaces):
            self._check(index, space)
        self.samplers = [sampler(self.sweep, space, study.seeds[0]) for space in self.spaces]
        self.asked = [0] * len(self.spaces)
        self.seen: list[dict[str, int]] = [{} for _ in self.spaces]

    @property
    def trials(self) -> list[int]:
        """Number of trials of each algorithm: one without a choice."""
        return [self.sweep.trials if space else 1 for space in self.spaces]

    @property
    def runs(self) -> int:
        """Largest number of runs."""
        return sum(self.trials) * len(self.study.seeds)

    @property
    def batch(self) -> int:
        """Number of trials of an algorithm proposed together.

        All at once where none depends on what others reached.
        """
        waits = self.sweep.sampler in ADAPTIVE or self.sweep.prune
        return self.sweep.batch if waits else self.sweep.trials

    @property
    def batches(self) -> int:
        """Number of batches."""
        return max(-(-trials // self.batch) for trials in self.trials)

    def propose(self) -> list[Trial]:
        """Return the next trials, algorithm by algorithm; none when all have been proposed."""
        made: list[Trial] = []
        for index, algorithm in enumerate(self.samplers):
            begin = self.asked[index]
            end = self.asked[index] = min(begin + self.batch, self.trials[index])
            numbers = range(begin + 1, end + 1)
            proposed = algorithm.ask([self.recorded.get((index, number)) for number in numbers])
            made += map(self._trial, repeat(index), numbers, proposed)
        return made

    def tell(self, batch: Sequence[Trial], scores: Sequence[float]) -> None:
        """Take the results of the last batch, in its order; little is good, infinite a failure."""
        for index, algorithm in enumerate(self.samplers):
            pairs = zip(batch, scores, strict=True)
            own_scores = [score for trial, score in pairs if trial.algorithm == index]
            if own_scores:
                algorithm.tell(own_scores)

    def study_of(self, trial: Trial) -> Study:
        """Return the study of a trial: its algorithm alone, with the values of the trial."""
        return changed(self.base, trial.values, self.origins, [trial.algorithm])

    def _trial(self, index: int, number: int, values: dict[str, Any]) -> Trial:
        seen = self.seen[index]
        first = seen.setdefault(canonical(values), number)
        same = None if first == number else first
        return Trial(number, index, self.study.labels[index], values, same)

    def _space(self, index: int) -> dict[str, Distribution]:
        """Return the search space of an algorithm: its own keys, and those of the study."""
        space = {}
        for key, given in self.study.search.items():
            parts = resolved(self.base, key).split(".")
            if parts[0] == _ALGORITHMS and len(parts) > 1:
                if parts[1] not in ("*", str(index)):
                    continue
                parts[1] = str(index)
            place = ".".join(parts)
            self.origins.setdefault(place, f"search.{key}")
            space[place] = Distribution.of(key, given)
        return space

    def _check(self, index: int, space: Mapping[str, Distribution]) -> None:
        """Refuse values that do not fit: the ends of ranges, and each value of a choice."""
        most = max((len(held.values) for held in space.values()), default=1)
        for k in range(most):
            values = {key: held.values[min(k, len(held.values) - 1)] for key, held in space.items()}
            changed(self.base, values, self.origins, [index])


class Sampler(Protocol):
    """Proposes values, a batch at a time."""

    def ask(self, known: Sequence[Values | None]) -> list[dict[str, Any]]:
        """Return the values of the next trials: those that are known, proposals where None is."""
        ...

    def tell(self, scores: Sequence[float]) -> None:
        """Take the results of the last batch, in its order; little is good, infinite a failure."""
        ...


class KnownPoints:
    """Proposes given points, independent of results.

    Parameters
    ----------
    space : mapping of str to Distribution
        The keys.
    places : (n, d) array of float64 in [0, 1)
        A row for each trial, a column for each key.
    """

    def __init__(self, space: Space, places: Floats) -> None:
        self.space, self.places = space, iter(places.tolist())

    def ask(self, known: Sequence[Values | None]) -> list[dict[str, Any]]:
        """Return the next points."""
        rows = (dict(zip(self.space, next(self.places), strict=True)) for _ in known)
        return [
            dict(values or {key: self.space[key].at(u) for key, u in row.items()})
            for values, row in zip(known, rows, strict=True)
        ]

    def tell(self, scores: Sequence[float]) -> None:
        """Nothing follows from it."""


class OptunaSampler:
    """A sampler of Optuna, with a key for each trial.

    A proposal depends on the seed, its number, the known trials and the earlier ones of its batch,
    not on the number of earlier proposals. So known trials take their place among the others
    without being proposed. Proposals are rounded before Optuna sees them, so that it learns from
    the values that ran. Where a method has generations, a batch is one.
    """

    def __init__(self, name: str, space: Space, key: Key, batch: int) -> None:
        import optuna  # imported late: it takes half a second

        self.name, self.space, self.key = name, space, key
        self.optuna, self.asked = optuna, 0
        self.open: list[Any] = []
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.laws = {key: held.law for key, held in space.items()}
        settings: dict[str, dict[str, Any]] = {
            "tpe": {"constant_liar": True},  # trials of a batch spread out
            "gp": {"warn_independent_sampling": False},
            "cmaes": {"warn_independent_sampling": False, "popsize": max(batch, _SMALLEST)},
            "nsgaii": {"population_size": max(batch, _SMALLEST)},
        }
        self.settings = settings[name]
        with warnings.catch_warnings(action="ignore"):  # most samplers count as experimental
            self.study = optuna.create_study(sampler=self._sampler(0))

    def ask(self, known: Sequence[Values | None]) -> list[dict[str, Any]]:
        """Return the next trials, each proposed with those before it in mind."""
        with warnings.catch_warnings(action="ignore"):
            return [self._ask(values) for values in known]

    def tell(self, scores: Sequence[float]) -> None:
        """Report the results of the open trials to Optuna."""
        for trial, score in zip(self.open, scores, strict=True):
            self.study.tell(trial, score)
        self.open = []

    def _ask(self, values: Values | None) -> dict[str, Any]:
        if values is not None:
            given = {key: self.space[key].to_law(value) for key, value in values.items()}
            self.study.enqueue_trial(given)
        self.study.sampler = self._sampler(self.asked)
        self.asked += 1
        trial = self.study.ask(self.laws)
        if self.name in _GENERATIONS:
            trial.relative_params  # noqa: B018 - the generation of a known trial is noted by this
        self.open.append(trial)
        return {key: held.from_law(trial.params[key]) for key, held in self.space.items()}

    def _sampler(self, number: int) -> Any:
        """Return the sampler of a trial, which rounds its proposals."""
        made = getattr(self.optuna.samplers, _OPTUNA[self.name])(
            seed=self.key.sub(str(number)).words()[0], **self.settings
        )
        relative, independent = made.sample_relative, made.sample_independent
        made.sample_relative = lambda *asked: {
            key: self.space[key].rounded(value) for key, value in relative(*asked).items()
        }
        made.sample_independent = lambda study, trial, key, law: self.space[key].rounded(
            independent(study, trial, key, law)
        )
        return made


def sampler(sweep: Sweep, space: Space, seed: int) -> Sampler:
    """Return the sampler of a space, keyed by a seed.

    Where there is nothing to choose it has one point.

    Raises
    ------
    ScenarioError
        If it needs what is not installed.
    """
    name, key = sweep.sampler, Key(seed, f"search/{sweep.sampler}")
    missing = [each for each in ("optuna", *_NEEDS.get(name, ())) if find_spec(each) is None]
    if name in ADAPTIVE and missing:
        text = f"'{name}' needs {' and '.join(missing)}; {install('optuna')}"
        other = "".join(f" {each}" for each in missing if each != "optuna")
        raise ScenarioError("sweep.sampler", f"{text}{other}, or use latin or random")
    if name in ADAPTIVE and space:
        return OptunaSampler(name, space, key, sweep.batch)
    shape = (sweep.trials if space else 1, len(space))
    if name != "latin" or not space:
        return KnownPoints(space, key.generator().random(shape))
    from scipy.stats import qmc  # imported late: it takes a second

    return KnownPoints(space, qmc.LatinHypercube(d=shape[1], rng=key.generator()).random(shape[0]))
