"""Cases of a study: worlds in which algorithms are compared, which are no trials of a search.

The rule: what a grid or ``cases`` varies makes a case where its key tells of the world, such as
``partition.alpha``, ``clients.count`` or ``participation.cohort``. Keys below ``algorithms`` are
settings of an algorithm, of which the best is sought, and so is all that ``rayfed sweep`` tries.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rayfed.report.read.settings import case_values, short_names, tried
from rayfed.study.scenario.dotted import case_setting, setting_name

_WHOLE = re.compile(r"(?<== )(-?\d+)\.0\b")


@dataclass(frozen=True)
class Placed:
    """The parts of a setting.

    Parameters
    ----------
    case : str
        What it sets of the world, as it stands in a sentence; empty if it sets nothing of it.
    own : str
        What it sets of algorithms.
    """

    case: str
    own: str


def placed(scenario: str, recorded: Sequence[Mapping[str, Any]]) -> dict[str, Placed]:
    """Return the parts of each setting of a grid or of cases, by its name in ``run.json``.

    Parameters
    ----------
    scenario : str
        The text of ``scenario.yaml``.
    recorded : sequence of mapping
        The scenarios that runs recorded, see `settings.short_names`.
    """
    named, settings = case_values(scenario), tried(scenario)
    worlds = {name: _part(values, False) for name, values in settings.items()}
    if not any(worlds.values()):
        return {name: Placed("", name) for name in settings}
    short = short_names({setting_name(world): world for world in worlds.values()}, recorded)
    found = {}
    for name, values in settings.items():
        world, own = worlds[name], setting_name(_part(values, True))
        head = next((c for c in named if name == c or name.startswith(f"{c}, ")), "")
        inner = {key: value for key, value in world.items() if key not in named.get(head, ())}
        text = setting_name(inner)
        found[name] = Placed(case_setting(head, _spaced(short.get(text, text))), own)
    return found


def _part(values: Mapping[str, Any], own: bool) -> dict[str, Any]:
    """Return the keys of algorithms, or all others."""
    return {k: value for k, value in values.items() if (k.partition(".")[0] == "algorithms") == own}


def _spaced(text: str) -> str:
    """Return a setting as a sentence has it.

    Examples
    --------
    >>> _spaced("alpha=10.0"), _spaced("ring, cohort=5")
    ('alpha = 10', 'ring, cohort = 5')
    """
    return _WHOLE.sub(r"\1", text.replace("=", " = "))
