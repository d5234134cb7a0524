"""How long a client works: drawn anew in every round, both ends included."""

import numpy as np
import pytest

from rayfed.errors import ScenarioError
from rayfed.solvers import SGD, Between
from rayfed.study import Study

IDS = np.arange(4000)


def test_both_ends_are_drawn_and_all_numbers_equally_often():
    drawn = Between(2, 5).draw(IDS, seed=0, round=1)
    numbers, counts = np.unique(drawn, return_counts=True)
    assert numbers.tolist() == [2, 3, 4, 5]
    # 1000 each, with a standard deviation of sqrt(4000 * 3/16) = 27
    assert (np.abs(counts - 1000) < 5 * 27.4).all()


def test_a_draw_belongs_to_its_client_round_and_seed():
    length = Between(1, 1000)
    one = length.draw(IDS[:50], seed=0, round=3)
    assert length.draw(IDS[20:30], seed=0, round=3).tolist() == one[20:30].tolist()
    assert length.draw(IDS[:50], seed=0, round=4).tolist() != one.tolist()
    assert length.draw(IDS[:50], seed=1, round=3).tolist() != one.tolist()


def test_drawn_epochs_are_passes_over_the_rows_and_drawn_steps_are_steps():
    sizes = np.full(len(IDS), 65)  # three minibatches of 32
    where = {"ids": IDS, "seed": 2, "round": 7}
    epochs = Between(2, 5).draw(IDS, seed=2, round=7)
    passes = SGD(epochs=Between(2, 5)).budget(sizes, **where)
    assert passes.tolist() == (3 * epochs).tolist()
    assert SGD(steps=Between(2, 5)).budget(sizes, **where).tolist() == epochs.tolist()
    full = SGD(epochs=Between(2, 5), batch="full").budget(sizes, **where)
    assert full.tolist() == epochs.tolist()


def test_a_number_that_falls_below_its_low_end_is_refused():
    with pytest.raises(ScenarioError, match="found low 5 above high 2; exchange them"):
        Between(5, 2)


def study(local):
    return Study.parse(
        {
            "rounds": 1,
            "problem": {"name": "least-squares", "dataset": "line"},
            "clients": {"count": 3},
            "algorithms": [{"name": "fedavg", "local": local}],
        }
    )


def test_a_scenario_gives_it_as_a_mapping_and_gets_it_back():
    read = study({"epochs": {"low": 2, "high": 5}})
    assert read.algorithms[0].local == SGD(epochs=Between(2, 5))
    assert read.to_dict()["algorithms"][0]["local"]["epochs"] == {"low": 2, "high": 5}
    assert Study.parse(read.to_dict()) == read


@pytest.mark.parametrize(
    ("epochs", "line"),
    [
        ({"low": 5, "high": 2}, r"^algorithms.0.local.epochs: found low 5 above high 2"),
        ({"low": 2}, r"^algorithms.0.local.epochs.high: nothing found; give it"),
        ({"low": 2, "hihg": 5}, r"unknown key 'hihg'; did you mean 'high'"),
        ({"low": 0, "high": 2}, r"^algorithms.0.local.epochs.low: found 0; it should be at least"),
        (-1, r"^algorithms.0.local.epochs: found -1; it should be greater than 0"),
    ],
)
def test_bad_lengths_are_one_clear_line(epochs, line):
    with pytest.raises(ScenarioError, match=line):
        study({"epochs": epochs})
