"""Figures at the width of a paper's column or page, with its font size, as PDF and SVG files.

A figure is drawn by the same function as on the page, laid out in a narrower or wider frame, and
then scaled as a whole, so that a letter of the page's `FONT_SIZE` pixels is `Font.pt` points high.
Files are written by kaleido with a browser of this machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from rayfed.core.errors import RayfedError, ScenarioError, clipped
from rayfed.core.extras import install
from rayfed.report.figures.facets import ACROSS, arrange
from rayfed.report.figures.labels import drop_labels, end_labels, place_labels
from rayfed.report.figures.style import FONT_SIZE, POWER_SIZE
from rayfed.report.paper.free import place_targets

PT_PER_IN = 72.0
PX_PER_IN = 96.0
"""Pixels of CSS, in which Plotly and browsers count."""
WIDTHS_IN = {"column": 3.3, "full": 7.0}
"""The widths: a column of a paper in two, and its whole page."""
_FAMILY = "Arial, Helvetica, 'Liberation Sans', sans-serif"
_POINTS = (4.0, 24.0)  # least and most
_ASPECT = {"column": 0.72, "full": 0.45}
_MOST_LABELS = 0.25  # of the width that names at the ends of lines may take
_LETTER, _WIDE = 6.5, 10.0  # pixels of a letter in a legend, and of a capital, m or w
_KEY = 45.0  # pixels of an entry's line with its gaps
_CLOSER = 8  # pixels of these gaps that are saved where entries take several rows
_SURE = 0.9  # of the width that texts in one row may take, as their widths are estimates
_LEGEND_ROW = 19.0  # pixels
_STEP = 8.0  # pixels that a height is a multiple of, which PDF can hold exactly
FORMATS = ("pdf", "svg")
_STYLE = "<style>@page { margin: 0 } body { margin: 0 } img { display: block }</style>"
_SVG_SIZE = re.compile(r'(<svg\b[^>]*?) width="[\d.]+" height="[\d.]+"')
_FONT = re.compile(r"(?P<family>[\w ,.-]*)(:(?P<pt>\d+(\.\d+)?))?")
_PDF_SIZE = re.compile(rb"/MediaBox \[([^\]]*)\]")
_NO_BROWSER = (
    "figures as files need Chromium or Chrome, and none was found; install one (such as by "
    "apt-get install chromium, or by plotly_get_chrome), or name its path in BROWSER_PATH"
)


@dataclass(frozen=True)
class Font:
    """Font of all texts of all figures.

    Parameters
    ----------
    pt : float
        Its size in points.
    family : str
        Names of fonts, as CSS has them; the first that is installed is taken.
    """

    pt: float = 8.0
    family: str = _FAMILY

    @classmethod
    def parse(cls, text: str) -> Font:
        """Read ``family:points``, such as ``Times New Roman:9``; either part may be left out.

        Raises
        ------
        ScenarioError
            If it is not of that form, or the size is not between 4 and 24 points.

        Examples
        --------
        >>> Font.parse("Times New Roman:9").family.partition(", ")[0], Font.parse(":9").pt
        ('Times New Roman', 9.0)
        """
        found = _FONT.fullmatch(text)
        if not text or not found:
            raise ScenarioError(
                "font", f"'{text}' is no font; write family:points, such as Times:9"
            )
        family, pt = found["family"].strip(), float(found["pt"] or cls.pt)
        if not _POINTS[0] <= pt <= _POINTS[1]:
            raise ScenarioError("font", f"{pt:g} points; give between 4 and 24")
        return cls(pt, f"{family}, {_FAMILY}" if family else _FAMILY)

    @property
    def scale(self) -> float:
        """Scale from pixels of the page to pixels of the file."""
        return self.pt / FONT_SIZE * PX_PER_IN / PT_PER_IN


DEFAULT = Font()


@dataclass(frozen=True)
class Sheet:
    """A figure laid out for one width.

    Parameters
    ----------
    figure : Figure
        In pixels of the page, ``layout.width`` and ``layout.height`` included.
    scale : float
        Scale from these to pixels of the file.
    """

    figure: go.Figure
    scale: float

    @property
    def width_pt(self) -> float:
        """Width of the file in points."""
        return float(self.figure.layout.width) * self.scale * PT_PER_IN / PX_PER_IN

    @property
    def height_pt(self) -> float:
        """Height of the file in points."""
        return float(self.figure.layout.height) * self.scale * PT_PER_IN / PX_PER_IN


def laid_out(figure: go.Figure, size: str, font: Font = DEFAULT) -> Sheet:
    """Lay a figure of the page out for a paper.

    Rows of a height of their own (clients, algorithms, cells) keep it, and a figure whose axes have
    one scale keeps its proportions. Names at the ends of lines are replaced by a legend where they
    would take more than a quarter of the width.

    Parameters
    ----------
    figure : Figure
        What a function of `rayfed.report.gallery.kinds` returned; it is not changed.
    size : str
        A key of `WIDTHS_IN`.
    font : Font
        The font of all its texts.
    """
    sheet = go.Figure(
        [_same_font(trace.to_plotly_json(), font.family) for trace in figure.data],
        _same_font(figure.layout.to_plotly_json(), font.family),
    )
    if sheet.layout.uniformtext.mode:  # texts that do not fit are left out, not made smaller
        sheet.update_layout(uniformtext_minsize=FONT_SIZE)
    width = WIDTHS_IN[size] * PX_PER_IN / font.scale
    arrange(sheet, ACROSS if size == "full" else 1)
    legend = _LEGEND_ROW * _add_legend(sheet, width)
    height = _height(sheet, width, _ASPECT[size]) + legend
    height = math.ceil(round(height * font.scale / _STEP, 6)) * _STEP / font.scale
    sheet.update_layout(width=width, height=height)
    place_labels(sheet)
    place_targets(sheet)
    return Sheet(sheet, font.scale)


def _add_legend(figure: go.Figure, width: float) -> int:
    """Write a legend above a figure where labels do not name its lines; return the rows."""
    labelled = bool(end_labels(figure))
    if labelled and figure.layout.margin.r <= _MOST_LABELS * width:
        return 0
    if labelled:
        drop_labels(figure)
    shown = _legend_traces(figure, labelled)
    names = [str(trace.name) for trace in shown]
    figure.for_each_trace(lambda trace: trace.update(showlegend=trace in shown))
    figure.update_layout(showlegend=len(names) > 1)
    if len(names) < 2:
        return 0
    widths, rows = [_KEY + _text_width(name) for name in names], 1
    room = width - figure.layout.margin.l - figure.layout.margin.r
    place = {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "traceorder": "normal"}
    if sum(widths) > _SURE * room:
        columns = max(1, int(room // (max(widths) - _CLOSER)))
        rows = math.ceil(len(names) / columns)
        place |= {"entrywidth": int(room / columns - _KEY + _CLOSER), "indentation": -_CLOSER}
    figure.layout.legend = place
    below = figure.layout.margin.b if _facets(figure) else 52  # not the legend below many lines
    figure.update_layout(margin={"t": 12 + _LEGEND_ROW * rows, "b": below})
    return rows


def _legend_traces(figure: go.Figure, labelled: bool) -> list[Any]:
    """Return a trace for each name: of lines with labels the means, else the first drawn.

    Algorithms whose names are cut to the same text have one each.
    """
    wanted = [(trace.meta or {}, trace) for trace in figure.data if trace.name and _drawn(trace)]
    if labelled or figure.layout.showlegend:
        wanted = [(meta, trace) for meta, trace in wanted if meta.get("part") != "seed"]
    found = {(meta.get("name"), trace.name): trace for meta, trace in reversed(wanted)}
    return list(found.values())[::-1]


def _text_width(text: str) -> float:
    """Return the approximate width of a text in pixels of the page."""
    return sum(_WIDE if letter.isupper() or letter in "mw" else _LETTER for letter in text)


def _drawn(trace: Any) -> bool:
    """Whether there is anything to see of a trace: points, or a bar of some length."""
    lengths = trace.x if trace.x is not None else ()
    return len(lengths) > 0 if trace.type != "bar" else any(value != 0 for value in lengths)


def _height(figure: go.Figure, width: float, aspect: float) -> float:
    """Return the height of a figure without a legend, in pixels of the page."""
    drawn = float(figure.layout.height)
    if _has_rows(figure) or _facets(figure):
        return drawn
    if any(axis.scaleanchor for axis in figure.select_yaxes()):
        return min(drawn, width)
    return min(drawn, aspect * width)


def _facets(figure: go.Figure) -> bool:
    """Return whether a figure has several pairs of axes side by side."""
    return bool((figure.layout.meta or {}).get("facets"))


def _has_rows(figure: go.Figure) -> bool:
    """Whether the height of a figure is that of its rows."""
    rows = ("heatmap", "parcoords", "parcats")
    if any(t.type in rows or t.to_plotly_json().get("orientation") == "h" for t in figure.data):
        return True
    return any(axis.type == "category" or axis.tickvals is not None
               for axis in figure.select_yaxes())  # fmt: skip


def _same_font(value: Any, family: str, key: str = "") -> Any:
    """Return a figure's values in one font of `FONT_SIZE`; exponents are set by `POWER_SIZE`.

    Plotly writes powers of ten a quarter larger than it is asked to, hence their own size.
    """
    if isinstance(value, Mapping):
        held = {name: _same_font(item, family, name) for name, item in value.items()}
        if key.endswith("font") and held.get("size") not in (None, POWER_SIZE):
            held["size"] = FONT_SIZE
        if "family" in held:
            held["family"] = family
        return held
    if isinstance(value, list | tuple):
        return [_same_font(item, family, key) for item in value]
    return value


def write_images(sheets: Sequence[tuple[Sheet, Path]]) -> None:
    """Write figures to files, in the formats that the names of these end in.

    Text stays text, nothing is taken from the network, and sizes are exact.

    Parameters
    ----------
    sheets : sequence of (Sheet, Path)
        Figures, each with a path that ends in ``.pdf`` or ``.svg``, in an existing folder.

    Raises
    ------
    RayfedError
        If kaleido or a browser is missing, or the files cannot be written.
    """
    _draw([_order(sheet, path) for sheet, path in sheets])
    for sheet, path in sheets:
        if not path.is_file() or not path.stat().st_size:
            raise RayfedError(f"{path}: was not written; is the disk full?")
        if path.suffix == ".pdf":
            path.write_bytes(pdf_of_size(path.read_bytes(), sheet.width_pt))
        else:
            text = svg_of_size(path.read_text(encoding="utf-8"), sheet.width_pt, sheet.height_pt)
            path.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class _Page:
    """The page that draws the figures, as kaleido takes it."""

    text: str

    def generate_index(self) -> str:
        return self.text


def _order(sheet: Sheet, path: Path) -> dict[str, Any]:
    """Return kaleido's arguments for one file; it does not take None for a size."""
    layout = sheet.figure.layout
    opts = {"format": path.suffix[1:], "width": layout.width, "height": layout.height}
    return {"fig": sheet.figure, "path": path, "opts": opts | {"scale": sheet.scale}}


