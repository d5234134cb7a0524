"""Partitions of the rows of a table among clients."""
