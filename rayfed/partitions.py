"""Partitions of rows among clients, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.datasets.partitions.base import Partition as Partition
    from rayfed.datasets.partitions.column import Column as Column
    from rayfed.datasets.partitions.contiguous import Contiguous as Contiguous
    from rayfed.datasets.partitions.dirichlet import Dirichlet as Dirichlet
    from rayfed.datasets.partitions.dirichlet_equal import DirichletEqual as DirichletEqual
    from rayfed.datasets.partitions.iid import IID as IID
    from rayfed.datasets.partitions.label_shards import LabelShards as LabelShards
    from rayfed.datasets.partitions.labels import Labels as Labels
    from rayfed.datasets.partitions.sized import Sizes as Sizes
    from rayfed.datasets.partitions.sized import Sorted as Sorted
    from rayfed.datasets.partitions.writers import Writers as Writers
else:
    __getattr__, __dir__ = exported("partitions")
