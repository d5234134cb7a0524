"""Several result folders as one, with runs named by their differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rayfed.core.errors import ScenarioError
from rayfed.report.read.differences import (
    MOST_KEYS,
    Compared,
    decides,
    differing,
    listed,
    own_facts,
    scenario_facts,
    shown,
    text,
    unequal,
)
from rayfed.report.read.results import Results, RunRecord


def joined(parts: Sequence[Results]) -> Results:
    """Return the runs of several result folders as those of one study.

    A run keeps its name, and gets the settings of its folder that differ: those of the scenario,
    and those of its algorithm where another folder has an algorithm of that name. Where more than
    `MOST_KEYS` differ, the folder's name replaces them. Runs that differ only in the seed are seeds
    of one algorithm; if they share a seed, they are labelled by the folders' names.

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
    facts = _Facts([_common(part) for part in parts], _algorithms(parts))
    found = [(place, run) for place, part in enumerate(parts) for run in part.runs_found]
    labels = [facts.label(place, run.name) for place, run in found]
    alike = {(run.name, label, run.seed) for (_, run), label in zip(found, labels, strict=True)}
    if len(alike) < len(found) or len(facts.differing_keys) > MOST_KEYS:
        labels = [folders[place] for place, _ in found]
    study = _study(parts, folders)
    runs = [_run(run, label, study) for (_, run), label in zip(found, labels, strict=True)]
    order = {label: k for k, label in enumerate(dict.fromkeys(run.label for run in runs))}
    runs.sort(key=lambda run: order[run.label])  # stable: folders stay in their order
    compared = Compared(tuple(folders), facts.table | _varied(parts))
    return Results(parts[0].folder, tuple(runs), compared=compared)


@dataclass(frozen=True)
class _Facts:
    """The settings of several folders, by their places.

    Parameters
    ----------
    worlds : sequence of mapping
        What holds of all runs of each folder, without settings of algorithms.
    own : mapping of str to mapping of int to mapping
        The settings of each algorithm that several folders have, by name and place.
    """

    worlds: Sequence[Mapping[str, Any]]
    own: Mapping[str, Mapping[int, Mapping[str, Any]]]

    @cached_property
    def own_keys(self) -> dict[str, list[str]]:
        """The keys of each algorithm that differ."""
        return {name: differing([*held.values()]) for name, held in self.own.items()}

    @cached_property
    def differing_keys(self) -> list[str]:
        """The differing keys of the scenarios that label runs."""
        return [key for key in differing(self.worlds) if not key.startswith("evaluate.")]

    def label(self, place: int, name: str) -> str:
        """Return the suffix of a folder's names; empty without differences."""
        world = self.worlds[place]
        known = [key for key in self.differing_keys if key in world]
        keys = [*known, *self.own_keys.get(name, ())][: 2 * MOST_KEYS]
        return text({**world, **self.own.get(name, {}).get(place, {})}, keys)

    @property
    def table(self) -> dict[str, tuple[str, ...]]:
        """All that differs: a value for each folder, "-" where it has none."""
        table = {
            key: tuple(shown(world[key]) if key in world else "-" for world in self.worlds)
            for key in differing(self.worlds)
        }
        for name, held in self.own.items():
            every = [held.get(place) for place in range(len(self.worlds))]
            for key in self.own_keys[name]:
                values = ("-" if facts is None else shown(facts.get(key)) for facts in every)
                table[f"{name}: {key}"] = tuple(values)
        return table


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
    paths = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, paths)) + 1):
        names = ["/".join(parts[-length:]) for parts in paths]
        if len(set(names)) == len(names):
            break
    return names


def _common(part: Results) -> dict[str, Any]:
    """Return the common settings of a folder; those of a grid distinguish its own runs."""
    first, *others = (scenario_facts(run.info) for run in part.runs_found)
    varied = unequal([first, *others])
    return {key: value for key, value in first.items() if key not in varied}


def _varied(parts: Sequence[Results]) -> dict[str, tuple[str, ...]]:
    """Return the values of data and circumstances that vary within a folder, for each folder.

    The runs of its grid then differ as those of several folders do.
    """
    every = [[scenario_facts(run.info) for run in part.runs_found] for part in parts]
    keys = sorted({key for facts in every for key in unequal(facts) if decides(key)})
    values = {
        key: [dict.fromkeys(shown(fact[key]) for fact in facts if key in fact) for facts in every]
        for key in keys
    }
    return {key: tuple(" or ".join(of) or "-" for of in found) for key, found in values.items()}


def _algorithms(parts: Sequence[Results]) -> dict[str, dict[int, dict[str, Any]]]:
    """Return the settings of each algorithm that several folders have, by name and folder."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for place, part in enumerate(parts):
        for name in part.names:
            found.setdefault(name, {})[place] = own_facts(part.of(name)[0].info)
    return {name: held for name, held in found.items() if len(held) > 1}


def _study(parts: Sequence[Results], folders: Sequence[str]) -> dict[str, str]:
    """Return the name and the description of the whole."""
    names = list(dict.fromkeys(part.study for part in parts))
    alone = f"{names[0]}: {listed(folders)}"
    return {
        "name": listed(names) if len(names) > 1 else alone,
        "description": f"The runs of {len(folders)} result folders: {listed(folders)}.",
    }


def _run(run: RunRecord, label: str, study: Mapping[str, str]) -> RunRecord:
    """Return a run under its name on the common page, without its search record."""
    own = run.setting
    info = {key: value for key, value in run.info.items() if key != "trial"}
    info |= {"study": study, "setting": ", ".join(filter(None, (label, own)))}
    if not label:
        return run.renamed(run.name, info)
    name = f"{run.name[:-1]}, {label})" if run.name.endswith(")") else f"{run.name} ({label})"
    return run.renamed(name, info)
