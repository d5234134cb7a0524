"""Partitions of rows among clients, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.datasets.partitions.base import Partition as Partition
    from rayfed.datasets.partitions.blocks import IID as IID
    from rayfed.datasets.partitions.blocks import Contiguous as Contiguous
    from rayfed.datasets.partitions.blocks import Sizes as Sizes
    from rayfed.datasets.partitions.blocks import Sorted as Sorted
    from rayfed.datasets.partitions.classes import Dirichlet as Dirichlet
    from rayfed.datasets.partitions.classes import DirichletEqual as DirichletEqual
    from rayfed.datasets.partitions.classes import Labels as Labels
    from rayfed.datasets.partitions.classes import LabelShards as LabelShards
    from rayfed.datasets.partitions.named import Column as Column
    from rayfed.datasets.partitions.named import Writers as Writers
else:
    __getattr__, __dir__ = exported("partitions")
