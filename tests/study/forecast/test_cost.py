"""Processes and their memory: counted by hand, with no less for each than was measured."""

from dataclasses import replace

import pytest

from rayfed import api
from rayfed.study.forecast.cost import (
    ACTOR_BYTES,
    HERE_BYTES,
    OWN_BYTES,
    RUNNER_BYTES,
    Processes,
)
from rayfed.study.scenario.parts import Executor

TORCH = 200 * 2**20


@pytest.fixture(scope="module")
def run():
    """A run with four clients."""
    scenario = {
        "rounds": 1, "problem": {"name": "least-squares", "dataset": "linear"},
        "clients": {"count": 4}, "algorithms": ["fedavg"], "executor": "serial",
    }  # fmt: skip
    return api.prepare(api.read(scenario)).runs[0]


def ray(clients_per_actor=1, **given):
    return Executor(name="ray", clients_per_actor=clients_per_actor, **given)


def test_actors_ray_and_drivers_add_up(run):
    found = Processes.of(ray(), [run] * 3, 2)
    assert (found.actors, found.combiners, found.runners) == (4, 0, 2)
    assert found.memory == HERE_BYTES + OWN_BYTES + 4 * ACTOR_BYTES + 2 * RUNNER_BYTES


@pytest.mark.parametrize("clients_per_actor", ["auto", 2])
def test_a_driver_that_hosts_clients_is_one_of_the_processes_for_them(run, clients_per_actor):
    """Four clients at two processes: an actor, and each of the drivers of two runs."""
    found = Processes.of(ray(clients_per_actor, driver_hosts=True), [run] * 3, 2)
    assert (found.actors, found.runners, found.hosts) == (1, 2, 2)
    others = Processes.of(ray(2), [run] * 3, 2)
    assert (others.actors, others.runners, others.hosts) == (2, 2, 2)
    assert others.memory - found.memory == ACTOR_BYTES
    for name in ("serial", "workers"):
        assert Processes.of(Executor(name=name), [run] * 3, 2).hosts == 1


def test_the_constants_are_above_what_was_measured():
    """PSS of the quickstart's processes late in its runs, and of Ray's own; in MiB."""
    measured = {
        HERE_BYTES: 225, RUNNER_BYTES: 93, ACTOR_BYTES: 68.5, OWN_BYTES: 372,
    }  # fmt: skip
    assert all(mib < size / 2**20 < 1.25 * mib for size, mib in measured.items())


def test_combiners_are_on_nodes_with_several_actors_if_there_are_several_nodes(run):
    """4 actors on 3, 1 and 1 CPUs are 2, 1 and 1; on one node there is no combiner."""
    one, several = (Processes.of(ray(address="auto"), [run], 5, n) for n in ([5], [3, 1, 1]))
    assert (one.combiners, several.combiners) == (0, 1)
    assert several.memory - one.memory == ACTOR_BYTES
    assert one.memory == HERE_BYTES + 4 * ACTOR_BYTES + RUNNER_BYTES  # Ray runs anyway


def test_torch_is_in_each_process_that_imports_it(run):
    class Problem:
        libraries = ("torch",)

    torch = replace(run, training=replace(run.training, problem=Problem()))

    def more(executor):
        with_it, without = (Processes.of(executor, [each] * 2, 2).memory for each in (torch, run))
        return with_it - without

    assert more(Executor(name="serial")) == TORCH
    assert more(Executor(name="workers")) == 3 * TORCH
    assert more(ray()) == (1 + 4 + 2) * TORCH
