"""A campaign of random scenarios with random faults: ``python -m tests.chaos``.

Each case is drawn from a seed: a small scenario made of any plug-ins that are found, another
placement of its clients, and a sequence of faults. `check` must refuse the scenario in short lines,
or it must run, keep what every result promises (`invariants`), and give the same bytes under the
other placement and after the faults. Half of the cases also compare a method, with all that may
happen to what it sends, with a plain loop. ``make chaos`` runs many seeds, and
``make chaos SEED=123`` repeats one.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import yaml
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rayfed.core.errors import clipped
from rayfed.core.plugins import find
from rayfed.core.threads import one_thread
from tests.chaos.campaign import Campaign
from tests.chaos.case import Case, Outcome, run_seed
from tests.chaos.shrink import shrunk

COMMAND = "python -m tests.chaos"
_SEEDS = 10**9  # of which the first is drawn
_SAY_EVERY = 100  # cases, where no progress bar is seen
_SHARED_MEMORY = Path("/dev/shm")  # its fsync is free; what a disk keeps is simulated


def main(given: Sequence[str] | None = None) -> int:
    """Run cases; return 1 if anything was found."""
    options = _options(given)
    first, number = options.first, options.number
    if options.seed is not None:
        first, number = options.seed, 1
    elif first is None:
        first = secrets.randbelow(_SEEDS)
        print(f"first seed: {first}", flush=True)
    if options.shrink:
        return _shrink(first, options.algorithms, nodes=options.nodes)
    campaign = Campaign(first)
    _go(campaign, range(first, first + number), options)
    if options.json is not None:
        options.json.write_text(json.dumps(campaign.to_dict(), indent=1) + "\n", encoding="utf-8")
    print(campaign.summary())
    return 1 if campaign.findings else 0


def _go(campaign: Campaign, seeds: range, options: argparse.Namespace) -> None:
    """Run cases and print their findings, until Ctrl-C or SIGTERM."""
    err = Console(stderr=True, emoji=False, highlight=False, soft_wrap=True)
    begun = time.monotonic()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with one_thread(), _progress(err) as progress:
            task = progress.add_task("cases", total=len(seeds))
            for outcome in _outcomes(seeds, options):
                campaign.add(outcome)
                campaign.seconds = time.monotonic() - begun
                progress.advance(task)
                if not err.is_terminal and campaign.cases % _SAY_EVERY == 0:
                    err.print(f"{campaign.cases} cases, {campaign.seconds:.0f} s")
                _say(outcome, err, options, whole=options.seed is not None)
                if options.for_s is not None and campaign.seconds > options.for_s:
                    break
    except KeyboardInterrupt:
        err.print("stopped")
    finally:
        signal.signal(signal.SIGTERM, before)


def _say(outcome: Outcome, err: Console, options: argparse.Namespace, *, whole: bool) -> None:
    """Print the findings of a case, a line for each or all that is known of them."""
    again = f"make chaos SEED={outcome.seed}"
    if options.algorithms or options.nodes:
        named = ["--algorithms", *options.algorithms] if options.algorithms else []
        nodes = ["--nodes"] if options.nodes else []
        again = " ".join([COMMAND, "--seed", str(outcome.seed), *nodes, *named])
    for name, text in outcome.findings:
        found = text if whole else clipped(text.partition("\n")[0])
        err.print(f"seed {outcome.seed}: {name}: {found}", markup=False)
        err.print(f"  {again}", markup=False)


def _outcomes(seeds: range, options: argparse.Namespace) -> Iterator[Outcome]:
    """Yield what becomes of every seed, in their order."""
    home = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
    work = partial(run_seed, home=home, algorithms=options.algorithms, nodes=options.nodes)
    if options.jobs == 1:
        yield from map(work, seeds)
        return
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, seeds, chunksize=8)


def _shrink(seed: int, algorithms: Sequence[str], *, nodes: bool) -> int:
    """Print the smallest case that finds what the case of a seed does."""
    outcome = run_seed(seed, algorithms=algorithms, nodes=nodes)
    if not outcome.findings:
        print(f"seed {seed} finds nothing")
        return 0
    name = outcome.findings[0][0]
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        case = shrunk(Case.drawn(seed, Path(folder), algorithms, nodes=nodes), name)
    print(f"# {name}: {clipped(outcome.findings[0][1].splitlines()[0])}")
    print(yaml.safe_dump(case.scenario, sort_keys=False))
    print(f"# faults: {', '.join(map(str, case.faults)) or 'none'}")
    print(f"# changes of nodes: {', '.join(map(str, case.changes)) or 'none'}")
    print(f"# edit: {case.edit or 'none'}")
    print(f"# machines at a URL: {', '.join(map(str, case.blows)) or 'none'}")
    print(f"# combination: {case.together or 'none'}")
    return 1


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), MofNCompleteColumn(), TimeRemainingColumn(),
        console=console,
    )  # fmt: skip


def _options(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=COMMAND, description="Run random scenarios with random faults, and say what breaks."
    )
    parser.add_argument("--number", "-n", type=int, default=100, help="cases (default: 100)")
    parser.add_argument("--first", type=int, help="seed of the first (default: any, printed)")
    parser.add_argument("--seed", type=int, help="repeat the case of one seed, with all it says")
    parser.add_argument("--shrink", action="store_true", help="make the case of --seed smaller")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument(
        "--for", dest="for_s", type=float, metavar="SECONDS", help="begin no case after so long"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all counts and findings")
    parser.add_argument(
        "--nodes", action="store_true",
        help="run every scenario on a Ray cluster, too, whose nodes come, go and slow down",
    )  # fmt: skip
    found = find("algorithms")
    parser.add_argument(
        "--algorithms", nargs="+", default=[], metavar="NAME", choices=[*found, "asynchronous"],
        help="draw these alone; 'asynchronous' stands for all without rounds",
    )  # fmt: skip
    options = parser.parse_args(given)
    if "asynchronous" in options.algorithms:
        options.algorithms = [name for name, cls in found.items() if cls.asynchronous]
    return options


if __name__ == "__main__":
    sys.exit(main())
