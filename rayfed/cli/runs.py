"""The commands that run studies, `run`, `sweep`, `resume`, or steer them, `stop`, `extend`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from rayfed.cli import tables
from rayfed.cli.arguments import (
    Address,
    Debug,
    Folder,
    NoPage,
    Out,
    Overrides,
    ScenarioFile,
    ScenarioFilesOrNone,
    Trackers,
    Trust,
    local,
    returned,
)
from rayfed.cli.console import Quiet, Verbose, Volume, err, out, say
from rayfed.cli.dashboard import watched
from rayfed.cli.own import flower_scenario
from rayfed.cli.plans import headline, prepared, swept
from rayfed.cli.results import print_best
from rayfed.core.announced import run_folders
from rayfed.core.errors import ScenarioError, clipped, many
from rayfed.core.machine import cpus
from rayfed.runs.files.outcome import damaged, differences, reason, trace
from rayfed.runs.files.place import read_note, shown


def run(
    scenarios: ScenarioFilesOrNone = None,
    set_: Overrides = None,
    out_: Out = None,
    address: Address = None,
    debug: Debug = False,
    profile: Annotated[
        bool,
        typer.Option("--profile", help="Measure what the wall-clock time of rounds goes into."),
    ] = False,
    no_page: NoPage = False,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Open the dashboard in a browser while it runs; also does what --profile does.",
        ),
    ] = False,
    flower: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Run the scenario.yaml in the folder of a Flower app; it is written if there is "
            "none.",
        ),
    ] = None,
    log: Trackers = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run every algorithm of a scenario with every seed, and write the page.

    Of several files the runs are in one folder and on one page. If they differ
    in their algorithms alone, these are compared with each other; else each file
    is a case of its name.

    Exit status: 0 if all runs finished, 1 if some failed, 2 if the scenario is wrong.
    """
    from rayfed import api

    if flower is not None and not scenarios:
        scenarios = [flower_scenario(flower)]
    elif flower is not None or not scenarios:
        raise ScenarioError("run", "give scenario files, or --flower with the folder of an app")
    volume = Volume(quiet, verbose)
    with volume.applied():
        plan = prepared(scenarios, set_, address, api.without_search)
        if not debug:
            plan = plan.placed(cpus())
        display = volume.watch(len(plan.runs), bars=not debug)
        folder = api.begin(plan, out_, watch=display, log=log or ())
        say(headline(plan))
        how: dict[str, Any] = {"debug": debug, "profile": profile or watch, "page": not no_page}
        go = partial(api.execute, plan, folder, watch=display, **how)
        with watched(folder) if watch else nullcontext():
            status = _end(folder, go, debug, not no_page, volume)
    volume.end(folder)
    raise typer.Exit(status)


