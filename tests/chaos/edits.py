"""What users change in a result folder, or in what its scenario names, before they resume it.

Whatever it is, a resume refuses it in short lines and changes no file, or it ends with the bytes of
a study that asked for it at once. More rounds and more seeds are never refused.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from rayfed import api
from rayfed.core.errors import RayfedError
from rayfed.core.leases import LOCK
from rayfed.study.plan.plan import Plan
from rayfed.testing.compare import assert_same_results
from tests.chaos.dice import Dice
from tests.chaos.faults import Attempt, Fault, resumed, strike
from tests.chaos.scenarios import places
from tests.chaos.words import wordy
from tests.fakes.disk import Disk, Down

_OF_NO_RESULT = (
    "name", "description", "executor", "checkpoint", "clock", "search", "sweep", "cases", "grid",
    "rounds", "seeds",
)  # fmt: skip
_TRIES = 8
_DAMAGED = 0.2  # of the studies, before they are edited
_PAST_THE_END = 1.3  # of its file operations: some studies have ended when they are edited

Undo: TypeAlias = Callable[[], object]


@dataclass(frozen=True)
class Edit:
    """What is changed.

    Parameters
    ----------
    kind : str
        A key of `EDITS`.
    stop : float
        Share of file operations at which the study is killed before; 1 stands for a little more
        than all of them.
    seed : int
        Decides the rest.
    """

    kind: str
    stop: float
    seed: int


@dataclass(frozen=True)
class Begun:
    """A study that was begun, and a place for others.

    Parameters
    ----------
    plan : Plan
    folder : Path
        With what it has recorded.
    aside : Path
        Where other studies may be run.
    """

    plan: Plan
    folder: Path
    aside: Path

    @property
    def file(self) -> Path:
        """The scenario."""
        return self.folder / "scenario.yaml"

    def scenario(self) -> dict[str, Any]:
        """Return what the scenario holds."""
        held: dict[str, Any] = yaml.safe_load(self.file.read_text(encoding="utf-8"))
        return held

    def write(self, scenario: Mapping[str, Any]) -> Undo:
        """Replace the scenario; return what puts the old one back."""
        before = self.file.read_bytes()
        self.file.write_text(yaml.safe_dump(dict(scenario), sort_keys=False), encoding="utf-8")
        return partial(self.file.write_bytes, before)

    def runs(self) -> list[Path]:
        """Return the folders of the runs that have begun."""
        return sorted(path.parent for path in self.folder.glob("*/run.json"))


def value(study: Begun, dice: Dice) -> Undo | None:
    """Change a number or a switch in the scenario."""
    changed = _other(study, dice)
    return None if changed is None else study.write(changed)


def data(study: Begun, dice: Dice) -> Undo | None:
    """Change a number in a file that the scenario names, or take its last line away."""
    held = (part[key] for part, key in places(study.scenario()))
    files = sorted({Path(one) for one in held if isinstance(one, str) and one.endswith(".csv")})
    if not files:
        return None
    path = dice.one_of(files)
    before = path.read_bytes()
    lines = before.decode().splitlines()
    if dice.chance(0.3):
        del lines[-1]
    else:
        row = dice.whole(1, len(lines) - 1)
        cells = lines[row].split(",")
        cells[-1] = str(1 - float(cells[-1]))
        lines[row] = ",".join(cells)
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return partial(path.write_bytes, before)


def exchanged(study: Begun, dice: Dice) -> Undo | None:
    """Exchange the folders of two runs."""
    if len(study.runs()) < 2:
        return None
    one, two = dice.some_of(study.runs(), 2)

    def swap() -> None:
        one.rename(study.aside)
        two.rename(one)
        study.aside.rename(two)

    swap()
    return swap


def foreign(study: Begun, dice: Dice) -> Undo | None:
    """Put the folder of another study's run in the place of one of the same name."""
    changed = _other(study, dice)
    if changed is None or not study.runs():
        return None
    plan = api.prepare(api.read(changed))
    other = Attempt(plan, api.begin(plan, study.aside / "other"), 0)
    other.execute()
    run = dice.one_of(study.runs())
    kept, there = study.aside / "kept", other.folder / run.name
    if not there.is_dir():
        return None
    run.rename(kept)
    shutil.copytree(there, run)

    def back() -> None:
        shutil.rmtree(run)
        kept.rename(run)

    return back


def fewer(study: Begun, dice: Dice) -> Undo | None:
    """Ask for fewer rounds."""
    made = study.scenario()
    if made["rounds"] < 2:
        return None
    return study.write(made | {"rounds": dice.whole(1, made["rounds"] - 1)})


def more(study: Begun, dice: Dice) -> Undo | None:
    """Ask for more rounds."""
    made = study.scenario()
    return study.write(made | {"rounds": made["rounds"] + dice.whole(1, 5)})


def seeds(study: Begun, dice: Dice) -> Undo | None:
    """Ask for one seed more."""
    made = study.scenario()
    return study.write(made | {"seeds": [*made["seeds"], max(made["seeds"]) + dice.whole(1, 9)]})


