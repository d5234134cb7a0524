"""The ratios of workloads as bars, drawn as SVG without a library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from benchmarks.measure import Measured
from benchmarks.workloads import Workload

_LEFT, _WIDTH, _HIGH, _TOP = 190, 520, 22, 34
_STYLE = (
    "text { font: 12px sans-serif; fill: #333 } .ours { fill: #2a6f97 } .bare { fill: #c9d6df }"
    " .actors { fill: #e09f3e } .one { stroke: #888; stroke-dasharray: 3 3 }"
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
    rows = [(_name(w, case, len(w.bare) > 1), _bars(case)) for w, case in cases]
    values = [value for _, bars in rows for value in bars.values()]
    low, high = min([0.5, *values]), max([2.0, *values])

    def x(value: float) -> float:
        return _LEFT + _WIDTH * math.log(value / low) / math.log(high / low)

    height = _TOP + _HIGH * len(rows) + 30
    marks = [
        f'<rect class="{kind}" x="{_LEFT + 170 * place}" y="8" width="12" height="12"/>'
        f'<text x="{_LEFT + 170 * place + 18}" y="18">{text}</text>'
        for place, (kind, text) in enumerate(_LEGEND)
    ]
    for place, (name, bars) in enumerate(rows):
        y, thick = _TOP + _HIGH * place, (_HIGH - 4) / len(bars)
        marks.append(f'<text x="{_LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        for number, (kind, value) in enumerate(bars.items()):
            marks.append(
                f'<rect class="{kind}" x="{_LEFT}" y="{y + number * thick:.1f}" '
                f'width="{max(1.0, x(value) - _LEFT):.1f}" height="{thick:.1f}">'
                f"<title>{value:.2f}</title></rect>"
            )
        marks.append(f'<text x="{x(bars["ours"]) + 4:.1f}" y="{y + 14}">{bars["ours"]:.2f}</text>')
    marks.append(
        f'<line class="one" x1="{x(1):.1f}" x2="{x(1):.1f}" y1="{_TOP - 4}" y2="{height - 24}"/>'
        f'<text x="{x(1):.1f}" y="{height - 8}" text-anchor="middle">one bare loop = 1</text>'
    )
    size = f'viewBox="0 0 {_LEFT + _WIDTH + 60} {height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{_STYLE}</style>',
            *marks,
            "</svg>\n",
        ]
    )


def _name(workload: Workload, case: Measured, several: bool) -> str:
    clients = f", {case.clients:,}" if several else ""
    processes = f"{workload.processes} processes" if workload.processes > 1 else "1 process"
    return f"{workload.name}{clients}, {processes}"


def _bars(case: Measured) -> dict[str, float]:
    """Return the bars of a case, ours first, without those that were not measured."""
    every = {"ours": case.ratio, "bare": case.pair, "actors": case.ratio / case.of_actors}
    return {kind: value for kind, value in every.items() if not math.isnan(value)}
