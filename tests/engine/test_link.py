"""Transfers that share a link: by hand, by identities, and against another simulation."""

import math
from fractions import Fraction
from heapq import heapify, heappop

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayfed.engine.link import Link

INF = math.inf
CASES = 200


def ends_of(capacity, start_s, size, cap, stop_s):
    """Drive a link: starts (K,), bytes of each, caps (K,), and when each is broken off (K,)."""
    link, ends = Link(capacity), np.full(len(start_s), math.inf)
    starts = [(t, k) for k, t in enumerate(start_s.tolist())
              if t < stop_s[k] or (t == stop_s[k] and not size)]  # fmt: skip
    stops = [(t, k) for k, t in enumerate(stop_s.tolist()) if t < math.inf]
    caps = cap.tolist()
    heapify(starts)
    heapify(stops)
    while starts or link.transfers:
        moments = [link.next_s, *(heap[0][0] for heap in (starts, stops) if heap)]
        now_s, begin = min(moments), []
        while starts and starts[0][0] <= now_s:
            k = heappop(starts)[1]
            begin.append((k, size, caps[k]))
        ends[link.change(now_s, begin)] = now_s
        while stops and stops[0][0] <= now_s:
            link.leave(now_s, heappop(stops)[1])
    return ends


def ends(capacity, start, size, cap=INF, stop=INF):
    start = np.array(start, dtype=float)
    cap, stop = (np.broadcast_to(np.asarray(v, dtype=float), start.shape) for v in (cap, stop))
    return ends_of(capacity, start, size, cap, stop).tolist()


class TestByHand:
    def test_those_that_begin_together_end_together(self):
        """Three times 10 bytes at 10 bytes/s, though a third of 10 bytes/s is no binary number."""
        assert ends(10.0, [2.0, 2.0, 2.0], 10.0) == [5.0, 5.0, 5.0]

    def test_one_that_begins_later_halves_the_rate(self):
        """The first has 8 - 4 bytes left at 1 s; both get 2 bytes/s; at 3 s it ends."""
        assert ends(4.0, [0.0, 1.0], 8.0) == [3.0, 4.0]

    def test_a_slow_client_leaves_the_others_more(self):
        """1 byte/s of 9 goes to the first, 4 to each other one; then the link is idle in part."""
        assert ends(9.0, [0.0, 0.0, 0.0], 8.0, cap=[1.0, INF, 5.0]) == [8.0, 2.0, 2.0]

    def test_a_client_is_limited_by_itself_again_when_others_are_done(self):
        """2 s at 3 bytes/s beside two others (6 each), then at its own 4: 6 bytes in 1.5 s."""
        assert ends(9.0, [0.0, 0.0, 0.0], 12.0, cap=[4.0, INF, INF], stop=[INF, 2.0, 2.0]) == [
            3.5, INF, INF,
        ]  # fmt: skip

    def test_what_is_short_for_a_client_alone_is_exact_beside_others(self):
        """Five times 944 bytes at 9,440 bytes/s take half a second; alone each takes 1.5 ms."""
        assert ends(9440.0, [2.0] * 5, 944.0, cap=625_000.0) == [2.5] * 5

    def test_who_leaves_occupies_the_link_until_then(self):
        """At 2 s the second leaves, the first has 12 - 4 bytes left, 2 s at 4 bytes/s."""
        assert ends(4.0, [0.0, 0.0], 12.0, stop=[INF, 2.0]) == [4.0, INF]

    def test_who_leaves_at_the_very_end_is_done(self):
        assert ends(4.0, [0.0], 8.0, stop=[2.0]) == [2.0]

    def test_who_has_left_never_begins(self):
        assert ends(4.0, [0.0, 1.0, INF], 8.0, stop=[INF, 1.0, INF]) == [2.0, INF, INF]

    def test_nothing_takes_no_time(self):
        assert ends(4.0, [0.0, 3.0, 4.0], 0.0, stop=[INF, 3.0, 3.5]) == [0.0, 3.0, INF]
        assert ends(INF, [1.0, 1.0], 6.0, cap=[INF, 2.0]) == [1.0, 4.0]
        assert ends(4.0, [], 1.0) == []

    @given(st.lists(st.tuples(st.floats(0, 1e4), st.floats(1, 1e6)), min_size=1, max_size=12))
    def test_a_link_with_room_for_all_changes_no_bit(self, transfers):
        start, cap = (np.array(column) for column in zip(*transfers, strict=True))
        assert ends(cap.sum() * 1.01, start, 7e5, cap) == (start + 7e5 / cap).tolist()


