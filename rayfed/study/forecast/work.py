"""A bound on local work, checked before a run: how many steps a scenario asks of a client."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from rayfed.clients.solvers import Solver
from rayfed.core.arrays import Floats, Ints
from rayfed.core.errors import ScenarioError
from rayfed.engine.run import Run
from rayfed.engine.step_counter import StepCounter

MOST_STEPS = 10**8
"""Local steps of a client in a round; the fastest kernel takes a quarter of an hour for them."""
_RARE = 1e-3


def check_work(run: Run) -> None:
    """Refuse local work that cannot be counted or is too much.

    Work for a time (``time_s``) is counted at the clients' mean speeds, and at those that they
    exceed in one round of a thousand: some delays are arbitrarily short now and then.

    Raises
    ------
    ScenarioError
        If a client would take more than `MOST_STEPS` local steps in a round, or in a method's
        further solver, such as the one that fine-tunes, or if the number cannot be computed.
    """
    algorithm, population = run.training.algorithm, run.federation.population
    ids = np.arange(1) if algorithm.centralised else run.measuring.evaluated
    rows = StepCounter(run).rows(ids)
    pace = population.mean_seconds_per_step(ids, rows)
    quick = population.quick_seconds_per_step(ids, _RARE, rows)
    sizes = run.federation.views.training.shards.sizes(ids)
    groups = population.group_of(ids)
    for group in np.unique(groups).tolist():
        mine, solver = groups == group, run.training.solvers[group]
        check_steps(solver, sizes[mine], pace[mine])
        if (quick[mine] > 0).all():
            check_steps(solver, sizes[mine], quick[mine], often="in one round of a thousand")
    for field in fields(algorithm):
        solver = getattr(algorithm, field.name)
        if isinstance(solver, Solver) and field.name != "local":
            check_steps(solver, sizes, pace, place=field.name)


def check_steps(
    solver: Solver,
    sizes: Ints,
    pace: Floats,
    place: str = "local",
    often: str = "in a round",
) -> None:
    """Refuse more local steps than a run can finish.

    Parameters
    ----------
    solver : Solver
    sizes : (K,) array of int
        Training rows n_i.
    pace : (K,) array of float
        Virtual seconds of a local step.
    place : str
        Key of the solver.
    often : str
        How often a step takes so long, for the message.

    Raises
    ------
    ScenarioError
        If a client would take more than `MOST_STEPS` local steps in a round, or if the number
        cannot be computed.
    """
    with np.errstate(over="ignore"):
        steps = solver.step_counts(sizes, pace)
    most = int(np.max(steps, initial=0))
    if most > MOST_STEPS:
        given = [key for key in ("steps", "epochs", "time_s") if getattr(solver, key, None)]
        remedy = "use fewer, or a longer delay" if given == ["time_s"] else "use fewer"
        text = f"{most:.3g} local steps of a client {often}, more than {MOST_STEPS:,}"
        raise ScenarioError(".".join([place, *given[:1]]), f"comes to {text}; {remedy}")
