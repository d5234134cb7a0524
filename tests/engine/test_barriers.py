"""Clocks of nodes that wait for their neighbours, against events and the longest cycle."""

import heapq

import networkx as nx
import numpy as np
import pytest

from rayfed.engine.barriers import Arcs, after_step, arcs
from rayfed.topology import Directed, EdgeList, Graphs, Ring
from rayfed.topology.base import Routes
from rayfed.topology.mixing import mixing, with_missing

COMPUTE = np.array([1, 2.5, 3, 1.5])
LATENCY, UP = np.full(4, 0.125), np.array([16.0, 16, 8, 16])
DOWN = np.array([np.inf, np.inf, np.inf, 8])


def ring():
    return arcs(Graphs(Ring(), 4, 0).at(1), (LATENCY, DOWN, UP), 1e6)


def step(now, compute, links, overlap):
    return after_step(now, now + compute, links, overlap=overlap).over_s


def ready(links, overlap, steps):
    times = [np.zeros(4)]
    for _ in range(steps):
        times.append(step(times[-1], COMPUTE, links, overlap))
    return np.array(times)


def test_messages_share_both_ends():
    links = ring()
    found = {(j, i): s for j, i, s in zip(*map(np.ndarray.tolist, links[:3]), strict=True)}
    pairs = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (0, 3), (3, 0)]
    assert [found[pair] for pair in pairs] == [1.25, 1.25, 1.25, 2.25, 2.25, 1.25, 2.25, 1.25]


def test_step_first_on_a_ring_of_four():
    expected = [[3.75, 5.25, 3.75, 5.25], [9] * 4, [12.75, 14.25, 12.75, 14.25]]
    assert ready(ring(), False, 3)[1:].tolist() == expected


def test_mix_first_on_a_ring_of_four():
    times = ready(ring(), True, 3)
    assert times[1].tolist() == [1.25, 2.5, 3, 2.25]
    assert times[3].tolist() == [6.5, 8.25, 9, 8.25]


@pytest.mark.parametrize(("overlap", "seconds"), [(False, 4.5), (True, 3.0)])
def test_a_step_takes_the_largest_cycle_mean_in_the_long_run(overlap, seconds):
    times = ready(ring(), overlap, 404)
    assert (times[404] - times[4]).tolist() == [400 * seconds] * 4


def by_events(compute, links, overlap, steps):
    """Simulate messages one by one: a step ends when it is computed and all have come."""
    n = len(compute[0])
    senders = [set(links.sender[links.receiver == i].tolist()) for i in range(n)]
    delay = {(j, i): s for j, i, s in zip(*map(np.ndarray.tolist, links[:3]), strict=True)}
    missing = {(i, k): len(senders[i]) + 1 for i in range(n) for k in range(1, steps + 1)}
    times, events = np.zeros((steps + 1, n)), []

    def begin(j, k, now):
        if k > steps:
            return
        done = now + compute[k - 1][j]
        heapq.heappush(events, (done, j, k))
        for i in range(n):
            if (j, i) in delay:
                heapq.heappush(events, ((now if overlap else done) + delay[j, i], i, k))

    for j in range(n):
        begin(j, 1, 0.0)
    while events:
        now, i, k = heapq.heappop(events)
        missing[i, k] -= 1
        if not missing[i, k]:
            times[k, i] = now
            begin(i, k + 1, now)
    return times


@pytest.mark.parametrize("overlap", [False, True])
def test_against_events_one_by_one(overlap):
    stream = np.random.default_rng(7)
    for case in range(150):
        n, steps = int(stream.integers(2, 8)), 6
        edges = nx.gnp_random_graph(n, 0.6, seed=case).edges
        graph = EdgeList(n, np.array(edges).reshape(-1, 2))
        links = arcs(graph, (stream.random(n), *stream.uniform(1, 9, (2, n))), 1e6)
        compute = stream.lognormal(size=(steps, n))
        times = by_events(compute, links, overlap, steps)
        now = np.zeros(n)
        for k in range(steps):
            now = step(now, compute[k], links, overlap)
            np.testing.assert_array_equal(now, times[k + 1])


@pytest.mark.parametrize("overlap", [False, True])
def test_arcs_against_events_one_by_one(overlap):
    """Every second graph is of nodes that wait for all: notes without bytes are further arcs."""
    stream = np.random.default_rng(8)
    for case in range(150):
        n, steps = int(stream.integers(2, 8)), 6
        graph = Directed(n, np.argwhere(stream.random((n, n)) < 0.4))
        latency = stream.random(n)
        links = arcs(graph, (latency, *stream.uniform(1, 9, (2, n))), 1e6)
        told = links
        if case % 2:
            sent = set(zip(links.sender.tolist(), links.receiver.tolist(), strict=True))
            notes = [(j, i) for j in range(n) for i in range(n) if i != j and (j, i) not in sent]
            j, i = np.array(notes, int).reshape(-1, 2).T
            told = Arcs(*(np.append(a, b) for a, b in zip(
                links[:3], (j, i, latency[j] + latency[i]), strict=True
            )))  # fmt: skip
            links = links._replace(latency=latency)
        compute = stream.lognormal(size=(steps, n))
        times, now = by_events(compute, told, overlap, steps), np.zeros(n)
        for k in range(steps):
            done_s = now + compute[k]
            end = after_step(now, done_s, links, overlap=overlap)
            news = (now if overlap else done_s)[told.sender] + told.seconds
            for i, last in enumerate(end.last.tolist()):
                came = {-1: done_s[i], **{
                    told.sender[a]: news[a] for a in np.flatnonzero(told.receiver == i)
                }}  # fmt: skip
                assert came[last] == pytest.approx(max(came.values()), rel=1e-14)
                assert last >= 0 or end.over_s[i] == done_s[i]
            now = end.over_s
            np.testing.assert_allclose(now, times[k + 1], rtol=1e-14)


