"""Rounds of W2 whose uploads are coded, beside plain ones: ``python -m benchmarks.coded``.

Blocks of rounds of every code and of none take turns. Ratios are medians over the turns.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measure import _backend, _block
from benchmarks.workloads import Size, w2
from rayfed import api

MOST = 2.0
"""A round with the first code over one without, at most."""
_SHARE = {"name": "top-k", "share": 0.01}
CODES: tuple[dict[str, Any], ...] = (
    {**_SHARE, "memory": "error-feedback"}, _SHARE, {**_SHARE, "memory": "ef21"},
    {"name": "rand-k", "share": 0.01}, {"name": "sign"}, {"name": "natural"},
    {"name": "qsgd"},
)  # fmt: skip


def measured(size: Size, processes: int, repeats: int) -> np.ndarray:
    """Return the seconds of a round (repeats, 1 + codes); the first column is without a code."""
    uplinks = [[], *([code] for code in CODES)]
    scenario = {**w2(size, processes).scenario, "grid": {"uplink": uplinks}}
    plan = api.prepare(api.read(scenario))
    with tempfile.TemporaryDirectory() as folder, _backend(plan, Path(folder)) as backend:
        return np.array([
            [_block(plan, run, backend, Path(folder)).round_s for run in plan.runs]
            for _ in range(repeats)
        ])  # fmt: skip


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 where the first code takes more than `MOST` plain rounds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coded", description=__doc__)
    parser.add_argument("--processes", type=int, default=0, help="that host clients (0, no Ray)")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args(given)
    taken = measured(Size(), asked.processes, asked.repeats)
    ratios = np.median(taken / taken[:, :1], axis=0)
    shown = Table(
        title=f"W2, processes: {asked.processes or 'one'}, medians of {asked.repeats} turns"
    )
    for column in ("uplink", "ms a round", "times a plain one"):
        shown.add_column(column, justify="left" if column == "uplink" else "right")
    names = ["none", *(" ".join(map(str, code.values())) for code in CODES)]
    for name, seconds, ratio in zip(names, np.median(taken, axis=0), ratios, strict=True):
        shown.add_row(name, f"{1e3 * seconds:.2f}", f"{ratio:.2f}")
    Console().print(shown)
    return int(ratios[1] > MOST)


if __name__ == "__main__":
    raise SystemExit(main())
