"""The benchmark of `executor: auto`: what it compares, and what it calls a miss."""

import pytest

from benchmarks import auto, placing
from rayfed import api


@pytest.mark.parametrize("name", auto.STUDIES)
def test_a_study_is_the_same_in_every_placement(name):
    serial, *others = (api.read(auto.scenario(name, p, seeds=2)) for p in auto.PLACEMENTS)
    assert serial.seeds == (0, 1)
    for study in others:
        assert study != serial
        assert study.model_copy(update={"executor": serial.executor}) == serial


@pytest.mark.parametrize(("taken", "holds"), [(2.1, True), (2.3, False)])
def test_auto_may_take_a_tenth_longer_than_the_best(monkeypatch, capsys, taken, holds):
    seconds = {"serial": 4.0, "workers": 2.0, "ray": 3.0, "auto": taken}
    monkeypatch.setattr(auto, "seconds", lambda name, placement, seeds: seconds[placement])
    assert auto.compare(["W1"], seeds=2, repeats=2) is holds
    assert f"{taken / 2:.2f}" in capsys.readouterr().out


@pytest.mark.parametrize(("taken", "holds"), [(5.0, True), (6.0, False)])
def test_workers_should_halve_a_sweep(monkeypatch, taken, holds):
    seconds = {"serial": 10.0, "workers": taken}
    monkeypatch.setattr(auto, "seconds", lambda name, placement, seeds: seconds[placement])
    assert auto.compare_sweep(1) is holds


def test_an_exchange_is_timed():
    start_s, round_s = placing.spent(placing.scenario(10, 4, 2, placing.SERIAL))
    assert 0 < round_s < start_s
