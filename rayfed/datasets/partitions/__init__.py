"""Partitions: how the rows of a table are assigned to clients; one per file."""

from rayfed.datasets.partitions.base import Partition, by_class
from rayfed.datasets.partitions.column import Column
from rayfed.datasets.partitions.contiguous import Contiguous
from rayfed.datasets.partitions.dirichlet import Dirichlet
from rayfed.datasets.partitions.dirichlet_equal import DirichletEqual
from rayfed.datasets.partitions.iid import IID
from rayfed.datasets.partitions.label_shards import LabelShards
from rayfed.datasets.partitions.labels import Labels
from rayfed.datasets.partitions.sized import Sizes, Sorted
from rayfed.datasets.partitions.writers import Writers

__all__ = [
    "IID",
    "Column",
    "Contiguous",
    "Dirichlet",
    "DirichletEqual",
    "LabelShards",
    "Labels",
    "Partition",
    "Sizes",
    "Sorted",
    "Writers",
    "by_class",
]
