"""Writing the figures and tables of a result folder for a paper."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rayfed.core.errors import ScenarioError, unknown
from rayfed.core.yamlfile import parse_yaml
from rayfed.report.gallery import SIDE_BY_SIDE, by_case, figure, kinds
from rayfed.report.paper import sheets
from rayfed.report.paper.sheets import WIDTHS_IN, Sheet, laid_out
from rayfed.report.pivot import pivot
from rayfed.report.read.curves import first_column
from rayfed.report.read.results import Results
from rayfed.report.tables import TextColumn, summary, text_columns
from rayfed.report.writing import check_own, make, replace

_SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "∞": r"$\infty$",
}
_SPECIAL = re.compile(r"[\\~^<>±∞&%$#_{}]")
TABLES = ("table-costs", "table-finals", "table-cases")
"""What it took to reach the target, the final values, and these of algorithms by cases."""


def tabular(columns: Sequence[TextColumn]) -> str:
    """Return a table as a ``tabular``: the first column at the left, the others at the right.

    Parameters
    ----------
    columns : sequence of TextColumn
        As of `rayfed.report.tables.text_columns`; the best of each is bold.
    """
    rows = [
        [_cell(column.texts[place], column.best[place]) for column in columns]
        for place in range(len(columns[0].texts))
    ]
    lines = [
        rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}",
        r"\toprule",
        _line([escaped(column.title) for column in columns]),
        r"\midrule",
        *map(_line, rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    r"""Return a text as LaTeX shows it.

    Examples
    --------
    >>> print(escaped("50 % of x_1 ± 2"))
    50 \% of x\_1 $\pm$ 2
    """
    return _SPECIAL.sub(lambda sign: _SIGNS.get(sign[0], "\\" + sign[0]), text)


def _cell(text: str, best: bool) -> str:
    return rf"\textbf{{{escaped(text)}}}" if best else escaped(text)


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


@dataclass(frozen=True)
class PaperItem:
    """One figure or table.

    Parameters
    ----------
    kind : str
        One of `TABLES` or of `rayfed.report.gallery.kinds`.
    options : mapping
        Arguments of the figure.
    """

    kind: str
    options: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str) -> PaperItem:
        """Read ``kind`` or ``kind:option=value,option=value``, such as ``convergence:x=time_s``.

        Raises
        ------
        ScenarioError
            If it is not of that form, or there is no such figure or table.
        """
        kind, _, given = text.partition(":")
        known = (*TABLES, *kinds())
        if kind not in known:
            raise ScenarioError("", unknown("figure or table", kind, known))
        pairs = [part.partition("=") for part in given.split(",")] if given else []
        wrong = next((key for key, sign, _ in pairs if not (key and sign)), None)
        if wrong is not None:
            raise ScenarioError(text, f"'{wrong}' is no option=value; write {kind}:option=value")
        if kind in TABLES and not {key for key, _, _ in pairs} <= {"y", "target"}:
            raise ScenarioError(text, "a table takes the options y and target")
        return cls(kind, {key.strip(): _value(value) for key, _, value in pairs})

    @property
    def stem(self) -> str:
        """The name of its files, without size and format."""
        parts = (self.kind, *(str(value) for value in self.options.values()))
        return re.sub(r"[^\w.+-]+", "-", "-".join(parts)).strip("-")


def _value(text: str) -> Any:
    """Return a value as YAML; names of columns and algorithms stay text."""
    try:
        return parse_yaml(text)
    except yaml.YAMLError:
        return text


def write(results: Results, folder: Path, what: Iterable[str] = ()) -> list[Path]:
    """Write figures as PDF and SVG in two widths, and tables as LaTeX.

    Parameters
    ----------
    results : Results
        A result folder.
    folder : Path
        Where to; it is made.
    what : iterable of str
        Figures and tables, see `PaperItem.parse`. If empty: all for which the results have
        something.

    Returns
    -------
    list of Path
        The files. Of each figure ``<figure>-column`` (3.3 in) and ``<figure>-full`` (7 in).

    Raises
    ------
    ScenarioError
        If something that is asked for is not known, or the results do not have it.
    RayfedError
        If a library or a browser is missing, or files cannot be written.
    """
    asked = [PaperItem.parse(text) for text in what]
    wanted = asked or [*_every(results)]
    tables: dict[Path, str] = {}
    drawn: list[tuple[Sheet, Path]] = []
    for each in wanted:
        try:
            if each.kind in TABLES:
                tables[folder / f"{each.stem}.tex"] = tabular(_columns(results, each))
            else:
                drawn += _sheets(results, each, folder)
        except ScenarioError:
            if asked:
                raise
    check_own(folder, results.folder)
    make(folder)
    for path, text in tables.items():
        replace(path, text)
    if drawn:
        sheets.write_images(drawn)
    return [*tables, *(path for _, path in drawn)]


def _every(results: Results) -> Iterator[PaperItem]:
    """Yield all tables and figures, those of a case for each of them."""
    of_case = by_case() - {SIDE_BY_SIDE} if results.cases else frozenset()
    for kind in (*TABLES, *kinds()):
        yield from (
            (PaperItem(kind, {"case": case}) for case in results.cases)
            if kind in of_case
            else [PaperItem(kind, {})]
        )


def _columns(results: Results, wanted: PaperItem) -> list[TextColumn]:
    """Return the columns of a table, the names of the algorithms first."""
    y, target = wanted.options.get("y"), wanted.options.get("target")
    results.check_column(y)
    if wanted.kind == "table-cases":
        if not results.cases:
            raise ScenarioError("", "this study has no cases for the table 'table-cases'")
        return pivot(results, y or first_column(results))
    names, *others = text_columns(results, summary(results, y, target))
    selected = [column for column in others if bool(column.clock) == (wanted.kind == "table-costs")]
    if not selected:
        raise ScenarioError("", f"this study has no values for the table '{wanted.kind}'")
    return [names, *selected]


def _sheets(results: Results, wanted: PaperItem, folder: Path) -> list[tuple[Sheet, Path]]:
    """Return a figure in every width, with a path for every format."""
    drawn = figure(results, wanted.kind, wanted.options)
    if not drawn.data:
        note = (drawn.layout.meta or {}).get("note") or "there is nothing to draw"
        raise ScenarioError(wanted.kind, note)
    made = {size: laid_out(drawn, size) for size in WIDTHS_IN}
    return [
        (sheet, folder / f"{wanted.stem}-{size}.{suffix}")
        for size, sheet in made.items()
        for suffix in sheets.FORMATS
    ]
