"""Stages of the channel, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.channel.base import Stage as Stage
    from rayfed.channel.codecs.power_sgd import PowerSGD as PowerSGD
    from rayfed.channel.codecs.quantisers import QSGD as QSGD
    from rayfed.channel.codecs.quantisers import Natural as Natural
    from rayfed.channel.codecs.quantisers import Sign as Sign
    from rayfed.channel.codecs.sparsifiers import RandK as RandK
    from rayfed.channel.codecs.sparsifiers import TopK as TopK
    from rayfed.channel.stages import Clip as Clip
    from rayfed.channel.stages import SecureSum as SecureSum
else:
    __getattr__, __dir__ = exported("stages")
