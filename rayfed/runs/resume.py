"""Resuming: the identity of a run, compared with that in its folder.

``run.json`` holds the identity of a run: its scenario, its seed, the data, the user's modules. A
run goes on only if they are those that it began with, or if the user accepts what has changed.
More rounds are no change, nor are further runs.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rayfed.core.announced import run_folders
from rayfed.core.arrays import Array
from rayfed.core.dotted import flat
from rayfed.core.entries import Damaged, Entry, digest_of
from rayfed.core.errors import ScenarioError, clipped, many
from rayfed.core.older import renewed
from rayfed.core.parquet import read, values
from rayfed.core.run_state import damage, read_record
from rayfed.engine.run import Run
from rayfed.runs.files.checkpoints import MANIFESTS, Checkpoints
from rayfed.runs.files.outcome import ended
from rayfed.runs.files.place import shown
from rayfed.runs.files.run_json import status, versions

_MOST = 3  # changes that a message names
_NEEDED = ("loss_gap", "loss_change", "model_change")
"""Rules under ``stop`` that rows have columns for."""
_SPENT = re.compile(r"\b(privacy|uplink|participation\.(cohort|select)|clients\.count)\b")
"""Settings that epsilon is computed from."""
_NOTHING = "nothing"
BY_LOOP, BY_CONTROL = "loop", "control"
"""Marks of entries of ``changes`` in ``run.json`` that a custom loop or the declared controller of
the run has made: the scenario does not hold their values."""


@dataclass(frozen=True)
class Change:
    """A change of a value that decides results, since a run began.

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
        if not _is_of_file(self.now):
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
    found = [_Found(folder, run) for run in runs]
    for each in found:
        each.check(accept=accept, mended=mended)
    unknown = sum(1 for each in found if each.held and "identity" not in each.held)
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
    """Return the changes since a run began, by its ``run.json``.

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


def adopt(folder: Path, runs: Sequence[Run], *, failed: bool = False) -> tuple[Run, ...]:
    """Note accepted changes in the records of runs, and return the runs with them.

    A run that has ended and does not go on keeps its settings, with which it was computed.

    Parameters
    ----------
    folder, runs : Path, sequence of Run
        As for `check_same`, which accepted the changes.
    failed : bool
        Whether runs that failed go on.
    """
    done = ended(folder, [run.folder for run in runs], failed=not failed)
    found = [_Found(folder, run) for run in runs]
    return tuple(
        each.kept() if each.run.folder in done and not extended(each.run, each.held)
        else each.adopted()
        for each in found
    )  # fmt: skip


def change_warnings(noted: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return warnings for readers of results about accepted changes."""
    return [
        f"changed after round {change['round']}: "
        f"{Change(change['key'], change['from'], change['to'])}"
        for change in noted
    ]


def changed_meanwhile(record: Mapping[str, Any]) -> dict[int, list[Mapping[str, Any]]]:
    """Return the changes that a loop or a controller has made, by the round before each."""
    found: dict[int, list[Mapping[str, Any]]] = {}
    for each in record.get("changes") or ():
        if each.get("by") in (BY_LOOP, BY_CONTROL):
            found.setdefault(int(each["round"]), []).append(each)
    return found


def extended(run: Run, held: Mapping[str, Any]) -> bool:
    """Return whether a run that finished is to end at another time now."""
    was, now = _endings(run, held)
    return held.get("status") == "finished" and was != now


