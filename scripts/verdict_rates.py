"""Print how often verdicts are right: the table of docs/concepts/verdicts.md.

Values are Gaussian with deviation 1: half of the variance is the seed's and shared by all
algorithms, as data, clients and draws are. ``python -m scripts.verdict_rates`` takes a minute.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rayfed.report.verdicts import Verdict, verdict

SEEDS = (2, 3, 5, 7, 10, 20)
DRAWS = 2000


def verdicts(algorithms: int, seeds: int, gap: float) -> Iterator[Verdict]:
    """Yield verdicts on algorithms that are equal but for the first, which is ahead by a gap."""
    rng = np.random.default_rng([algorithms, seeds, int(100 * gap)])
    for _ in range(DRAWS):
        shared = rng.normal(size=seeds) / np.sqrt(2)
        own = rng.normal(size=(algorithms, seeds)) / np.sqrt(2)
        own[0] -= gap
        values = {f"{k}": dict(enumerate(own[k] + shared)) for k in range(algorithms)}
        found = verdict(values)
        assert found is not None
        yield found


def share(algorithms: int, seeds: int, gap: float) -> float:
    """Return in which share of studies some algorithm is called better than another one."""
    found = [
        any(one.word == "better" for one in each.comparisons)
        for each in verdicts(algorithms, seeds, gap)
    ]
    return float(np.mean(found))


def main() -> None:
    """Print the table."""
    print("| seeds | equal, 2 algorithms | equal, 6 algorithms | a gap of 1 | a gap of 2 |")
    print("| --- | --- | --- | --- | --- |")
    for seeds in SEEDS:
        rates = [share(2, seeds, 0.0), share(6, seeds, 0.0), share(2, seeds, 1), share(2, seeds, 2)]
        print(f"| {seeds} | {' | '.join(f'{100 * rate:.1f} %' for rate in rates)} |")


if __name__ == "__main__":
    main()
