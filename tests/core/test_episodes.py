"""Rounds of episodes, one by one."""

import numpy as np
import pytest

from rayfed.core.episodes import Episodes
from rayfed.core.errors import ScenarioError


@pytest.mark.parametrize("every", [None, 3, 4, 7])
@pytest.mark.parametrize("lasts", [None, 1, 2])
@pytest.mark.parametrize("start", [1, 4])
def test_rounds_are_those_of_a_loop(start, lasts, every):
    if lasts is None and every is not None:
        return
    end = None if lasts is None else start + lasts - 1
    episodes, expected = Episodes(start=start, end=end, every=every), set()
    for first in range(start, 31, every or 99):
        expected |= set(range(first, 31 if end is None else first + lasts))
    rounds = np.arange(1, 31)
    assert episodes.active(rounds).tolist() == [r in expected for r in range(1, 31)]
    assert [bool(episodes.active(r)) for r in range(1, 31)] == episodes.active(rounds).tolist()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"start": 5, "end": 4}, "end: found 4, before start, 5; give a later round"),
        ({"every": 5}, "every: found 5, but the episode lasts for good; give an earlier end"),
        ({"start": 2, "end": 4, "every": 3}, "every: found 3, but the episode lasts for 3 rounds"),
    ],
)
def test_episodes_that_never_pause_are_refused(settings, message):
    with pytest.raises(ScenarioError, match=message):
        Episodes(**settings)
