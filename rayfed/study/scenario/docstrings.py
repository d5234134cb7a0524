"""Texts of numpydoc docstrings about settings, for editors and for the command line."""

from __future__ import annotations

import inspect
import re
from typing import Any


def described(cls: type[Any]) -> dict[str, str]:
    """Return what the numpydoc "Parameters" of a class and its bases say, by name."""
    texts: dict[str, str] = {}
    for parent in reversed(cls.__mro__):
        section = re.search(r"Parameters\n-+\n(.*?)(?:\n\n\S+\n---|\Z)", _doc(parent), re.S)
        for entry in re.split(r"\n(?=\S)", section[1]) if section else ():
            head, _, text = entry.partition("\n")
            names, _, kind = head.partition(" : ")
            shown = " ".join(text.split()) or kind
            texts.update({name.strip(): shown for name in names.split(",")})
    return texts


def summary(cls: type[Any]) -> str:
    """Return the first line of a class's docstring."""
    return _doc(cls).partition("\n")[0]


def _doc(cls: type[Any]) -> str:
    return inspect.cleandoc(vars(cls).get("__doc__") or "")
