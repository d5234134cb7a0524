"""Resuming: what is in a result folder, and whether that is what it would run.

A run goes on only if its scenario, its data and the user's modules are those that it began with, or
if the user accepts what has changed. More rounds are no change, nor are further runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rayfed.core.announced import run_folders
from rayfed.core.entries import Damaged
from rayfed.core.errors import ScenarioError, clipped, many
from rayfed.core.parquet import read, values
from rayfed.engine.run import Run
from rayfed.runs.files.checkpoints import MANIFESTS, Checkpoints
from rayfed.runs.files.outcome import damage, record
from rayfed.runs.files.place import shown
from rayfed.runs.files.records import status
from rayfed.runs.files.run_json import versions
from rayfed.runs.identity import decisive, digests_of, ending

_MOST = 3  # changes that a message names
_NEEDED = ("loss_gap", "loss_change", "model_change")
"""Rules under ``stop`` that rows have columns for."""
_NOTHING = "nothing"


@dataclass(frozen=True)
class Change:
    """What decides results and is not as it was when a run began.

    Parameters
    ----------
    key : str
        Dotted key of the scenario, or "modules.<name>".
    before, now : str, float, int, bool, list or None
        The values; of a file or a module what is known of it.
    """

    key: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"{self._named} was {_short(self.before)}, found {_short(self.now)}"

    @property
    def _named(self) -> str:
        """The key, and the file or data set that it names."""
        if not isinstance(self.now, Mapping):
            return self.key
        name = Path(self.now.get("path") or self.now.get("name") or "").name
        return f"{self.key} ({clipped(name, 60)})" if name else self.key


def check_same(
    folder: Path, runs: Sequence[Run], *, accept: bool = False, mended: bool = False
) -> list[str]:
    """Compare the runs of a result folder with those that would go on there.

    Parameters
    ----------
    folder : Path
        The result folder.
    runs : sequence of Run
        Those that the scenario gives now.
    accept : bool
        Whether changes are accepted, which `adopt` writes down.
    mended : bool
        Whether changes of modules are, after a run failed.

    Returns
    -------
    list of str
        What the user should know.

    Raises
    ------
    ScenarioError
        If something else would be run than what is there.
    """
    unknown = 0
    for run in runs:
        held = _held(folder, run)
        if not held:
            _check_begun(folder, run)
            continue
        unknown += "identity" not in held
        try:
            _check_place(folder, run, held)
            _check_changes(folder, run, _refused(changes(held, run), accept, mended))
        except ScenarioError:
            if not _is_misplaced(folder / run.folder, held):  # else it is mended
                raise
            _check_begun(folder, run)
        else:
            _check_ending(folder, run, held)
    if not unknown:
        return []
    text = "begun by a version that noted no digests: whether data or modules have changed is not"
    return [f"{text} known of {many(unknown, 'run')}"]


def check_all(folder: Path, runs: Sequence[Run]) -> None:
    """Raise ScenarioError if a result folder holds runs that the scenario has not.

    Of a sweep these may be of later batches than the first, whose runs are given.
    """
    known = {run.folder for run in runs}
    last = max((run.record["trial"]["number"] for run in runs if "trial" in run.record), default=0)
    found = [path.name for path in run_folders(folder)]
    others = [name for name in found if name not in known]
    if last:
        others = [name for name in others if _trial(folder / name) <= last]
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        text = f"holds {others[0]}{more}, which the scenario has not; undo the change of the"
        raise ScenarioError(shown(folder), f"{text} scenario, or move that folder away")


def changes(held: Mapping[str, Any], run: Run) -> list[Change]:
    """Return what has changed since a run began, by its ``run.json``.

    Of another version of rayfed, settings that only one of both knows are none.
    """
    was, now = _settings(held, str(held.get("label"))), _settings(run.record, run.label)
    identity, own = held.get("identity") or {}, run.record.get("identity") or {}
    files, own_files = identity.get("data") or {}, own.get("data") or {}
    modules, own_modules = identity.get("modules") or {}, own.get("modules") or {}
    made_by = (held.get("versions") or {}).get("rayfed")
    other = not identity or made_by != versions()["rayfed"]
    found = [
        Change(key, was.get(key, _NOTHING), now.get(key, _NOTHING))
        for key in dict.fromkeys([*was, *now])
        if not (key in files and key in own_files)
        and was.get(key, _NOTHING) != now.get(key, _NOTHING)
        and not (other and (key not in was or key not in now))
    ]
    replaced = tuple(c.key.removesuffix("name") for c in found if c.key.endswith(".name"))
    found = [  # of a plug-in that is another one its name is enough
        c for c in found
        if c.key.endswith(".name") or not f"{c.key}.".startswith(replaced or ("-",))
    ]  # fmt: skip
    found += [
        Change(key, files[key], own_files[key])
        for key in files
        if key in own_files and files[key].get("digest") != own_files[key].get("digest")
    ]
    return found + [
        Change(f"modules.{name}", {"digest": modules[name]}, {"digest": own_modules[name]})
        for name in modules
        if name in own_modules and modules[name] != own_modules[name]
    ]


def adopt(folder: Path, runs: Sequence[Run]) -> tuple[Run, ...]:
    """Write down what has changed in the records of runs, and return the runs with it.

    Parameters
    ----------
    folder, runs : Path, sequence of Run
        As for `check_same`, which accepted the changes.
    """
    return tuple(_adopted(folder, run) for run in runs)


def _adopted(folder: Path, run: Run) -> Run:
    held = _held(folder, run)
    identity = run.record.get("identity")
    if not held or identity is None:
        return run
    before = held.get("identity") or {}
    digests = {*before.get("before", ()), *filter(None, [before.get("digest")])}
    own = {**identity, "before": sorted(digests - {identity["digest"]})}
    noted = list(held.get("changes") or ())
    fresh = changes(held, run)
    if fresh and _is_misplaced(folder / run.folder, held):
        return run
    if fresh:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        after = _round(folder / run.folder)
        noted += [
            {"time": stamp, "round": after, "key": c.key, "from": c.before, "to": c.now}
            for c in fresh
        ]
        lines = [*(held.get("warnings") or ()), *told(noted[-len(fresh) :])]
        kept = {"identity": own, "changes": noted, "warnings": lines}
        kept |= {key: run.record[key] for key in ("scenario", "settings")}
        status(folder / run.folder, {**held, **kept})
    carried = {"identity": own, **({"changes": noted} if noted else {})}
    return replace(run, record={**run.record, **carried})


def told(noted: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return warnings for readers of results about accepted changes."""
    return [
        f"changed after round {change['round']}: "
        f"{Change(change['key'], change['from'], change['to'])}"
        for change in noted
    ]


