"""The bare loop in two processes at once."""

import os
import time
from multiprocessing import active_children

from benchmarks import measure as measuring
from benchmarks.measure import measure
from benchmarks.second import forked
from benchmarks.workloads import WORKLOADS, Size, overhead


class Sleep:
    """A loop whose rounds take some seconds, in the first process or in the second."""

    def __init__(self, here_s, there_s):
        self.main, self.here_s, self.there_s = os.getpid(), here_s, there_s

    def start(self):
        return []

    def round(self, model):
        time.sleep(self.here_s if os.getpid() == self.main else self.there_s)
        return model


def test_two_loops_at_once_do_the_rounds_of_both():
    loops = [Sleep(0.02, 0.01), Sleep(0.02, 0.04)]
    before = active_children()
    with forked([lambda: loops[0], lambda: loops[1]]) as second:
        rates = [second.rate(case, loops[case], 0.2) for case in (1, 0, 1)]
        assert len(active_children()) == len(before) + 1
    assert active_children() == before
    for rate, most in zip(rates, (75, 150, 75), strict=True):  # 50 and 25, or 100, a second
        assert 0.6 * most < rate <= most


def test_without_loops_there_is_no_second_process():
    with forked([]) as second:
        assert second is None


def test_loops_in_pairs_are_those_that_several_processes_are_compared_with():
    small = Size(clients=0.02, rounds=0.01)
    paired = {make(small).name for make in WORKLOADS if make(small).paired}
    assert paired == {
        "overhead",
        "W2",
        "W3",
        "W4-actors",
        "cnn-actors",
        "resnet18-actors",
        "charlstm-actors",
        "adapters-actors",
        "W5",
        "W7-actors",
    }


def test_what_a_second_process_is_worth_is_told(monkeypatch):
    monkeypatch.setattr(measuring, "_started", lambda plan, folder: Nobody())
    monkeypatch.setattr(measuring, "_block", lambda *given: measuring.Block(10, 1.0, 0.5, 0.0))
    taken = iter([2.0, 4.0, 3.0])
    monkeypatch.setattr(measuring, "bare_seconds", lambda loop, block_s: next(taken))
    (case,) = measure(overhead(Size(clients=0.05, rounds=0.01)), repeats=3, second=Half())
    assert case.pair == 1.5  # the median of half of each


class Half:
    """Two loops that do one round in two seconds."""

    def rate(self, case, loop, block_s):
        return 0.5


class Nobody:
    """A backend that starts nothing."""

    def wait(self, report):
        pass

    def close(self):
        pass
