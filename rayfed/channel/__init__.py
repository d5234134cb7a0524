"""The channel between clients and server: stages, codecs, memories, rules, faults."""

from typing import TYPE_CHECKING

from rayfed.channel.base import Codec, Draws, Shape
from rayfed.core.plugins import lazy

__all__ = [
    "Codec",
    "Draws",
    "Shape",
]

if TYPE_CHECKING:  # for editors and type checkers; a test compares the list
    from rayfed.channel.aggregators import Aggregator as Aggregator
    from rayfed.channel.aggregators import CentredClipping as CentredClipping
    from rayfed.channel.aggregators import GeometricMedian as GeometricMedian
    from rayfed.channel.aggregators import Krum as Krum
    from rayfed.channel.aggregators import Mean as Mean
    from rayfed.channel.aggregators import Median as Median
    from rayfed.channel.aggregators import MultiKrum as MultiKrum
    from rayfed.channel.aggregators import TrimmedMean as TrimmedMean
    from rayfed.channel.base import Memory as Memory
    from rayfed.channel.base import Stage as Stage
    from rayfed.channel.codecs.power_sgd import PowerSGD as PowerSGD
    from rayfed.channel.codecs.quantisers import QSGD as QSGD
    from rayfed.channel.codecs.quantisers import Natural as Natural
    from rayfed.channel.codecs.quantisers import Sign as Sign
    from rayfed.channel.codecs.sparsifiers import RandK as RandK
    from rayfed.channel.codecs.sparsifiers import TopK as TopK
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
    from rayfed.channel.memory import DIANA as DIANA
    from rayfed.channel.memory import EF21 as EF21
    from rayfed.channel.memory import EF21Plus as EF21Plus
    from rayfed.channel.memory import ErrorFeedback as ErrorFeedback
    from rayfed.channel.mixers import Buckets as Buckets
    from rayfed.channel.mixers import Mixer as Mixer
    from rayfed.channel.mixers import NearestNeighbours as NearestNeighbours
    from rayfed.channel.stages import Clip as Clip
    from rayfed.channel.stages import SecureSum as SecureSum
else:
    __getattr__, __dir__ = lazy(__name__)
