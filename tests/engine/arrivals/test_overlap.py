"""Uploads behind the next task: times by hand, for both kinds of links, and what is refused."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from rayfed import api, testing
from rayfed.core.errors import ScenarioError
from rayfed.engine.clock import Duration, Times
from rayfed.engine.stages import Overlap
from rayfed.engine.tasks import LATE, USED, Task, Tasks
from rayfed.engine.timeline import Timeline
from tests.chaos.case import Case, run_case
from tests.chaos.faults import Fault
from tests.fakes.stepping import step

DOWN_S, UP_S = 2.0, 4.0
NETWORK = {"down_mbps": 32e-6, "up_mbps": 16e-6}  # for the 8 bytes of a model
HALF = NETWORK | {"duplex": "half"}


def scenario(name="fedasync", count=1, steps=3, **changes):
    """Return clients that download in 2 s, compute for `steps` seconds and upload in 4 s."""
    made = {
        "name": "overlapped", "rounds": 3,
        "problem": {
            "name": "quadratic", "dataset": {"name": "quadratic", "clients": count, "features": 1},
        },
        "clients": {"delay": {"name": "constant", "mean_s": 1.0}, "network": NETWORK},
        "participation": {"select": "all"},
        "algorithms": [
            {"name": name, "overlap": True, "local": {"steps": steps, "batch": "full", "lr": 1e-3}}
        ],
        "executor": "serial",
    }  # fmt: skip
    return {**made, **changes, "clients": made["clients"] | changes.get("clients", {})}


def walked(made, *, anew=False):
    """Return the events of a run, and how many clients were free where rows ended.

    With `anew` every row begins from the values of a checkpoint.
    """
    loop = testing.loop(made)
    state, _ = loop.start()
    parts, free = [], 0
    for _ in range(loop.run.ending.rounds):
        state, _, ended = step(loop, state)
        parts += ended
        stages = state.timeline.stages
        free += len(stages.ready) if stages else 0
        if anew:
            state = replace(state, timeline=Timeline.of(state.timeline.arrays()))
    return {
        name: np.concatenate([part[name] for part in parts]).tolist() for name in parts[0]
    }, free


def events(made, status=USED):
    """Return the rows of works with a status: client, start, end, version, staleness."""
    found, _ = walked(made)
    names = ("client", "start_s", "end_s", "version", "staleness")
    rows = zip(*(found[name] for name in names), strict=True)
    mine = [row for row, word in zip(rows, found["status"], strict=True) if word == status]
    return sorted(mine, key=lambda row: (row[2], row[0]))


class TestByHand:
    """One client; the server mixes each reply in as it arrives."""

    def test_transfers_take_what_is_said(self):
        (run,) = api.prepare(api.read(scenario())).runs
        population = run.federation.population
        assert [s.tolist() for s in population.transfer_s([0], 8, 8)] == [[DOWN_S], [UP_S]]

    def test_without_overlap_one_work_follows_the_other(self):
        made = scenario()
        made["algorithms"][0]["overlap"] = False
        found = events(made)
        assert found == [(0, 0.0, 9.0, 0, 0), (0, 9.0, 18.0, 1, 0), (0, 18.0, 27.0, 2, 0)]

    def test_a_full_duplex_link_sends_behind_download_and_computing(self):
        """Computed at 5 s, sent until 9 s; meanwhile received until 7 s, computed at 10 s."""
        found = events(scenario())
        assert found == [(0, 0.0, 9.0, 0, 0), (0, 5.0, 14.0, 0, 1), (0, 10.0, 19.0, 1, 1)]

    def test_a_half_duplex_link_receives_first(self):
        """Computed at 5 s, received until 7 s, sent until 11 s; computed again at 10 s.

        The next download begins at 11 s, when the client has sent, and lasts until 13 s.
        """
        found = events(scenario(clients={"network": HALF}))
        assert found == [(0, 0.0, 11.0, 0, 0), (0, 5.0, 17.0, 0, 1), (0, 11.0, 23.0, 1, 1)]

    def test_long_computing_hides_the_upload_altogether(self):
        """Eight seconds: every 10 s a reply, 4 s after it is computed, or 6 s on a half link."""
        full = events(scenario(steps=8))
        half = events(scenario(steps=8, clients={"network": HALF}))
        assert [row[2] for row in full] == [14.0, 24.0, 34.0]
        assert [row[2] for row in half] == [16.0, 26.0, 36.0]

    def test_a_client_sends_one_reply_at_a_time(self):
        """Computed at 3 s and sent until 7 s; computed again at 6 s, it waits for that."""
        found = events(scenario(steps=1))
        assert [row[1:3] for row in found] == [(0.0, 7.0), (3.0, 11.0), (7.0, 15.0)]

    def test_a_place_is_free_when_its_client_has_computed(self):
        """One place for three clients, each of whom takes it for 5 s and then sends for 4 s."""
        made = scenario(count=3, rounds=6, participation={"cohort": 1})
        found = events(made)
        assert [row[1:3] for row in found] == [(5.0 * k, 5.0 * k + 9.0) for k in range(6)]
        assert len({row[0] for row in found}) > 1

    def test_work_that_is_timed_out_frees_the_link(self):
        """Sent from 5 s on, given up at 6 s; the next began at 5 s and is given up at 11 s."""
        made = scenario(participation={"select": "all", "timeout_s": 6.0}, rounds=1)
        assert [row[1:3] for row in events(made, LATE)] == [(0.0, 6.0), (5.0, 11.0)]


def row(client, serial):
    return Task(*[0] * len(Task._fields))._replace(client=client, serial=serial)


def task(*seconds):
    steps = np.ones(1, dtype=int)
    duration = Duration(steps, *(np.array([s]) for s in seconds))
    return Times(duration, *np.zeros((5, 1)))


@pytest.mark.parametrize(("half", "computed_s"), [(True, 14.0), (False, 11.0)])
def test_a_download_waits_for_an_upload_that_is_under_way(half, computed_s):
    """Computed at 5 s and sent until 9 s; asked again at 6 s: 2 s to receive, 3 s to compute."""
    links = SimpleNamespace(half_duplex=lambda ids: np.array([half]))
    overlap = Overlap()
    overlap.begin(0.0, Tasks.of([row(7, 1)]), task(2.0, 3.0, 4.0), links)
    assert overlap.next_s == 5.0
    moved = overlap.advance(5.0)
    assert (list(moved.arrived), moved.free) == ([], [7])
    overlap.send(5.0)
    overlap.begin(6.0, Tasks.of([row(7, 2)]), task(2.0, 3.0, 4.0), links)
    overlap = Overlap.of(overlap.arrays())
    assert overlap.next_s == 9.0
    moved = overlap.advance(9.0)
    assert (list(moved.arrived), moved.free) == ([1], [])
    assert overlap.next_s == computed_s
    assert overlap.leave(9.0, row(7, 2))
    assert overlap.next_s == np.inf


def test_what_waits_behind_a_transfer_that_is_given_up_begins_then():
    """On a half-duplex link: 2 s to receive, 3 s to compute, 4 s to send.

    Sent from 5 s on and given up at 7 s, what was asked for at 6 s is received until 9 s and
    computed at 12 s. A download from 5 s on that is given up at 6 s leaves the link to the upload
    behind it, which arrives at 10 s.
    """
    links = SimpleNamespace(half_duplex=lambda ids: np.array([True]))
    for asked_s, given_up, given_up_s, next_s in ((6.0, 1, 7.0, 12.0), (5.0, 2, 6.0, 10.0)):
        overlap = Overlap()
        overlap.begin(0.0, Tasks.of([row(7, 1)]), task(2.0, 3.0, 4.0), links)
        overlap.advance(5.0)
        if asked_s > 5.0:
            overlap.send(5.0)
        overlap.begin(asked_s, Tasks.of([row(7, 2)]), task(2.0, 3.0, 4.0), links)
        overlap = Overlap.of(overlap.arrays())
        assert overlap.leave(given_up_s, row(7, given_up)) == (given_up == 2)
        assert overlap.next_s == next_s


def by_recurrence(run, duplex, horizon_s):
    """Return client, start and end of all tasks that arrive, client by client."""
    population, rows = run.federation.population, []
    for client in range(population.count):
        down, up = (s[0] for s in population.transfer_s([client], 8, 8))
        start, free_up, number = 0.0, 0.0, 0  # when it begins, and when its upload before has left
        while start < horizon_s:
            number += 1
            compute = 3 * population.seconds_per_step([client], number, 0)[0]
            computed = start + down + compute
            free = max(computed, free_up)
            wait = down if duplex == "half" else 0.0  # the next download comes first
            free_up = free + wait + up
            rows.append((client, start, free_up))
            start = free
    return sorted(row for row in rows if row[2] < horizon_s)


@pytest.mark.parametrize("duplex", ["full", "half"])
def test_agrees_with_a_recurrence_for_each_client(duplex):
    delay = {"name": "exponential", "mean_s": 1.0}
    slow = {"ids": [1], "network": HALF | {"up_mbps": 8e-6, "duplex": duplex}}
    made = scenario(
        "fedbuff", 4, rounds=15,
        clients={"delay": delay, "network": HALF | {"duplex": duplex}, "groups": [slow]},
    )  # fmt: skip
    made["algorithms"][0]["buffer"] = 3
    (run,) = api.prepare(api.read(made)).runs
    found = events(made)
    last_s = found[-1][2]
    wanted = by_recurrence(run, duplex, last_s)
    np.testing.assert_allclose(sorted(row[:3] for row in found if row[2] < last_s), wanted)
    assert len(wanted) > 30
    assert max(row[4] for row in found) > 1


@pytest.mark.guard
def test_on_other_hosts_and_after_a_kill_the_bytes_are_the_same(tmp_path):
    made = scenario("ca2fl", 5, rounds=12, checkpoint={"every_s": 0}, clients={
        "delay": {"name": "exponential", "mean_s": 1.0}, "network": HALF | {"loss": 0.2},
        "availability": {"name": "markov", "mean_on_s": 30.0, "mean_off_s": 9.0},
    })  # fmt: skip
    made["algorithms"][0]["buffer"] = 2
    case = Case(0, made, 2, 0.5, (Fault("kill", 0.6, 0.5),), page=False, ray=False)
    outcome = run_case(case, tmp_path)
    assert outcome.findings == []
    assert outcome.runs == {"finished": 1}


def test_a_checkpoint_holds_who_computes_and_who_sends():
    """Some rows end when a client is free and has not been asked yet."""
    made = scenario(count=4, rounds=25, clients={"network": HALF})
    calm, free = walked(made)
    assert repr(calm) == repr(walked(made, anew=True)[0])
    assert free > 0


@pytest.mark.parametrize(
    ("changes", "place", "found"),
    [
        ({"name": "fedat"}, "algorithms.0.overlap", "'fedat' starts its clients together"),
        (
            {"participation": {"interrupted": "resume"}},
            "participation.interrupted",
            "interrupted: resume needs clients that send after",
        ),
        (
            {"server": {"uploads_mbps": 1.0}},
            "algorithms.0.overlap",
            "the server shares its bandwidth",
        ),
    ],
)
def test_settings_that_contradict_overlap_are_refused(changes, place, found):
    with pytest.raises(ScenarioError, match=found) as error:
        api.prepare(api.read(scenario(**changes)))
    assert error.value.place == place
