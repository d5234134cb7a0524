"""Foundations: keyed random numbers, fixed-order sums, errors, plug-ins and array types."""
