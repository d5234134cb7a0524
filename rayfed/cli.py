"""The command line: run, resume, check, list, report, schema."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rayfed.errors import RayfedError, ScenarioError
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

Kind = Enum("Kind", {kind: kind for kind in KINDS}, type=str)  # type: ignore[misc]
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
    out.print(_headline(plan), highlight=False)
    _end(lambda: api.start(plan, out_, watch(len(plan.runs), err)))


@app.command()
def resume(folder: Folder) -> None:
    """Go on with runs that were interrupted, from their last checkpoints.

    The result is the same, byte for byte, as that of a study that was never disturbed.
    """
    from rayfed import api
    from rayfed.progress import watch

    plan = api.recorded(folder)
    for warning in api.differences(plan, folder):
        err.print(f"warning: {warning}", highlight=False, style="yellow")
    waiting = len(plan.runs) - len(api.ended(plan, folder))
    out.print(f"{plan.study.name}: {waiting} of {len(plan.runs)} runs to go on with")
    _end(lambda: api.execute(plan, folder, resume=True, watch=watch(waiting, err)))


@app.command()
def check(scenario: ScenarioFile, set_: Overrides = None) -> None:
    """Validate a scenario, its data included, and print what it will run and cost."""
    from rayfed import api

    plan = api.prepare(api.read(scenario, set_ or ()))
    out.print(_headline(plan), highlight=False)
    out.print(_runs_table(plan))
    cost = plan.cost(api.cpus())
    out.print(
        f"{cost.actors} client actors, {cost.drivers} driver actors; about "
        f"{_mib(cost.memory)} of memory (data {_mib(cost.data)}, client state "
        f"{_mib(cost.state)}, processes {_mib(cost.processes)})",
        highlight=False,
    )


@app.command("list")
def list_(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    name: Annotated[str | None, typer.Argument(help="One of them, in detail.")] = None,
) -> None:
    """Print the algorithms, problems, data sets and so on that were found."""
    from rayfed.catalogue import details, overview

    if name is None:
        out.print(overview(kind.value))
        return
    text, settings = details(kind.value, name)
    out.print(text, highlight=False, markup=False)
    out.print()
    out.print(settings)


@app.command()
def report(folder: Folder) -> None:
    """Write report.html and summary.csv of a result folder anew."""
    from rayfed.api import Result, results_in

    out.print(f"page: {Result(folder, results_in(folder)).report()}", soft_wrap=True)


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


def _end(go: Callable[[], Any]) -> None:
    """Run, print the comparison and the page, and exit with 1 if a run failed."""
    from rayfed import api

    try:
        result = go()
    except KeyboardInterrupt:
        err.print("interrupted; what was recorded is kept: rayfed resume DIR goes on with it")
        raise typer.Exit(130) from None
    failed = [name for name, status in result.outcome.items() if status == "failed"]
    out.print(_comparison_table(result))
    for name in failed:
        err.print(f"{name} failed: {api.reason(result.folder / name)}", style="red", markup=False)
    out.print(f"page: {result.folder / 'report.html'}", soft_wrap=True, highlight=False)
    raise typer.Exit(1 if failed else 0)


def _headline(plan: Any) -> str:
    study = plan.study
    placed = study.executor.name
    if placed == "ray":
        from rayfed.api import cpus

        cost = plan.cost(cpus())
        placed = f"{cost.actors} client actors (about {_mib(cost.memory)} in all)"
    algorithms = {run.label for run in plan.runs}
    return (
        f"{study.name}: {len(plan.runs)} runs ({len(algorithms)} algorithms, "
        f"{len(study.seeds)} seeds), {plan.clients} clients, {study.rounds} rounds; {placed}"
    )


def _runs_table(plan: Any) -> Table:
    table = Table("algorithm", "setting", "seeds", "parameters", "rows", box=None, pad_edge=False)
    seen: dict[tuple[str, str], list[Any]] = {}
    for each in plan.runs:
        seen.setdefault((each.label, each.setting), []).append(each)
    for (label, setting), runs in seen.items():
        rows = runs[0].views["evaluation"].shards.total()
        seeds = ", ".join(str(each.seed) for each in runs)
        table.add_row(label, setting, seeds, f"{runs[0].x0.size:,}", f"{rows:,}")
    return table


def _comparison_table(result: Any) -> Table:
    frame = result.comparison()
    table = Table(*[str(c) for c in frame.columns], box=None, pad_edge=False)
    for row in frame.itertuples(index=False):
        table.add_row(*[str(v) for v in row])
    return table


def _mib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def _fail(error: Exception, status: int) -> None:
    err.print(f"rayfed: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
    sys.exit(status)
