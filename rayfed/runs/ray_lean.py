"""Ray for one study on one machine, without what only clusters and dashboards need.

Ray starts seven Python programs beside its two servers, and each worker imports Ray twice. Here
one program is started, from which workers are forked; see `rayfed.executors.warm`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from unittest.mock import patch

import ray

from rayfed.executors.warm import agent, idle, worker

_KNOWN = ("2.60.",)
"""Versions of Ray whose private parts are as they are taken for here."""
_ENVIRONMENTS = ("RAY_JOB_CONFIG_JSON_ENV_VAR", "RAY_RUNTIME_ENV_HOOK", "RAY_RUNTIME_ENV")
"""Variables that ask for an environment of workers, which Ray's own agent makes."""
PLAIN = "RAYFED_PLAIN_RAY"
"""Variable that lets Ray start as it does by itself, should workers not start otherwise."""
_LONGEST = 80  # of a folder's path: that of a socket has at most 107 characters
_FOLDERS = ("algorithms", "clients", "datasets", "engine", "problems", "selection", "topology")


def is_known() -> bool:
    """Return whether Ray can be started so: its version is known, and workers can be forked."""
    known = sys.platform == "linux" and ray.__version__.startswith(_KNOWN)
    fits = len(gettempdir()) < _LONGEST
    return known and fits and not any(name in os.environ for name in (PLAIN, *_ENVIRONMENTS))


@contextmanager
def lean(folder: Path) -> Iterator[None]:
    """Let `ray.init` start two servers and the warm process alone.

    Parameters
    ----------
    folder : Path
        Nobody else may read it; for the socket at which workers are asked for.
    """
    # only here: other versions may lack them
    from ray._private import node, parameter, ray_constants, services

    class Params(parameter.RayParams):  # type: ignore[misc]  # Ray has no types
        """What a node is started with."""

        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            self.no_monitor = True
            self.include_log_monitor = False
            self.setup_worker_path = worker.__file__

    scripts = {
        ray_constants.PROCESS_TYPE_DASHBOARD_AGENT: agent.__file__,
        ray_constants.PROCESS_TYPE_RUNTIME_ENV_AGENT: idle.__file__,
    }
    command = services._build_python_executable_command_memory_profileable

    def replaced(component: str, *given: Any, **options: Any) -> list[str]:
        script = scripts.get(component)
        return command(component, *given, **options) if script is None else [sys.executable, script]

    with ExitStack() as held:
        name = "_build_python_executable_command_memory_profileable"
        held.enter_context(patch.object(services, name, replaced))
        held.enter_context(patch.object(parameter, "RayParams", Params))
        held.enter_context(patch.object(node.Node, "start_api_server", lambda self, **_: None))
        # workers are started as this process was, under `uv run`, too
        held.enter_context(patch.object(ray_constants, "RAY_ENABLE_UV_RUN_RUNTIME_ENV", False))
        told = {agent.SOCKET: str(folder / "workers"), agent.MODULES: ",".join(_imported())}
        os.environ |= told  # inherited by all that Ray starts
        for variable in told:
            held.callback(os.environ.pop, variable)
        yield


def _imported() -> list[str]:
    """Return what this process has imported, since the study needs it, and client actors will."""
    folders = tuple(f"rayfed.{folder}." for folder in _FOLDERS)
    return sorted(name for name in sys.modules if name.startswith(folders))
