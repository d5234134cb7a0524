"""Samplers: what a search tries next. Each is told in the order in which it proposed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from rayfed.core.arrays import Floats
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.study.scenario.distributions import Distribution

Space: TypeAlias = Mapping[str, Distribution]
Name: TypeAlias = Literal["random", "latin", "tpe"]


class Sampler(Protocol):
    """Proposes values, a batch at a time."""

    def ask(self, count: int) -> list[dict[str, Any]]:
        """Return the values of the keys in so many further trials."""
        ...

    def tell(self, scores: Sequence[float]) -> None:
        """Take what came of the last batch, in its order; little is good, infinite a failure."""
        ...


class Points:
    """Proposes points that are known beforehand, whatever comes of them.

    Parameters
    ----------
    space : mapping of str to Distribution
        The keys.
    places : (n, d) array of float64 in [0, 1)
        A row for each trial, a column for each key.
    """

    def __init__(self, space: Space, places: Floats) -> None:
        self.space, self.places, self.asked = space, places, 0

    def ask(self, count: int) -> list[dict[str, Any]]:
        """Return the next points."""
        rows = self.places[self.asked : self.asked + count]
        self.asked += len(rows)
        return [
            {key: self.space[key].at(u) for key, u in zip(self.space, row, strict=True)}
            for row in rows.tolist()
        ]

    def tell(self, scores: Sequence[float]) -> None:
        """Nothing follows from it."""


class TPE:
    """The tree-structured Parzen estimator of Optuna.

    Bergstra, Bardenet, Bengio, Kegl, "Algorithms for hyper-parameter optimization", NeurIPS 2011.
    Trials of a batch that have been proposed count as bad ones for those after them ("constant
    liar"), so that a batch spreads out. Failures count as the worst.
    """

    def __init__(self, space: Space, seed: int) -> None:
        try:
            import optuna
        except ImportError:
            text = "'tpe' needs Optuna; pip install 'rayfed[optuna]', or use latin or random"
            raise ScenarioError("sweep.sampler", text) from None
        self.space, self.optuna = space, optuna
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        self.study = optuna.create_study(sampler=sampler)
        self.open: list[Any] = []

    def ask(self, count: int) -> list[dict[str, Any]]:
        """Return proposals, each made with those before it in mind."""
        made = []
        for _ in range(count):
            trial = self.study.ask()
            self.open.append(trial)
            made.append({key: self._value(trial, key) for key in self.space})
        return made

    def _value(self, trial: Any, key: str) -> Any:
        held = self.space[key]
        if held.kind == "choice":  # values may be mappings, which Optuna does not take
            return held.values[trial.suggest_categorical(key, range(len(held.values)))]
        low, high = held.values
        if held.kind == "int":
            return trial.suggest_int(key, low, high)
        return held.rounded(trial.suggest_float(key, low, high, log=held.kind == "log"))

    def tell(self, scores: Sequence[float]) -> None:
        """Tell Optuna what came of the open trials."""
        for trial, score in zip(self.open, scores, strict=True):
            self.study.tell(trial, score)
        self.open = []


def sampler(name: Name, space: Space, trials: int, seed: int) -> Sampler:
    """Return the sampler of a name, keyed by a seed.

    Parameters
    ----------
    trials : int
        How many it will be asked for in all; they are what a Latin hypercube is divided by.

    Raises
    ------
    ScenarioError
        If it is "tpe" and Optuna is not installed.
    """
    key = Key(seed, f"search/{name}")
    if name == "tpe":
        return TPE(space, key.words()[0])
    if name == "latin":
        from scipy.stats import qmc  # imported late: it takes a second

        cube = qmc.LatinHypercube(d=len(space), rng=key.generator())
        return Points(space, cube.random(trials))
    return Points(space, key.generator().random((trials, len(space))))
