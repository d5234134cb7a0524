"""Who takes Newton steps."""

from dataclasses import replace

import numpy as np
import pytest

from rayfed.algorithms.fedhybrid.newton import newton_clients
from rayfed.core.errors import ScenarioError
from rayfed.population import ConstantDelay, Group, Population, Stragglers

N = 20
CROWD = Population(N, seed=3)


def test_a_number_and_a_share_choose_by_the_seed():
    few = newton_clients(5, CROWD)
    assert len(few) == len(set(few)) == 5
    assert few == tuple(sorted(few)) == newton_clients(0.25, CROWD)
    assert set(few) < set(newton_clients(8, CROWD))  # more are these and others
    assert few != newton_clients(5, replace(CROWD, seed=4))
    assert newton_clients(0, CROWD) == ()


def test_everybody_may_be_asked_for_in_three_ways():
    assert newton_clients("all", CROWD) == newton_clients(N, CROWD) == newton_clients(1.0, CROWD)
    assert newton_clients("all", CROWD) == tuple(range(N))
    assert len(newton_clients(1, CROWD)) == 1


def test_ids_are_taken_as_they_are():
    assert newton_clients((6, 0), CROWD) == (0, 6)


def test_the_fastest_have_the_shortest_steps_and_ties_go_to_low_ids():
    fast = Group(ids=(7, 11), delay=ConstantDelay(mean_s=0.1))
    crowd = replace(CROWD, groups=(fast,))
    assert newton_clients("fastest 2", crowd) == (7, 11)
    assert newton_clients("fastest 20%", crowd) == (0, 1, 7, 11)


def test_stragglers_are_not_the_fastest():
    crowd = replace(CROWD, stragglers=Stragglers(fraction=0.5, slowdown=3))
    slow = np.flatnonzero(crowd.straggles(np.arange(N)))
    assert len(slow) == 10
    assert not set(newton_clients("fastest 50%", crowd)) & set(slow.tolist())


@pytest.mark.parametrize(
    ("newton", "message"),
    [
        (21, "found 21 Newton clients of 20; give at most 20"),
        ("fastest 21", "found 21 Newton clients of 20"),
        (
            "slowest 3",
            "found 'slowest 3'; give a number, a share, ids, all, fastest 5 or fastest 25%",
        ),
        ((3, 20), "found client 20"),
        ((3, 1, 3), "found client 3 twice; list it once"),
    ],
)
def test_newton_clients_that_do_not_exist(newton, message):
    with pytest.raises(ScenarioError, match=message):
        newton_clients(newton, CROWD)


def test_half_a_client_is_rounded_to_even():
    crowd = Population(75, 0)
    assert len(newton_clients(0.82, crowd)) == 62  # of 61.5
    assert len(newton_clients("fastest 82%", crowd)) == 62
