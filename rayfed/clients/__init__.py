"""Clients: the view of a client function, the host, and stacks of rows."""

from rayfed.clients.clients import Clients
from rayfed.clients.stacks import Stacks

__all__ = ["Clients", "Stacks"]
