"""The scenarios that come with rayfed: in a wheel inside the package, in a checkout next to it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from rayfed.core.errors import ScenarioError, clipped, unknown

CLAIMS = ".claims.yaml"
"""How the name of a file ends that holds the claims of a study, not a scenario."""


def folder() -> Path:
    """Return the folder of the scenarios that come with rayfed."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "scenarios"
    return inside if inside.is_dir() else package.parent / "scenarios"


def scenarios() -> dict[str, Path]:
    """Return the scenario files that come with rayfed by name.

    Examples
    --------
    >>> scenarios()["quickstart"].name
    'quickstart.yaml'
    """
    paths = sorted(folder().glob("*.yaml"))
    return {path.stem: path for path in paths if not path.name.endswith(CLAIMS)}


def studies() -> dict[str, Path]:
    """Return the claims files of published studies by name; those of this folder go first."""
    paths = (p for home in (folder(), Path("scenarios")) for p in sorted(home.glob(f"*{CLAIMS}")))
    return {path.name.removesuffix(CLAIMS): path for path in paths}


def locate(scenario: str | Path) -> Path:
    """Return the path of a scenario that is given by its path or, if it comes with rayfed, by name.

    A file in the current folder comes before a scenario of that name.

    Raises
    ------
    ScenarioError
        If there is no such file, and the text is no single word that names a scenario either. It
        names the folders searched for a relative path.
    """
    path, known = Path(scenario), scenarios()
    try:
        path.lstat()
    except OSError as error:
        why = os.strerror(error.errno or errno.ENOENT)
    else:
        return path
    if path.name == str(scenario) and not path.suffix:
        if path.name not in known:
            raise ScenarioError("", unknown("scenario", path.name, known))
        return known[path.name]
    text = f"cannot be read: {why}"
    if not path.is_absolute():
        text += f"; looked in {clipped(Path.cwd(), 100)}"
    if path.stem in known:
        text += f"; the one that comes with rayfed is '{path.stem}' alone"
    raise ScenarioError(str(scenario), text)
