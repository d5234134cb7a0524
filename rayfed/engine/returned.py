"""Checks of what a server function returns, which may be a user's."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from rayfed.algorithms.base import Algorithm
from rayfed.core.columns import names
from rayfed.core.errors import RunFailed, clipped
from rayfed.messages import Ask, Diagnostics, State, Wait

_SHOWN = 60


class ServerFunction:
    """Looks at what an algorithm returns, so that a mistake is named where it was made.

    Parameters
    ----------
    algorithm : Algorithm
        Whose server function it is.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self.name = algorithm.name
        self.method = "arrival" if algorithm.asynchronous else "round"
        self.declared = frozenset(names(algorithm.diagnostics))

    def guard(self, state: State) -> None:
        """Let nobody change a state in place: an earlier model may still be evaluated or sent."""
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def asks(self, returned: Any, round_number: int) -> Generator[Any, Any, Any]:
        """Return what `round` returned, if it is a generator of Asks.

        Raises
        ------
        RunFailed
            If it is anything else.
        """
        if not isinstance(returned, Generator):
            found = f"returns {_kind(returned)} without asking anybody"
            raise self._failed(round_number, f"{found}; ask by: reply = yield Ask(...)")
        return returned

    def ask(self, asked: Any, round_number: int) -> Ask | Wait:
        """Return what a generator yielded, if it is an Ask or a Wait.

        Raises
        ------
        RunFailed
            If it is anything else.
        """
        if not isinstance(asked, (Ask, Wait)):
            raise self._failed(round_number, f"yields {_kind(asked)}; yield an Ask or a Wait")
        return asked

    def result(self, returned: Any, before: State, round_number: int) -> tuple[State, Diagnostics]:
        """Return the state and the diagnostics that a round ended with.

        Parameters
        ----------
        returned : Any
            What `round` or `arrival` returned.
        before : mapping of str to array
            The state before the round.

        Raises
        ------
        RunFailed
            If it is not a state and diagnostics that are declared, or has a model of another shape.
        """
        if not (
            isinstance(returned, (tuple, list))
            and len(returned) == 2
            and all(isinstance(part, Mapping) for part in returned)
        ):
            text = f"returns {_kind(returned)}; end it by: return state, diagnostics (two dicts)"
            raise self._failed(round_number, text)
        state, diagnostics = returned
        wanted = np.shape(before["x"])
        if "x" not in state:
            raise self._failed(round_number, "returns a state without 'x', the model; add it")
        if np.shape(state["x"]) != wanted:
            found = f"returns x of shape {np.shape(state['x'])}"
            raise self._failed(round_number, f"{found} for a model of shape {wanted}; correct it")
        undeclared = diagnostics.keys() - self.declared
        if undeclared:  # it would be lost: the columns of the table are those of its row 0
            raise self._failed(
                round_number,
                f"returns {', '.join(sorted(map(str, undeclared)))}, which its `diagnostics` do "
                "not declare; add the name there",
            )
        return state, diagnostics

    def _failed(self, round_number: int, text: str) -> RunFailed:
        return RunFailed(f"round {round_number}: '{self.method}' of '{self.name}' {text}")


def _kind(value: Any) -> str:
    """Return what a value is, in a few words."""
    if isinstance(value, tuple):
        return f"({', '.join(type(part).__name__ for part in value)})"
    if value is None or isinstance(value, (int, float, str)):
        return clipped(repr(value), _SHOWN)
    return f"a {type(value).__name__}"
