"""How many clients have to be there before a round begins, and what it does until then."""

import numpy as np
import pytest

from rayfed import api, testing
from rayfed.core.errors import RunFailed, ScenarioError
from tests.fakes.stepping import step

TURNS = {"name": "cyclic", "groups": 4, "period_s": 10.0}
PAIR = {"ids": [0, 1], "availability": {"name": "cyclic", "groups": 2, "period_s": 20.0}}
# clients 0 and 1 are there in [0, 20) of every 40 s, 2 in [20, 30), 3 in [30, 40)


def scenario(mixed, **participation):
    made = mixed(
        algorithms=[{"name": "fedavg", "local": {"steps": 5, "batch": 2, "lr": 0.01}}],
        clients={
            "count": 4, "delay": {"name": "constant", "mean_s": 1.0},
            "availability": TURNS, "groups": [PAIR],
        },
    )  # fmt: skip
    return {**made, "participation": {"select": "all", **participation}}


def loop_of(made):
    (run,) = (plan := api.prepare(api.read(made))).runs
    return testing.loop(plan, run)


def rounds_of(made, number):
    """When each round ends, and who took part."""
    loop = loop_of(made)
    state, _ = loop.start()
    seen = []
    for _ in range(number):
        state, row, events = step(loop, state)
        seen.append((row["time_s"], *(e for part in events for e in part["client"].tolist())))
    return seen


FIRST = [(5.0, 0, 1), (10.0, 0, 1), (15.0, 0, 1), (20.0, 0, 1)]


@pytest.mark.parametrize(
    ("how", "then"),
    [
        ({}, [(25.0, 2), (30.0, 2), (35.0, 3), (40.0, 3), (45.0, 0, 1)]),
        ({"minimum": 2}, [(45.0, 0, 1), (50.0, 0, 1), (55.0, 0, 1), (60.0, 0, 1), (85.0, 0, 1)]),
        ({"minimum": 2, "if_fewer": "skip"}, [(30.0,), (40.0,), (45.0, 0, 1), (50.0, 0, 1)]),
        ({"minimum": 2, "patience_s": 6.0}, [(26.0,), (32.0,), (38.0,), (45.0, 0, 1)]),
        ({"minimum": 2, "patience_s": 20.0}, [(45.0, 0, 1), (50.0, 0, 1)]),
        ({"minimum": 2, "patience_s": 1e9}, [(45.0, 0, 1), (50.0, 0, 1)]),
    ],
)
def test_a_round_begins_when_enough_are_there(mixed, how, then):
    made = scenario(mixed, **how)
    assert rounds_of(made, 4 + len(then)) == FIRST + then


def test_more_than_ever_come_are_waited_for_until_the_limit(mixed, monkeypatch):
    monkeypatch.setattr("rayfed.engine.rounds.MOST_CHANGES", 7)
    with pytest.raises(RunFailed, match="round 1: after 7 changes of availability"):
        rounds_of(scenario(mixed, minimum=3), 1)


def test_clients_at_work_for_an_earlier_round_are_not_there(mixed):
    """Client 1 takes 5 s, client 0 30 s: it is there for two rounds, but at work."""
    slow = {"ids": [0], "delay": {"name": "constant", "mean_s": 6.0}}
    made = scenario(mixed, minimum=2, deadline_s=5.0, late="stale")
    made["clients"] |= {"count": 2, "availability": "always", "groups": [slow]}
    assert rounds_of(made, 2) == [(5.0, 1), (35.0, 1, 0)]


def test_where_availability_goes_by_rounds_a_round_with_too_few_passes(mixed):
    made = scenario(mixed, minimum=3)
    made["clients"] |= {"availability": {"name": "bernoulli", "p": 0.6}, "groups": []}
    loop = loop_of(made)
    there = loop.run.federation.population.available
    expected = [np.flatnonzero(there(np.arange(4), 0.0, r)).tolist() for r in range(1, 13)]
    assert {len(ids) >= 3 for ids in expected} == {True, False}
    found = [list(ids) for _, *ids in rounds_of(made, 12)]
    assert found == [ids if len(ids) >= 3 else [] for ids in expected]


def test_a_run_that_nothing_can_end_fails(mixed, tmp_path):
    """The trace ends at 20 s; the rule is on the clock, which then stands still."""
    file = tmp_path / "trace.csv"
    file.write_text("client,start_s,end_s\n0,0,20\n1,0,20\n")
    made = scenario(mixed)
    made["clients"] |= {"availability": {"name": "trace", "file": str(file)}, "groups": []}
    del made["rounds"]
    with pytest.raises(RunFailed, match="at 20 s no client is available, and no changes"):
        rounds_of(made | {"stop": {"time_s": 100.0}}, 6)
    assert rounds_of(made | {"rounds": 6}, 6)[4:] == [(20.0,), (20.0,)]


def test_a_run_fails_where_nobody_is_available_in_any_round_to_come(mixed):
    """By rounds, too: the clock stands still, and no round has participants."""
    made = scenario(mixed)
    del made["rounds"]
    made["stop"] = {"time_s": 1e6}
    made["clients"] |= {"availability": {"name": "bernoulli", "p": 0.0, "start": 5}, "groups": []}
    with pytest.raises(RunFailed, match=r"round 5: at .* s no client is available, and no changes"):
        rounds_of(made, 9)
    made["clients"]["availability"] = {"name": "bernoulli", "p": 0.0, "start": 5, "end": 7}
    assert [len(row) > 1 for row in rounds_of(made, 9)] == 4 * [True] + 3 * [False] + 2 * [True]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"minimum": 5}, "found 5, but there are 4 clients"),
        ({"minimum": 2, "select": "walk"}, "'walk' decides itself which clients take part"),
        ({"minimum": 2, "select": "uniform"}, "is asynchronous and has no rounds"),
    ],
)
def test_what_does_not_fit_is_refused(mixed, changes, found):
    made = scenario(mixed, **changes) | {"topology": "ring"}
    if "asynchronous" in found:
        made["algorithms"] = ["fedbuff"]
    with pytest.raises(ScenarioError, match=found) as error:
        api.prepare(api.read(made))
    assert error.value.place == "participation.minimum"
