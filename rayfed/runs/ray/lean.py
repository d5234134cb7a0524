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
from typing import Any
from unittest.mock import patch

from rayfed.executors.warm import agent, idle, worker

_FOLDERS = ("algorithms", "clients", "datasets", "engine", "problems", "selection", "topology")


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