@given(st.lists(st.one_of(st.just(INF), st.floats(0.5, 50.0)), min_size=1, max_size=9),
       st.floats(1.0, 100.0))  # fmt: skip
def test_rates_are_fair(caps, capacity):
    """They use all that can be used, and nobody could get more but from one who has no more."""
    link, size = Link(capacity), 1e5  # so long that after a second all are still under way
    link.change(0.0, [(k, size, cap) for k, cap in enumerate(caps)])
    link.change(1.0, [(len(caps), 0.0, INF)])  # the clock moves when a transfer begins or ends
    rates = []
    for k, cap in enumerate(caps):
        transfer = link.transfers[k]
        left = (transfer.mark - 1.0) * cap if not transfer.shares else transfer.mark - link.served
        rates.append(size - left)
    rates = np.array(rates)
    assert rates.sum() == pytest.approx(min(sum(caps), capacity), rel=1e-6)
    below = rates < np.array(caps) * (1 - 1e-6)
    assert (rates[below] >= rates.max() * (1 - 1e-6)).all()


def simulated(capacity, start, size, caps, stop):
    """Return when transfers end, by exact fractions; the rates are found by giving in turn."""
    left = {}
    waiting = dict(enumerate(start))
    done = [None] * len(start)
    now = Fraction(0)
    while waiting or left:
        rates, room, todo = {}, capacity, sorted(left, key=lambda k: caps[k])
        while todo:  # the most modest first: its cap, or an equal share of what is left
            k = todo[0]
            rates[k] = min(caps[k], Fraction(room) / len(todo))
            room, todo = room - rates[k], todo[1:]
        moments = [waiting[k] for k in waiting] + [now + left[k] / rates[k] for k in left]
        moments += [stop[k] for k in left if stop[k] is not None]
        then = min(moments)
        for k in list(left):
            left[k] -= rates[k] * (then - now)
            if left[k] == 0:
                done[k] = then
            if left[k] == 0 or stop[k] == then:
                del left[k]
        for k in [k for k in waiting if waiting[k] == then]:
            del waiting[k]
            if stop[k] is None or stop[k] > then:
                left[k] = size
        now = then
    return done


def test_agrees_with_an_exact_simulation():
    rng = np.random.default_rng(0)
    broken = contended = 0
    for number in range(CASES):
        count = int(rng.integers(1, 12))
        start = [Fraction(int(t), 4) for t in rng.integers(0, 30, count)]
        caps = [Fraction(int(c), 2) for c in rng.integers(1, 12, count)]
        if rng.random() < 0.3:
            caps = [Fraction(3)] * count
        unlimited = rng.random(count) < 0.25
        caps = [Fraction(10**9) if u else c for u, c in zip(unlimited, caps, strict=True)]
        stop = [start[k] + Fraction(int(t), 8) if t < 60 else None
                for k, t in enumerate(rng.integers(0, 120, count))]  # fmt: skip
        capacity, size = Fraction(int(rng.integers(1, 40)), 2), Fraction(int(rng.integers(1, 40)))
        wanted = simulated(capacity, start, size, caps, stop)
        found = ends(
            float(capacity), [float(t) for t in start], float(size),
            [INF if u else float(c) for u, c in zip(unlimited, caps, strict=True)],
            [INF if t is None else float(t) for t in stop],
        )  # fmt: skip
        for k, (end, exact) in enumerate(zip(found, wanted, strict=True)):
            assert math.isinf(end) == (exact is None), (number, k)
            if exact is not None:
                assert end == pytest.approx(float(exact), rel=1e-12)
                contended += end > (start[k] + size / caps[k]) * (1 + 1e-9)
            broken += exact is None
    assert contended > 300
    assert broken > 200


def test_goes_on_from_its_values():
    rng = np.random.default_rng(1)
    whole, copied = Link(20.0), Link(20.0)
    for step in range(60):
        now_s = min(whole.next_s, (whole.now_s + rng.uniform(0, 2)))
        begin = [(step, float(rng.uniform(5, 60)), float(rng.choice([3.0, 9.0, INF])))]
        copied = Link.of(copied.arrays())
        assert whole.change(now_s, begin) == copied.change(now_s, begin)
        if step % 5 == 0:
            leaves = int(rng.integers(0, 60))
            assert whole.leave(now_s, leaves) == copied.leave(now_s, leaves)
        assert whole.next_s == copied.next_s


def test_rounding_does_not_stop_the_clock():
    """Long after the beginning a transfer is shorter than the clock can show."""
    assert ends(1e9, [1e9, 1e9], 1.0) == [1e9, 1e9]
