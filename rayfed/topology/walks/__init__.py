"""Walks: from whom to whom a walker moves."""

from rayfed.topology.walks.base import Walk
from rayfed.topology.walks.rules import Metropolis, Uniform
from rayfed.topology.walks.walker import Walker

__all__ = ["Metropolis", "Uniform", "Walk", "Walker"]