def sweep(
    scenario: ScenarioFile,
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="Settings to try of each algorithm; sweep.trials if not given."),
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="latin (spread evenly, the default), random, or by what earlier trials reached "
            "(these need rayfed\\[optuna]): tpe, gp, cmaes or nsgaii.",
        ),
    ] = None,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="Stop runs below the median of earlier batches at the same simulated time.",
        ),
    ] = False,
    set_: Overrides = None,
    out_: Out = None,
    log: Trackers = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Search for good settings of every algorithm of a scenario, and print the best.

    The scenario defines the search space, for example

    ```
    search:
      algorithms.*.local.lr: {log: [1e-4, 1]}
      algorithms.fedexp.epsilon: {log: [1e-4, 1]}
    ```

    with log, uniform, int (two bounds) or choice (a list). Each algorithm is searched separately,
    with the same number of trials. The objective is the validation loss if rows are held out
    (problem: {validation: 0.1}), else the training loss; sweep.by selects another column. Whole
    runs go to worker processes, one per CPU; the trials and their results depend on the first seed,
    and not on the machine or the number of workers. trials.csv lists all trials, including failed
    ones. rayfed resume continues an interrupted sweep.

    Exit status: 0, or 1 if every trial of an algorithm failed, 2 if the scenario is wrong.
    """
    from rayfed import api

    volume = Volume(quiet, verbose)
    given = {"trials": trials, "sampler": sampler, "prune": prune or None}
    asked = [f"sweep.{key}={value}" for key, value in given.items() if value is not None]
    with volume.applied():
        plan = prepared([scenario], [*(set_ or ()), *asked], adapt=api.with_search)
        display = volume.watch(plan.search.runs)
        folder = api.begin(plan, out_, watch=display, log=log or ())
        say(swept(plan))
        status = _end_sweep(folder, partial(api.execute, plan, folder, watch=display))
    volume.end(folder)
    raise typer.Exit(status)


def resume(
    folder: Folder,
    failed: Annotated[
        bool,
        typer.Option("--failed", help="Also resume failed runs, after the cause is fixed."),
    ] = False,
    accept_changes: Annotated[
        bool,
        typer.Option(
            "--accept-changes",
            help="Go on though the scenario, the data or modules have changed; run.json notes it.",
        ),
    ] = False,
    address: Address = None,
    trust: Trust = False,
    log: Trackers = None,
    debug: Debug = False,
    no_page: NoPage = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Resume interrupted runs from their last checkpoints.

    The result is bitwise identical to that of an uninterrupted study. It continues where it ran
    before; select another cluster with --address, and this machine by --address local. A folder
    that you did not make on this machine needs --trust if its scenario names modules, and --log
    again for its experiment trackers.

    The scenario in the folder may be given more rounds, looser stop rules or
    more seeds. Any other change of it, of the data or of modules is refused
    with exit status 2.
    """
    volume = Volume(quiet, verbose)
    with volume.applied():
        how = {"failed": failed, "accept_changes": accept_changes, "log": log or ()}
        status = _resumed(folder, how, address, trust, debug, not no_page, volume)
    volume.end(folder)
    raise typer.Exit(status)


def stop(
    folder: Annotated[Path, typer.Argument(help="A result folder.", metavar="DIR", parser=local)],
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN...", help="Runs, such as FedAvg-seed0; all if not given."),
    ] = None,
) -> None:
    """Stop a study running in another process, or some of its runs.

    A stopped run writes a checkpoint after its current round; rayfed resume continues it to a
    bitwise identical result. Other runs of the study continue. Without RUN, all runs stop and no
    further run starts.
    """
    from rayfed import api

    asked = api.stop(folder, runs or ())
    what = ", ".join(asked) if runs else f"all running runs, {many(len(asked), 'run')}"
    say(f"asked to stop: {what}; resume with: rayfed resume {shlex.quote(str(folder))}")


