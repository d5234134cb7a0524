"""Random combinations beside plain loops: what is drawn, and what is found."""

from dataclasses import replace

from tests.chaos.case import Case, Outcome, _Execution
from tests.chaos.dice import Dice
from tests.chaos.together import disagreement, drawn_combination
from tests.contract.references.combination import PARTS, Combination
from tests.contract.references.methods import METHODS, FedAvg


def test_all_methods_and_parts_are_drawn_and_those_asked_for_alone():
    found = [drawn_combination(Dice(seed)) for seed in range(600)]
    assert {each.method for each in found} == set(METHODS)
    for part, names in PARTS.items():
        assert {getattr(each, part) for each in found} == set(names)
    some = {drawn_combination(Dice(seed), ["fednova"]).method for seed in range(20)}
    assert some == {"fednova", "fednova control"}
    assert drawn_combination(Dice(0), ["disco"]) is None


def test_a_case_says_where_a_plain_loop_ends_elsewhere(monkeypatch, tmp_path):
    combination = Combination("fedavg", codec="top-k", late="drop")
    assert disagreement(combination) == ""
    monkeypatch.setattr(FedAvg, "step", lambda self, mean, replies: None)
    text = "fedavg + codec top-k + late drop: the model of round 1 is "
    assert disagreement(combination).startswith(text)
    case = replace(Case.drawn(1, tmp_path), scenario={}, together=combination)
    outcome = Outcome(1)
    _Execution(case, tmp_path, outcome).run()
    assert [name for name, _ in outcome.findings] == ["together"]


def test_a_refusal_of_what_is_not_there_is_found(monkeypatch):
    monkeypatch.setitem(FedAvg.settings, "server_lr", -1.0)
    assert disagreement(Combination("fedavg", codec="top-k")).startswith("fedavg")
