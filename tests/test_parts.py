"""Parts of the slow tests: each test is in one of them, the same one every time."""

import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")
TESTS = ["b", "a", "e", "c", "d"]


@pytest.fixture(scope="module")
def part():
    return runpy.run_path(str(CONFTEST))["part"]


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_every_test_is_in_one_part(part, n):
    parts = [part(TESTS, f"{k}/{n}") for k in range(1, n + 1)]
    assert sorted(test for tests in parts for test in tests) == sorted(TESTS)


def test_they_are_dealt_in_alphabetical_order(part):
    assert part(TESTS, "2/3") == {"b", "e"}


@pytest.mark.parametrize("which", ["0/3", "4/3"])
def test_a_part_that_does_not_exist_is_refused(part, which):
    with pytest.raises(pytest.UsageError, match="give k/n"):
        part(TESTS, which)


def test_tests_measured_alone_replace_their_own_durations():
    recorded = runpy.run_path(str(CONFTEST))["recorded"]
    before = {"a::other": 0.5, "b::slower": 0.1, "b::quick now": 0.1}
    measured = {"b::slower": 0.412, "b::quick now": 0.01, "b::new": 0.06, "b::short": 0.02}
    assert recorded(measured, before) == {"a::other": 0.5, "b::new": 0.06, "b::slower": 0.41}
    assert recorded(measured, {}) == {"b::new": 0.06, "b::slower": 0.41}


class Item:
    """A test as pytest collects it, with some marks."""

    def __init__(self, name, *marks):
        self.nodeid, self.marks = f"tests/somewhere/{name}", list(marks)

    def get_closest_marker(self, name):
        return name if name in self.marks else None

    def add_marker(self, name):
        self.marks.append(name)


def test_what_takes_long_is_slow_unless_it_is_a_guard_or_measured_anew():
    conftest = runpy.run_path(str(CONFTEST))
    long = json.loads(conftest["LONG"].read_text())
    longest, shortest = max(long, key=long.get), min(long, key=long.get)
    for measuring, expected in ((False, [["slow"], ["guard"], []]), (True, [[], ["guard"], []])):
        items = [Item(longest), Item(longest, "guard"), Item(shortest)]
        config = SimpleNamespace(getoption={"record_durations": measuring}.get)
        conftest["SlowTests"]().pytest_collection_modifyitems(config, items)
        assert [item.marks for item in items] == expected


def test_who_waits_comes_first_and_then_what_takes_longest():
    conftest = runpy.run_path(str(CONFTEST))
    long = json.loads(conftest["LONG"].read_text())
    longest, shortest = max(long, key=long.get), min(long, key=long.get)
    given = [Item("test_short.py::test"), Item(shortest), Item(longest)]
    waiting = [Item("test_page.py::test", "browser"), Item("test_actors.py::test", "ray")]
    ordered = sorted([*given, *waiting], key=conftest["_order"]([*given, *waiting]))
    assert ordered == [*waiting, *given[::-1]]
