"""A machine that runs a study at a URL, or resumes it."""

from __future__ import annotations

from pathlib import Path

from rayfed.executors.serial import SerialExecutor
from rayfed.runs.driver import Driver
from rayfed.runs.remote.copies import Copy, Uploader, fetch
from rayfed.runs.remote.objects import Owner

URL = "bucket://store/study"


class Machine:
    """Runs the only run of a plan in the local copy of `URL`; uploads when it is asked to."""

    def __init__(self, plan, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.plan, self.copy = plan, Copy(URL, home)
        self.objects = self.copy.objects

    @property
    def folder(self) -> Path:
        return self.copy.folder

    def driver(self) -> Driver:
        (run,) = self.plan.runs
        return Driver(run, self.folder, SerialExecutor(self.plan.tables))

    def own(self) -> Uploader:
        """Upload from now on what the driver hands over."""
        owner = Owner(self.objects, self.copy.home.name)
        owner.renew()
        self.uploader = Uploader(self.copy, owner, print)
        return self.uploader

    def fetch(self) -> Driver:
        """Download the remote folder, and return the driver that would resume."""
        fetch(self.copy)
        return self.driver()
