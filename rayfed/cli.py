"""The command line: run, resume, reproduce, check, list, report, schema."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from rayfed.errors import DataMissing, RayfedError, ScenarioError, unknown
from rayfed.plugins import KINDS

app = typer.Typer(
    help="Simulate federated learning with clients that differ in data, speed, network and "
    "availability. Start with: rayfed run scenarios/quickstart.yaml",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out = Console()
err = Console(stderr=True)

ScenarioFile = Annotated[Path, typer.Argument(help="A scenario file (YAML).", metavar="FILE")]
Folder = Annotated[Path, typer.Argument(help="A result folder.", metavar="DIR")]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a key of the scenario, for example --set participation.cohort=10 or "
        "--set algorithms.*.local.lr=0.05. May be repeated.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Use an existing Ray cluster that this machine is a node of: auto, or host:port. "
        "Records land on this machine.",
    ),
]


@app.command()
def run(
    scenario: ScenarioFile,
    set_: Overrides = None,
    out_: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Result folder; results/<name> if not given. "
            "Earlier results there are moved aside.",
        ),
    ] = None,
    address: Address = None,
) -> None:
    """Run every algorithm of a scenario with every seed, and write the page.

    Exit status: 0 if all runs finished, 1 if some failed, 2 if the scenario is wrong.
    """
    from rayfed import api
    from rayfed.progress import watch

    plan = api.prepare(api.read(scenario, set_ or (), address))
    folder = api.begin(plan, out_)
    _say(_headline(plan))
    _end(folder, lambda: api.execute(plan, folder, watch=watch(len(plan.runs), err)))


@app.command()
def resume(folder: Folder) -> None:
    """Go on with runs that were interrupted, from their last checkpoints.

    The result is the same, byte for byte, as that of a study that was never disturbed.
    """
    from rayfed import api
    from rayfed.progress import watch

    plan = api.recorded(folder)
    for warning in api.differences(plan, folder):
        _say(f"warning: {warning}", err, style="yellow")
    waiting = len(plan.runs) - len(api.ended(plan, folder))
    _say(f"{plan.study.name}: {waiting} of {len(plan.runs)} runs to go on with")
    _end(folder, lambda: api.execute(plan, folder, resume=True, watch=watch(waiting, err)))


@app.command()
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(help="A study, or the path of its file; without, all are listed."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="As long as in the source.")] = False,
    out_: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="results/reproduce/<name> if not given."),
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(
            metavar="PART",
            help="Run this part only; the claims of others are checked on what they recorded.",
        ),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Use what is recorded of the same scenario; run what lacks."),
    ] = False,
) -> None:
    """Run a published study and check what its source claims.

    For example: rayfed reproduce jhunjhunwala_2023_synthetic. The claims are in
    scenarios/<name>.claims.yaml; each part of the study gets a result folder with a page, and
    claims.json tells what was measured. The short version takes minutes, --full the source's
    length.

    Exit status: 0 if every claim holds or is marked with the reason why it does not, 1 if one
    fails, a run failed or data are missing, 2 if a file is wrong.
    """
    from rayfed import reproduce as studies

    if name is None:
        out.print(_studies_table(studies.known()))
        return
    study = studies.find(name, "full" if full else "short", out_)
    if part is not None and part not in study.claims.parts:
        raise ScenarioError("--part", unknown("part", part, study.claims.parts))
    missing = _run_parts(study, [part] if part else list(study.claims.parts), keep)
    outcome = studies.conclude(study, missing)
    out.print(_claims_table(outcome))
    for where, why in outcome.failed.items():
        _say(f"{where} failed: {why}", err, style="red")
    for where, why in missing.items():
        _say(f"{where} was left out: {why}", err, style="yellow")
    _say(f"{_count(outcome)}; in detail: {study.home / studies.CLAIMS}")
    raise typer.Exit(0 if outcome.holds(part) else 1)


@app.command()
def check(scenario: ScenarioFile, set_: Overrides = None) -> None:
    """Validate a scenario, its data included, and print what it will run and cost."""
    from rayfed import api

    plan = api.prepare(api.read(scenario, set_ or ()))
    _say(_headline(plan))
    out.print(_runs_table(plan))
    cost = plan.cost(api.cpus())
    _say(
        f"{cost.actors} client actors, {cost.drivers} driver actors; about "
        f"{_mib(cost.memory)} of memory (data {_mib(cost.data)}, client state "
        f"{_mib(cost.state)}, processes {_mib(cost.processes)})"
    )


@app.command("list")
def list_(
    kind: Annotated[str, typer.Argument(help=f"One of: {', '.join(KINDS)}.", metavar="KIND")],
    name: Annotated[str | None, typer.Argument(help="One of them, in detail.")] = None,
) -> None:
    """Print the algorithms, problems, data sets and so on that were found."""
    from rayfed.catalogue import details, overview

    if kind not in KINDS:
        raise ScenarioError("", unknown("kind", kind, KINDS))
    if name is None:
        out.print(overview(kind))
        return
    text, settings = details(kind, name)
    out.print(text, highlight=False, markup=False)
    out.print()
    out.print(settings)


@app.command()
def report(folder: Folder) -> None:
    """Write report.html and summary.csv of a result folder anew."""
    from rayfed.api import Result, results_in

    _say(f"page: {Result(folder, results_in(folder)).report()}")


@app.command()
def best(
    folder: Folder,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="What is compared, such as accuracy; loss_gap if it was recorded, else loss.",
        ),
    ] = None,
    at: Annotated[
        int | None, typer.Option(metavar="ROUND", min=0, help="Compared there; at the end if not.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN=NUMBER",
            help="The fewest rounds to this value are best, for example loss_gap=1e-6.",
        ),
    ] = None,
) -> None:
    """Print the best setting of every algorithm, and write them down as a scenario.

    For a study that sweeps settings by grid:, or lists an algorithm several times. Values are means
    over seeds; a setting of which a run failed never wins. best.yaml, in the same folder, holds the
    winners and can be run; best.csv the table.

    Exit status: 0, or 1 if every setting of every algorithm failed.
    """
    from analysis.best import Aim, Best
    from analysis.read import Results

    results = Results.read(folder)
    found = Best(results, Aim.of(results, by, at, target))
    out.print(_best_table(found))
    paths = found.write()
    for path in paths:
        _say(f"run it by: rayfed run {shlex.quote(str(path))}")
    raise typer.Exit(0 if paths else 1)


@app.command()
def schema() -> None:
    """Print the JSON schema of scenario files, so that editors complete them.

    For example in the first line of a scenario:
    # yaml-language-server: $schema=rayfed.schema.json
    """
    from rayfed.study import Study

    sys.stdout.write(json.dumps(Study.json_schema(), indent=1) + "\n")


def main() -> None:
    """Run the command line; every error of the user's is one line."""
    sys.path.insert(0, "")  # a user's own modules beside the scenario or in this folder
    try:
        app()
    except ScenarioError as error:
        _fail(error, 2)
    except RayfedError as error:
        _fail(error, 1)


