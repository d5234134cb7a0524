"""Plans of scenario files: the commands `check` and `topology`, and headlines of studies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rayfed.cli import tables
from rayfed.cli.arguments import Address, Overrides, ScenarioFile, ScenarioFiles
from rayfed.cli.console import err, out, say
from rayfed.core.errors import ScenarioError, clipped, many
from rayfed.core.machine import cpus, in_words
from rayfed.core.plugins import raised
from rayfed.core.shipped import locate
from rayfed.runs.ray import expected

MOST_GRAPHS = 1000
"""Of the command `topology`."""
MOST_EPOCHS = 100_000
"""Number of the last graph; those of moving clients are reached one after the other."""


def check(
    scenarios: ScenarioFiles,
    set_: Overrides = None,
    address: Address = None,
    time_: Annotated[
        bool,
        typer.Option("--time", help="Run a round of each algorithm here and time it."),
    ] = False,
) -> None:
    """Validate a scenario with its data, and print its runs and costs.

    Participants and simulated time of the first rounds are known without running them. With
    --address the CPUs of that cluster count. Under executor: auto a round is run and timed, and the
    chosen executor is printed.
    """
    from rayfed import api
    from rayfed.cli import forecasts

    plan = prepared(scenarios, set_, address)
    nodes = [cpus()] if address is None else api.cluster_cpus(address)
    total = sum(nodes)
    plan = plan.placed(total)
    say(swept(plan) if plan.study.search else headline(plan, nodes))
    if plan.choice is not None:
        say(f"executor: auto chooses {plan.executor.name}: {plan.choice.why}")
    out.print(tables.runs(plan))
    if plan.study.cases:
        out.print(tables.cases(plan.study.cases))
    cost = plan.cost(total, nodes)
    coded = forecasts.coded(plan)
    say(forecasts.data(plan))
    for each in (*forecasts.costs(plan, cost, nodes), *coded, *filter(None, [estimates(plan)])):
        say(each)
    cost.check_disk(api.default_folder(plan.study))
    for each in (*forecasts.data_notes(plan), *forecasts.aims(plan)):
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

    A line for each graph: links, degrees, parts; arcs and receivers of a client where it has arcs,
    on which there are no walks. A line for each walk on it, the scenario's own
    and those that need no settings: lambda_2 of the transition matrix; the moves after which the
    walk is within 1/4 of its stationary law; the least and the largest share of that law; the
    expected moves from a client to another, where they are most; bounds of those to all clients.
    With more than 500 clients, numbers of moves are bounds, and those to all clients are left out.
    """
    from rayfed.study.plan.plan import walks_of
    from rayfed.study.scenario.fields import LONGEST_S
    from rayfed.topology import summary

    plan = prepared([scenario], set_, runs=False)
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
        if table.rows:
            out.print(table)


def prepared(
    scenarios: Sequence[Path],
    changes: list[str] | None,
    address: str | None = None,
    adapt: Callable[[Any], Any] = lambda study: study,
    runs: bool = True,
) -> Any:
    """Return the plan of scenario files; errors have the lines of the file on which they stand.

    Parameters
    ----------
    adapt : callable
        Returns the study that is planned, or refuses it.
    runs : bool
        Whether it is to run, so that parts which no algorithm uses are refused.
    """
    from rayfed import api
    from rayfed.study.scenario.files import with_lines

    try:
        plan = api.prepare(adapt(api.read(scenarios, changes or (), address)))
        if runs:
            plan.check_used()
        return plan
    except ScenarioError as error:
        if len(scenarios) > 1:
            for scenario in scenarios:  # a file that is invalid by itself is named in the error
                prepared([scenario], changes, address, adapt, runs)
            raise
        raise with_lines(error, locate(scenarios[0]), changes or ()) from error
    except KeyboardInterrupt as error:  # a module of the user's may raise one, too
        say(f"rayfed: interrupted, nothing was started: {raised(error)}", err)
        raise typer.Exit(130) from None


def headline(plan: Any, nodes: Sequence[int] = ()) -> str:
    """Return the runs of a study in one line.

    Parameters
    ----------
    plan : Plan
        What `api.prepare` returned.
    nodes : sequence of int
        CPUs of each node of the machine or cluster. If empty: of this machine; of a cluster, which
        has not been asked, no numbers are given.
    """
    study, address = plan.study, plan.executor.address
    placed = plan.executor.name
    if placed == "ray" and address and not nodes:
        placed = f"client actors on the Ray cluster at {clipped(address, 80)}"
    elif placed == "ray":
        cost = plan.cost(sum(nodes) or cpus(), nodes)
        actors = many(cost.processes.actors, "client actor")
        actors += " and the driver" * plan.executor.hosting_driver
        placed = f"{actors} (about {in_words(cost.memory)} in all)"
    algorithms = {run.label for run in plan.runs}
    seeds = {run.seed for run in plan.runs}
    return (
        f"{clipped(study.name, 80)}: {many(len(plan.runs), 'run')} "
        f"({many(len(algorithms), 'algorithm')}, {many(len(seeds), 'seed')}), "
        f"{many(plan.clients, 'client')}, {_rounds(plan)}; {placed}"
    )


def _rounds(plan: Any) -> str:
    """Return the number of rounds of a plan's runs."""
    from rayfed.engine.run import ENDLESS

    last = {run.ending.rounds for run in plan.runs}
    if max(last) >= ENDLESS:
        return "rounds until a rule under stop is met"
    return many(max(last), "round") if len(last) == 1 else f"{min(last)}-{max(last)} rounds"


def estimates(plan: Any) -> str:
    """Return which rows losses and accuracies are estimated on, in one line; empty if on all."""
    found = dict.fromkeys(run.record["evaluated_on"] for run in plan.runs)
    rows = [text for text in found if text]
    return f"losses and accuracies are estimates on {clipped('; or '.join(rows), 200)}" * bool(rows)


def swept(plan: Any) -> str:
    """Return the trials of a sweep in one line."""
    from rayfed.trials import SweepGoal

    search, study = plan.search, plan.study
    trials = ", ".join(
        f"{label} {count}" for label, count in zip(study.labels, search.trials, strict=True)
    )
    return (
        f"{clipped(study.name, 80)}: {many(search.runs, 'run')} (trials: {clipped(trials, 200)}; "
        f"{many(len(study.seeds), 'seed')}), {study.sweep.sampler} in batches of {search.batch}, "
        f"by {SweepGoal.of(study, plan.runs).column}; {plan.executor.name}"
    )
