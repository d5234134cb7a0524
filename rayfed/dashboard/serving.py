"""Servers of the dashboard: in the foreground of a command, or in the background of a program."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rayfed.core.errors import RayfedError
from rayfed.core.extras import install
from rayfed.dashboard.catalogue import Catalogue
from rayfed.dashboard.configuration import find
from rayfed.report.panels.base import Panel

if TYPE_CHECKING:
    import uvicorn

_NEEDED = ("starlette", "uvicorn")
_SOON_S = 0.5  # until the server has started


@dataclass(frozen=True)
class Served:
    """A dashboard served in the background of a program.

    It shows itself in a notebook of this machine, unless its browser may steer studies.

    Parameters
    ----------
    address : str
        Where it is, with the token that a browser needs once.
    close : callable
        Ends it.
    framed : bool
        Whether a notebook may show it within itself.
    """

    address: str
    close: Callable[[], None]
    framed: bool = True

    def _repr_html_(self) -> str:
        link = f'<a href="{self.address}" target="_blank">dashboard</a>'
        return f"{link}{_FRAME.format(self.address)}" if self.framed else link


# A cookie is of a name of this machine: the frame takes that of the notebook's own address.
_FRAME = """
<iframe src="{0}" width="100%" height="800" style="border:0"></iframe>
<script>
if (location.hostname === "localhost") {{
  const frame = document.currentScript.previousElementSibling;
  frame.src = frame.src.replace("127.0.0.1", "localhost");
}}
</script>
"""


def serve(
    folders: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    control: bool = False,
    token: bool = True,
    panels: Sequence[str | type[Panel]] = (),
    log: Callable[[str], None] = print,
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
        Whether the browser may change studies, see `control.Control`.
    token : bool
        Whether reading requires the token of the address.
    panels : sequence of str or type
        Panels of the user's, added to those of the `configuration`.
    log : callable
        Is given the address.
    browse : bool
        Whether a browser is opened.

    Raises
    ------
    RayfedError
        If the port is taken, a package is missing, or studies are to be steered without a token.
    """
    if control and not token:
        raise RayfedError("--no-token: found --control, which needs a token; leave one of them out")
    server, listening, address = _made(folders, host, port, control, panels, token=token, log=log)
    log(f"dashboard: {address}  (Ctrl-C ends it; studies continue)")
    with _browsing(address) if browse else nullcontext():
        try:
            server.run([listening])
        except KeyboardInterrupt:
            pass
        finally:
            listening.close()


@contextmanager
def _browsing(address: str) -> Iterator[None]:
    """Open an address in a browser by a file that leads there, which only this user may read.

    Every user of the machine sees the arguments of a browser, and with them a token.
    """
    with TemporaryDirectory(prefix="rayfed-open-") as folder:  # of mode 0700
        page = Path(folder, "dashboard.html")
        leads = f'<meta http-equiv="refresh" content="0; url={escape(address)}">'
        text = f'<!doctype html>{leads}<a href="{escape(address)}">rayfed dashboard</a>\n'
        with open(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        opening = threading.Timer(_SOON_S, webbrowser.open, [page.as_uri()])
        opening.start()
        try:
            yield
        finally:
            opening.cancel()


def start(
    folders: Sequence[Path],
    *,
    control: bool = False,
    token: bool = True,
    panels: Sequence[str | type[Panel]] = (),
) -> Served:
    """Serve a dashboard on this machine in a thread, until `Served.close` or the program's end.

    Parameters and errors are those of `serve`.
    """
    framed = not control
    made = _made(folders, "127.0.0.1", 0, control, panels, token=token, framed=framed)
    server, listening, address = made
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()

    def close() -> None:
        server.should_exit = True
        thread.join()
        listening.close()

    return Served(address, close, framed)


def check_needed() -> None:
    """Raise RayfedError if a package that only the dashboard needs is missing."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        text = f"the dashboard needs {' and '.join(missing)}; {install('dashboard')}"
        raise RayfedError(text)


def _made(
    folders: Sequence[Path],
    host: str,
    port: int,
    control: bool,
    panels: Sequence[str | type[Panel]],
    *,
    token: bool = True,
    framed: bool = False,
    log: Callable[[str], None] = print,
) -> tuple[uvicorn.Server, socket.socket, str]:
    """Return a server, the socket that it listens on, and its address."""
    check_needed()
    import uvicorn

    from rayfed.dashboard.guard import in_address
    from rayfed.dashboard.server import Dashboard

    listening = _listening(host, port)
    port = listening.getsockname()[1]
    secret = secrets.token_urlsafe(24) if token else None
    made = Dashboard(Catalogue(folders), find(panels), control)
    app = made.app(host, port, secret, framed=framed)

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await made.end(log)
            await super().shutdown(sockets)

    settings: dict[str, Any] = {"log_level": "error", "timeout_graceful_shutdown": 1}
    server = Server(uvicorn.Config(app, **settings))
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    query = "" if secret is None else f"?token={secret}"
    return server, listening, f"http://{in_address(name)}:{port}/{query}"


def _listening(host: str, port: int) -> socket.socket:
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(128)  # requests before the start of the server wait
    except OSError as error:
        made.close()
        why = (error.strerror or str(error)).lower()
        raise RayfedError(
            f"--port {port}: {host} cannot be listened on ({why}); give another"
        ) from error
    return made
