"""Faults: what faulty clients send in place of what they should."""

from rayfed.channel.faults.base import Collusion, Fault, Knowledge, UploadFault

__all__ = ["Collusion", "Fault", "Knowledge", "UploadFault"]
