"""A step of an engine's loop, with its events as columns."""

from rayfed.engine.works import events_of


def step(loop, state):
    """Return the state after a row, the row, and the events of its Asks, as columns each."""
    state, row, ended = loop.step(state)
    return state, row, [events_of([each]) for each in ended]
