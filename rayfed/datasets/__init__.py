"""Data sets: readers, generators, partitions and drifts."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import lazy

if TYPE_CHECKING:  # for editors and type checkers; a test compares the list
    from rayfed.datasets.arrays import Arrays as Arrays
    from rayfed.datasets.base import Dataset as Dataset
    from rayfed.datasets.boston import Boston as Boston
    from rayfed.datasets.cifar import CIFAR10 as CIFAR10
    from rayfed.datasets.cifar import CIFAR100 as CIFAR100
    from rayfed.datasets.drift import Arriving as Arriving
    from rayfed.datasets.drift import Drift as Drift
    from rayfed.datasets.drift import ImagesTurn as ImagesTurn
    from rayfed.datasets.drift import LabelsSwap as LabelsSwap
    from rayfed.datasets.drift import Rotation as Rotation
    from rayfed.datasets.fedexp import FedExPRegression as FedExPRegression
    from rayfed.datasets.fedhybrid import FedHybridBoston as FedHybridBoston
    from rayfed.datasets.fedhybrid import FedHybridLogistic as FedHybridLogistic
    from rayfed.datasets.fedhybrid import FedHybridMushroom as FedHybridMushroom
    from rayfed.datasets.fedhybrid import FedHybridQuadratic as FedHybridQuadratic
    from rayfed.datasets.formulas import Disc as Disc
    from rayfed.datasets.formulas import Line as Line
    from rayfed.datasets.formulas import Quadratics as Quadratics
    from rayfed.datasets.image_folder import ImageFolder as ImageFolder
    from rayfed.datasets.leaf import FEMNIST as FEMNIST
    from rayfed.datasets.leaf import Shakespeare as Shakespeare
    from rayfed.datasets.mnist import EMNIST as EMNIST
    from rayfed.datasets.mnist import MNIST as MNIST
    from rayfed.datasets.mnist import FashionMNIST as FashionMNIST
    from rayfed.datasets.mushroom import Mushroom as Mushroom
    from rayfed.datasets.partitions.base import Partition as Partition
    from rayfed.datasets.partitions.blocks import IID as IID
    from rayfed.datasets.partitions.blocks import Contiguous as Contiguous
    from rayfed.datasets.partitions.blocks import Sizes as Sizes
    from rayfed.datasets.partitions.blocks import Sorted as Sorted
    from rayfed.datasets.partitions.classes import Dirichlet as Dirichlet
    from rayfed.datasets.partitions.classes import DirichletEqual as DirichletEqual
    from rayfed.datasets.partitions.classes import Labels as Labels
    from rayfed.datasets.partitions.classes import LabelShards as LabelShards
    from rayfed.datasets.partitions.named import ByColumn as ByColumn
    from rayfed.datasets.partitions.named import Writers as Writers
    from rayfed.datasets.synthetic import Linear as Linear
    from rayfed.datasets.synthetic import Synthetic as Synthetic
    from rayfed.datasets.tabular import Tabular as Tabular
else:
    __getattr__, __dir__ = lazy(__name__)
