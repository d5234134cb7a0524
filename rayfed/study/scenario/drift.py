"""Settings of a scenario that have no meaning where rows change over rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rayfed.algorithms.base import Algorithm
from rayfed.core.errors import ScenarioError

if TYPE_CHECKING:
    from rayfed.engine.stopping import Stop
    from rayfed.study.scenario.parts import Evaluate


def misfits(
    evaluate: Evaluate, stop: Stop, algorithms: Sequence[Algorithm]
) -> Iterator[ScenarioError]:
    """Yield what has no meaning where rows change over rounds."""
    keys = ("gap", "rows")
    places = [f"evaluate.{key}" for key in keys if getattr(evaluate, key)]
    places += [at for at, measure in evaluate.asked.items() if "fixed rows" in measure.needs]
    for place in places:
        text = "compares rounds on fixed rows, but drift changes them; leave one of them out"
        yield ScenarioError(place, text)
    if stop.loss_gap is not None:
        text = "needs the optimum, which changes under drift; stop at a loss or leave it out"
        yield ScenarioError("stop.loss_gap", text)
    for index, algorithm in enumerate(algorithms):
        label, place = algorithm.label or algorithm.name, f"algorithms.{index}"
        if algorithm.asynchronous:
            text = f"'{label}' is asynchronous and has no rounds, which drift goes by"
            yield ScenarioError(place, f"{text}; leave one of them out")
        if algorithm.centralised:
            text = f"'{label}' has all rows in one place, where no client's rows drift"
            yield ScenarioError(place, f"{text}; leave one of them out")
        if any("fixed rows" in measure.needs for measure in algorithm.measures):
            text = f"'{label}' is compared with its optimum, which changes under drift"
            yield ScenarioError(place, f"{text}; leave one of them out")
