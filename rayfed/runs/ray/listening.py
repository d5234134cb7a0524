"""Addresses on which a run with Ray listens."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable

import psutil

from rayfed.core.errors import listed

AUTH_MODE = "RAY_AUTH_MODE"
"""Environment variable of Ray: "token" is on, "disabled" is off."""


def expected(address: str | None) -> str:
    """Return who will listen during a run, in one line.

    Parameters
    ----------
    address : str, optional
        Of a cluster; None for Ray on this machine alone.
    """
    if address is None:
        return "Ray will listen on the loopback address of this machine only, behind a token"
    return f"the Ray cluster at {address} listens on the network of its nodes, as it was started"


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
