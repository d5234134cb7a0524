"""A step of an engine's loop, with its events as columns."""

from typing import Any

from rayfed.engine.tasks import events_of


def step(loop: Any, state: Any) -> tuple[Any, Any, list[dict[str, Any]]]:
    """Return the state after a row, the row, and the events of its Asks, as columns each."""
    state, row, ended = loop.step(state)
    return state, row, [events_of([each]) for each in ended]
