"""Copies of dataclasses that are made in every round."""

from __future__ import annotations

from typing import Any, TypeVar

Value = TypeVar("Value")


def changed(value: Value, **fields: Any) -> Value:
    """Return a copy of a dataclass with other fields, in half the time of `replace`.

    The fields are not checked and `__post_init__` is not run.

    Examples
    --------
    >>> from rayfed.messages import Wait
    >>> changed(Wait(1.0), seconds=2.0)
    Wait(seconds=2.0)
    """
    made: Value = object.__new__(type(value))
    vars(made).update(vars(value), **fields)
    return made
