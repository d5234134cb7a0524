"""Algorithms: one paper, one file."""
