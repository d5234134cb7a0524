"""Make the tables of devices of the study `real_devices` from quantiles of measured ones.

Quantiles are facts and may be shipped, where the tables that they are taken from may not. They are
of 9,242 devices as FedScale reads them (Lai et al., ICML 2022, https://arxiv.org/abs/2105.11367;
computing and communication have a rank correlation of 0.02, so that they are drawn apart here) and
of 1,258 intervals in which 71 of 100 phones of the traces of FLASH (Yang et al., WWW 2021,
https://arxiv.org/abs/2006.06983) were idle, charged and on WiFi; the others are left out. Between
quantiles logarithms are interpolated. Lost is that phones are there at night, and some more often.

Run as: python scripts/device_tables.py
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[1] / "scenarios"
SHARES = (0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1)
QUANTILES = {
    "compute_ms": (15, 15, 19, 21, 24, 41, 148, 175, 190, 193, 199),
    "link_kbps": (1017, 1076, 1444, 1841, 2903, 6207, 14457, 32546, 54111, 100207, 204057),
    "there_s": (1, 1, 3, 10, 47, 338, 1703, 5792, 10572, 28526, 80459),
    "away_s": (1, 1, 3, 11, 58, 379, 6721, 42141, 65621, 170786, 386734),
}
DEVICES = 100
THERE = 71
DAYS = 5  # the median of the traces
TRAINING = 3  # FedScale takes training for three times as long as inference


def drawn(rng: np.random.Generator, what: str, size: int) -> np.ndarray:
    """Return numbers (size,) whose quantiles are those of what was measured."""
    logs = np.log(QUANTILES[what])
    return np.exp(np.interp(rng.random(size), SHARES, logs))


def capacities(rng: np.random.Generator) -> list[tuple[float, float, float]]:
    """Return seconds of training for a sample, and megabits per second down and up, by device."""
    seconds = TRAINING * drawn(rng, "compute_ms", DEVICES) / 1000
    mbps = drawn(rng, "link_kbps", DEVICES) / 1000
    return [(round(s, 4), round(m, 3), round(m, 3)) for s, m in zip(seconds, mbps, strict=True)]


def intervals(rng: np.random.Generator) -> list[tuple[int, int, int]]:
    """Return device, start and end of each interval in which a device is there."""
    rows = []
    for device in range(THERE):
        time = 0
        while True:
            away, there = (int(np.ceil(drawn(rng, k, 1)[0])) for k in ("away_s", "there_s"))
            if time + away + there > DAYS * 86_400:
                break
            rows.append((device, time + away, time + away + there))
            time += away + there
    return rows


def write(path: Path, head: Iterable[str], rows: Iterable[Iterable[float]]) -> None:
    """Write a table as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerows([head, *rows])


def main(folder: Path = FOLDER) -> None:
    """Write both tables into a folder."""
    rng = np.random.Generator(np.random.PCG64(0))
    names = ("compute_s", "down_mbps", "up_mbps")
    write(folder / "real_devices.capacities.csv", names, capacities(rng))
    write(folder / "real_devices.availability.csv", ("device", "start_s", "end_s"), intervals(rng))


if __name__ == "__main__":
    main()