def extended(run: Run, held: Mapping[str, Any]) -> bool:
    """Return whether a run that finished is to end at another time now."""
    return held.get("status") == "finished" and _endings_differ(run, held)


def _held(folder: Path, run: Run) -> dict[str, Any]:
    """Return what the record of a run says; nothing if there is none, or it is damaged."""
    held = record(folder / run.folder)
    return {} if held.get("damaged") else held


def _settings(record: Mapping[str, Any], label: str) -> dict[str, Any]:
    scenario = json.loads(json.dumps(record.get("scenario") or {}, default=str))
    return decisive(scenario, label)


def _refused(found: Sequence[Change], accept: bool, mended: bool) -> list[Change]:
    if accept:
        return []
    return [c for c in found if not (mended and c.key.startswith("modules."))]


def _is_misplaced(run: Path, held: Mapping[str, Any]) -> bool:
    """Return whether a record is that of other files than those beside it."""
    if damage(run, held) is not None:
        return True
    made = Checkpoints(run / "checkpoint").identity() if (run / "checkpoint").is_dir() else None
    known = digests_of(held)
    return bool(made and known and made not in known)


def _check_begun(folder: Path, run: Run) -> None:
    """Refuse fewer rounds than a checkpoint of this very run has; its record says nothing."""
    checkpoints = Checkpoints(folder / run.folder / "checkpoint")
    made = checkpoints.identity() if _round(folder / run.folder) else None
    if made is not None and made in digests_of(run.record):
        _check_reached(folder, run)


def _check_changes(folder: Path, run: Run, found: Sequence[Change]) -> None:
    if found:
        more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
        what = "; ".join(map(str, found[:_MOST]))
        text = f"{run.folder}: {what}{more}; undo that, run the study anew, or go on with"
        raise ScenarioError(shown(folder), f"{text} --accept-changes")


def _check_place(folder: Path, run: Run, held: Mapping[str, Any]) -> None:
    """Refuse the run of another folder."""
    there = tuple(held.get(key) for key in ("label", "setting", "seed"))
    if there != (run.label, run.setting, run.seed):
        label, setting, seed = there
        what = f"'{label}'{f' ({setting})' if setting else ''} with seed {seed}"
        text = f"{run.folder}: holds the run of {clipped(what, 120)}; put the folders back"
        raise ScenarioError(shown(folder), f"{text} to where they were")


