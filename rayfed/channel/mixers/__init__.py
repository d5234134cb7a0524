"""Mixers: what is made of vectors before a robust rule sees them; one per file."""

from rayfed.channel.mixers.base import Mixer

__all__ = ["Mixer"]
