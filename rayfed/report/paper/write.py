"""Writing the figures and tables of a result folder for a paper."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import plotly.graph_objects as go
import yaml

from rayfed.core.arrays import Floats
from rayfed.core.errors import ScenarioError, unknown
from rayfed.core.yamlfile import parse_yaml
from rayfed.report.figures.facets import is_panel, side_by_side
from rayfed.report.gallery import SIDE_BY_SIDE, by_case, figure, kinds
from rayfed.report.paper import sheets
from rayfed.report.paper.sheets import DEFAULT, WIDTHS_IN, Font, Sheet, laid_out
from rayfed.report.pivot import SO_FAR, pivot
from rayfed.report.read.curves import X_AXES, Axis, first_column
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
    "|": r"\textbar{}",
    "[": "{[}",
    "*": "{*}",
}
"""Signs in LaTeX; after the end of a row a bracket or an asterisk would be its option."""
_LEAST, _WIDEST = 1e-3, 1e3  # smallest number, and ratio of two in a column, without powers of ten
_PLAIN = Axis("", "")  # of columns without a unit
_COMMA = re.compile(r",(?=\s*\w+=)|,$")  # between options: names have commas, too
_NAMES = ("case", "name", "series")  # options whose values are texts, even if they look otherwise
_SPECIAL = re.compile(r"[\\~^<>±∞|[*&%$#_{}]")
TABLES = ("table-costs", "table-finals", "table-cases")
"""What it took to reach the target, the final values, and these of algorithms by cases."""


def tabular(columns: Sequence[TextColumn]) -> str:
    """Return a table as a ``tabular``: the first column at the left, the others at the right.

    Parameters
    ----------
    columns : sequence of TextColumn
        As of `rayfed.report.tables.text_columns`; the best of each is bold. Numbers of a column
        have one unit and equal precision.
    """
    titles, cells = zip(*map(_column, columns), strict=True)
    lines = [
        rf"\begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}",
        r"\toprule",
        _line(titles),
        r"\midrule",
        *map(_line, zip(*cells, strict=True)),
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


def _column(column: TextColumn) -> tuple[str, list[str]]:
    """Return the title of a column and its cells, in LaTeX."""
    values, spreads = (np.array(held, float) for held in (column.values, column.spreads))
    title, cells = escaped(column.title), [escaped(text) for text in column.texts]
    known = np.flatnonzero(np.isfinite(values))
    if len(known) and len(spreads):
        unit, worth = X_AXES.get(column.clock, _PLAIN).unit(float(values[known].max()))
        title += f" ({unit})" if unit else ""
        numbers = _alike(values[known] / worth, spreads[known] / worth)
        for place, number in zip(known, numbers, strict=True):
            cells[place] = number + (SO_FAR if column.texts[place].endswith(SO_FAR) else "")
    pairs = zip(cells, column.best, strict=True)
    return title, [rf"\textbf{{{cell}}}" if best else cell for cell, best in pairs]


def _alike(values: Floats, spreads: Floats) -> list[str]:
    """Return means with their deviations (NaN if unknown) in LaTeX, with equal precision.

    All have the decimals that the median deviation needs for two digits, at most those of the
    largest mean's fourth and at least those of the smallest mean's second digit. Means that differ
    by more than a factor of 1,000 are written as powers of ten with two decimals.
    """
    known = spreads[np.isfinite(spreads) & (spreads > 0)]
    sizes = np.abs(values[values != 0]) if values.any() else known
    pairs = list(zip(values, spreads, strict=True))
    if not len(sizes) or not (len(known) or (values % 1).any()):
        return [_number(*pair, 0) for pair in pairs]
    low, high = float(sizes.min()), float(sizes.max())
    if low < _LEAST or high > _WIDEST * low:
        return [_power(*pair) for pair in pairs]
    wanted = _decimals(float(np.median(known)), 2) if len(known) else _decimals(high, 3)
    places = max(min(wanted, _decimals(high, 4)), _decimals(low, 2))
    return [_number(*pair, places) for pair in pairs]


def _decimals(value: float, digits: int) -> int:
    """Return the decimals of a positive number with so many significant digits."""
    return max(0, digits - 1 - math.floor(math.log10(value)))


def _number(value: float, spread: float, places: int) -> str:
    mean = f"{value:z,.{places}f}".replace("-", "$-$")  # in a text - is a hyphen
    if not math.isfinite(spread):
        return mean
    least = 10.0**-places
    shown = f"$<${least:.{places}f}" if 0 < spread < least / 2 else f"{spread:,.{places}f}"
    return rf"{mean} $\pm$ {shown}"


def _power(value: float, spread: float) -> str:
    """Return a number as a power of ten with two decimals."""
    power = math.floor(math.log10(abs(value))) if value else 0
    number = _number(value / 10.0**power, spread / 10.0**power, 2)
    if not power:
        return number
    mantissa = f"({number})" if math.isfinite(spread) else number
    return rf"{mantissa} $\cdot 10^{{{power}}}$"


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
        pairs = [part.partition("=") for part in _COMMA.split(given)] if given else []
        wrong = next((key for key, sign, _ in pairs if not (key and sign)), None)
        if wrong is not None:
            raise ScenarioError(text, f"'{wrong}' is no option=value; write {kind}:option=value")
        if kind in TABLES and not {key for key, _, _ in pairs} <= {"y", "target"}:
            raise ScenarioError(text, "a table takes the options y and target")
        options = {key.strip(): value for key, _, value in pairs}
        return cls(kind, {k: v.strip() if k in _NAMES else _value(v) for k, v in options.items()})

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


def write(
    results: Results, folder: Path, what: Iterable[str] = (), font: Font = DEFAULT
) -> list[Path]:
    """Write figures as PDF and SVG in two widths, and tables as LaTeX.

    Parameters
    ----------
    results : Results
        A result folder.
    folder : Path
        Where to; it is made.
    what : iterable of str
        Figures and tables, see `PaperItem.parse`. Figures joined by " + " are panels of one. If
        empty: all for which the results have something.
    font : Font
        The font of all figures.

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
    asked = [tuple(map(PaperItem.parse, text.split(" + "))) for text in what]
    wanted = asked or [(PaperItem(kind, {}),) for kind in (*TABLES, *kinds())]
    tables: dict[Path, str] = {}
    drawn: list[tuple[Sheet, Path]] = []
    for items in wanted:
        try:
            if len(items) == 1 and items[0].kind in TABLES:
                tables[folder / f"{items[0].stem}.tex"] = tabular(_columns(results, items[0]))
            else:
                drawn += _figures(results, items, folder, font)
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


