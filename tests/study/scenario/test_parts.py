"""The parts of a scenario that hold values of their own."""

import pytest
from pydantic import ValidationError

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.engine.settings import Stop
from rayfed.population import Connection, Group, Stragglers
from rayfed.study.scenario.fields import make
from rayfed.study.scenario.parts import (
    ClientGroup,
    Clients,
    Clock,
    Evaluate,
    Executor,
)
from rayfed.testing.toy import toy_scenario


def test_named_parts_take_a_bare_name():
    assert Clock.model_validate("wall") == Clock(name="wall", scale=1.0)
    assert Executor.model_validate("serial") == Executor(name="serial")


@pytest.mark.parametrize(
    ("given", "hosts"),
    [
        ("ray", True),
        ({"name": "ray", "device": "cuda"}, False),  # Ray gives GPUs to actors alone
        ({"clients_per_actor": 2}, False),
        ({"clients_per_actor": 2, "driver_hosts": True}, True),
        ({"name": "ray", "driver_hosts": False}, False),
        ("auto", False),
        ("workers", False),
        ({"name": "serial", "driver_hosts": True}, False),
    ],
)
def test_drivers_host_clients_where_the_number_of_actors_is_left_open(given, hosts):
    assert Executor.model_validate(given).hosting_driver is hosts


def test_whether_drivers_host_clients_is_a_setting_of_ray_and_of_cpus():
    assert Executor(driver_hosts=True).name == "ray"
    with pytest.raises(ScenarioError, match="found true with device cuda"):
        Executor(driver_hosts=True, device="cuda")


def test_evaluation_takes_a_word_or_a_number():
    assert [Evaluate(clients=c).clients for c in ("all", "auto", 7)] == ["all", "auto", 7]
    with pytest.raises(ScenarioError):
        Evaluate(clients=0)


@pytest.mark.parametrize("rule", ["time_s", "loss_gap", "accuracy"])
def test_a_rule_that_is_never_or_always_met_is_refused(rule):
    with pytest.raises(ValidationError):
        make(Stop, {rule: -1})


@pytest.mark.parametrize(("fraction", "size"), [(0.25, 2), (0.26, 3), (1.0, 10), (0.01, 0)])
def test_a_share_is_rounded_to_whole_clients(fraction, size):
    assert ClientGroup(fraction=fraction).group(0, Clients(), 10, ()).size == size


def test_a_group_hands_over_what_differs():
    part = ClientGroup(ids=[4, 2], network={"up_mbps": 3}, delay="exponential")
    group = part.group(6, Clients(), 10, ())
    assert group == Group("group 6", (4, 2), 0, part.delay, Connection(up_mbps=3.0))
    assert group.availability is None


def test_clients_become_a_population():
    clients = Clients(count=9, stragglers={"fraction": 0.5, "slowdown": 2})
    population = clients.population(seed=3)
    assert population.stragglers == Stragglers(0.5, 2.0)
    assert population.groups == ()


@pytest.mark.parametrize(
    ("clients", "place"),
    [
        ({"capacity": 0}, "clients.capacity"),
        ({"capacity": [1.0, 1.5]}, "clients.capacity"),
        ({"capacity": []}, "clients.capacity"),
        ({"groups": [{"ids": [0], "capacity": -0.5}]}, "clients.groups.0.capacity"),
        ({"groups": [{"ids": [0], "capacity": [0.5]}]}, "clients.groups.0.capacity"),
    ],
)
def test_a_capacity_is_a_share_of_the_units(clients, place):
    with pytest.raises(ScenarioError) as error:
        api.read(toy_scenario("fedavg", clients={"count": 3} | clients))
    assert str(error.value).startswith(place)


def test_records_without_capacities_have_no_such_key():
    plain = Clients(count=2, groups=[ClientGroup(count=1)]).given()
    assert "capacity" not in plain
    assert "capacity" not in plain["groups"][0]
    given = Clients(count=2, capacity=[1.0, 0.5], groups=[ClientGroup(count=1, capacity=1.0)])
    assert given.given()["capacity"] == [1.0, 0.5]
    assert given.given()["groups"][0]["capacity"] == 1.0
