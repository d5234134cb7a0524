"""Plans: what a command is about to do with a scenario file, in one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

from rayfed.cli.console import err, say
from rayfed.core.errors import ScenarioError, clipped, many
from rayfed.core.machine import in_words
from rayfed.core.plugins import raised
from rayfed.core.shipped import locate


def prepared(
    scenarios: Sequence[Path],
    changes: list[str] | None,
    address: str | None = None,
    adapt: Callable[[Any], Any] = lambda study: study,
) -> Any:
    """Return the plan of scenario files; errors have the lines of the file on which they stand.

    Parameters
    ----------
    adapt : callable
        Returns the study that is planned, or refuses it.
    """
    from rayfed import api
    from rayfed.study.scenario.files import with_lines

    try:
        return api.prepare(adapt(api.read(scenarios, changes or (), address)))
    except ScenarioError as error:
        if len(scenarios) > 1:
            for scenario in scenarios:  # the one that is wrong by itself says where
                prepared([scenario], changes, address, adapt)
            raise
        raise with_lines(error, locate(scenarios[0]), changes or ()) from error
    except KeyboardInterrupt as error:  # a module of the user's may raise one, too
        say(f"rayfed: interrupted, nothing was started: {raised(error)}", err)
        raise typer.Exit(130) from None


def headline(plan: Any, nodes: Sequence[int] = ()) -> str:
    """Return what a study will run, in one line.

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
        from rayfed import api

        cost = plan.cost(sum(nodes) or api.cpus(), nodes)
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
    """Return how many rounds the runs of a plan have."""
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
    """Return what a sweep will do, in one line."""
    from rayfed.trials import SweepGoal

    search, study = plan.search, plan.study
    trials = ", ".join(
        f"{label} {count}" for label, count in zip(study.labels, search.trials, strict=True)
    )
    return (
        f"{clipped(study.name, 80)}: {many(search.runs, 'run')} (trials: {clipped(trials, 200)}; "
        f"{many(len(study.seeds), 'seed')}), {study.sweep.sampler} in batches of {search.batch}, "
        f"by {SweepGoal.of(study).column}; {plan.executor.name}"
    )
