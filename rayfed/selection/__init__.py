"""Selection: which of the available clients take part in a round."""

from rayfed.messages import State, Wait
from rayfed.selection.base import CONNECTED, POSITION, REPAIRED, Choice, Selection, SelectionView
from rayfed.selection.simple import All, Uniform, Weighted

__all__ = [
    "CONNECTED",
    "POSITION",
    "REPAIRED",
    "All",
    "Choice",
    "Selection",
    "SelectionView",
    "State",
    "Uniform",
    "Wait",
    "Weighted",
]  # fmt: skip
