"""Ratios of workloads as bars, and costs as lines, drawn as SVG without a library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from benchmarks.measure import Measured
from benchmarks.workloads import Workload

_LEFT, _WIDTH, _HIGH, _TOP = 190, 520, 22, 34
_STYLE = (
    "text { font: 12px sans-serif; fill: #333 } .ours { fill: #2a6f97 } .bare { fill: #c9d6df }"
    " .actors { fill: #e09f3e } .one { stroke: #888; stroke-dasharray: 3 3 }"
    " .grid { stroke: #ddd } .line { fill: none; stroke-width: 2 }"
    " .line.ours { stroke: #2a6f97 } .line.actors { stroke: #e09f3e }"
)
_LEGEND = (("ours", "rayfed"), ("bare", "two bare loops at once"), ("actors", "two plain actors"))


def svg(measured: Sequence[tuple[Workload, Sequence[Measured]]]) -> str:
    """Return a figure of the rounds of each case, in those that one bare loop does meanwhile.

    Beside cases of two processes there are two bare loops at once and two plain Ray actors, where
    they were measured. Cases without a ratio are left out. The axis is logarithmic.

    Parameters
    ----------
    measured : sequence of (Workload, sequence of Measured)
    """
    cases = [(w, case) for w, cases in measured for case in cases if case.ratio > 0]
    rows = {_name(w, case, len(w.bare) > 1): _bars(case) for w, case in cases}
    return bars(rows, _LEGEND, one="one bare loop = 1")


def bars(
    rows: Mapping[str, Mapping[str, float]], legend: Sequence[tuple[str, str]], one: str = ""
) -> str:
    """Return rows of bars on a logarithmic axis, as SVG.

    Parameters
    ----------
    rows : mapping
        By name: values by class, ``ours`` first, which is written at its bar.
    legend : sequence of (str, str)
        Classes (``ours``, ``bare``, ``actors``) and their names.
    one : str
        The name of a line at 1; no line if empty.
    """
    values = [value for of in rows.values() for value in of.values()]
    low, high = min([0.5, *values]), max([2.0, *values])

    def x(value: float) -> float:
        return _LEFT + _WIDTH * math.log(value / low) / math.log(high / low)

    height = _TOP + _HIGH * len(rows) + 30
    marks = [
        f'<rect class="{kind}" x="{_LEFT + 170 * place}" y="8" width="12" height="12"/>'
        f'<text x="{_LEFT + 170 * place + 18}" y="18">{escape(text)}</text>'
        for place, (kind, text) in enumerate(legend)
    ]
    for place, (name, of) in enumerate(rows.items()):
        y, thick = _TOP + _HIGH * place, (_HIGH - 4) / len(of)
        marks.append(f'<text x="{_LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        for number, (kind, value) in enumerate(of.items()):
            marks.append(
                f'<rect class="{kind}" x="{_LEFT}" y="{y + number * thick:.1f}" '
                f'width="{max(1.0, x(value) - _LEFT):.1f}" height="{thick:.1f}">'
                f"<title>{value:.2f}</title></rect>"
            )
        marks.append(f'<text x="{x(of["ours"]) + 4:.1f}" y="{y + 14}">{of["ours"]:.2f}</text>')
    if one:
        at = f'x1="{x(1):.1f}" x2="{x(1):.1f}" y1="{_TOP - 4}" y2="{height - 24}"'
        marks.append(
            f'<line class="one" {at}/>'
            f'<text x="{x(1):.1f}" y="{height - 8}" text-anchor="middle">{escape(one)}</text>'
        )
    return _document(marks, _LEFT + _WIDTH + 60, height)


def _document(marks: Sequence[str], width: float, height: float) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
    return "\n".join([f"{head}<style>{_STYLE}</style>", *marks, "</svg>\n"])


def _name(workload: Workload, case: Measured, several: bool) -> str:
    clients = f", {case.clients:,}" if several else ""
    processes = f"{workload.processes} processes" if workload.processes > 1 else "1 process"
    return f"{workload.name}{clients}, {processes}"


def _bars(case: Measured) -> dict[str, float]:
    """Return the bars of a case, ours first, without those that were not measured."""
    every = {"ours": case.ratio, "bare": case.pair, "actors": case.ratio / case.of_actors}
    return {kind: value for kind, value in every.items() if not math.isnan(value)}


def lines(
    panels: Mapping[str, Sequence[tuple[float, ...]]], names: Sequence[str], width: int = 340
) -> str:
    """Return figures side by side: lines over an axis, all axes logarithmic, as SVG.

    Parameters
    ----------
    panels : mapping of str to sequence of tuples
        By the title of the horizontal axis: points, x first, then a value of each line.
    names : sequence of str
        Of the lines.
    """
    classes, high = ("ours", "actors"), 220
    values = [v for points in panels.values() for _, *of in points for v in of]
    low, top = (math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))))

    def y(value: float) -> float:
        return _TOP + high * (top - math.log10(value)) / max(1, top - low)

    marks = [
        f'<rect class="{kind}" x="{60 + 170 * place}" y="8" width="12" height="12"/>'
        f'<text x="{60 + 170 * place + 18}" y="18">{escape(name)}</text>'
        for place, (kind, name) in enumerate(zip(classes, names, strict=False))
    ]
    for place, (title, points) in enumerate(panels.items()):
        left, right = 60 + (width + 40) * place, 60 + (width + 40) * place + width - 20
        first, last = (math.log10(points[end][0]) for end in (0, -1))
        xs = [
            left + (right - left) * (math.log10(p[0]) - first) / ((last - first) or 1)
            for p in points
        ]
        for decade in range(low, top + 1):
            at = y(10.0**decade)
            marks.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{at}" y2="{at}"/>')
            marks.append(
                f'<text x="{left - 6}" y="{at + 4}" text-anchor="end">{10.0**decade:,g}</text>'
            )
        for x, point in zip(xs, points, strict=True):
            where = f'x="{x:.1f}" y="{_TOP + high + 18}"'
            marks.append(f'<text {where} text-anchor="middle">{point[0]:.0e}</text>')
        middle = (left + right) / 2
        marks.append(
            f'<text x="{middle}" y="{_TOP + high + 38}" text-anchor="middle">{escape(title)}</text>'
        )
        for kind, of in zip(classes, zip(*(p[1:] for p in points), strict=True), strict=False):
            path = " ".join(f"{x:.1f},{y(v):.1f}" for x, v in zip(xs, of, strict=True))
            marks.append(f'<polyline class="line {kind}" points="{path}"/>')
    return _document(marks, 60 + (width + 40) * len(panels), _TOP + high + 50)


def digests(
    table: Mapping[str, Mapping[str, str]], kills: Mapping[str, Sequence[tuple[float, bool]]]
) -> str:
    """Return digests by study and way, and the moments of kills along each study, as SVG.

    Parameters
    ----------
    table : mapping
        By study and way: the first digits of the digest.
    kills : mapping of str to sequence of (float, bool)
        By study: the share of its rounds in checkpoints, and whether one was being written.
    """
    marks, column = list[str](), 190
    for place, (name, of) in enumerate(table.items()):
        left = _LEFT + column * place
        marks.append(f'<text x="{left}" y="18">{escape(name)}</text>')
        for row, (way, text) in enumerate(of.items()):
            y = _TOP + _HIGH * row
            if not place:
                marks.append(f'<text x="{_LEFT - 12}" y="{y + 14}" text-anchor="end">{way}</text>')
            same = text == next(iter(of.values()))
            kind = "bare" if same else "actors"
            where = f'x="{left}" y="{y}" width="{column - 10}" height="{_HIGH - 4}"'
            marks.append(f'<rect class="{kind}" {where}/>')
            marks.append(f'<text x="{left + 8}" y="{y + 13}">{text}</text>')
    top = _TOP + _HIGH * max(map(len, table.values())) + 34
    wide = column * len(table) - 10
    for row, (name, moments) in enumerate(kills.items()):
        y = top + 30 * row
        marks.append(f'<text x="{_LEFT - 12}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        marks.append(f'<rect class="bare" x="{_LEFT}" y="{y}" width="{wide}" height="20"/>')
        for share, writing in moments:
            x, kind = _LEFT + wide * share, "actors" if writing else "ours"
            marks.append(f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="1.5" height="20"/>')
    if kills:
        text = "kills by round; orange: while a checkpoint is written"
        marks.append(f'<text x="{_LEFT}" y="{top - 8}">{text}</text>')
    return _document(marks, _LEFT + wide + 20, top + 30 * len(kills) + 10)
