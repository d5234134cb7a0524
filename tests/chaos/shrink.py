"""Make the case of a finding smaller, as long as the finding stays."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.chaos.case import Case, run_case
from tests.chaos.scenarios import places
from tests.chaos.trial import Scenario


def shrunk(case: Case, finding: str) -> Case:
    """Return a case without the keys, entries, faults and changes that its finding does not need.

    Parameters
    ----------
    case : Case
    finding : str
        Name of what is found; the smaller case finds it too.
    """
    smaller = next((each for each in _smaller(case) if _finds(each, finding)), None)
    return case if smaller is None else shrunk(smaller, finding)


def _smaller(case: Case) -> Iterator[Case]:
    """Yield cases that lack one thing each; the first lacks all that is done to the study."""
    bare = replace(case, faults=(), changes=(), edit=None, blows=(), page=None, ray=False)
    if bare != case:
        yield bare
    if case.edit is not None:
        yield replace(case, edit=None)
    if case.page is not None:
        yield replace(case, page=None)
    if case.together is not None:
        yield replace(case, together=None)
        for part in case.together.parts:
            yield replace(case, together=replace(case.together, **{part: "none"}))
    for index in range(len(case.blows)):
        yield replace(case, blows=case.blows[:index] + case.blows[index + 1 :])
    for index in range(len(case.faults)):
        yield replace(case, faults=case.faults[:index] + case.faults[index + 1 :])
    for index in range(len(case.changes)):
        yield replace(case, changes=case.changes[:index] + case.changes[index + 1 :])
    for index, _ in enumerate(list(places(case.scenario))):
        yield replace(case, scenario=_without(case.scenario, index))


def _without(scenario: Scenario, index: int) -> Scenario:
    """Return a scenario without what is at one of its places."""
    changed = copy.deepcopy(scenario)
    holder, key = list(places(changed))[index]
    del holder[key]
    return changed


def _finds(case: Case, finding: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        outcome = run_case(case, Path(folder))
    return any(name == finding for name, _ in outcome.findings)
