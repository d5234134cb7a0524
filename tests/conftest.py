"""What all tests share: which of them run, seeds, a small scenario, what being the same means."""

from __future__ import annotations

import gc
import json
import os
import posixpath
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# before NumPy is imported, which is why the fixtures import rayfed themselves
for library in ("OMP", "OPENBLAS", "MKL"):  # small matrices, and processes that share the cores
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# before Ray is imported; studies on this machine listen to nobody else
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")

_MEMORY, _ROOM = "/dev/shm", 4 * 2**30
"""A file system in memory, where syncing a file takes no time, and the bytes that tests need."""
if os.path.isdir(_MEMORY) and shutil.disk_usage(_MEMORY).free > _ROOM:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _MEMORY)

# no deadlines: how long an example takes depends on what else the machine does
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

LONG = Path(__file__).parent / "long.json"
"""Tests and shared fixtures of more than `QUICK_S` seconds, as ``make durations`` measured them."""
QUICK_S = 0.03
"""Seconds of a processor up to which a test is one of ``make quick``."""
SHORT_S = 0.1
"""Seconds of a processor beyond which a test is slow, unless it is a guard."""
_measured: dict[str, float] = {}
_shared: dict[str, float] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say which tests run."""
    group = parser.getgroup("rayfed")
    group.addoption(
        "--quick", action="store_true", help="leave out Ray, the browser and tests that take long"
    )
    group.addoption("--part", default="1/1", help="k/n: the k-th of n parts of the tests")
    group.addoption(
        "--record-durations",
        action="store_true",
        help=f"write {LONG.name}, without -n; of paths given, their tests alone are replaced",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Mark slow tests, and let Ctrl-C reach what tests start, in the background of a shell too."""
    config.pluginmanager.register(SlowTests())
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class SlowTests:
    """Marks what takes long as slow, before ``-m`` looks at marks."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Mark tests that take more than `SHORT_S`; all of them run to be measured anew."""
        if config.getoption("record_durations"):
            return
        for item in items:
            if item.get_closest_marker("guard") is None and seconds(item, known()) > SHORT_S:
                item.add_marker("slow")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not asked for, and begin with what takes longest.

    What ``-m`` leaves out is gone already, so that the parts are parts of what is left.
    """
    kept = list(items)
    if config.getoption("quick"):
        kept = [item for item in kept if not _needs_time(item)]
    chosen = part([item.nodeid for item in kept], config.getoption("part"))
    kept = [item for item in kept if item.nodeid in chosen]
    staying = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in staying])
    items[:] = sorted(kept, key=_order(kept))


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage among what collecting makes, which takes a third of its time."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def _order(items: Sequence[pytest.Item]) -> Callable[[pytest.Item], tuple[bool, float]]:
    """Return the order of tests: Ray and browsers, then files that take long, then others.

    A process takes a file at a time, and one that is left for the end keeps the others waiting.
    Seconds of a processor do not tell how long a test waits for Ray or a browser.
    """
    files: Counter[str] = Counter()
    for item in items:
        files[_file(item)] += seconds(item, known())
    return lambda item: (not _waits(item), -files[_file(item)])


def _waits(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("ray", "browser"))


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def part(tests: list[str], which: str) -> set[str]:
    """Return the tests of part k of n, ``k/n``: every n-th of them in alphabetical order."""
    k, n = (int(number) for number in which.split("/"))
    if not 1 <= k <= n:
        raise pytest.UsageError(f"--part: found {which}; give k/n with k from 1 to n")
    return set(sorted(tests)[k - 1 :: n])


def short(item: pytest.Item) -> str:
    """Return the name of a test without its folder, which may change."""
    file, _, name = item.nodeid.partition("::")
    return f"{posixpath.basename(file)}::{name}"


@cache
def known() -> dict[str, float]:
    """Return the recorded seconds of tests and shared fixtures."""
    return dict(json.loads(LONG.read_text(encoding="utf-8")))


def seconds(item: pytest.Item, long: Mapping[str, float]) -> float:
    """Return the most that a test or a fixture that it shares takes, 0 if neither is long."""
    test = short(item)
    file = test.partition("::")[0]
    shared = [f"{file}::<{name}>" for name in getattr(item, "fixturenames", ())]
    return max(long.get(name, 0.0) for name in (test, *shared))


def _needs_time(item: pytest.Item) -> bool:
    slow = item.get_closest_marker("slow") is not None
    return slow or _waits(item) or seconds(item, known()) > 0


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Measure the processor time of a test, without that of what it shares with others."""
    before, shared = _seconds(), sum(_shared.values())
    yield
    _measured[short(item)] = _seconds() - before - (sum(_shared.values()) - shared)


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Iterator[None]:
    """Measure the processor time of what several tests of a file share."""
    before = _seconds()
    yield
    if fixturedef.scope != "function":
        _shared[_fixture(request.node.nodeid, fixturedef.argname)] = _seconds() - before


def _seconds() -> float:
    """Return the processor time so far, which a busy machine does not stretch."""
    return sum(os.times()[:4])


def _fixture(node: str, name: str) -> str:
    return f"{posixpath.basename(node.partition('::')[0])}::<{name}>"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write down the tests that take long, if asked to; a part may hold no test at all."""
    if (
        session.config.getoption("part") != "1/1"
        and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
    ):
        session.exitstatus = pytest.ExitCode.OK
    if session.config.getoption("record_durations"):
        given = session.config.args_source is pytest.Config.ArgsSource.ARGS
        long = recorded(_measured | _shared, known() if given else {})
        LONG.write_text(json.dumps(long, indent=1) + "\n", encoding="utf-8")


def recorded(measured: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of long tests: those measured now, and earlier ones of the others."""
    long = {name: round(s, 2) for name, s in measured.items() if s > QUICK_S}
    return dict(sorted((long | {n: s for n, s in before.items() if n not in measured}).items()))


@pytest.fixture(scope="session", autouse=True)
def _state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the key that seals result folders out of the home of who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _unsettled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every test settle anew from where modules are imported."""
    from rayfed.core import own

    monkeypatch.setattr(own, "_settled", {})


@pytest.fixture
def mixed() -> Callable[..., dict[str, Any]]:
    """A study with minibatches, stragglers, cyclic availability, groups and a deadline."""
    from rayfed.testing.studies import mixed

    return mixed


@pytest.fixture(scope="session")
def assert_same() -> Callable[[Path, Path], None]:
    """Two result folders hold the same bytes: every value of every table and model."""
    from rayfed.testing.compare import assert_same_results

    return assert_same_results
