"""How a search is made: the section ``sweep`` of a scenario."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Len

from rayfed.study.scenario.bounds import Count
from rayfed.study.scenario.fields import Settings
from rayfed.study.scenario.samplers import Name


class Sweep(Settings):
    """How `rayfed sweep` searches.

    Parameters
    ----------
    trials : int
        Settings that are tried of each algorithm, every one with all seeds.
    sampler : "latin", "random" or "tpe"
        How they are chosen: a Latin hypercube, which spreads evenly over each key; at random; or
        by what earlier ones reached (tree-structured Parzen estimator, needs `rayfed[optuna]`).
    batch : int
        Settings of each algorithm that are chosen together where others depend on what they
        reached, which is so with "tpe" and with `prune`. Results depend on it, but not on how many
        runs go on at a time.
    prune : bool
        Whether runs end that are behind the median of earlier batches at the same simulated time.
    by : str, optional
        The column of `rounds` that is to become best at the end; `validation_loss` if null and rows
        are held out to choose by, else `loss`.
    """

    trials: Count = 20
    sampler: Name = "latin"
    batch: Count = 8
    prune: bool = False
    by: Annotated[str, Len(1)] | None = None
