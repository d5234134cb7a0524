"""Walks: Markov chains of a server that moves from client to client."""

from rayfed.topology.walks.base import Metropolis, Uniform, Walk, Walker

__all__ = ["Metropolis", "Uniform", "Walk", "Walker"]
