"""Data sets: readers, generators, partitions, and access to each client's rows."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.datasets.arrays import Arrays as Arrays
    from rayfed.datasets.base import Dataset as Dataset
    from rayfed.datasets.boston import Boston as Boston
    from rayfed.datasets.cifar import CIFAR10 as CIFAR10
    from rayfed.datasets.cifar import CIFAR100 as CIFAR100
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
    from rayfed.datasets.synthetic import Linear as Linear
    from rayfed.datasets.synthetic import Synthetic as Synthetic
    from rayfed.datasets.tabular import Tabular as Tabular
else:
    __getattr__, __dir__ = exported("datasets")
