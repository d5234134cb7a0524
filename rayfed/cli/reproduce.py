"""The command `reproduce`: one published study, or all."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rayfed.cli import completion, tables
from rayfed.cli.arguments import local
from rayfed.cli.console import Quiet, Verbose, Volume, err, out, say
from rayfed.cli.plans import headline
from rayfed.core.errors import Missing, ScenarioError, unknown
from rayfed.runs.files.outcome import differences, ended


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A study, or the path of its file; without, all are listed.",
            autocompletion=completion.of_studies,
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Run at the length of the source.")] = False,
    out_: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="results/reproduce/NAME if not given.", parser=local
        ),
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(
            metavar="PART",
            help="Run this part only; claims of other parts are checked on their records.",
        ),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Keep recorded runs of the same scenario; run the others."),
    ] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="Run all studies and print one table of their claims.")
    ] = False,
    update: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Update the study in a table of all studies (all.json, written by --all).",
            parser=local,
        ),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run a published study and check the claims of its source.

    For example: rayfed reproduce jhunjhunwala_2023_synthetic. The claims are in
    scenarios/NAME.claims.yaml; each part of the study gets a result folder with a page, and
    claims.json holds what was measured. The short version takes minutes, --full the source's
    length.

    Exit status: 0 if every claim holds or is marked with the reason why it does not, 1 if one
    fails, a run failed or data are missing, 2 if a file is wrong.
    """
    from rayfed.reproduce import studies, survey

    length: Literal["short", "full"] = "full" if full else "short"
    volume = Volume(quiet, verbose)
    if update is not None:
        if name is None:
            raise ScenarioError("--update", "is for one study")
        survey.read(update)  # before anything runs
    if all_:
        if name is not None or part is not None:
            raise ScenarioError("--all", "runs every part of every study; leave out the others")
        folder = out_ or Path("results") / "reproduce"
        with volume.applied():
            status = _reproduce_all(length, folder, keep, volume)
    elif name is None:
        out.print(tables.studies(studies.known()))
        return
    else:
        with volume.applied():
            study = studies.find(name, length, out_)
            status = _reproduce(study, part, keep, update, volume)
        folder = study.home
    volume.end(folder)
    raise typer.Exit(status)


def _reproduce(
    study: Any, part: str | None, keep: bool, update: Path | None, volume: Volume
) -> int:
    """Run a published study or a part of it, print its claims, return the exit status."""
    from rayfed.reproduce import studies, survey

    if part is not None and part not in study.claims.parts:
        raise ScenarioError("--part", unknown("part", part, study.claims.parts))
    surveyed = _surveyed(study, [part] if part else list(study.claims.parts), keep, volume)
    outcome = surveyed.outcome
    out.print(tables.claims(outcome))
    _print_failures(surveyed, volume)
    for where, why in outcome.missing.items():
        say(f"{where} was left out: {why}", err, style="yellow")
    say(f"{tables.counted(outcome)}; in detail: {study.home / studies.CLAIMS}")
    if update is not None:
        survey.update(update, surveyed)
    return 0 if outcome.holds(part) else 1


def _surveyed(study: Any, parts: list[str], keep: bool, volume: Volume) -> Any:
    """Run parts of a published study and check its claims."""
    from rayfed.reproduce import studies
    from rayfed.reproduce.survey import Surveyed

    ran = _run_parts(study, parts, keep, volume)
    begun = time.monotonic()
    outcome = studies.conclude(study, *ran)
    return Surveyed(outcome, studies.recorded_s(study) + time.monotonic() - begun, parts)


def _print_failures(surveyed: Any, volume: Volume) -> None:
    """Print the reasons of failed runs, and the claims that fail where no table shows them."""
    for where, why in surveyed.outcome.failed.items():
        say(f"{where} failed: {why}", err, style="red")
    for verdict in surveyed.verdicts("fails", "not checked") if volume.quiet else ():
        if verdict.claim.says not in surveyed.left_out:
            why = verdict.remark or verdict.measured
            say(f"{verdict.status}: {verdict.claim.says} ({why})", err, style="red")


def _reproduce_all(
    length: Literal["short", "full"], folder: Path, keep: bool, volume: Volume
) -> int:
    """Run all published studies, print one table of the results, return the exit status."""
    from rayfed.reproduce import studies
    from rayfed.reproduce.survey import Survey, Surveyed

    named = {name: studies.find(str(path), length) for name, path in studies.known().items()}
    surveyed: list[Surveyed] = []
    started = time.monotonic()
    for name, study in named.items():
        study = replace(study, out=folder / study.home.name)
        surveyed.append(_surveyed(study, list(study.claims.parts), keep, volume))
        outcome, ended = surveyed[-1].outcome, time.monotonic()
        place = f"{len(surveyed)} of {len(named)} studies, {ended - started:.0f} s"
        say(f"{name}: {tables.counted(outcome)} ({place})")
        if volume.quiet:
            _print_failures(surveyed[-1], volume)
        survey = Survey(surveyed, ended - started)
        path = survey.write(folder)
    out.print(tables.survey(survey))
    counts = ", ".join(f"{number} {status}" for status, number in survey.counts.items())
    say(f"{len(named)} studies, {counts}; {survey.wall_s:.0f} s; in detail: {path}")
    return 0 if survey.holds() else 1


def _run_parts(
    study: Any, parts: list[str], keep: bool, volume: Volume
) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Run parts of a published study; return why some were left out, and fingerprints of data."""
    from rayfed.reproduce import studies
    from rayfed.reproduce.provenance import fingerprint

    missing, data = {}, {}
    for part in parts:
        try:
            plan, resume = studies.begin(study, part, keep)
        except Missing as error:
            missing[part] = error.problem
            continue
        data[part] = fingerprint(plan)
        folder = study.folder(part)
        runs = [run.folder for run in plan.runs]
        for warning in differences(folder, runs) if resume else ():
            volume.warn(warning)
        waiting = len(runs) - (len(ended(folder, runs)) if resume else 0)
        say(headline(plan) + (f"; {waiting} of them to resume" if resume else ""))
        try:
            result = studies.execute(study, part, plan, resume, volume.watch(waiting))
        except KeyboardInterrupt:
            say("interrupted; the records are kept, continue with --keep", err)
            raise typer.Exit(130) from None
        say(f"page: {result.folder / 'report.html'}")
    return missing, data