def extend(
    folder: Folder,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds of each run from now on.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="LIST", help="Further seeds, such as 3,4.")
    ] = None,
    set_: Overrides = None,
    trust: Trust = False,
    log: Trackers = None,
    no_page: NoPage = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Extend a finished or stopped study by rounds or seeds, and continue it.

    The records are bitwise identical to those of a study with all rounds and seeds from the start.
    history.jsonl in the folder notes what was asked, and when.

    Exit status: as of rayfed resume.
    """
    from rayfed import api

    api.extend(
        folder, rounds=rounds, seeds=_seeds(seeds), overrides=set_ or (), trust=trust, log=log or ()
    )
    resume(folder, trust=trust, log=log, no_page=no_page, quiet=quiet, verbose=verbose)


def _seeds(text: str | None) -> list[int]:
    try:
        return [int(seed) for seed in text.split(",")] if text else []
    except ValueError:
        raise ScenarioError("--seeds", f"found '{text}'; give numbers, such as 3,4") from None


def _resumed(
    folder: Path,
    how: dict[str, Any],
    address: str | None,
    trust: bool,
    debug: bool,
    page: bool,
    volume: Volume,
) -> int:
    """Go on with a study, and return the exit status."""
    from rayfed import api

    plan: Any = api.recorded(folder, address, trust)
    searched = bool(plan.study.search)
    runs = [run.folder for run in plan.runs]
    if searched:  # later batches are not known yet
        runs = [path.name for path in run_folders(folder)]
    unknown = api.check_unchanged(plan, folder, **how)
    for line in (*unknown, *differences(folder, runs), *damaged(folder, runs)):
        volume.warn(line)
    go = partial(api.execute, plan, folder, resume=True, **how, debug=debug, page=page)
    if searched:
        say(swept(plan))
        return _end_sweep(folder, partial(go, watch=volume.watch(plan.search.runs)))
    waiting = len(runs) - len(api.settled(plan, folder, failed=how["failed"]))
    say(f"{clipped(plan.study.name, 80)}: {waiting} of {many(len(plan.runs), 'run')} to resume")
    display = volume.watch(waiting, bars=not debug)
    return _end(folder, partial(go, watch=display), debug, page, volume)


def _executed(folder: Path, go: Callable[[], Any]) -> tuple[Any, list[str]]:
    """Execute runs, and return the result and which of them failed."""
    try:
        result = go()
    except KeyboardInterrupt:
        prefix = "interrupted; the records are kept, resume with: "
        say(f"{prefix}rayfed resume {shlex.quote(shown(folder))}", err)
        raise typer.Exit(130) from None
    return result, [name for name, status in result.outcome.items() if status == "failed"]


def _end(folder: Path, go: Callable[[], Any], debug: bool, page: bool, volume: Volume) -> int:
    """Run, print the comparison and the page, and return 0 if all runs finished, else 1."""
    result, failed = _executed(folder, go)
    out.print(tables.comparison(result))
    say(result.answer)
    if len(result.profile):
        out.print(tables.profile(result.profile))
    for name in failed:
        _print_failure(result.folder / name, debug)
    if failed:
        again = f"rayfed resume --failed {shlex.quote(shown(folder))}"
        say(f"after fixing the cause, resume with: {again} (--debug for breakpoints)", err)
    for warning in result.warnings:
        volume.warn(warning)
    from rayfed.runs.files.stops import STOPPED  # here: it imports NumPy

    stopped = [name for name, status in result.outcome.items() if status == STOPPED]
    if stopped:
        again = f"rayfed resume {shlex.quote(shown(folder))}"
        say(f"stopped: {many(len(stopped), 'run')}; resume with: {again}", err)
    if page:
        say(f"page: {result.folder / 'report.html'}")
    else:
        say(f"no page; write it by: rayfed report {shlex.quote(str(folder))}")
    _print_remote(folder)
    return 1 if failed or stopped else 0


def _end_sweep(folder: Path, go: Callable[[], Any]) -> int:
    """Sweep, print the best settings and the page, and return 1 if an algorithm has none."""
    result, failed = _executed(folder, go)
    with returned(folder):
        choice = print_best(folder)
    if failed:
        why = f"{failed[0]}: {reason(folder / failed[0])}"
        text = f"{len(failed)} of {many(len(result.outcome), 'run')} failed, the first {why}"
        say(text, err, "yellow")
    say(f"trials: {folder / 'trials.csv'}")
    say(f"page: {folder / 'report.html'}")
    return 1 if any(winner.best.failed for winner in choice.winners) else 0


def _print_remote(folder: Path) -> None:
    """Say where the results of a remote folder are, of which the page is in the local copy."""
    if read_note(folder):
        say(f"results: {shown(folder)}")


def _print_failure(run: Path, debug: bool) -> None:
    """Say why a run failed and where its log is, or all that was raised."""
    say(f"{run.name} failed: {reason(run)}", err, style="red")
    if debug and trace(run):
        say(trace(run).rstrip(), err)
    elif (run / "log.txt").is_file():
        say(f"  its log: {run / 'log.txt'}", err)
