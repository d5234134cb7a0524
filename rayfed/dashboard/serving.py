"""Servers of the dashboard: one that a command waits for, and one beside a program."""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rayfed.core.errors import RayfedError
from rayfed.dashboard.catalogue import Catalogue
from rayfed.report.panels.base import Panel, find

if TYPE_CHECKING:
    import uvicorn

_NEEDED = ("starlette", "uvicorn")


@dataclass(frozen=True)
class Served:
    """A dashboard that is served beside a program.

    It shows itself in a notebook.

    Parameters
    ----------
    address : str
        Where it is.
    close : callable
        Ends it.
    """

    address: str
    close: Callable[[], None]

    def _repr_html_(self) -> str:
        return f'<iframe src="{self.address}" width="100%" height="800" style="border:0"></iframe>'


def serve(
    folders: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    control: bool = False,
    panels: Sequence[str | type[Panel]] = (),
    tell: Callable[[str], None] = print,
    browse: bool = False,
) -> None:
    """Serve a dashboard until Ctrl-C.

    Parameters
    ----------
    folders : sequence of Path
        Folders with results below them.
    host : str
        Where it listens.
    port : int
        0 takes one that is free.
    control : bool
        Whether the browser may stop, resume and extend studies.
    panels : sequence of str or type
        Panels of the user's, as `panels.base.find` takes them.
    tell : callable
        Is given the address.
    browse : bool
        Whether a browser is opened.

    Raises
    ------
    RayfedError
        If the port is taken, or a package is missing.
    """
    server, listening, address = _made(folders, host, port, control, panels)
    tell(f"dashboard: {address}  (Ctrl-C ends it; studies go on)")
    if browse:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    try:
        server.run([listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()


def start(
    folders: Sequence[Path], *, control: bool = False, panels: Sequence[str | type[Panel]] = ()
) -> Served:
    """Serve a dashboard on this machine in a thread, until `Served.close` or the program's end.

    Parameters and errors are those of `serve`.
    """
    server, listening, address = _made(folders, "127.0.0.1", 0, control, panels)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()

    def close() -> None:
        server.should_exit = True
        thread.join()
        listening.close()

    return Served(address, close)


def check_needed() -> None:
    """Raise RayfedError if a package that only the dashboard needs is missing."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        text = f"the dashboard needs {' and '.join(missing)}; pip install 'rayfed[dashboard]'"
        raise RayfedError(text)


def _made(
    folders: Sequence[Path],
    host: str,
    port: int,
    control: bool,
    panels: Sequence[str | type[Panel]],
) -> tuple[uvicorn.Server, socket.socket, str]:
    """Return a server, the socket that it listens on, and its address."""
    check_needed()
    import uvicorn

    from rayfed.dashboard.guard import is_loopback
    from rayfed.dashboard.server import Dashboard

    listening = _listening(host, port)
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(24)
    app = Dashboard(Catalogue(folders), find(panels), control).app(host, port, token)
    settings: dict[str, Any] = {"log_level": "error", "timeout_graceful_shutdown": 1}
    server = uvicorn.Server(uvicorn.Config(app, **settings))
    needs = control or not is_loopback(host)
    name = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    address = f"http://{name}:{port}/" + (f"?token={token}" if needs else "")
    return server, listening, address


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(128)  # who asks before the server has started waits
    except OSError as error:
        made.close()
        why = (error.strerror or str(error)).lower()
        raise RayfedError(
            f"--port {port}: {host} cannot be listened on ({why}); give another"
        ) from error
    return made
