"""The command line: what each command takes and does."""

from __future__ import annotations

import io
import json
import signal
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from rayfed.cli import (
    best,
    compare,
    completion,
    dashboard,
    export,
    figures,
    own,
    reproduce,
    runs,
    start,
    steer,
    tables,
)
from rayfed.cli.arguments import (
    Address,
    Folder,
    Overrides,
    OwnPanels,
    ScenarioFile,
    ScenarioFiles,
    local,
    returned,
)
from rayfed.cli.completion import LISTED
from rayfed.cli.console import err, out, say
from rayfed.cli.plans import estimates, headline, prepared, swept
from rayfed.core.errors import RayfedError, ScenarioError, clipped, unknown
from rayfed.core.plugins import KINDS, find, raised, users_frames
from rayfed.runs.files.outcome import damaged
from rayfed.runs.ray import expected

app = typer.Typer(
    help="Simulate federated learning with clients that differ in data, speed, network and "
    "availability. Start with: rayfed run quickstart",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_UsageError: type[Any] = typer.BadParameter.__mro__[1]  # of click, or of typer's copy of it
MOST_GRAPHS = 1000
"""Of the command `topology`."""
MOST_EPOCHS = 100_000
"""Number of the last graph; those of moving clients are reached one after the other."""


def _version(asked: bool) -> None:
    if asked:
        say(f"rayfed {version('rayfed')}")
        raise typer.Exit


@app.callback()
def options(
    asked: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Take the options that stand before the command."""


app.command()(runs.run)
app.command()(runs.sweep)
app.command()(runs.resume)
app.command()(steer.stop)
app.command()(steer.extend)
app.command()(dashboard.dashboard)
app.command()(reproduce.reproduce)


@app.command()
def check(
    scenarios: ScenarioFiles,
    set_: Overrides = None,
    address: Address = None,
    time_: Annotated[
        bool,
        typer.Option("--time", help="Run a round of each algorithm here and time it."),
    ] = False,
) -> None:
    """Validate a scenario, its data included, and print what it will run and cost.

    Who takes part and the simulated time of the first rounds are known without running them. With
    --address the CPUs of that cluster count. Under executor: auto a round is run and timed, and
    what is chosen is said.
    """
    from rayfed import api
    from rayfed.cli import forecasts

    plan = prepared(scenarios, set_, address)
    nodes = [api.cpus()] if address is None else api.cluster_cpus(address)
    cpus = sum(nodes)
    plan = plan.placed(cpus)
    say(swept(plan) if plan.study.search else headline(plan, nodes))
    if plan.choice is not None:
        say(f"executor: auto chooses {plan.executor.name}: {plan.choice.why}")
    out.print(tables.runs(plan))
    if plan.study.cases:
        out.print(tables.cases(plan.study.cases))
    cost = plan.cost(cpus, nodes)
    coded = forecasts.coded(plan)
    for each in (*forecasts.costs(plan, cost, nodes), *coded, *filter(None, [estimates(plan)])):
        say(each)
    cost.check_disk(api.default_folder(plan.study))
    for each in (*forecasts.said_of_data(plan), *forecasts.aims(plan)):
        say(f"warning: {each}", err, style="yellow")
    for text, warnings in forecasts.expected(plan):
        say(text)
        for each in warnings:
            say(f"warning: {each}", err, style="yellow")
    say(forecasts.timed(plan) if time_ else "with --time a round of each algorithm is timed")
    if plan.executor.name == "ray":
        say(expected(plan.executor.address))
    if plan.study.topology is not None:
        from rayfed.study.plan.plan import walks_of
        from rayfed.topology.summary import line

        graphs = plan.graphs()
        say(line(graphs))
        for walk in walks_of(plan.study, graphs):
            say(f"walk {walk.name}, lazy {walk.lazy:g}")


@app.command()
def topology(
    scenario: ScenarioFile,
    set_: Overrides = None,
    frames: Annotated[
        int,
        typer.Option(min=1, max=MOST_GRAPHS, help="Graphs, spaced evenly over the run."),
    ] = 5,
    until: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="Virtual second of the last graph; stop.time_s, or 3600, if not given.",
        ),
    ] = None,
) -> None:
    """Print the properties of the graphs of a scenario and of walks on them.

    A line for each graph: links, degrees, parts. A line for each walk on it, the scenario's own
    and those that need no settings: lambda_2 of the transition matrix; the moves after which the
    walk is within 1/4 of its stationary law; the least and the largest share of that law; the
    expected moves from a client to another, where they are most; bounds of those to all clients.
    With more than 500 clients, numbers of moves are bounds, and those to all clients are left out.
    """
    from rayfed.study.plan.plan import walks_of
    from rayfed.study.scenario.fields import LONGEST_S
    from rayfed.topology import summary

    plan = prepared([scenario], set_)
    study, graphs = plan.study, plan.graphs()
    walks = walks_of(study, graphs)
    last_s = until if until is not None else study.stop.time_s or 3600.0
    if not last_s <= LONGEST_S:
        raise ScenarioError("--until", f"found {last_s:g}; give at most {LONGEST_S:g} seconds")
    if graphs.epoch(study.rounds or 1, last_s) > MOST_EPOCHS:
        text = f"the last graph would be number {graphs.epoch(study.rounds or 1, last_s):,}"
        raise ScenarioError("--until", f"{text}, of at most {MOST_EPOCHS:,}; give fewer seconds")
    moments = summary.spaced(frames, study.rounds or 1, last_s)
    say(summary.line(graphs))
    for table in summary.tables(summary.epoch_summaries(graphs, moments, walks)):
        out.print(table)


@app.command("list")
def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            help=f"One of: {', '.join(LISTED)}, or the name of one of them; without, all names.",
            metavar="KIND",
            autocompletion=completion.of_list,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(help="One of them, in detail.", autocompletion=completion.of_kind),
    ] = None,
) -> None:
    """Print the algorithms, problems, data sets and so on that were found.

    With "columns": the columns of the result tables, those of plug-ins included.
    """
    from rayfed.cli.catalogue import details, kinds, overview

    if kind is None:
        out.print(kinds())
        return
    if kind not in LISTED and name is None:  # the name of a plug-in does as well
        kinds_of = [each for each in KINDS if kind in find(each)]
        if len(kinds_of) > 1:
            text = f"is among {' and '.join(kinds_of)}; write rayfed list {kinds_of[0]} {kind}"
            raise ScenarioError(kind, text)
        if kinds_of:
            kind, name = kinds_of[0], kind
    if kind not in LISTED:
        every = (*LISTED, *(each for home in KINDS for each in find(home)))
        near = unknown("kind", kind, every)
        text = near if "did you mean" in near and name is None else unknown("kind", kind, LISTED)
        raise ScenarioError("", text)
    if kind == "columns":
        _list_columns(name)
        return
    if name is None:
        out.print(overview(kind))
        return
    text, settings = details(kind, name)
    out.print(text, highlight=False, markup=False)
    out.print()
    out.print(settings)


def _list_columns(name: str | None) -> None:
    from rayfed.cli.columns import column, columns

    if name is not None:
        out.print(column(name), highlight=False, markup=False)
        return
    for table in columns():
        out.print(table)
        out.print()


@app.command()
def report(
    folder: Folder,
    panel: OwnPanels,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN=NUMBER",
            help="What costs are compared at and the page shows first, for example loss=0.05.",
        ),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Write what this address of rayfed dashboard DIR shows instead, as one page that "
            "opens as it stood.",
        ),
    ] = None,
    out_: Annotated[
        Path, typer.Option("--out", metavar="PAGE", help="With --view: the page.", parser=local)
    ] = Path("view.html"),
) -> None:
    """Write report.html and summary.csv of a result folder anew.

    Nothing that the folder names is imported; a panel that you name here is.
    """
    if view is not None:
        from rayfed.dashboard.views import save

        say(f"page: {save(view, folder, out_, panel)}")
        return
    from rayfed.api import load
    from rayfed.report.best import Aim
    from rayfed.report.read.results import Results
    from rayfed.runs.progress import watch

    result = load(folder)
    aim = None if target is None else Aim.of(Results.read(folder), None, None, target)
    with returned(folder):
        column, value = (None, None) if aim is None else (aim.column, aim.target)
        with watch(len(result.outcome), err) as display:
            page = result.report(column, value, panel, tell=display.page)
    say(f"page: {page}")
    for line in damaged(folder, result.outcome):
        say(f"warning: {line}; rayfed resume mends it", err, style="yellow")


app.command()(figures.figures)
app.command()(compare.compare)
app.command()(export.export)


app.command()(best.best)


@app.command()
def schema() -> None:
    """Print the JSON schema of scenario files, so that editors complete them.

    For example in the first line of a scenario:
    # yaml-language-server: $schema=rayfed.schema.json
    """
    from rayfed.study import Study

    sys.stdout.write(json.dumps(Study.json_schema(), indent=1) + "\n")


app.command()(own.test)
app.command()(start.init)


@cache
def _command() -> Callable[..., Any]:
    """Return the command line, made of the signatures of all commands once in a process."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line; every error of the user's is one line."""
    signal.signal(signal.SIGTERM, _terminated)
    for stream in (sys.stdout, sys.stderr):  # names may hold what a terminal cannot show
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _command()(sys.argv[1:] or ["--help"], prog_name="rayfed", standalone_mode=False)
    except _UsageError as error:
        command = error.ctx.command_path if error.ctx else "rayfed"
        _fail(f"{clipped(error.format_message().rstrip('.'), 200)}; see {command} --help", 2)
    except ScenarioError as error:
        _fail(error, 2)
    except RayfedError as error:
        _fail(error, 1)
    except MemoryError as error:  # of what no forecast knows, such as a plug-in's arrays
        why = clipped(error, 120) or "nothing more can be allocated"
        _fail(f"needs more memory than there is ({why}); use less data or a smaller model", 1)
    except Exception as error:
        if not users_frames(error):
            raise  # a bug of rayfed: show the whole trace
        _fail(clipped(f"a plug-in failed: {raised(error)}"), 2)
    sys.exit(status or 0)


def _terminated(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C does, also where a shell in the background lets that be ignored."""
    interrupted = signal.getsignal(signal.SIGINT)
    stop = interrupted if callable(interrupted) else signal.default_int_handler
    stop(number, frame)


def _fail(error: object, status: int) -> NoReturn:
    say(f"rayfed: {error}", err, style="red")
    sys.exit(status or 0)
