"""Faults of clients, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.channel.faults.alie import Alie as Alie
    from rayfed.channel.faults.base import Fault as Fault
    from rayfed.channel.faults.bit_flip import BitFlip as BitFlip
    from rayfed.channel.faults.ipm import Ipm as Ipm
    from rayfed.channel.faults.label_flip import LabelFlip as LabelFlip
    from rayfed.channel.faults.mimic import Mimic as Mimic
    from rayfed.channel.faults.noise import Noise as Noise
    from rayfed.channel.faults.not_a_number import NotANumber as NotANumber
    from rayfed.channel.faults.replay import Replay as Replay
    from rayfed.channel.faults.scale import Scale as Scale
    from rayfed.channel.faults.silent import Silent as Silent
else:
    __getattr__, __dir__ = exported("faults")