EDITS: Mapping[str, Callable[[Begun, Dice], Undo | None]] = {
    each.__name__: each for each in (data, exchanged, fewer, foreign, more, seeds, value)
}
"""What can be changed, by name; None where there is nothing of the kind."""
EXTENSIONS = ("more", "seeds")
ACCEPTED = ("data", "value")
"""What a user can accept."""


def drawn_edit(dice: Dice) -> Edit:
    """Return what is changed."""
    return Edit(dice.one_of(EDITS), dice.share(), dice.whole(0, 2**31))


def resume_edited(
    plan: Plan, calm: Path, folder: Path, edit: Edit, operations: int
) -> tuple[str | None, list[str]]:
    """Kill a study, change something, and resume it.

    Some are damaged before. What can be accepted is, in a copy.

    Parameters
    ----------
    plan : Plan
    calm : Path
        The results without all this.
    folder : Path
        Which is made.
    edit : Edit
    operations : int
        File operations of an undisturbed execution.

    Returns
    -------
    str or None
        "refused" or "taken"; None where there was nothing to change.
    list of str
        What is wrong.
    """
    folder.mkdir()
    study = Begun(plan, api.begin(plan, folder / "study"), folder / "aside")
    stop = 1 + int(edit.stop * _PAST_THE_END * operations)
    with suppress(Down), Disk(down_at=stop).patched():
        Attempt(plan, study.folder, operations).execute()
    begun, dice = bool(study.runs()), Dice(edit.seed)
    if dice.chance(_DAMAGED):
        strike(Attempt(plan, study.folder, operations), Fault("damage", dice.share(), dice.share()))
    undo = EDITS[edit.kind](study, dice)
    if undo is None:
        return None, []
    allowed = edit.kind in EXTENSIONS and not _is_mistake(study)
    try:
        wrong = _refusal(study.folder)
        if wrong is None:
            return "taken", list(_unlike_at_once(study))
        if edit.kind in ACCEPTED:
            wrong += _wrong_if_accepted(study)
    finally:
        undo()
    if allowed or not begun:
        wrong.append("it was refused")
    resumed(study.folder)
    return "refused", wrong + list(_unlike(calm, study.folder))


def _wrong_if_accepted(study: Begun) -> Iterator[str]:
    """Yield what is wrong where a user accepts what has changed; a run may fail by it."""
    folder = study.aside / "accepted"
    shutil.copytree(study.folder, folder)
    if _is_mistake(study):  # which cannot be accepted
        return
    resumed(folder, accept=True)
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("*/run.json"))]
    ends = {held["status"] for held in records}
    if not ends <= {"finished", "failed"}:
        yield f"an accepted change: the runs are {ends}"
    if not any(held.get("changes") for held in records):
        yield "an accepted change is not noted"


def _is_mistake(study: Begun) -> bool:
    """Return whether a study that asked for all of it at once is refused, too."""
    try:
        api.prepare(api.read(study.file))
    except RayfedError:
        return True
    return False


def _refusal(folder: Path) -> list[str] | None:
    """Resume a study; return what is wrong with the refusal, None if there is none."""
    before = _contents(folder)
    try:
        resumed(folder)
    except RayfedError as error:
        after = _contents(folder)
        touched = sorted(name for name in before | after if before.get(name) != after.get(name))
        changed = [f"a refused resume changed {', '.join(touched)}"] if touched else []
        return [*wordy(error), *changed]
    return None


def _contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != LOCK)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def _unlike_at_once(study: Begun) -> Iterator[str]:
    """Yield where the results are not those of a study that asked for all of it at once."""
    plan = api.prepare(api.read(study.file))
    at_once = Attempt(plan, api.begin(plan, study.aside / "at-once"), 0)
    at_once.execute()
    yield from _unlike(at_once.folder, study.folder)


def _unlike(wanted: Path, found: Path) -> Iterator[str]:
    try:
        assert_same_results(wanted, found)
    except AssertionError as error:
        yield str(error)


def _other(study: Begun, dice: Dice) -> dict[str, Any] | None:
    """Return the scenario with another value that `check` accepts; None if none was found."""
    for _ in range(_TRIES):
        made = study.scenario()
        numbers = [
            (part, key)
            for name in sorted(made.keys() - set(_OF_NO_RESULT))
            if isinstance(made[name], (dict, list))
            for part, key in places(made[name])
            if isinstance(part[key], (bool, int, float))
        ]
        part, key = dice.one_of(numbers)
        part[key] = _changed(part[key])
        with suppress(RayfedError):
            study_of = api.read(made)
            api.prepare(study_of)
            if study_of.to_yaml() != study.file.read_text(encoding="utf-8"):
                return made
    return None


def _changed(number: float) -> float:
    """Return another number of the same type."""
    if isinstance(number, bool):
        return not number
    if isinstance(number, int):
        return number + 1
    return 1.5 * number or 0.5
