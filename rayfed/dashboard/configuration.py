"""The user's configuration of the dashboard: panels of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rayfed.core.errors import ScenarioError, clipped
from rayfed.core.own import Names, resolving
from rayfed.core.plugins import resolve
from rayfed.core.yamlfile import read_yaml
from rayfed.report.panels import base
from rayfed.report.panels.base import Panel

FILE = "config.yaml"


def folder() -> Path:
    """Return rayfed's folder below ``XDG_CONFIG_HOME``, or else below ``~/.config``."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    home = Path(given) if os.path.isabs(given) else Path("~/.config").expanduser()
    return home / "rayfed"


def find(own: Sequence[str | type[Panel]] = ()) -> tuple[type[Panel], ...]:
    """Return the panels that come with rayfed, those of the configuration, and others.

    Modules of configured panels lie in the `folder`, so that no folder from which the dashboard is
    started, or which it shows, runs code.

    Parameters
    ----------
    own : sequence of str or type
        Other panels, as `panels.base.find` takes them.

    Raises
    ------
    ScenarioError
        If the configuration cannot be read or names no panels, or as by `panels.base.find`.
    """
    home = folder()
    with resolving(Names(scenario_folder=str(home))):
        configured = [resolve("panels", name) for name in _names(home)]
    return base.find([*configured, *own])


def _names(home: Path) -> list[str]:
    path = home / FILE
    if not path.is_file():
        return []
    held = read_yaml(path)[0]
    panels = held.get("panels") if isinstance(held, dict) else None
    if not isinstance(panels, list) or len(held) > 1:
        text = "found other content; give panels: and a list, such as [mine:Panel]"
        raise ScenarioError(str(path), text)
    for name in panels:
        top = str(name).partition(":")[0].partition(".")[0]
        files = (home / f"{top}.py", home / top / "__init__.py")
        if ":" not in str(name) or not any(file.is_file() for file in files):
            text = f"found '{clipped(name, 40)}'; give module:Class of a module in {home}"
            raise ScenarioError(f"{path}: panels", text)
    return [str(name) for name in panels]
