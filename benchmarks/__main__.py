"""Run the benchmarks: ``python -m benchmarks`` for all, ``python -m benchmarks W1 W3`` for some.

The exit status is 1 where a target does not hold.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import plot, table
from benchmarks.measure import measure
from benchmarks.second import forked
from benchmarks.workloads import WORKLOADS, Size


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print the table, and return the exit status."""
    known = {workload.name: workload for workload in (make(Size()) for make in WORKLOADS)}
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}")
    parser.add_argument(
        "--repeats",
        type=int,
        default=4,
        help="blocks (4); times are of the fastest, ratios are medians",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the ratios as well")
    asked = parser.parse_args(given)
    unknown = [name for name in asked.names if name not in known]
    if unknown:
        parser.error(f"found '{unknown[0]}'; choose from {', '.join(known)}")
    console, shown = Console(), table.empty()
    if not console.is_terminal:  # a file has room for all columns
        console.width = 160
    verdicts, measured = [], []
    for name in asked.names or known:
        with (
            forked(known[name].bare if known[name].paired else ()) as second,
            console.status(f"{name}: {known[name].text}"),
        ):
            cases = measure(known[name], asked.repeats, second)
        table.add(shown, known[name], cases)
        measured.append((known[name], cases))
        verdicts += [table.verdict(known[name], t, cases) for t in known[name].targets]
    if asked.plot:
        asked.plot.write_text(plot.svg(measured), encoding="utf-8")
    console.print(shown)
    for holds, line in verdicts:
        console.print(line, style="green" if holds else "red", highlight=False)
    return 0 if all(holds for holds, _ in verdicts) else 1


if __name__ == "__main__":
    raise SystemExit(main())
