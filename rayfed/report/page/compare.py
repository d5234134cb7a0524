"""One page over several result folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rayfed.core.errors import RayfedError
from rayfed.report.page.report import page
from rayfed.report.panels.base import Panel
from rayfed.report.read.files import replace
from rayfed.report.read.joined import joined
from rayfed.report.read.results import Results
from rayfed.report.searched import Searched


def compare(
    folders: Sequence[str | Path], out: Path, panels: Sequence[str | type[Panel]] = ()
) -> Results:
    """Write a page over several result folders and return what it shows.

    Parameters
    ----------
    folders : sequence of path
        Result folders; of a search the best trial of each algorithm is shown.
    out : Path
        The page. Its folder is made.
    panels : sequence of str or type, optional
        Panels of the user's, as `panels.base.find` takes them.

    Raises
    ------
    ScenarioError
        If there are less than two folders, one is given twice, or one holds no run; if a
        panel of the user's cannot be found or drawn.
    RayfedError
        If the page cannot be written.
    """
    results = joined([_shown(Results.read(folder)) for folder in folders])
    text = page(results, panels=panels)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise RayfedError(f"{out.parent}: cannot be written ({why})") from error
    replace(out, text)
    return results


def _shown(results: Results) -> Results:
    searched = Searched.of(results)
    return results if searched is None else searched.winners
