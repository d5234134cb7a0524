"""Faults of clients, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.channel.faults import Alie as Alie
    from rayfed.channel.faults import BitFlip as BitFlip
    from rayfed.channel.faults import Fault as Fault
    from rayfed.channel.faults import Ipm as Ipm
    from rayfed.channel.faults import LabelFlip as LabelFlip
    from rayfed.channel.faults import Mimic as Mimic
    from rayfed.channel.faults import Noise as Noise
    from rayfed.channel.faults import NotANumber as NotANumber
    from rayfed.channel.faults import Replay as Replay
    from rayfed.channel.faults import Scale as Scale
    from rayfed.channel.faults import Silent as Silent
else:
    __getattr__, __dir__ = exported("faults")
