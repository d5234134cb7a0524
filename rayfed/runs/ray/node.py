"""Ray on this machine: started on the loopback address, watched, and ended with all it started."""

from __future__ import annotations

import ipaddress
import logging
import os
import secrets
import shutil
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import ray
from ray._private import worker as ray_worker

from rayfed.core.errors import RayfedError, listed
from rayfed.core.machine import cpus, private_file, private_folder
from rayfed.core.threads import ONE_THREAD
from rayfed.executors.calls import reason_of
from rayfed.executors.ray_host import BY_VALUE
from rayfed.runs.logger import logger

AUTH_MODE = "RAY_AUTH_MODE"
"""Environment variable of Ray: "token" is on, "disabled" is off."""
_SERVERS = ("gcs_server", "raylet")
_END_S = 5.0  # until what does not end by itself is killed
_LOOKED_AT = 16  # processes whose sockets are read; the actors take the raylet's address
_LOG_LINES = 20
_SESSIONS = "ray"
_LONGEST_PATH = f"{_SESSIONS}/session_2026-01-01_00-00-00_000000_1234567/sockets/plasma_store.1"
"""Of Ray's sockets below its folder."""
_HOME = os.path.realpath(Path(__file__).parents[3])
_COUNTERS = "[state-dump]"  # of hundreds of events, every minute


class RayNode:
    """Ray, as this process has started, joined or found it.

    Parameters
    ----------
    before : set of psutil.Process
        Processes below this one before Ray was started.
    sockets : set of (address, port)
        That this process listened on before.
    logs : Path, optional
        Folder of Ray's logs; None where its servers are not ours to watch.
    held : ExitStack
        What is given back in the end.

    Attributes
    ----------
    messages : list of str
        What Ray had to say and would have printed.
    """

    def __init__(
        self,
        before: set[psutil.Process],
        sockets: set[tuple[str, int]],
        logs: Path | None,
        held: ExitStack,
    ) -> None:
        self.before, self.sockets, self.logs, self.held = before, sockets, logs, held
        self.messages: list[str] = []
        self.begun = [] if logs is None else _rays_processes(before)
        self.servers = {name: p for p in self.begun if (name := _name(p)) in _SERVERS}
        self.print = ray_worker.print_to_stdstream

    def keep_messages(self) -> None:
        """Keep Ray's own output, kilobytes of errors at any log level."""
        ray_worker.print_to_stdstream = lambda data, **_: self.messages.extend(data["lines"])

    def lost(self) -> str | None:
        """Return which server of Ray's has ended, None while none has."""
        return next((name for name, p in self.servers.items() if not _is_alive(p)), None)

    def last_lines(self, server: str) -> str:
        """Return the last lines of the log of a server of Ray's."""
        lines = []
        for path in sorted(self.logs.glob(f"{server}.*")) if self.logs else ():
            with suppress(OSError):
                text = path.read_text(encoding="utf-8", errors="replace")
                reported = [line for line in text.splitlines() if not line.startswith(_COUNTERS)]
                lines += [f"{path}:", *reported[-_LOG_LINES:]]
        return "\n".join(lines)

    def listens(self) -> str:
        """Return on which addresses Ray listens, in one line."""
        processes = [psutil.Process(), *_rays_processes(self.before)][:_LOOKED_AT]
        return found(listened(processes) - self.sockets)

    def end(self) -> None:
        """End Ray and every process that came with it."""
        ours = list({*self.begun, *_rays_processes(self.before)})  # a dead server's have moved away
        if self.lost():  # Ray would wait for it
            _kill(ours)
        ray.shutdown()
        _, left = psutil.wait_procs(ours, timeout=_END_S)
        _kill(left)
        self.held.close()
        ray_worker.print_to_stdstream = self.print


def start(address: str | None, actors: int) -> RayNode:
    """Start or join Ray; every process that computes has one BLAS thread.

    Parameters
    ----------
    address : str, optional
        Of a cluster to join; Ray is started on this machine if None.
    actors : int
        How many client actors there will be.

    Raises
    ------
    RayfedError
        If Ray cannot be started or joined, or would listen on the network.
    KeyboardInterrupt
        If Ctrl-C or SIGTERM came meanwhile; whatever had been started has ended then.
    """
    if address is None:
        _check_loopback()
    before, sockets = set(psutil.Process().children()), listened([psutil.Process()])
    resources = ExitStack()
    try:
        with _without_interrupts():
            folder = None
            if address is None:
                if os.environ.get(AUTH_MODE, "").lower() != "token":
                    os.environ.pop(AUTH_MODE, None)  # without it, Ray asks for a token
                keep_private()
                folder = private_folder(_LONGEST_PATH)
                resources.callback(shutil.rmtree, folder, ignore_errors=True)
            context = _init(address, actors, folder)
    except BaseException as error:
        RayNode(before, sockets, None, resources).end()
        if isinstance(error, RayfedError) or not isinstance(error, Exception):
            raise
        failed = f"--address {address}: cannot join Ray" if address else "Ray cannot be started"
        raise RayfedError(f"{failed}: {reason_of(error)}") from error
    logs = None if address else Path(context.address_info["session_dir"]) / "logs"
    node = RayNode(before, sockets, logs, resources)
    node.keep_messages()
    return node


def joined() -> RayNode:
    """Return the Ray that this process is connected to already; it is not ours to end."""
    return RayNode(set(), set(), None, ExitStack())


