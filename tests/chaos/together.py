"""Random combinations of a method with what happens to what it sends, beside plain loops."""

from __future__ import annotations

from collections.abc import Collection

from rayfed.core.errors import RunFailed
from tests.chaos.dice import Dice
from tests.contract.references.combination import PARTS, Combination, Ran, accepted, apart
from tests.contract.references.methods import METHODS


def drawn_combination(dice: Dice, algorithms: Collection[str] = ()) -> Combination | None:
    """Return a random combination of one of the algorithms, of any if there are none.

    It is None if none of them has a plain loop.
    """
    names = [name for name, method in METHODS.items()
             if not algorithms or method.settings["name"] in algorithms]  # fmt: skip
    if not names:
        return None
    parts = {part: dice.one_of(list(known)) for part, known in PARTS.items()}
    return Combination(dice.one_of(names), **parts).simplified()


def disagreement(combination: Combination) -> str:
    """Return how what is accepted of a combination differs from a plain loop; "" if it does not."""
    try:
        combination, plan = accepted(combination)
        found = apart(combination, Ran(plan))
    except (AssertionError, RunFailed) as error:
        found = str(error)
    return f"{combination}: {found}" if found else ""
