"""Settings that a custom loop or declared rules change between the rounds of a run."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from rayfed.algorithms.multi_walk import MultiWalk
from rayfed.core.control import ControlRule
from rayfed.core.dotted import apply_overrides
from rayfed.core.errors import ScenarioError, clipped, under, unknown
from rayfed.core.needs import SOLVER
from rayfed.engine.loop import RowMaker
from rayfed.engine.measuring import Measures
from rayfed.engine.run import Run
from rayfed.messages import State
from rayfed.runs.resume import BY_CONTROL, BY_LOOP, changed_meanwhile
from rayfed.solvers import Descent
from rayfed.solvers.base import Solver
from rayfed.solvers.schedules import ChangedRate, Schedule
from rayfed.study.forecast.checks import check_run
from rayfed.study.forecast.declared import check_accuracy, check_declared
from rayfed.study.scenario.expansion import expand
from rayfed.study.scenario.settings import plain
from rayfed.study.scenario.study import Study

MOST_SETTINGS = 64
"""Combinations of settings that the rules of a controller may make."""
CHANGEABLE = {
    "cohort": "participation.cohort",
    "deadline_s": "participation.deadline_s",
    "lr": "local.lr",
    "aggregate": "aggregate",
    "uplink": "uplink",
}
"""Settings that may change, and their keys below an algorithm."""
NUMBERS = ("cohort", "deadline_s", "lr")
_UNCHANGED = object()


def settings_of(run: Run) -> dict[str, Any]:
    """Return the changeable settings of a run; a learning rate may be a schedule."""
    part, local = run.participation, run.training.algorithm.local
    rate = local.lr if isinstance(local, Descent) else None
    rate = rate.changes[-1][1] if isinstance(rate, ChangedRate) else rate
    return {
        "cohort": part.cohort, "deadline_s": part.deadline_s, "lr": rate,
        "aggregate": run.channel.aggregate, "uplink": run.channel.uplink,
    }  # fmt: skip


def changed(
    study: Study, run: Run, after: int, values: Mapping[str, Any], by: str = BY_LOOP
) -> tuple[Run, list[dict[str, Any]]]:
    """Return a run with other settings in the rounds after one, checked as those of a scenario.

    Parameters
    ----------
    study : Study
        The setting that the run belongs to.
    run : Run
        With all earlier changes.
    after : int
        Round after which the settings change.
    values : mapping of str to object
        By their names in `CHANGEABLE`, as in a scenario: numbers or None, a rule, a list of stages.
    by : str
        Mark of the entries in ``run.json``.

    Returns
    -------
    Run
        The run itself if all values are those that it has.
    list of dict
        Entries of ``changes`` in ``run.json``.

    Raises
    ------
    ScenarioError
        If a setting cannot change, or the scenario would be refused with it.
    """
    values = {k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()}
    for name, value in values.items():
        with under(f"change({name})"):
            _check_value(name, value)
    now, index = settings_of(run), study.labels.index(run.label)
    values = {name: value for name, value in values.items() if value != now[name]}
    if not values:
        return run, []
    given = vars(study.participation_of(index)) | study.channel_of(index)
    earlier = {name: now[name] for name in now if name in given and now[name] != given[name]}
    keys = {
        f"algorithms.{index}.{CHANGEABLE[name]}": value
        for name, value in {**earlier, **values}.items()
    }
    other = Study.parse(apply_overrides(study.given(), keys))
    then = values | {k: v for k, v in other.channel_of(index).items() if k in values}
    fresh = {name: value for name, value in then.items() if value != now[name]}
    if not fresh:
        return run, []
    for name, value in fresh.items():  # a name may have been that of an installed plug-in
        with under(f"change({name})"):
            _check_value(name, value)
    _check_changeable(run, fresh)
    other.check_cohort(run.federation.clients.count)
    other.check_selection(run.federation.clients.count)
    check_declared(other, other.problem)
    made = _with_settings(run, other, index, after, fresh)
    if "uplink" in fresh:
        _check_codecs(run, made)
    try:
        check_run(made)
    except ScenarioError as error:
        raise other.blamed(index, error) from error
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return replace(made, changes=run.changes + len(fresh)), [
        {"time": stamp, "round": after, "key": CHANGEABLE[name], "from": plain(now[name]),
         "to": plain(value), "by": by}
        for name, value in fresh.items()
    ]  # fmt: skip


@dataclass(frozen=True)
class Controller:
    """Declared controller of a run.

    Parameters
    ----------
    study : Study
        The setting that the run belongs to, without its data.
    rules : tuple of ControlRule
    """

    study: Study
    rules: tuple[ControlRule, ...]

    def counted(self, row: Mapping[str, Any], state: State) -> State:
        """Return the number (R,) of rows in a row that meet each rule, as ``met``."""
        met = [rule.met(row) for rule in self.rules]
        now = [k if m is None else (k + 1) * m for k, m in zip(self._met(state), met, strict=True)]
        return {"met": np.array(now, dtype=np.int64)}

    def changed(self, run: Run, after: int, state: State) -> tuple[Run, list[dict[str, Any]]]:
        """Return a run as the rules change it after a round; see `changed`."""
        values: dict[str, Any] = {}
        for rule, met in zip(self.rules, self._met(state), strict=True):
            values |= rule.set if met >= rule.rounds else {}
        return changed(self.study, run, after, values, BY_CONTROL)

    def _met(self, state: State) -> list[int]:
        """Return ``met``; zeros at first, and if a resume has another number of rules."""
        met: list[int] = state["met"].tolist() if "met" in state else []
        return met if len(met) == len(self.rules) else [0] * len(self.rules)


def controlled(study: Study, run: Run) -> Run:
    """Return a run with its declared controller, all combinations of its settings checked.

    Raises
    ------
    ScenarioError
        If rules read a column that rows have not, or without noise in a private run, or a
        combination of their settings is refused.
    """
    index = study.labels.index(run.label)
    rules, place = study.algorithms[index].control, f"algorithms.{index}.control"
    if not rules:
        return run
    columns = RowMaker(run, Measures(run, _no_exchange)).all - {"algorithm", "label"}
    choices: dict[str, list[Any]] = {}
    for k, rule in enumerate(rules):
        with under(f"{place}.{k}"):
            _check_column(run, rule.column, columns)
        for name, value in rule.set.items():
            known = choices.setdefault(name, [_UNCHANGED])
            known += [] if value in known else [value]
    several = math.prod(map(len, choices.values()))
    if several > MOST_SETTINGS:
        text = f"found {several:,} combinations of settings, {MOST_SETTINGS} are the most"
        raise ScenarioError(place, f"{text}; give fewer values")
    for values in itertools.product(*choices.values()):
        given = {k: v for k, v in zip(choices, values, strict=True) if v is not _UNCHANGED}
        try:
            changed(study, run, 0, given)
        except ScenarioError as error:
            raise ScenarioError(place, str(error)) from error
    made = []
    for rule in rules:
        held = settings_of(changed(study, run, 0, rule.set)[0])
        made.append(replace(rule, set={name: held[name] for name in rule.set}))
    return replace(run, control=Controller(study.model_copy(update={"data": None}), tuple(made)))


def _check_column(run: Run, column: str, columns: Iterable[str]) -> None:
    """Refuse a column that rows have not, or without values, or without noise in private runs."""
    if column not in columns:
        raise ScenarioError("column", unknown("column", column, columns))
    if column.endswith("accuracy"):
        check_accuracy(run.training.problem, "column")
    if run.channel.privacy is not None and column != "round":
        text = f"found '{column}', which has no noise: epsilon would be larger"
        raise ScenarioError("column", f"{text}; use round")


def _no_exchange(*_: Any) -> NoReturn:
    raise NotImplementedError


def replayed(study: Study, runs: Iterable[Run]) -> tuple[Run, ...]:
    """Return runs that repeat the changes of settings in their records.

    Raises
    ------
    ScenarioError
        If a record holds a change that the scenario does not allow.
    """
    settings = dict(expand(study))
    return tuple(_replayed(settings[run.setting], run) for run in runs)


def _replayed(study: Study, run: Run) -> Run:
    names = {key: name for name, key in CHANGEABLE.items()}
    made, later, count = run, [], 0
    for after, entries in changed_meanwhile(run.record).items():
        values = {names.get(each["key"], str(each["key"])): each["to"] for each in entries}
        try:
            made, _ = changed(study, made, after, values)
        except ScenarioError as error:
            text = f"changed after round {after}: {error}; run the study anew"
            raise ScenarioError(run.folder, text) from error
        count += len(entries)  # a setting may have changed several times after one round
        made = replace(made, changes=count)
        if "aggregate" in values:  # a rule that was taken away and put back began anew
            made = replace(made, channel=replace(made.channel, since=after))
        later.append((after, made))
    return replace(run, later=tuple(later))


def _check_value(name: str, value: Any) -> None:
    """Refuse unknown settings, numbers that are none, and code of the user's.

    A resume repeats the changes in ``run.json`` and imports no module for them.
    """
    if name not in CHANGEABLE:
        raise ScenarioError("", unknown("setting", name, CHANGEABLE))
    number = isinstance(value, int | float | None) and not isinstance(value, bool)
    if name in NUMBERS and not number:
        raise ScenarioError("", f"found {clipped(repr(value), 60)}; give a number")
    if name not in NUMBERS and _names_code(plain(value)):
        text = f"found {clipped(str(plain(value)), 60)}, code of your own"
        raise ScenarioError("", f"{text}; give a name of `rayfed list`")


def _names_code(value: Any) -> bool:
    """Return whether a plain value holds the name of a class in a module."""
    if isinstance(value, str):
        return ":" in value
    inner = value.values() if isinstance(value, Mapping) else value
    return isinstance(value, Mapping | list) and any(map(_names_code, inner))


def _check_codecs(run: Run, made: Run) -> None:
    """Refuse a change of uploads with state that the new stages cannot continue."""
    text = "has late uploads of the stages before" if run.participation.late == "stale" else ""
    for uplink in (run.uplink(), made.uplink()):
        if uplink is not None and (uplink.initial or uplink.extra):
            text = "has stages with memories, which others cannot continue"
        elif uplink is not None and uplink.secure is not None:
            text = "has secure sums, whose keys are for one list of stages"
    if run.channel.privacy is not None:
        text = "has noise for one clip: its privacy would be another one"
    if text:
        raise ScenarioError("change(uplink)", f"'{run.label}' {text}; leave it out")


def _check_changeable(run: Run, names: Iterable[str]) -> None:
    """Refuse changes of settings that the state or the accounting of a run depends on."""
    algorithm = run.training.algorithm
    for name in names:
        text = ""
        if algorithm.asynchronous:  # some clients would have begun, or even ended, the next round
            text = "has no rounds, so no change falls between two"
        elif name == "lr" and isinstance(algorithm, MultiWalk) and algorithm.walks > 1:
            text = "numbers the visits of each walk, so no change falls between two rows"
        elif name == "lr":
            if SOLVER not in algorithm.needs or not isinstance(algorithm.local, Descent):
                text = "takes no local steps with a learning rate"
        elif algorithm.centralised or algorithm.gossip:
            text = "has no cohorts"
        elif name == "cohort" and run.channel.privacy is not None:
            text = "has noise for one cohort: its privacy would be another one"
        if text:
            raise ScenarioError(f"change({name})", f"'{run.label}' {text}; leave it out")


def _with_settings(run: Run, study: Study, index: int, after: int, names: Iterable[str]) -> Run:
    """Return a run with some settings of a study in the rounds after one."""
    part, training = study.participation_of(index), run.training
    own = {name: getattr(part, name) for name in names if name in ("cohort", "deadline_s")}
    channel = {k: v for k, v in study.channel_of(index).items() if k in names}
    if "aggregate" in names:
        channel["since"] = after
    run = replace(
        run,
        participation=replace(run.participation, **own),
        channel=replace(run.channel, **channel),
    )
    if "lr" not in names:
        return run
    new = (study.algorithms[index].local, *study.group_solvers(index))
    old = (training.algorithm.local, *training.solvers[1:])
    pairs = zip(old, new[: len(old)], strict=True)  # pooled clients have no groups
    local, *groups = (_with_rate(solver, other, after) for solver, other in pairs)
    with under(f"algorithms.{index}"):
        training.algorithm.check_solver(local)
    algorithm = copy(training.algorithm)  # `replace` would undo what binding has set
    object.__setattr__(algorithm, "local", local)
    return replace(run, training=replace(training, algorithm=algorithm, solvers=(local, *groups)))


def _with_rate(solver: Solver, other: Solver, after: int) -> Solver:
    """Return a solver with the learning rate of another one in the rounds after one."""
    if not (isinstance(solver, Descent) and isinstance(other, Descent)):
        return solver  # of a client group, without a rate
    held = solver.lr if isinstance(solver.lr, ChangedRate) else ChangedRate(solver.lr, ())
    if isinstance(other.lr, Schedule) or other.lr == solver.lr:
        return solver  # of a client group, with a rate of its own
    return replace(solver, lr=replace(held, changes=(*held.changes, (after, other.lr))))
