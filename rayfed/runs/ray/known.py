"""Whether Ray can be started with what a study on one machine needs alone; imports no Ray."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version

PLAIN = "RAYFED_PLAIN_RAY"
"""Variable that lets Ray start as it does by itself, should workers not start otherwise."""
_KNOWN = ("2.60.",)
"""Versions of Ray whose private parts are as they are taken for here."""
_ENVIRONMENTS = ("RAY_JOB_CONFIG_JSON_ENV_VAR", "RAY_RUNTIME_ENV_HOOK", "RAY_RUNTIME_ENV")
"""Variables that ask for an environment of workers, which Ray's own agent makes."""


def is_known() -> bool:
    """Return whether Ray can be started so: its version is known, and workers can be forked."""
    try:
        known = sys.platform == "linux" and version("ray").startswith(_KNOWN)
    except PackageNotFoundError:
        return False
    return known and not any(name in os.environ for name in (PLAIN, *_ENVIRONMENTS))
