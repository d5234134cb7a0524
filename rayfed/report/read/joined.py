"""Several result folders as one, with runs that are told apart by what differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rayfed.core.errors import ScenarioError
from rayfed.report.read.compared import (
    MOST_KEYS,
    Compared,
    differing,
    listed,
    own_facts,
    scenario_facts,
    shown,
    text,
)
from rayfed.report.read.results import Results, RunRecord


def joined(parts: Sequence[Results]) -> Results:
    """Return the runs of several result folders as those of one study.

    A run keeps its name, and gets the settings of its folder that differ: those of the scenario,
    and those of its algorithm where another folder has an algorithm of that name. Where more than
    `MOST_KEYS` differ, the folder's name stands for them. Runs that differ in nothing but the seed
    are seeds of one algorithm; if they share a seed, the folders' names tell them apart.

    Parameters
    ----------
    parts : sequence of Results
        Two or more; of a search its winners.

    Raises
    ------
    ScenarioError
        If there are less than two, or a folder is given twice.
    """
    _check(parts)
    folders = _folder_names([part.folder for part in parts])
    between = _common([[scenario_facts(run.info) for run in part.runs_found] for part in parts])
    by_scenario = differing(between)
    told = [key for key in by_scenario if not key.startswith("evaluate.")]
    own = _algorithms(parts)
    table = _table(between, by_scenario, own)
    labels = [
        _labels(part, facts, told, own, place)
        for place, (part, facts) in enumerate(zip(parts, between, strict=True))
    ]
    if _clash(parts, labels) or len(told) > MOST_KEYS:
        named = zip(parts, folders, strict=True)
        labels = [dict.fromkeys(part.names, folder) for part, folder in named]
    study = _study(parts, folders)
    runs = [
        _run(run, names[run.name], study)
        for part, names in zip(parts, labels, strict=True)
        for run in part.runs_found
    ]
    order = {label: k for k, label in enumerate(dict.fromkeys(run.label for run in runs))}
    runs.sort(key=lambda run: order[run.label])  # stable: folders stay in their order
    return Results(parts[0].folder, tuple(runs), compared=Compared(tuple(folders), table))


def _check(parts: Sequence[Results]) -> None:
    if len(parts) < 2:
        raise ScenarioError(
            "", "give two result folders or more; a single one is for rayfed report"
        )
    places = [part.folder.resolve() for part in parts]
    for k, place in enumerate(places):
        if place in places[:k]:
            raise ScenarioError(str(parts[k].folder), "is given twice")


def _folder_names(folders: Sequence[Path]) -> list[str]:
    """Return the shortest ends of paths that are distinct."""
    whole = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, whole)) + 1):
        names = ["/".join(parts[-length:]) for parts in whole]
        if len(set(names)) == len(names):
            break
    return names


def _common(facts: Iterable[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return what holds of all runs of each folder; what a grid varies tells its own runs apart."""
    return [
        {
            key: value
            for key, value in held[0].items()
            if all(str(other.get(key)) == str(value) for other in held)
        }
        for held in facts
    ]


def _algorithms(parts: Sequence[Results]) -> dict[str, dict[int, dict[str, Any]]]:
    """Return the settings of each algorithm that several folders have, by name and folder."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for place, part in enumerate(parts):
        for name in part.names:
            found.setdefault(name, {})[place] = own_facts(part.of(name)[0].info)
    return {name: held for name, held in found.items() if len(held) > 1}


def _labels(
    part: Results,
    facts: Mapping[str, Any],
    told: Sequence[str],
    own: Mapping[str, Mapping[int, Mapping[str, Any]]],
    place: int,
) -> dict[str, str]:
    """Return what is added to each name of a folder; empty where nothing differs."""
    known = [key for key in told if key in facts]
    labels = {}
    for name in part.names:
        mine: Mapping[str, Any] = own.get(name, {}).get(place, {})
        keys = differing(list(own.get(name, {}).values()))
        labels[name] = text({**facts, **mine}, [*known, *keys][: 2 * MOST_KEYS])
    return labels


def _clash(parts: Sequence[Results], labels: Sequence[Mapping[str, str]]) -> bool:
    """Whether two runs of one seed would have the same name."""
    keys = [
        (run.name, names[run.name], run.seed)
        for part, names in zip(parts, labels, strict=True)
        for run in part.runs_found
    ]
    return len(set(keys)) < len(keys)


def _table(
    between: Sequence[Mapping[str, Any]],
    by_scenario: Sequence[str],
    own: Mapping[str, Mapping[int, Mapping[str, Any]]],
) -> dict[str, tuple[str, ...]]:
    """Return all that differs: a value for each folder, "-" where it has none."""
    table = {
        key: tuple(shown(facts[key]) if key in facts else "-" for facts in between)
        for key in by_scenario
    }
    for name, held in own.items():
        for key in differing(list(held.values())):
            table[f"{name}: {key}"] = tuple(
                shown(held[place].get(key)) if place in held else "-"
                for place in range(len(between))
            )
    return table


def _study(parts: Sequence[Results], folders: Sequence[str]) -> dict[str, str]:
    """Return the name and the description of the whole."""
    names = list(dict.fromkeys(part.study for part in parts))
    alone = f"{names[0]}: {listed(folders)}"
    return {
        "name": listed(names) if len(names) > 1 else alone,
        "description": f"The runs of {len(folders)} result folders: {listed(folders)}.",
    }


def _run(run: RunRecord, label: str, study: Mapping[str, str]) -> RunRecord:
    """Return a run under its name on the common page; what it records of a search is left out."""
    own = run.setting
    info = {key: value for key, value in run.info.items() if key != "trial"}
    info |= {"study": study, "setting": ", ".join(filter(None, (label, own)))}
    if not label:
        return run.renamed(run.name, info)
    name = f"{run.name[:-1]}, {label})" if run.name.endswith(")") else f"{run.name} ({label})"
    return run.renamed(name, info)
