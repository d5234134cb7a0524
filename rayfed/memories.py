"""Memories of what codecs leave out, by the names of their classes."""

from typing import TYPE_CHECKING

from rayfed.core.plugins import exported

if TYPE_CHECKING:  # for editors: `make exports` writes it
    from rayfed.channel.base import Memory as Memory
    from rayfed.channel.memory import DIANA as DIANA
    from rayfed.channel.memory import EF21 as EF21
    from rayfed.channel.memory import EF21Plus as EF21Plus
    from rayfed.channel.memory import ErrorFeedback as ErrorFeedback
else:
    __getattr__, __dir__ = exported("memories")