def _end(folder: Path, go: Callable[[], Any]) -> None:
    """Run, print the comparison and the page, and exit with 1 if a run failed."""
    from rayfed import api

    try:
        result = go()
    except KeyboardInterrupt:
        kept = "interrupted; what was recorded is kept, go on with it by: "
        _say(f"{kept}rayfed resume {shlex.quote(str(folder))}", err)
        raise typer.Exit(130) from None
    failed = [name for name, status in result.outcome.items() if status == "failed"]
    out.print(_comparison_table(result))
    for name in failed:
        _say(f"{name} failed: {api.reason(result.folder / name)}", err, style="red")
    _say(f"page: {result.folder / 'report.html'}")
    raise typer.Exit(1 if failed else 0)


def _run_parts(study: Any, parts: list[str], keep: bool) -> dict[str, str]:
    """Run parts of a published study, and return why some were left out."""
    from rayfed import api
    from rayfed import reproduce as studies
    from rayfed.progress import watch

    missing = {}
    for part in parts:
        try:
            plan, kept = studies.begin(study, part, keep)
        except DataMissing as error:
            missing[part] = error.problem
            continue
        folder = study.folder(part)
        for warning in api.differences(plan, folder) if kept else ():
            _say(f"warning: {warning}", err, style="yellow")
        waiting = len(plan.runs) - (len(api.ended(plan, folder)) if kept else 0)
        _say(_headline(plan) + (f"; {waiting} of the runs to go on with" if kept else ""))
        try:
            result = studies.execute(study, part, plan, kept, watch(waiting, err))
        except KeyboardInterrupt:
            _say("interrupted; what was recorded is kept, go on with it by adding --keep", err)
            raise typer.Exit(130) from None
        _say(f"page: {result.folder / 'report.html'}")
    return missing


