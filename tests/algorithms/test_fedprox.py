import pytest

from rayfed.algorithms import FedProx
from rayfed.solvers import SGD


def local(**more):
    return {"steps": 2, "batch": "full", "lr": 0.5, **more}


def test_without_the_proximal_term_it_is_fedavg_to_the_bit(line):
    prox = {"name": "fedprox", "local": local(mu=0.0)}
    found = line(prox, {"name": "fedavg", "local": local()}, rounds=5)
    assert found["fedprox"] == found["fedavg"]


def test_two_steps_by_hand(line):
    # lr 1/2, mu 1, from 10. Client 0: 10 - 5 = 5, 5 - (5 + (5 - 10)) / 2 = 5.
    # Client 1: 10 - 3 = 7, 7 - (3 + (7 - 10)) / 2 = 7. Mean 6.
    assert line({"name": "fedprox", "local": local(mu=1.0)}) == {"fedprox": 6.0}


def test_the_server_step_stretches_the_mean_change(line):
    assert line({"name": "fedprox", "server_lr": 2.0, "local": local(mu=1.0)}) == {"fedprox": 2.0}


def test_a_small_proximal_term_is_the_default_and_other_settings_keep_it(line):
    assert FedProx().local == SGD(mu=0.01)
    given = {"name": "fedprox", "label": "given", "local": local(mu=0.01)}
    found = line({"name": "fedprox", "local": local()}, given, rounds=3)
    assert found["fedprox"] == found["given"]


def test_a_group_that_works_less_keeps_the_proximal_term(line):
    # Client 1 takes one step only: 7. Mean of 5 and 7 as above.
    group = {"ids": [1], "local": {"steps": 1}}
    found = line({"name": "fedprox", "local": local(mu=1.0)}, clients={"groups": [group]})
    assert found["fedprox"] == pytest.approx(6.0)
