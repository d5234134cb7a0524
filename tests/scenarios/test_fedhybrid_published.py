"""Set-ups 2 to 4 of FedHybrid against the iterations that its follow-up study counted.

Those of set-up 1' are in `tests/algorithms/fedhybrid`. An iteration counts from 0 there and ends
with a round here: iteration k is round k + 1.
"""

import os
from pathlib import Path

import pytest

import rayfed
from rayfed.api import read

pytestmark = pytest.mark.guard

SCENARIOS = Path(__file__).parents[2] / "scenarios"
needs_boston = pytest.mark.skipif("RAYFED_DATA" not in os.environ, reason="needs Boston housing")


def rows(number, labels, out):
    """Run some algorithms of a set-up until the gap is e^-20; return their rows by label."""
    scenario = read(SCENARIOS / f"niu_2021_fedhybrid_setup{number}.yaml").to_dict()
    scenario["algorithms"] = [a for a in scenario["algorithms"] if a.get("label") in labels]
    assert len(scenario["algorithms"]) == len(labels)
    scenario |= {"seeds": scenario["seeds"][:1], "executor": {"name": "serial"}}
    table = rayfed.run(scenario, out=out, page=False).rounds
    return {label: table[table.label == label] for label in labels}


@needs_boston
def test_set_up_2(tmp_path):
    found = rows(2, ["FedH-G", "FedH-2", "FedH-N"], tmp_path / "out")
    rounds = {label: table["round"].iloc[-1] for label, table in found.items()}
    assert rounds == {"FedH-G": 121 + 1, "FedH-2": 80 + 1, "FedH-N": 22 + 1}
    first = found["FedH-N"].iloc[0]
    assert first.loss == pytest.approx(294.31004, abs=5e-6)
    assert first.loss - first.loss_gap == pytest.approx(144.56534, abs=5e-6)


@pytest.mark.parametrize(
    "labels",
    [
        ["FedH-2", "FedH-6", "FedH-N"],
        pytest.param(["FedH-G", "FedH-2", "FedH-4", "FedH-6", "FedH-N"], marks=pytest.mark.slow),
    ],
    ids=["some", "all"],
)
def test_set_up_3_takes_fewer_rounds_the_more_clients_take_newton_steps(labels, tmp_path):
    """Its exact rows are not published, and so only the order of the counts is compared."""
    found = rows(3, labels, tmp_path / "out")
    rounds = [found[label]["round"].iloc[-1] for label in labels]
    assert all(found[label].loss_gap.iloc[-1] < 2.061153622e-9 for label in labels)
    assert rounds == sorted(set(rounds), reverse=True)


@pytest.mark.parametrize(
    "iterations",
    [
        {"FedH-2": 203, "FedH-N": 44},
        pytest.param({"FedH-G": 279, "FedH-N": 44}, marks=pytest.mark.slow),
    ],
    ids=["Newton steps", "gradient steps"],
)
def test_set_up_4(iterations, tmp_path):
    found = rows(4, list(iterations), tmp_path / "out")
    rounds = {label: table["round"].iloc[-1] for label, table in found.items()}
    assert rounds == {label: number + 1 for label, number in iterations.items()}
    first = found["FedH-N"].iloc[0]
    assert first.loss == pytest.approx(5.545177, abs=5e-7)  # 8 ln 2
    assert first.loss - first.loss_gap == pytest.approx(0.1544487, abs=5e-8)
