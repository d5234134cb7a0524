"""The channel: what becomes of vectors on their way between clients and server."""

from rayfed.channel.base import Codec, Draws, Memory, Shape, Stage

__all__ = ["Codec", "Draws", "Memory", "Shape", "Stage"]
