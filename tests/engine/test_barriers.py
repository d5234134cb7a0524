"""Clocks of nodes that wait for their neighbours, against events and the longest cycle."""

import heapq

import networkx as nx
import numpy as np
import pytest

from rayfed.engine.barriers import Arcs, after_step, arcs
from rayfed.topology import Directed, EdgeList, Graphs, Ring

COMPUTE = np.array([1, 2.5, 3, 1.5])
LATENCY, UP = np.full(4, 0.125), np.array([16.0, 16, 8, 16])
DOWN = np.array([np.inf, np.inf, np.inf, 8])


def ring():
    return arcs(Graphs(Ring(), 4, 0).at(1), (LATENCY, DOWN, UP), 1e6)


def ready(links, overlap, steps):
    times = [np.zeros(4)]
    for _ in range(steps):
        times.append(after_step(times[-1], COMPUTE, links, overlap=overlap))
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
            now = after_step(now, compute[k], links, overlap=overlap)
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
            now = after_step(now, compute[k], links, overlap=overlap)
            np.testing.assert_allclose(now, times[k + 1], rtol=1e-14)


def test_a_node_without_links_waits_for_nobody():
    none = Arcs(np.empty(0, int), np.empty(0, int), np.empty(0))
    assert after_step(np.zeros(1), np.array([2.0]), none, overlap=False).tolist() == [2.0]
