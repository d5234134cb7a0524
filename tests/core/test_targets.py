"""Descriptions of targets."""

import numpy as np

from rayfed.core.targets import Targets


def test_targets_are_described_by_shape_and_classes():
    assert Targets.of(np.zeros(3)) is None
    assert Targets.of(np.zeros((3, 0))) == Targets((0,))
    assert Targets.of(np.ones((3, 2))) == Targets((2,))
    assert Targets.of(np.array([[0, 4], [-100, 1]])) == Targets((2,), 5, ignores=True)


def test_phrases_of_messages():
    texts = [str(Targets((0,))), str(Targets((2, 3))), str(Targets((4,), 2))]
    assert texts == [
        "no targets", "targets of shape (2, 3), numbers", "targets of shape (4,), classes",
    ]  # fmt: skip
