"""Small pieces of HTML: everything that comes from a user passes through `escape` here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import Any

from rayfed.report.figures.palette import Ink
from rayfed.report.tables import TextColumn


def asset(name: str) -> str:
    """Return the text of a file in ``rayfed/report/page/assets``."""
    return (resources.files("rayfed.report.page") / "assets" / name).read_text(encoding="utf-8")


_UNIT = re.compile(r"(?<=\d) (?=(?:%|ms|s|min|h|d|[kMGTP]?B|rounds?|updates?)(?!\w))")


@cache
def _terms() -> Mapping[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(asset("terms.json"))
    return found


def term(name: str, shown: str | None = None) -> str:
    """Return a term of the field with its tooltip: one sentence and the paper."""
    about = _terms()[name]
    tip = f"{escape(about['text'])} {escape(about['source'])}."
    words = f'{escape(shown or name)}<span role="tooltip">{tip}</span>'
    return f'<span class="term" tabindex="0">{words}</span>'


def embedded(value: Any) -> str:
    """Return JSON that may stand inside a script element, whatever text it holds."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    # "</script>" and "<!--" in a label would end or comment out the element.
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def unbroken(text: str) -> str:
    """Return a sentence in which no line ends between a number and its unit."""
    return _UNIT.sub("\u00a0", text)


def sentence(text: str) -> str:
    """Return a sentence of the page as HTML."""
    return escape(unbroken(text))


def choice(
    kind: str, legend: str, options: Iterable[tuple[str, str]], pressed: str, tag: str = ""
) -> str:
    """Return a row of buttons of which one is pressed; `tag` is the id of the row."""
    buttons = "".join(
        f'<button type="button" data-{kind}="{escape(value)}" data-text="{escape(text)}" '
        f'aria-pressed="{str(value == pressed).lower()}">{escape(text)}</button>'
        for value, text in options
    )
    name = f' id="{tag}"' if tag else ""
    return f'<fieldset class="choice"{name}><legend>{escape(legend)}</legend>{buttons}</fieldset>'


def swatch(place: int, ink: Ink) -> str:
    """Return a piece of an algorithm's line; its colour is the style variable ``--a<place>``."""
    dash = "" if ink.dash == "solid" else f' stroke-dasharray="{ink.dash.replace("px", "")}"'
    return (
        f'<svg class="swatch" viewBox="0 0 26 10" aria-hidden="true"><line x1="0" x2="26" y1="6" '
        f'y2="6" stroke="var(--a{place})" stroke-width="2.5"{dash}/></svg>'
    )


def key(look: Mapping[str, Ink]) -> str:
    """Return the key of the algorithms, each a button that hides its line."""
    entries = (
        f'<li><button type="button" data-hide="{escape(name)}" aria-pressed="true">'
        f"{swatch(place, ink)}{escape(name)}</button></li>"
        for place, (name, ink) in enumerate(look.items())
    )
    return f'<ul class="key" aria-label="algorithms; press to hide">{"".join(entries)}</ul>'


def statuses(entries: Iterable[tuple[str, str]]) -> str:
    """Return the key of the clients' statuses: pairs of a style of the box and its meaning."""
    parts = (f"<li><i {box}></i><span>{escape(text)}</span></li>" for box, text in entries)
    return f'<ul class="statuses">{"".join(parts)}</ul>'


def lines(entries: Iterable[tuple[int, Ink, str]]) -> str:
    """Return the key of lines: for each the place of its colour, its ink and its name."""
    parts = (f"<li>{swatch(place, ink)}{escape(text)}</li>" for place, ink, text in entries)
    return f'<ul class="statuses">{"".join(parts)}</ul>'


def plot(name: str, height: float | None, titles: str = "") -> str:
    """Return the place of a figure, as high as the figure will be, so that nothing jumps."""
    room = f'style="min-height:{height or 0:.0f}px"'
    label = titles or f"{name}-title"
    return f'<div class="plot" id="{name}" {room} role="img" aria-labelledby="{label}"></div>'


def saves(name: str) -> str:
    """Return the buttons that save a figure."""
    return (
        '<p class="actions"><span>Save as</span>'
        f'<button type="button" data-save="{name}" data-format="svg">SVG</button>'
        f'<button type="button" data-save="{name}" data-format="png">PNG</button></p>'
    )


def section(question: str, inside: str) -> str:
    """Return a section that answers one question of the reader."""
    return f'<section><p class="question">{escape(question)}</p>{inside}</section>'


def figure(
    name: str, title: str, how: str, above: str, data: Mapping[str, Any] | None, below: str = ""
) -> str:
    """Return a figure with what stands around it.

    Parameters
    ----------
    name, title : str
        Its id, and what one sees.
    how, above, below : str
        HTML: how to read it, and what comes before and after it.
    data : mapping, optional
        The figure, whose height is kept free.
    """
    height = data["layout"]["height"] if data else 0
    return (
        f'<figure><h2 id="{name}-title">{sentence(title)}</h2>'
        f'<p class="how">{how}</p>{above}'
        f"{plot(name, height)}{saves(name)}{below}</figure>"
    )


def results_table(
    columns: Sequence[TextColumn], look: Mapping[str, Ink], baselines: Iterable[str]
) -> str:
    """Return the table of results: sortable, the best values bold, baselines grey."""
    heads = "".join(
        f'<th scope="col"{_clock(column)}>'
        f'<button type="button">{escape(column.title)}</button></th>'
        for column in columns
    )
    grey, names = set(baselines), columns[0].texts
    rows = []
    for row, name in enumerate(names):
        cells = "".join(_cell(column, row, look, place) for place, column in enumerate(columns))
        grey_row = " class=baseline" if name in grey else ""
        rows.append(f'<tr{grey_row} data-row="{escape(name)}">{cells}</tr>')
    return (
        '<div class="scroll" tabindex="0" role="region" aria-labelledby="table-title">'
        f'<table id="results"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
        "</div>"
    )


def _clock(column: TextColumn) -> str:
    return f' data-clock="{column.clock}"' if column.clock else ""


def _cell(column: TextColumn, row: int, look: Mapping[str, Ink], place: int) -> str:
    text = escape(column.texts[row])
    kinds = ["best"] if column.best[row] else []
    if place == 0:
        text = swatch(row, look[column.texts[row]]) + text
    elif " ± " in text:  # two lines where there is little room
        mean, _, spread = text.partition(" ± ")
        text = f"<span>{mean}</span> <span>± {spread}</span>"
        kinds.append("spread")
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    return f'<td data-value="{column.values[row]}"{kind}>{text}</td>'


def plain_table(heads: Sequence[str], rows: Iterable[Sequence[str]], about: str = "runs") -> str:
    """Return a table of texts; `about` is its label and a class of its own."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{about}">'
        f'<table class="plain {about}">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
