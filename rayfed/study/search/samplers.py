"""Samplers: the values that a search tries next."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Protocol, TypeAlias

from rayfed.core.arrays import Floats
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.study.scenario.distributions import Distribution
from rayfed.study.scenario.sweep import ADAPTIVE, Sweep

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


class Sampler(Protocol):
    """Proposes values, a batch at a time."""

    def ask(self, known: Sequence[Values | None]) -> list[dict[str, Any]]:
        """Return the values of the next trials: those that are known, proposals where None is."""
        ...

    def tell(self, scores: Sequence[float]) -> None:
        """Take what came of the last batch, in its order; little is good, infinite a failure."""
        ...


class KnownPoints:
    """Proposes points that are settled beforehand, whatever comes of them.

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

    A proposal follows from the seed, its number, the trials that were told and those of its batch
    before it: not from how often the sampler was asked before. So known trials take their place
    among the others without being proposed. Proposals are rounded before Optuna sees them, so that
    it learns from the values that ran. Where a method has generations, a batch is one.
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
        """Tell Optuna what came of the open trials."""
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
        """Return the sampler of a trial, which rounds what it proposes."""
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
        text = f"'{name}' needs {' and '.join(missing)}; pip install 'rayfed[optuna]'"
        other = "".join(f" {each}" for each in missing if each != "optuna")
        raise ScenarioError("sweep.sampler", f"{text}{other}, or use latin or random")
    if name in ADAPTIVE and space:
        return OptunaSampler(name, space, key, sweep.batch)
    shape = (sweep.trials if space else 1, len(space))
    if name != "latin" or not space:
        return KnownPoints(space, key.generator().random(shape))
    from scipy.stats import qmc  # imported late: it takes a second

    return KnownPoints(space, qmc.LatinHypercube(d=shape[1], rng=key.generator()).random(shape[0]))
