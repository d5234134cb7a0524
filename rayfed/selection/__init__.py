"""Selection: which of the available clients take part in a round."""

from rayfed.selection.base import Choice, Selection, State, View, Wait
from rayfed.selection.simple import All, Uniform, Weighted

__all__ = ["All", "Choice", "Selection", "State", "Uniform", "View", "Wait", "Weighted"]
