"""A study on a Ray cluster whose nodes come, go and slow down while it runs."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.dice import Dice
from tests.fakes.nodes import Nodes

WALL_S = 12.0
"""Seconds that a run is stretched to by a wall clock, so that changes come while it goes on."""
_CPUS = 2
_BEGIN_S, _PATIENCE_S = 120.0, 300.0
_HERE = "here"  # the node of the drivers, without client actors
_KINDS = ("come", "go", "end", "stop", "hog")
_HOG = "while True: pass"


@dataclass(frozen=True)
class Change:
    """What happens to the nodes.

    Parameters
    ----------
    kind : "come", "go", "end", "stop" or "hog"
        A node comes; one goes; one of its client actors or combiners is killed, or stands still for
        a while; or something else takes a processor for a while.
    at : float
        Share in [0, 1) that decides which node or actor.
    seconds : float
        How long, or until the next change.
    """

    kind: str
    at: float
    seconds: float


def drawn_changes(dice: Dice) -> tuple[Change, ...]:
    """Return two to five changes."""
    return tuple(
        Change(dice.one_of(_KINDS), dice.share(), dice.number(0.2, 3.0))
        for _ in range(dice.whole(2, 5))
    )


def run_on_nodes(scenario: Path, out: Path, changes: Sequence[Change]) -> list[str]:
    """Run a study on two nodes that change; return which changes came before its end.

    Parameters
    ----------
    scenario : Path
        Its file.
    out : Path
        The result folder.
    changes : sequence of Change
        One after the other, from when the first run has begun.
    """
    happened = []
    with Nodes() as nodes:
        nodes.add(_HERE, 0)
        for number in range(2):
            nodes.add(f"first-{number}", _CPUS)
        study = nodes.run(_HERE, "run", str(scenario), "--out", str(out))
        try:
            _until_begun(study, out)
            for number, change in enumerate(changes):
                if study.poll() is None:
                    happened.append(change.kind)
                    _apply(nodes, change, number)
            study.communicate(timeout=_PATIENCE_S)
        finally:
            study.kill()
            study.communicate()
    return happened


def _until_begun(study: subprocess.Popen[str], out: Path) -> None:
    end = time.monotonic() + _BEGIN_S
    while study.poll() is None and time.monotonic() < end:
        if any(out.glob("*/checkpoint/manifest.json")):
            return
        time.sleep(0.05)


def _apply(nodes: Nodes, change: Change, number: int) -> None:
    there = sorted(nodes.raylets.keys() - {_HERE})
    name, which = there[int(change.at * len(there))], change.at * len(there) % 1
    if change.kind == "come" or (change.kind == "go" and len(there) == 1):
        nodes.add(f"later-{number}", _CPUS)
    elif change.kind == "go":
        nodes.kill(name)
    elif change.kind == "end":
        nodes.end(name, which)
    elif change.kind == "stop":
        nodes.stop(name, which, change.seconds)
        return
    else:
        hog = subprocess.Popen([sys.executable, "-c", _HOG])
        time.sleep(change.seconds)
        hog.kill()
        hog.wait()
        return
    time.sleep(change.seconds)
