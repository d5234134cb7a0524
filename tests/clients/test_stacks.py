"""Stacks of rows that are kept, and forgotten."""

import numpy as np
import pytest

from rayfed.clients.stacks import Stacks


def test_the_stacks_forget_what_was_used_longest_ago():
    class Held:
        def __init__(self, size):
            self.X = np.zeros(size // 8)
            self.y = self.w = np.zeros(0)

    stacks = Stacks(limit=2000)
    for key in "abcaabbc":
        stacks.get(key, lambda: Held(400))
    assert stacks.cache.keys == ["b", "c"]
    stacks.get("b", lambda: pytest.fail("it is held"))
    for key in "dd":
        stacks.get(key, lambda: Held(400))
    assert stacks.cache.keys == ["b", "d"]


def test_stacks_that_never_recur_are_not_kept():
    stacks = Stacks()
    for key in range(10_000):
        stacks.get(key, lambda: None)
    assert not stacks.cache.keys
    assert len(stacks.asked) < 5000
