"""Newton clients of FedHybrid: their choice, and the cost of their systems in time and memory."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

import numpy as np
from annotated_types import Ge, Gt, Le

from rayfed.core.arrays import Array, Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.core.names import numbered
from rayfed.core.rng import Key
from rayfed.core.shares import rounded
from rayfed.population import Population

Share: TypeAlias = Annotated[float, Gt(0), Le(1)]


Newton: TypeAlias = Annotated[int, Ge(0)] | Share | tuple[Annotated[int, Ge(0)] | str, ...] | str
_FASTEST = re.compile(r"fastest (?:(\d+)|(\d+(?:\.\d+)?) ?%)")


def fastest(text: str) -> int | float | None:
    """Return the number or share in "fastest 5" or "fastest 25%"; None for other texts.

    Examples
    --------
    >>> fastest("fastest 5"), fastest("fastest 25%"), fastest("slowest 5")
    (5, 0.25, None)
    """
    match = _FASTEST.fullmatch(text)
    if match is None:
        return None
    count, percent = match.groups()
    return int(count) if count else float(percent) / 100


def newton_clients(newton: Newton, population: Population) -> tuple[int, ...]:
    """Return the ids of the clients that take Newton steps, ascending.

    The fastest are those whose steps take the least time on average, stragglers' slowdown
    included; among equally fast ones low ids come first.

    Raises
    ------
    ScenarioError
        If there are not so many clients, an id is no client's or listed twice, or a text is none
        of those that are known.
    """
    n = population.count
    if newton == "all":
        return tuple(range(n))
    if isinstance(newton, tuple):
        try:
            return _listed(numbered(newton, population.names), n)
        except ScenarioError as error:
            raise error.under("newton") if not error.place else error from None
    asked = fastest(newton) if isinstance(newton, str) else newton
    if asked is None:
        text = f"found '{newton}'; give a number, a share, ids, all, fastest 5 or fastest 25%"
        raise ScenarioError("newton", text)
    count = asked if isinstance(asked, int) else rounded(asked, n)
    if count > n:
        text = f"found {count} Newton clients of {n}; give at most {n}"
        raise ScenarioError("newton", text)
    everyone = np.arange(n)
    if isinstance(newton, str):
        pace = population.mean_seconds_per_step(everyone)
        chosen = np.argsort(pace, kind="stable")[:count]
    else:
        walk = Key(population.seed, "newton").permutation(n)
        chosen = np.flatnonzero(walk(everyone) < count)
    return tuple(np.sort(chosen).tolist())


def _listed(ids: tuple[int, ...], n: int) -> tuple[int, ...]:
    outside = [i for i in ids if i >= n]
    if outside:
        text = f"found client {outside[0]}; ids go from 0 to {n - 1}"
        raise ScenarioError("newton", text)
    if len(set(ids)) < len(ids):
        twice = next(i for i in ids if ids.count(i) > 1)
        raise ScenarioError("newton", f"found client {twice} twice; list it once")
    return tuple(sorted(ids))


class NewtonIds:
    """The ids of the clients that take Newton steps; false if there are none.

    Parameters
    ----------
    ids : tuple of int
        The ids, in any order.
    """

    def __init__(self, ids: tuple[int, ...]) -> None:
        # up to the last id that takes Newton steps, and one more place for all others
        self._mask = np.zeros(max(ids) + 2 if ids else 0, dtype=np.bool_)
        self._mask[list(ids)] = True

    def __bool__(self) -> bool:
        """Whether there are any."""
        return len(self._mask) > 0

    def among(self, ids: Ints) -> Array:
        """Return whether clients take Newton steps (K,)."""
        if not self:
            return np.zeros(len(ids), dtype=np.bool_)
        return np.asarray(self._mask[np.minimum(ids, len(self._mask) - 1)])


def pieces(places: Ints, size: int | None) -> list[Ints]:
    """Return places (K,) in pieces of at most so many, at least one; in one piece if None."""
    step = len(places) if size is None else size
    return [places[k : k + max(step, 1)] for k in range(0, len(places), max(step, 1))]


def solution_passes(p: int, sizes: Ints, cg_steps: int | None) -> Floats:
    """Return the gradients on all rows that forming and solving a system is worth (K,).

    Parameters
    ----------
    p : int
        Numbers of the model.
    sizes : (K,) array of int
        Training rows n_i.
    cg_steps : int, optional
        Products in a solution by conjugate gradients; a Hessian is formed and factored if None.
    """
    if cg_steps is not None:
        return np.full(len(sizes), cg_steps + 1.0)
    return p / 4 + p**2 / (12 * sizes) + p / sizes
