"""The process that Ray's workers are forked from: a script that Ray's raylet starts.

The raylet takes it for its dashboard agent, which a study on one machine has no use for. The
raylet ends with it, and it ends with the raylet.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import socket
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path

SOCKET = "RAYFED_WARM_SOCKET"  # as in worker.py, which imports nothing
"""Environment variable: where workers are asked for."""
MODULES = "RAYFED_WARM_MODULES"
"""Environment variable: what client actors will import, separated by commas."""
PORTS = ("metrics_agent", "metrics_export", "dashboard_agent_listen", "runtime_env_agent")
"""Of the agents that this process stands for; the raylet waits until it is told them."""
_NO_JOB = "ffffffff"  # of workers that the raylet starts before it knows for which job
_LOOK_S = 0.5
_MOST_BYTES = 2**24


def main(arguments: list[str]) -> None:
    """Fork workers until the raylet has ended.

    Parameters
    ----------
    arguments : list of str
        What Ray gives its agent.
    """
    raylet = os.getppid()
    given = dict(a.removeprefix("--").split("=", 1) for a in arguments if "=" in a)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.environ[SOCKET])
        server.listen(128)
        held = [_hold_port(Path(given["session-dir"]), given["node-id"], name) for name in PORTS]
        _import_ahead()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel forgets workers that ended
        server.settimeout(_LOOK_S)
        while os.getppid() == raylet:
            with suppress(TimeoutError, ValueError):  # nobody asked, or who asked has ended
                _serve(server, held)


def _hold_port(session: Path, node: str, name: str) -> socket.socket:
    """Keep a port on which nobody listens, and tell the raylet which one; it waits for that."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    path = session / f"{name}_port_{node}"
    whole = path.with_name(f"{path.name}.whole")
    whole.write_text(str(held.getsockname()[1]), encoding="ascii")
    whole.replace(path)
    return held


def _import_ahead() -> None:
    """Import what every client actor needs, as far as it starts no thread."""
    home = str(Path(__file__).parents[3])
    sys.path[0] = home  # the rayfed of the process that started Ray
    os.environ["RAY_JOB_ID"] = _NO_JOB  # is read when Ray is imported
    import_module("ray._private.workers.default_worker")
    for name in ("numpy.random", "rayfed.executors.ray_host", *os.environ[MODULES].split(",")):
        with suppress(Exception):  # a worker that needs it will say what is wrong
            import_module(name)
    gc.collect()
    gc.freeze()  # what is never looked at again stays shared by the workers


def _serve(server: socket.socket, held: list[socket.socket]) -> None:
    """Fork the worker that one connection asks for, and answer with its process id."""
    connection, _ = server.accept()
    with connection:
        connection.settimeout(None)
        with connection.makefile("rb") as lines:
            arguments, environment = json.loads(lines.readline(_MOST_BYTES))
        worker = os.fork()
        if worker:
            with suppress(BrokenPipeError):
                connection.sendall(str(worker).encode())
            return
        for each in (server, *held):
            each.close()
    _work(arguments, environment)


def _work(arguments: list[str], environment: dict[str, str]) -> None:
    """Be a worker of Ray's, as if this process had been started by its command."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, 0)  # the raylet ends the group of a worker that it ends
    os.environ.clear()
    os.environ.update(environment | {"RAY_JOB_ID": _NO_JOB})
    sys.argv = arguments
    sys.path[0] = str(Path(arguments[0]).parent)
    import numpy as np

    np.random.seed()  # noqa: NPY002 -- else all workers would draw alike
    status = 1
    try:
        runpy.run_path(arguments[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1:])