def _figures(
    results: Results, items: Sequence[PaperItem], folder: Path, font: Font
) -> list[tuple[Sheet, Path]]:
    """Return the sheets of a figure, for each case that has it if none is chosen.

    Raises
    ------
    ScenarioError
        The first one, if no case has it.
    """
    parts = [items]
    if len(items) == 1 and items[0].kind in by_case() - {SIDE_BY_SIDE}:
        (item,) = items
        cases = () if "case" in item.options else results.cases
        parts = [(replaced(item, options={"case": case, **item.options}),) for case in cases]
    made, errors = list[tuple[Sheet, Path]](), list[ScenarioError]()
    counts = Counter[str]()
    for part in parts or [items]:
        stem = "+".join(item.stem for item in part)
        counts[stem.lower()] += 1  # cases may differ in signs that no file name has
        number = f"-{counts[stem.lower()]}" if counts[stem.lower()] > 1 else ""
        try:
            made += _sheets(results, part, folder / f"{stem}{number}", font)
        except ScenarioError as error:
            errors.append(error)
    if not made:
        raise errors[0]
    return made


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


def _sheets(
    results: Results, items: Sequence[PaperItem], stem: Path, font: Font
) -> list[tuple[Sheet, Path]]:
    """Return a figure, or several as panels of one, in every width with a path for every format.

    Paths begin with the stem.
    """
    drawn = [_drawn(results, item, len(items) > 1) for item in items]
    heads = [
        f"({letter}) {one.layout.title.text or item.options.get('case', '')}".rstrip()
        for letter, item, one in zip(ascii_lowercase, items, drawn, strict=False)
    ]
    panels = dict(zip(heads, drawn, strict=True))
    joined = side_by_side(panels) if len(drawn) > 1 else drawn[0]
    made = {size: laid_out(joined, size, font) for size in WIDTHS_IN}
    return [
        (sheet, stem.with_name(f"{stem.name}-{size}.{suffix}"))
        for size, sheet in made.items()
        for suffix in sheets.FORMATS
    ]


def _drawn(results: Results, item: PaperItem, panel: bool) -> go.Figure:
    """Return a figure with something to see."""
    if panel and item.kind in TABLES:
        raise ScenarioError(item.kind, "a table is no panel of a figure; write it by itself")
    drawn = figure(results, item.kind, item.options)
    if not drawn.data:
        note = (drawn.layout.meta or {}).get("note") or "there is nothing to draw"
        raise ScenarioError(item.kind, note)
    if panel and not is_panel(drawn):
        text = "is no panel: it has several axes or a colour scale; write it by itself"
        raise ScenarioError(item.kind, text)
    return drawn