class _Found:
    """A run that would continue, and the record in its folder.

    Attributes
    ----------
    held : dict
        What its record says; nothing if there is none, or it is damaged.
    """

    def __init__(self, folder: Path, run: Run) -> None:
        self.folder, self.run, self.path = folder, run, folder / run.folder
        held = read_record(self.path)
        self.held = {} if held.get("damaged") else held
        self.checkpoints = Checkpoints(self.path / "checkpoint")
        self.checkpoints.changes = len(changed_meanwhile(self.held))

    def check(self, *, accept: bool, mended: bool) -> None:
        """Raise ScenarioError if the run is not that of the folder."""
        if self._is_of_this_run(accept=accept, mended=mended):
            self._check_ending()
        elif self._round and self.checkpoints.identity() in digests_of(self.run.record):
            self._check_reached()

    def kept(self) -> Run:
        """Note that changes were accepted, which do not concern the run, and return it."""
        if found := changes(self.held, self.run):
            status(self.path, {**self.held, "accepted": _digest(found)})
        return self.run

    def adopted(self) -> Run:
        """Note accepted changes in the record, and return the run with them."""
        identity = self.run.record.get("identity")
        if not self.held or identity is None:
            return self.run
        before = self.held.get("identity") or {}
        digests = {*before.get("before", ()), *filter(None, [before.get("digest")])}
        own = {**identity, "before": sorted(digests - {identity["digest"]})}
        noted = list(self.held.get("changes") or ())
        fresh = changes(self.held, self.run)
        if fresh and self._is_misplaced():
            return self.run
        if fresh:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            noted += [
                {"time": stamp, "round": self._round, "key": c.key, "from": c.before, "to": c.now}
                for c in fresh
            ]
            lines = [*(self.held.get("warnings") or ()), *change_warnings(noted[-len(fresh) :])]
            chosen = {"identity": own, "changes": noted, "warnings": lines}
            chosen |= {key: self.run.record[key] for key in ("scenario", "settings")}
            status(self.path, {**self.held, **chosen})
        carried = {"identity": own, **({"changes": noted} if noted else {})}
        return replace(self.run, record={**self.run.record, **carried})

    @property
    def _round(self) -> int:
        """The round that the run goes on after."""
        return self.checkpoints.round() or 0

    def _refusal(self, text: str) -> ScenarioError:
        return ScenarioError(shown(self.folder), f"{self.run.folder}: {text}")

    def _is_of_this_run(self, *, accept: bool, mended: bool) -> bool:
        """Return whether there is a record, of this very run; one of other files is mended."""
        try:
            if self.held:
                self._check_place()
                self._check_changes(accept=accept, mended=mended)
        except ScenarioError:
            if not self._is_misplaced():
                raise
            return False
        return bool(self.held)

    def _is_misplaced(self) -> bool:
        """Return whether the record is that of other files than those beside it."""
        if damage(self.path, self.held) is not None:
            return True
        made, known = self.checkpoints.identity(), digests_of(self.held)
        return bool(made and known and made not in known)

    def _check_place(self) -> None:
        """Refuse the run of another folder."""
        there = tuple(self.held.get(key) for key in ("label", "setting", "seed"))
        if there != (self.run.label, self.run.setting, self.run.seed):
            label, setting, seed = there
            what = f"'{label}'{f' ({setting})' if setting else ''} with seed {seed}"
            text = f"holds the run of {clipped(what, 120)}; put the folders back to where they were"
            raise self._refusal(text)

    def _check_changes(self, *, accept: bool, mended: bool) -> None:
        """Refuse changes that are not accepted, and those that would make epsilon wrong."""
        found = changes(self.held, self.run)
        private = self.run.channel.privacy is not None
        spent = [c for c in found if private and _SPENT.search(c.key)]
        if accept and spent:
            text = f"{'; '.join(map(str, spent[:_MOST]))}; epsilon counts all rounds alike"
            raise self._refusal(f"{text}, undo that or run the study anew")
        over = self.held.get("accepted") == _digest(found) and not extended(self.run, self.held)
        found = [] if accept or over else found
        found = [c for c in found if not (mended and c.key.startswith("modules."))]
        if found:
            more = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
            version, remedy = (self.held.get("versions") or {}).get("rayfed"), "undo that"
            if version != versions()["rayfed"]:
                remedy = f"if you changed nothing, resume with rayfed {version}, which began it"
            text = f"{'; '.join(map(str, found[:_MOST]))}{more}; {remedy}, run the study anew, or"
            raise self._refusal(f"{text} go on with --accept-changes")

    def _check_ending(self) -> None:
        """Refuse an end at which the run would have ended before the state it goes on from."""
        was, now = _endings(self.run, self.held)
        if was == now:
            return
        pairs = ((key, was.get(key), now.get(key)) for key in dict.fromkeys([*was, *now]))
        differs = "; ".join(str(Change(*pair)) for pair in pairs if pair[1] != pair[2])
        if "trial" in self.run.record:
            text = "trials of a sweep were chosen by what others reached, sweep anew"
            raise self._refusal(f"{differs}; {text}")
        if "identity" not in self.held and self.held.get("status") == "finished":
            text = "it ended under a version that did not keep what going on needs"
            raise self._refusal(f"{differs}; {text}, run the study anew")
        needed = {f"stop.{rule}" for rule in _NEEDED}
        endless = now["rounds"] is None and was["rounds"] is not None
        if endless or needed & (was.keys() ^ now.keys()):
            raise self._refusal(f"{differs}; rows depend on it, run the study anew")
        privacy = (self.run.record.get("settings") or {}).get("privacy") or {}
        if privacy.get("epsilon") is not None and was["rounds"] != now["rounds"]:
            text = "the noise was solved for the rounds that it had, run the study anew or give"
            raise self._refusal(f"{differs}; {text} privacy.noise")
        self._check_reached()

    def _check_reached(self) -> None:
        """Refuse an end before the round that the run goes on after."""
        at, rounds = self._round, self.run.ending.rounds
        if rounds < at:
            text = f"found rounds: {rounds}, but it is after round {at}; give at least {at}"
            raise self._refusal(f"{text}, or run the study anew")
        early = self._ends_before(at)
        if early is not None:
            rule, number = early
            text = f"stop.{rule} would have ended it after round {number}, but it is after"
            raise self._refusal(f"{text} round {at}; run the study anew")

    def _ends_before(self, at: int) -> tuple[str, int] | None:
        """Return the rule that would have ended the run before a round, and when; None if none."""
        stop, updates = self.run.ending.stop, 0
        rules = ("time_s", "loss", "loss_gap", "accuracy", "participants", *stop.columns)
        rules += tuple(stop.metrics)
        with suppress(Damaged, OSError):  # who goes on from there will say so
            for number, row in enumerate(self._rows(rules)[:at]):
                updates += int(row["participants"])
                rule = stop.rule(row, updates, self.run.ending.higher)
                if rule is not None:
                    return rule, number
        return None

    def _rows(self, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return some columns of the rounds before the checkpoint that the run goes on from.

        A metric that was not measured then is NaN, which meets no rule.
        """
        found = filter(None, (self.checkpoints.read(name, self.path) for name in MANIFESTS))
        parts = next((sorted(checkpoint.tables["rounds"]) for checkpoint in found), [])
        tables = [read(self.path / "rounds.parquet" / part) for part in parts]
        named = [zip(*(_column(table, name) for name in columns), strict=True) for table in tables]
        return [dict(zip(columns, row, strict=True)) for rows in named for row in rows]


def _digest(found: Iterable[Change]) -> str:
    listed = [[change.key, change.before, change.now] for change in found]
    return digest_of(json.dumps(listed, default=str).encode())


def _column(table: Any, name: str) -> Array:
    if name in table.column_names:
        return values(table, name)
    return np.full(len(table), np.nan)


def _settings(record: Mapping[str, Any], label: str) -> dict[str, Any]:
    return decisive(_plain(record), label)


def _endings(run: Run, held: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return when a run was to end, by its record, and when it is to end now."""
    return ending(held.get("scenario") or {}), ending(_plain(run.record))


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scenario of a record as JSON holds it, in the spelling of this version."""
    plain: dict[str, Any] = json.loads(json.dumps(record.get("scenario") or {}, default=str))
    return renewed(plain)


def _trial(run: Path) -> int:
    return int((read_record(run).get("trial") or {}).get("number", 0))


def _is_of_file(value: Any) -> bool:
    """Return whether a value describes a file or a module, not a plug-in."""
    return isinstance(value, Mapping) and "digest" in value


def _short(value: Any) -> str:
    if value == _NOTHING:
        return _NOTHING
    if not _is_of_file(value):
        return clipped(json.dumps(value, default=str), 60) if value is not None else "null"
    sizes = (f"{value[key]:,} {key}, " for key in ("rows", "bytes") if key in value)
    return f"{''.join(sizes)}digest {value['digest'][:8]}"


_NO_SETTINGS = (
    "name", "description", "seeds", "rounds", "stop", "checkpoint", "clock", "executor", "grid",
    "cases", "search", "sweep", "algorithms",
)  # fmt: skip
"""Keys that change no row of a run: those of the whole study, and when a run ends."""
_NESTED = (Mapping, list)
"""Values of a list that count by themselves in the digest of a run's settings."""
DATASET = "problem.dataset"


def digests_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the digests under which a run may have written: that of now, and accepted ones."""
    identity = record.get("identity") or {}
    return tuple(filter(None, (identity.get("digest"), *identity.get("before", ()))))


def decisive(scenario: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return the settings of a resolved scenario that decide a run's rows, by dotted key.

    Parameters
    ----------
    scenario : mapping
        Plain values, as ``run.json`` holds them.
    label : str
        Of the run's algorithm; of the others nothing is kept.

    Examples
    --------
    >>> scenario = {"rounds": 9, "dtype": "float32", "algorithms": [{"name": "fedavg", "lr": 1}]}
    >>> decisive(scenario, "fedavg")
    {'dtype': 'float32', 'algorithms.fedavg.name': 'fedavg', 'algorithms.fedavg.lr': 1}
    """
    chosen = {key: value for key, value in scenario.items() if key not in _NO_SETTINGS}
    device = (scenario.get("executor") or {}).get("device", "cpu")
    if device != "cpu":
        chosen["executor"] = {"device": device}
    for algorithm in scenario.get("algorithms") or ():
        if (algorithm.get("label") or algorithm.get("name")) == label:
            own = {key: value for key, value in algorithm.items() if key not in ("grid", "label")}
            own = {key: value for key, value in own.items() if key != "control" or value}
            chosen[f"algorithms.{label}"] = own
    return flat(chosen, _NESTED)


def ending(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return when a run ends, by dotted key: its rounds, and the rules under ``stop``."""
    rules = {key: value for key, value in (scenario.get("stop") or {}).items() if value is not None}
    return flat({"rounds": scenario.get("rounds"), "stop": rules}, _NESTED)


class Identities:
    """Makes the identities of runs; each file is read once.

    Parameters
    ----------
    files : dict
        What is known of files already, by their paths; it is added to.
    modules : mapping of str to str
        Digests of the user's modules, by name.
    """

    def __init__(self, files: dict[str, dict[str, Any] | None], modules: Mapping[str, str]) -> None:
        self.files, self.modules = files, dict(modules)
        self.known: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}

    def of(
        self, scenario: Mapping[str, Any], label: str, setting: str, seed: int,
        rows: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the identity of a run.

        Parameters
        ----------
        scenario : mapping
            The resolved scenario of its setting.
        label, setting : str
        seed : int
        rows : mapping, optional
            What is known of the rows of its data set, where that is no file of the user's.

        Returns
        -------
        dict
            ``data`` and ``modules`` with digests, and the ``digest`` of all.
        """
        if (label, setting) not in self.known:
            self.known[label, setting] = self._settings(scenario, label)
        text, data = self.known[label, setting]
        data = data if rows is None else {**data, DATASET: dict(rows)}
        digests = {key: entry["digest"] for key, entry in data.items()}
        serialised = json.dumps([text, label, seed, digests, self.modules], sort_keys=True)
        return {"digest": digest_of(serialised.encode()), "data": data, "modules": self.modules}

    def _settings(self, scenario: Mapping[str, Any], label: str) -> tuple[str, dict[str, Any]]:
        """Return the settings of a run as a text, without the files that they name, and these."""
        settings = decisive(scenario, label)
        found = {key: self._file(key, value) for key, value in settings.items()}
        data = {key: entry for key, entry in found.items() if entry is not None}
        rest = {key: value for key, value in settings.items() if key not in data}
        return json.dumps(rest, sort_keys=True, default=str), data

    def _file(self, key: str, value: Any) -> dict[str, Any] | None:
        """Return the identity of a file or folder that a setting names; None if it names none.

        The files in the folder of a data set are known by their rows.
        """
        if not isinstance(value, str) or not Path(value).is_absolute():
            return None
        if key.startswith(f"{DATASET}.") and Path(value).is_dir():
            return None
        if value not in self.files:
            self.files[value] = _described(Path(value))
        return self.files[value]


def _described(path: Path) -> dict[str, Any] | None:
    try:
        if path.is_file():
            entry = Entry.of(path.resolve())
            return {"path": str(path), "bytes": entry.bytes, "digest": entry.digest}
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file())
            held = [(str(file.relative_to(path)), Entry.of(file.resolve())) for file in files]
            serialised = json.dumps([(name, entry.digest) for name, entry in held])
            size = sum(entry.bytes for _, entry in held)
            return {"path": str(path), "bytes": size, "digest": digest_of(serialised.encode())}
    except (OSError, ValueError):  # who reads it says what is wrong
        pass
    return None
