"""A study whose result folder is a URL: machines run it one after the other, as each dies.

The store is in this process. Uploads come after each round, not from a thread, so that a seed means
the same case everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from rayfed import api
from rayfed.runs.remote import copies
from rayfed.runs.remote.copies import Copy, Uploader, fetch
from rayfed.runs.remote.objects import Owner, StoreError
from rayfed.study.plan.plan import Plan
from tests.chaos.dice import Dice
from tests.chaos.faults import Attempt
from tests.fakes.bucket import Bucket, bucket
from tests.fakes.disk import Down

_URL = "bucket://store/study"
_OPERATIONS = 60  # of the store; small studies have about as many
_FAILING = 12  # operations, at most


@dataclass(frozen=True)
class Blow:
    """What happens to a machine.

    Parameters
    ----------
    down_at : int
        Number of the operation of the store, from 1, at which it dies.
    failing : (int, int)
        The operations of the store before, of which the last is left out, that fail.
    """

    down_at: int
    failing: tuple[int, int]


def drawn_blows(dice: Dice) -> tuple[Blow, ...]:
    """Return one to three blows; after them a machine goes on to the end."""
    blows = []
    for _ in range(dice.whole(1, 3)):
        first = dice.whole(1, _OPERATIONS)
        blows.append(Blow(dice.whole(1, _OPERATIONS), (first, first + dice.whole(0, _FAILING))))
    return tuple(blows)


def run_at_url(plan: Plan, home: Path, blows: Sequence[Blow]) -> Path:
    """Run a study at a URL; return what a machine that never ran it finds there.

    Parameters
    ----------
    plan : Plan
    home : Path
        Where the machines have their copies.
    blows : sequence of Blow
        One for each machine but the last.
    """
    with bucket() as store, mock.patch.object(copies, "EVERY_S", 0.0):
        for number, blow in enumerate(blows):
            _under(store, blow)
            with suppress(Down):
                _Machine(plan, home / str(number)).run()
        _under(store, None)
        _Machine(plan, home / "last").run()
        reader = _Machine(plan, home / "reader")
        fetch(reader.copy)
        return reader.copy.folder


def _under(store: type[Bucket], blow: Blow | None) -> None:
    store.count = 0
    store.down_at = None if blow is None else blow.down_at
    store.failing = range(0) if blow is None else range(*blow.failing)


class _Machine:
    """Begins a study at `_URL`, or goes on with what is there."""

    def __init__(self, plan: Plan, home: Path) -> None:
        home.mkdir(parents=True)
        self.plan, self.copy = plan, Copy(_URL, home)

    def run(self) -> None:
        """Run the study to its end, with an upload after each round."""
        if self.copy.results():
            fetch(self.copy)
        else:
            api.begin(self.plan, self.copy.folder)
        owner = Owner(self.copy.objects, self.copy.home.name)
        owner.renew()
        uploader = Uploader(self.copy, owner, print)

        def upload(*_: object) -> None:
            with suppress(StoreError):  # later checkpoints are uploaded
                uploader.upload()

        Attempt(self.plan, self.copy.folder, 0).execute(report=upload)
        for _ in range(_FAILING):
            upload()
        uploader.finish()
