"""What mixes vectors before a rule, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.channel.mixers import Buckets as Buckets
    from rayfed.channel.mixers import Mixer as Mixer
    from rayfed.channel.mixers import NearestNeighbours as NearestNeighbours
else:
    __getattr__, __dir__ = exported("mixers")