def by_events_with_absences(task, links, overlap, shape, patience_s, over_s=lambda i, now, _: now):
    """Simulate messages, notices and timers one by one; at an instant timers come last.

    `task` (node, step, now) returns when a task is over, and whether its node sends and mixes;
    `over_s` (node, now, active nodes) when a node that waits for nothing more goes on.
    """
    (steps, n), active = shape, np.zeros(shape, bool)
    ways = list(enumerate(zip(*map(np.ndarray.tolist, links[:3]), strict=True)))
    waits = np.tile(1 + np.bincount(links.receiver, minlength=n), (steps, 1))
    times, heard, events = np.zeros((steps + 1, n)), np.zeros((steps, len(ways)), bool), []

    def begin(j, k, now):
        done, active[k, j] = task(j, k, now)
        sent = now if overlap else done
        push(done, 0, j, k, -1)
        push(done + patience_s if active[k, j] else np.inf, 1, j, k, -1)
        for a, (_, to, seconds) in (way for way in ways if way[1][0] == j):
            push(sent + seconds if active[k, j] else done, 0, to, k, a if active[k, j] else -1)

    def push(*event):
        heapq.heappush(events, event)

    for j in range(n):
        begin(j, 0, 0.0)
    while events and (event := heapq.heappop(events))[0] < np.inf:
        now, timer, i, k, arc = event
        if waits[k, i] <= 0:  # it has gone on
            continue
        waits[k, i] -= not timer
        if arc >= 0:
            heard[k, arc] = True
        if timer or not waits[k, i]:
            now = over_s(i, now, active[k])
            waits[k, i], times[k + 1, i] = 0, now
            if k + 1 < steps:
                begin(i, k + 1, now)
    return times, heard & active[:, links.receiver]


@pytest.mark.parametrize("overlap", [False, True])
def test_absences_and_patience_against_events_one_by_one(overlap):
    """All times are multiples of 1/4, so that many events share an instant."""
    stream = np.random.default_rng(11)
    for case in range(150):
        n, steps = int(stream.integers(2, 7)), 6
        graph = Directed(n, np.argwhere(stream.random((n, n)) < 0.5))
        links = arcs(graph, (np.ones(n), np.full(n, np.inf), np.full(n, np.inf)), 1e6)
        links = links._replace(seconds=stream.integers(0, 8, len(links.sender)) / 4)
        compute = stream.integers(1, 9, (steps, n)) * 2.0
        spent = stream.choice([0, 0.5, 1], size=(steps, n), p=[0.2, 0.2, 0.6])
        patience_s = np.inf if case % 3 == 0 else float(stream.integers(1, 9))

        def task(j, k, now, compute=compute, spent=spent):
            return now + compute[k, j] * spent[k, j], spent[k, j] == 1

        times, heard = by_events_with_absences(task, links, overlap, (steps, n), patience_s)
        now = np.zeros(n)
        for k in range(steps):
            done_s, active = now + compute[k] * spent[k], spent[k] == 1
            end = after_step(
                now, done_s, links, overlap=overlap, active=active, patience_s=patience_s
            )
            np.testing.assert_array_equal(end.over_s, times[k + 1])
            np.testing.assert_array_equal(end.heard, heard[k])
            both = active[links.sender] & active[links.receiver]
            assert end.missed == both.sum() - heard[k].sum()
            sent = np.where(overlap & active, now, done_s)
            for i, found in enumerate(end.last.tolist()):
                news = [
                    (sent[j] + seconds * active[j], -j)
                    for j, to, seconds in zip(*map(np.ndarray.tolist, links[:3]), strict=True)
                    if to == i
                ]
                last_s, last = max(news, default=(0, 1))
                assert found == (-last if last_s > done_s[i] else -1)
            now = end.over_s


def test_patience_can_leave_the_rows_of_one_node():
    """With 1.5 s on the ring of four the fastest node hears nobody in the long run."""
    links, now, weights = ring(), np.zeros(4), np.eye(4)
    w = mixing(Graphs(Ring(), 4, 0).at(1), np.ones(4))
    for _ in range(400):
        end = after_step(now, now + COMPUTE, links, overlap=False, patience_s=1.5)
        weights, now = with_missing(w, end.heard, "symmetric") @ weights, end.over_s
    assert not end.heard[links.receiver == 0].any()
    np.testing.assert_allclose(weights - weights[0], 0, atol=1e-12)
    last = with_missing(w, end.heard, "symmetric").toarray()
    np.testing.assert_allclose(np.linalg.matrix_power(last, 400)[:, 0], 1, atol=1e-12)


def test_a_node_without_links_waits_for_nobody():
    none = Arcs(np.empty(0, int), np.empty(0, int), np.empty(0))
    assert step(np.zeros(1), np.array([2.0]), none, False).tolist() == [2.0]


def test_routes_add_their_latency_and_limit_the_rate():
    """A megabyte at 4 Mbit/s of the link takes 2 s, at 16 Mbit/s of the sender 0.5 s."""
    graph = EdgeList(3, [[0, 1], [1, 2]])
    links = np.zeros(3), np.full(3, np.inf), np.full(3, 32.0)
    routes = Routes(3, np.array([1, 3]), np.array([0.25, 0.0]), np.array([4.0, np.inf]))
    found = arcs(graph, links, 1e6, routes)
    seconds = dict(zip(zip(found.sender, found.receiver, strict=True), found.seconds, strict=True))
    assert seconds == {(0, 1): 2.25, (1, 0): 0.5, (1, 2): 0.5, (2, 1): 0.25}
