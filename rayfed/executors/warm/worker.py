"""A script in place of Ray's that starts a worker: asks the warm process to fork one.

It is started for every worker, so it imports hardly anything. Whatever is not as expected is left
to Ray's own script.
"""

from __future__ import annotations

import json
import os
import socket
import sys

_PLAIN = ("--language=PYTHON", "--serialized-runtime-env-context={}")


def forked(arguments: list[str]) -> bool:
    """Return whether the warm process has forked a worker with these arguments."""
    command = [argument for argument in arguments if argument not in _PLAIN]
    if any(a.startswith(("--language", "--serialized-runtime-env-context")) for a in command):
        return False  # a runtime environment, or another language
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(os.environ["RAYFED_WARM_SOCKET"])
            asked = json.dumps([command, dict(os.environ)]) + "\n"
            connection.sendall(asked.encode())
            return bool(connection.recv(32))
    except (KeyError, OSError):
        return False


if __name__ == "__main__":
    if not forked(sys.argv[1:]):
        script = next(argument for argument in sys.argv if argument.endswith("default_worker.py"))
        setup = os.path.join(os.path.dirname(script), "setup_worker.py")
        os.execv(sys.executable, [sys.executable, setup, *sys.argv[1:]])
