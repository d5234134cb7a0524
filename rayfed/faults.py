"""Faults of clients, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.channel.faults.base import Fault as Fault
    from rayfed.channel.faults.collusion import Alie as Alie
    from rayfed.channel.faults.collusion import Ipm as Ipm
    from rayfed.channel.faults.collusion import Mimic as Mimic
    from rayfed.channel.faults.single import BitFlip as BitFlip
    from rayfed.channel.faults.single import LabelFlip as LabelFlip
    from rayfed.channel.faults.single import Noise as Noise
    from rayfed.channel.faults.single import NotANumber as NotANumber
    from rayfed.channel.faults.single import Replay as Replay
    from rayfed.channel.faults.single import Scale as Scale
    from rayfed.channel.faults.single import Silent as Silent
else:
    __getattr__, __dir__ = exported("faults")
