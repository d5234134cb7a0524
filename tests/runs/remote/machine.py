"""A machine whose run is mirrored, or that goes on with it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from rayfed.executors.serial import SerialExecutor
from rayfed.runs.driver import Driver
from rayfed.runs.remote.mirror import Mirror, Unsettled
from rayfed.runs.remote.objects import Owner
from rayfed.runs.remote.staging import Staging, fetch

URL = "bucket://store/study"


class Machine:
    """Runs the only run of a plan in the local copy of `URL`; uploads when it is told to."""

    def __init__(self, plan, home: Path) -> None:
        self.plan, self.staging = plan, Staging(URL, home)
        self.staging.write_note(mine=True)
        self.objects = self.staging.objects
        owner = Owner(self.objects, home.name)
        self.mirror = Mirror(self.staging, owner, {}, print)

    @property
    def folder(self) -> Path:
        return self.staging.folder

    def driver(self) -> Driver:
        (run,) = self.plan.runs
        return Driver(run, self.folder, SerialExecutor(self.plan.tables))

    def upload(self, *_) -> None:
        with suppress(Unsettled):  # a table is being replaced
            self.mirror.upload()

    def fetch(self) -> Driver:
        """Bring what is remote here, and return the driver that would go on."""
        fetch(self.staging)
        return self.driver()