def _draw(orders: list[dict[str, Any]]) -> None:
    """Let one browser draw everything."""
    try:
        from kaleido import PageGenerator, write_fig_from_object_sync
        from kaleido.errors import ChromeNotFoundError
    except ImportError as error:
        text = "figures as files need kaleido 1 or newer; install it with"
        raise RayfedError(f"{text}: {install('figures')}") from error
    # Kaleido's own page asks a server for MathJax, and prints with margins.
    page = PageGenerator(mathjax=False).generate_index().replace("</head>", f"{_STYLE}</head>")
    try:
        write_fig_from_object_sync(orders, kopts={"page_generator": _Page(page)})
    except ChromeNotFoundError as error:
        raise RayfedError(_NO_BROWSER) from error
    except Exception as error:  # of the browser, which has many
        why = clipped(f"{type(error).__name__}: {error}", 160)
        raise RayfedError(f"the browser did not draw the figures ({why})") from error


def svg_of_size(text: str, width_pt: float, height_pt: float) -> str:
    """Return an SVG image with its size in points, where Plotly writes pixels.

    Examples
    --------
    >>> svg_of_size('<svg class="a" width="316.8" height="160"><g/></svg>', 237.6, 120)
    '<svg class="a" width="237.6pt" height="120pt"><g/></svg>'
    """
    return _SVG_SIZE.sub(rf'\g<1> width="{width_pt:g}pt" height="{height_pt:g}pt"', text, count=1)


def pdf_of_size(content: bytes, width_pt: float) -> bytes:
    """Return a PDF file of one page with a width of `width_pt` points.

    A browser rounds the page up to whole pixels; the extra space on the right is cut. The file
    keeps its length, since a PDF file holds the byte offsets of its parts.

    Examples
    --------
    >>> pdf_of_size(b"/MediaBox [0 0 238.08 120]", 237.6)
    b'/MediaBox [0 0 237.6 120 ]'
    """

    def cut(box: re.Match[bytes]) -> bytes:
        left, bottom, width, height = box[1].split()
        most = (PT_PER_IN / PX_PER_IN) + 0.25  # a pixel, and the grid that the browser prints on
        if not 0 <= float(width) - width_pt <= most:
            return box[0]
        new = b" ".join([left, bottom, f"{width_pt:g}".encode(), height])
        return b"/MediaBox [" + new.ljust(len(box[1])) + b"]" if len(new) <= len(box[1]) else box[0]

    return _PDF_SIZE.sub(cut, content, count=1)
