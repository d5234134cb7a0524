"""The section ``sweep`` of a scenario: how a search is made."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

from annotated_types import Len

from rayfed.study.scenario.bounds import Count
from rayfed.study.scenario.fields import Settings

Adaptive: TypeAlias = Literal["tpe", "gp", "cmaes", "nsgaii"]
ADAPTIVE = get_args(Adaptive)
"""Samplers of Optuna, which learn from what trials reached."""


class Sweep(Settings):
    """How `rayfed sweep` searches.

    Parameters
    ----------
    trials : int
        Settings that are tried of each algorithm, every one with all seeds.
    sampler : "latin", "random", "tpe", "gp", "cmaes" or "nsgaii"
        How they are chosen: a Latin hypercube, which spreads evenly over each key; at random; or by
        what earlier ones reached, by a sampler of Optuna (needs `rayfed[optuna]`): tree-structured
        Parzen estimator, Gaussian process (needs PyTorch, too), CMA-ES (needs `cmaes`, too) or a
        genetic algorithm. The last two have a generation in each batch of four or more.
    batch : int
        Settings of each algorithm that are chosen together where others depend on what they
        reached, which is so with samplers of Optuna and with `prune`. Results depend on it, but not
        on how many runs go on at a time.
    prune : bool
        Whether runs end that are behind the median of earlier batches at the same simulated time.
    by : str, optional
        The column of `rounds` that is to become best at the end; `validation_loss` if null and rows
        are held out to choose by, else `loss`.
    """

    trials: Count = 20
    sampler: Literal["latin", "random"] | Adaptive = "latin"
    batch: Count = 8
    prune: bool = False
    by: Annotated[str, Len(1)] | None = None
