"""Rules that take the place of the mean, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.channel.aggregators import Aggregator as Aggregator
    from rayfed.channel.aggregators import CentredClipping as CentredClipping
    from rayfed.channel.aggregators import GeometricMedian as GeometricMedian
    from rayfed.channel.aggregators import Krum as Krum
    from rayfed.channel.aggregators import Mean as Mean
    from rayfed.channel.aggregators import Median as Median
    from rayfed.channel.aggregators import MultiKrum as MultiKrum
    from rayfed.channel.aggregators import TrimmedMean as TrimmedMean
else:
    __getattr__, __dir__ = exported("aggregators")
