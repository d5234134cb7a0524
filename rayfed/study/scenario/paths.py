"""Paths that a user gives, with environment variables in them."""

from __future__ import annotations

import os
import re

from rayfed.core.errors import ScenarioError


def filled(path: str) -> str:
    """Return a path with the values of its environment variables.

    Raises
    ------
    ScenarioError
        If one is not set.
    """
    made = os.path.expandvars(path)
    missing = re.search(r"\$(\w+|\{\w+\})", made)
    if missing:
        text = f"the environment variable {missing[0]} is not set; set it, or give the path"
        raise ScenarioError("", text)
    return made