def _studies_table(paths: Mapping[str, Path]) -> Table:
    from rayfed.study.claims import load_claims

    table = Table("study", "parts", "claims", "source", box=None, pad_edge=False)
    for name, path in paths.items():
        held = load_claims(path)
        cells = (name, ", ".join(held.parts), str(len(held.claims)), held.source)
        table.add_row(*map(escape, cells))
    return table


_STYLES = {"holds": "green", "fails": "bold red", "not reproduced": "yellow", "not checked": "red"}


def _claims_table(outcome: Any) -> Table:
    heads = ("the source says", "where", "measured", "holds")
    table = Table(*heads, box=None, pad_edge=False, title_justify="left", leading=1)
    for verdict in outcome.verdicts:
        said = {"holds": "yes", "fails": "NO"}.get(verdict.status, verdict.status)
        if verdict.remark:
            said += f": {verdict.remark}"
        cells = (verdict.claim.says, verdict.claim.where, verdict.measured)
        holds = Text(said, style=_STYLES[verdict.status])
        table.add_row(*map(escape, cells), holds)
    return table


def _count(outcome: Any) -> str:
    states = [verdict.status for verdict in outcome.verdicts]
    told = (f"{states.count(state)} {state}" for state in _STYLES if state in states)
    return f"{len(states)} claims: {', '.join(told)}"


def _headline(plan: Any) -> str:
    study = plan.study
    placed = study.executor.name
    if placed == "ray":
        from rayfed.api import cpus

        cost = plan.cost(cpus())
        placed = f"{cost.actors} client actors (about {_mib(cost.memory)} in all)"
    algorithms = {run.label for run in plan.runs}
    rounds = f"{study.rounds} rounds" if study.rounds else "rounds until a rule under stop is met"
    return (
        f"{study.name}: {len(plan.runs)} runs ({len(algorithms)} algorithms, "
        f"{len(study.seeds)} seeds), {plan.clients} clients, {rounds}; {placed}"
    )


def _runs_table(plan: Any) -> Table:
    table = Table("algorithm", "setting", "seeds", "parameters", "rows", box=None, pad_edge=False)
    seen: dict[tuple[str, str], list[Any]] = {}
    for each in plan.runs:
        seen.setdefault((each.label, each.setting), []).append(each)
    for (label, setting), runs in seen.items():
        rows = runs[0].views["evaluation"].shards.total()
        seeds = ", ".join(str(each.seed) for each in runs)
        cells = (label, setting, seeds, f"{runs[0].x0.size:,}", f"{rows:,}")
        table.add_row(*map(escape, cells))
    return table


def _best_table(found: Any) -> Table:
    frame = found.frame()
    titles = {"rounds_to_target": "rounds", "edges": "at edge"}
    table = Table(*[titles.get(c, c) for c in frame.columns], box=None, pad_edge=False)
    for row in frame.to_dict("records"):
        if row["failed"] == row["tried"]:
            row["setting"] = "every setting failed"
        row["edges"] = ", ".join(key.rpartition(".")[2] for key in row["edges"].split())
        cells = [f"{v:.6g}" if isinstance(v, float) else str(v) for v in row.values()]
        table.add_row(*[escape("never" if cell == "nan" else cell) for cell in cells])
    return table


def _comparison_table(result: Any) -> Table:
    frame = result.comparison()
    table = Table(*[str(c) for c in frame.columns], box=None, pad_edge=False)
    for row in frame.itertuples(index=False):
        table.add_row(*[escape(str(v)) for v in row])
    return table


def _mib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def _say(line: str, console: Console = out, style: str | None = None) -> None:
    """Print a line as it is: neither wrapped nor read as markup."""
    console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)


def _fail(error: Exception, status: int) -> None:
    _say(f"rayfed: {error}", err, style="red")
    sys.exit(status)
