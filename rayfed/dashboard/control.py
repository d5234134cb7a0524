"""Steering from the browser: a study is stopped, resumed and extended as by the commands."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from rayfed.core.errors import ScenarioError, many
from rayfed.core.inside import APPENDED, opened
from rayfed.dashboard.catalogue import Catalogue
from rayfed.runs.files.folder import usable
from rayfed.runs.files.stops import ask

LOG = "resume.log"
"""File of a result folder with what the commands print that the browser starts."""


class Control:
    """Starts the commands `stop`, `resume` and `extend` for studies of a catalogue.

    Parameters
    ----------
    catalogue : Catalogue
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.started: dict[str, subprocess.Popen[bytes]] = {}

    def do(self, what: str, given: Mapping[str, Any]) -> str:
        """Carry out a request of the browser and return the result in a line.

        Parameters
        ----------
        what : "stop", "resume" or "extend"
        given : mapping
            ``study``, its key; to stop also ``run``, the name of one; to extend also ``rounds`` and
            ``seeds``.

        Raises
        ------
        ScenarioError
            If there is no such study or command, or what is given does not suit it.
        """
        key = str(given.get("study"))
        if key not in self.catalogue.studies:
            raise ScenarioError(key, "is no study here")
        folder = self.catalogue.studies[key].folder
        if what == "stop":
            run = given.get("run")
            stopped = ask(folder, [] if run is None else [str(run)])
            return f"{many(len(stopped), 'run')} of {key} will stop after the round"
        if what == "resume":
            return self._begin(key, ["resume", str(folder)])
        if what == "extend":
            more = [
                f"--{name}={_numbers(name, given[name])}"
                for name in ("rounds", "seeds")
                if given.get(name)
            ]
            if not more:
                raise ScenarioError("extend", "found no rounds and no seeds; give one of them")
            return self._begin(key, ["extend", str(folder), *more])
        raise ScenarioError(what, "is no action; use stop, resume or extend")

    def _begin(self, key: str, command: list[str]) -> str:
        """Start a command in a process of its own, which outlives the server."""
        before = self.started.get(key)
        if before is not None and before.poll() is None:
            raise ScenarioError(key, "is running already; wait for its end or stop it")
        folder = self.catalogue.studies[key].folder
        with usable(folder):
            opened_log = opened(folder / LOG, APPENDED)
        with opened_log as log:
            self.started[key] = subprocess.Popen(
                # -P: a folder named rayfed in the current one is not taken for the library
                [sys.executable, "-P", "-m", "rayfed", *command, "--no-page"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        return f"{command[0]} of {key} has started; its output is in {LOG}"


def _numbers(name: str, text: Any) -> str:
    """Return a list of numbers as the commands take it."""
    try:
        return ",".join(str(int(part)) for part in str(text).split(","))
    except ValueError:
        raise ScenarioError(name, f"found '{text}'; give numbers, such as 3,4") from None