def _endings_differ(run: Run, held: Mapping[str, Any]) -> bool:
    return ending(held.get("scenario") or {}) != ending(_plain(run))


def _plain(run: Run) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(run.record.get("scenario") or {}, default=str))
    return plain


def _check_ending(folder: Path, run: Run, held: Mapping[str, Any]) -> None:
    """Refuse an end at which the run would have ended before the state that it goes on from."""
    if not _endings_differ(run, held):
        return
    was, now = ending(held.get("scenario") or {}), ending(_plain(run))
    place = f"{run.folder}: "
    if "trial" in run.record:
        what = _difference(was, now)
        text = f"{place}{what}; trials of a sweep were chosen by what others reached, sweep anew"
        raise ScenarioError(shown(folder), text)
    if "identity" not in held and held.get("status") == "finished":
        text = f"{place}{_difference(was, now)}; it ended under a version that did not keep what"
        raise ScenarioError(shown(folder), f"{text} going on needs, run the study anew")
    needed = {f"stop.{rule}" for rule in _NEEDED}
    endless = now["rounds"] is None and was["rounds"] is not None
    if endless or needed & (was.keys() ^ now.keys()):
        text = f"{place}{_difference(was, now)}; rows depend on it, run the study anew"
        raise ScenarioError(shown(folder), text)
    privacy = (run.record.get("settings") or {}).get("privacy") or {}
    if privacy.get("epsilon") is not None and was["rounds"] != now["rounds"]:
        text = f"{place}{_difference(was, now)}; the noise was solved for the rounds that it had"
        raise ScenarioError(shown(folder), f"{text}, run the study anew or give privacy.noise")
    _check_reached(folder, run)


def _check_reached(folder: Path, run: Run) -> None:
    """Refuse an end before the round that the run goes on after."""
    place = f"{run.folder}: "
    at = _round(folder / run.folder)
    if run.ending.rounds < at:
        text = f"{place}found rounds: {run.ending.rounds}, but it is after round {at}; give at"
        raise ScenarioError(shown(folder), f"{text} least {at}, or run the study anew")
    early = _ends_before(folder / run.folder, run, at)
    if early is not None:
        rule, round_number = early
        text = f"{place}stop.{rule} would have ended it after round {round_number}, but it is"
        raise ScenarioError(shown(folder), f"{text} after round {at}; run the study anew")


def _difference(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    pairs = ((key, was.get(key), now.get(key)) for key in dict.fromkeys([*was, *now]))
    return "; ".join(str(Change(*pair)) for pair in pairs if pair[1] != pair[2])


def _round(run: Path) -> int:
    """Return the round that a run goes on after."""
    if not (run / "checkpoint" / MANIFESTS[0]).is_file():
        return 0
    return Checkpoints(run / "checkpoint").round() or 0


def _ends_before(run: Path, now: Run, at: int) -> tuple[str, int] | None:
    """Return the rule that would have ended a run before a round, and when; None if none would."""
    stop, checkpoints = now.ending.stop, Checkpoints(run / "checkpoint")
    with suppress(Damaged, OSError):  # who goes on from there will say so
        for name in MANIFESTS:
            found = checkpoints.read(name, run)
            if found is None:
                continue
            parts = [run / "rounds.parquet" / part for part in sorted(found.tables["rounds"])]
            rules = ("time_s", "loss", "loss_gap", "accuracy", "participants", *stop.columns)
            columns = {rule: [v for p in parts for v in values(read(p), rule)] for rule in rules}
            updates = 0
            for number, row in enumerate(zip(*columns.values(), strict=True)):
                named = dict(zip(rules, row, strict=True))
                updates += int(named["participants"])
                rule = stop.rule(named, updates)
                if rule is not None and number < at:
                    return rule, number
            return None
    return None


def _trial(run: Path) -> int:
    return int((record(run).get("trial") or {}).get("number", 0))


def _short(value: Any) -> str:
    if value == _NOTHING:
        return _NOTHING
    if not isinstance(value, Mapping):
        return clipped(json.dumps(value, default=str), 60) if value is not None else "null"
    sizes = (f"{value[key]:,} {key}, " for key in ("rows", "bytes") if key in value)
    return f"{''.join(sizes)}digest {value['digest'][:8]}"