class _Paths(list[str]):
    """First entries of the workers' Python path: the first here, and the folder of rayfed.

    Ray adds the current folder, in which anybody's file may have the name of a library.
    """

    def extend(self, paths: Iterable[str]) -> None:
        """Take of Ray's proposals those that are first here, too."""
        first = {os.path.realpath(sys.path[0]), _HOME}
        super().extend(path for path in paths if os.path.realpath(path) in first)


def _init(address: str | None, actors: int, folder: Path | None) -> Any:
    for name, value in ONE_THREAD.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("RAY_worker_niceness", "0")  # with Ray's 15 all other work goes first
    os.environ.setdefault("RAY_max_direct_call_object_size", str(2 * BY_VALUE))
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Ray warns of many processes beyond a multiple of this; that many actors are asked for here
    os.environ.setdefault("RAY_worker_maximum_startup_concurrency", str(max(4, min(actors, 64))))
    logging.getLogger("ray").setLevel(logging.ERROR)
    job = ray.job_config.JobConfig()
    job._py_driver_sys_path = _Paths()
    own: dict[str, Any] = {}
    if folder is not None:  # Ray opens its folder to all
        own = {"_temp_dir": str(folder / _SESSIONS), "num_cpus": cpus()}
    return ray.init(
        address=address or "local",
        job_config=job,
        **own,
        log_to_driver=False,
        logging_level="ERROR",
        include_dashboard=False if address is None else None,
        configure_logging=False,
    )


def _check_loopback() -> None:
    """Refuse to start Ray where it would listen on the network.

    Raises
    ------
    RayfedError
        If Ray was imported before, without what `rayfed.runs.ray.imported` tells it.
    """
    if not is_loopback(ray.util.get_node_ip_address()):
        raise RayfedError(
            "executor: ray would listen on the network, since it was imported before the study "
            "began; set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 before Ray is imported, or call "
            "ray.init() yourself"
        )


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait: in the middle of its start Ray would leave processes.

    Ray sets a handler of its own for SIGTERM, which ends at once. It is replaced again, unless
    nobody had set one before.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    came = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    for number in handlers:
        signal.signal(number, note)
    try:
        yield
    except SystemExit:  # Ray's handler; it leaves no other trace
        if signal.SIGTERM not in handlers:
            raise
        came.append(signal.SIGTERM)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


def keep_private() -> None:
    """Make the token if there is none, and let this user alone read it.

    Ray writes it so that all users of the machine read it, unless the folder above keeps them out.

    Raises
    ------
    RayfedError
        If it cannot be made, or others may read it and this user cannot change that.
    """
    if os.environ.get("RAY_AUTH_TOKEN"):
        return
    given = os.environ.get("RAY_AUTH_TOKEN_PATH")
    try:
        path = Path(given) if given else Path.home() / ".ray" / "auth_token"
        if not given:
            private_file(path, secrets.token_hex(32).encode())
        if path.exists() and path.stat().st_mode & 0o077:
            path.chmod(0o600)
            logger.warning("%s was open to others; delete it if they used this machine", path)
    except (OSError, RuntimeError) as error:
        why = str(getattr(error, "strerror", None) or error).lower()
        text = "set RAY_AUTH_TOKEN_PATH to a file of mode 0600, or take executor: workers"
        raise RayfedError(f"Ray's token cannot be kept from others ({why}); {text}") from error


def found(sockets: Iterable[tuple[str, int]]) -> str:
    """Return on which addresses Ray listens, in one line.

    Parameters
    ----------
    sockets : iterable of (address, port)
        See `listened`.
    """
    token = "a token" if os.environ.get(AUTH_MODE, "").lower() == "token" else "no token"
    network = sorted({address for address, _ in sockets if not is_loopback(address)})
    if network:
        return f"Ray listens on the network, at {listed(network)}, behind {token}"
    return f"Ray listens on the loopback address of this machine only, behind {token}"


def listened(processes: Iterable[psutil.Process]) -> set[tuple[str, int]]:
    """Return the addresses and ports that processes listen on.

    "0.0.0.0" and "::" are all addresses of the machine.

    Parameters
    ----------
    processes : iterable of psutil.Process
        Those that have ended listen nowhere, and those of other users are not looked at.
    """
    sockets = set()
    for process in processes:
        try:
            connections = process.net_connections(kind="tcp")
        except psutil.Error:
            continue
        sockets |= {tuple(c.laddr) for c in connections if c.status == psutil.CONN_LISTEN}
    return sockets


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches an address; sockets of IPv6 may hold one of IPv4."""
    parsed = ipaddress.ip_address(address)
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (parsed if mapped is None else mapped).is_loopback


def _rays_processes(before: set[psutil.Process]) -> list[psutil.Process]:
    """Return the processes of Ray below this one, without those that were there before."""
    children = [child for child in psutil.Process().children() if child not in before]
    return [p for child in children if _is_rays(child) for p in (child, *_below(child))]


def _is_rays(process: psutil.Process) -> bool:
    """Return whether a process is of Ray: a program of its, or a script."""
    home = str(Path(ray.__file__).parent)
    with suppress(psutil.Error):
        return any(argument.startswith(home) for argument in process.cmdline())
    return False


def _below(process: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return list(process.children(recursive=True))
    return []


def _name(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return str(process.name()).removesuffix(".exe")
    return ""


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
