"""Data sets: readers, generators, partitions, and access to each client's rows."""
