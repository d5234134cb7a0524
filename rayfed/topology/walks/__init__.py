"""Walks: Markov chains of a server that moves from client to client."""

from rayfed.topology.walks.base import Walk
from rayfed.topology.walks.rules import Metropolis, Uniform
from rayfed.topology.walks.walker import Walker

__all__ = ["Metropolis", "Uniform", "Walk", "Walker"]
