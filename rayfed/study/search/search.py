"""The trials of a search: which settings are run, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, TypeAlias

from rayfed.core.errors import ScenarioError
from rayfed.study.scenario.distributions import Distribution
from rayfed.study.scenario.dotted import put, resolved, setting_name
from rayfed.study.scenario.expansion import changed
from rayfed.study.scenario.names import canonical, run_folder
from rayfed.study.scenario.study import Study
from rayfed.study.scenario.sweep import ADAPTIVE
from rayfed.study.search.samplers import sampler

Recorded: TypeAlias = Mapping[tuple[int, int], Mapping[str, Any]]

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
        self.said: dict[str, str] = {}  # where the search says the values of keys
        self.spaces = [self._space(index) for index in range(len(study.algorithms))]
        for index, space in enumerate(self.spaces):
            self._check(index, space)
        self.samplers = [sampler(self.sweep, space, study.seeds[0]) for space in self.spaces]
        self.asked = [0] * len(self.spaces)
        self.seen: list[dict[str, int]] = [{} for _ in self.spaces]

    @property
    def trials(self) -> list[int]:
        """How many trials each algorithm gets: one where there is nothing to choose."""
        return [self.sweep.trials if space else 1 for space in self.spaces]

    @property
    def runs(self) -> int:
        """How many runs there are at most."""
        return sum(self.trials) * len(self.study.seeds)

    @property
    def batch(self) -> int:
        """How many trials of an algorithm are proposed together.

        All at once where none depends on what others reached.
        """
        waits = self.sweep.sampler in ADAPTIVE or self.sweep.prune
        return self.sweep.batch if waits else self.sweep.trials

    @property
    def batches(self) -> int:
        """How many batches there are."""
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
        """Take what came of the last batch, in its order; little is good, infinite a failure."""
        for index, algorithm in enumerate(self.samplers):
            pairs = zip(batch, scores, strict=True)
            mine = [score for trial, score in pairs if trial.algorithm == index]
            if mine:
                algorithm.tell(mine)

    def study_of(self, trial: Trial) -> Study:
        """Return the study of a trial: its algorithm alone, with the values of the trial."""
        return changed(self.base, trial.values, self.said, [trial.algorithm])

    def _trial(self, index: int, number: int, values: dict[str, Any]) -> Trial:
        seen = self.seen[index]
        first = seen.setdefault(canonical(values), number)
        same = None if first == number else first
        return Trial(number, index, self.study.labels[index], values, same)

    def _space(self, index: int) -> dict[str, Distribution]:
        """Return what is searched for an algorithm: its own keys, and those of the study."""
        space = {}
        for key, given in self.study.search.items():
            parts = resolved(self.base, key).split(".")
            if parts[0] == _ALGORITHMS and len(parts) > 1:
                if parts[1] not in ("*", str(index)):
                    continue
                parts[1] = str(index)
            place = ".".join(parts)
            self.said.setdefault(place, f"search.{key}")
            space[place] = Distribution.of(key, given)
        return space

    def _check(self, index: int, space: Mapping[str, Distribution]) -> None:
        """Refuse values that do not fit: the ends of ranges, and each value of a choice."""
        most = max((len(held.values) for held in space.values()), default=1)
        for k in range(most):
            values = {key: held.values[min(k, len(held.values) - 1)] for key, held in space.items()}
            changed(self.base, values, self.said, [index])
