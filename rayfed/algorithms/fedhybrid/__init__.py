"""FedHybrid: the method, its Newton clients, the theorem's steps and the merit function."""

from rayfed.algorithms.fedhybrid.fedhybrid import FedHybrid

__all__ = ["FedHybrid"]
