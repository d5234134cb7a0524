import numpy as np
import pytest

import rayfed
from rayfed.algorithms import Scaffold
from rayfed.core.errors import ScenarioError
from rayfed.study import Study
from rayfed.testing import answer, reply

EQUAL_WEIGHTS = {"rows": (1, 1)}
UNEQUAL_WEIGHTS = {"rows": (1, 3)}  # F = (F_0 + 3 F_1) / 4, least at 3


def scaffold(lr, steps, **more):
    return {"name": "scaffold", "local": {"steps": steps, "batch": "full", "lr": lr}, **more}


def test_the_server_steps_and_renews_its_control_variate():
    state = {"x": np.array([4.0, 0.0]), "c": np.array([1.0, 1.0])}
    mean = {"delta": [2.0, -1.0], "control": [4.0, 8.0]}
    after, diagnostics, (ask,) = answer(Scaffold(server_lr=0.5), state, reply(mean, population=8))
    assert set(ask.send) == {"x", "c"}
    assert dict(ask.up) == {"delta": 2, "control": 2}
    assert after["x"].tolist() == [3.0, 0.5]
    assert after["c"].tolist() == [2.0, 3.0]
    assert diagnostics == {}


def test_everything_starts_at_zero():
    x0 = np.array([3.0, 4.0])
    assert Scaffold().init(x0)["c"].tolist() == [0.0, 0.0]
    assert Scaffold().client_state(x0)["c"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("option", [1, 2])
def test_one_full_step_each_is_gradient_descent(line, option):
    # grad F = x - 3; four steps of 1/2 from 10: 3 + 7 / 16
    found = line(scaffold(0.5, 1, option=option), rounds=4, **UNEQUAL_WEIGHTS)
    assert found["scaffold"] == pytest.approx(3 + 7 / 16, rel=1e-14)


@pytest.mark.parametrize(("option", "second"), [(1, 3.21875), (2, 3.125)])
def test_two_rounds_by_hand(line, option, second):
    """One step of 1/2 against two, from 10.

    Round 1, without corrections: client 0 goes to 5, client 1 to 7 and 5.5; mean 5.25. The c_i
    are 10 and 6 (option 1: gradients at 10) or 10 and 4.5 (option 2: 5 / 0.5, 4.5 / 1).
    Round 2, option 1, c = 8: client 0 goes to 5.25 - (5.25 - 2) / 2 = 3.625; client 1 to
    5.25 - (1.25 + 2) / 2 = 3.625 and 3.625 - (-0.375 + 2) / 2 = 2.8125; mean 3.21875.
    Option 2, c = 7.25: 5.25 - (5.25 - 2.75) / 2 = 4; 5.25 - (1.25 + 2.75) / 2 = 3.25 and
    3.25 - (-0.75 + 2.75) / 2 = 2.25; mean 3.125.
    """
    clients = {"groups": [{"ids": [1], "local": {"steps": 2}}]}
    for rounds, end in ((1, 5.25), (2, second)):
        found = line(scaffold(0.5, 1, option=option), clients=clients, rounds=rounds)
        assert found["scaffold"] == end


@pytest.mark.parametrize("rows", [(1, 1), (1, 3)])
def test_clients_that_drift_apart_reach_the_minimum_of_f_one_to_a_round(line, rows):
    """Unequal steps, unequal sizes, partial participation: c stays the mean of the c_i."""
    found = line(
        scaffold(0.2, 2), rows=rows, rounds=200, participation={"cohort": 1},
        clients={"groups": [{"ids": [1], "local": {"steps": 8}}]},
    )  # fmt: skip
    assert found["scaffold"] == pytest.approx(4.0 * rows[1] / sum(rows), abs=1e-8)


def test_it_ends_where_the_weights_of_the_mean_say(line):
    """By size at 3, alike at (0 + 4) / 2."""
    found = line(
        scaffold(0.1, 2, weights="uniform", label="uniform"),
        scaffold(0.1, 2, weights="size", label="size"),
        rounds=120, **UNEQUAL_WEIGHTS,
    )  # fmt: skip
    assert found == pytest.approx({"uniform": 2.0, "size": 3.0}, abs=1e-8)


def test_clients_that_are_drawn_twice_in_a_round_do_not_move_the_minimum(line):
    """Drawn by size with replacement; F = (F_0 + 3 F_1) / 4 all the same."""
    found = line(
        scaffold(0.2, 3), rounds=200, **UNEQUAL_WEIGHTS,
        participation={"cohort": 2, "select": "weighted"},
    )  # fmt: skip
    assert found["scaffold"] == pytest.approx(3.0, abs=1e-8)


def study(local, group=None):
    algorithms = [{"name": "scaffold", "local": local}]
    groups = [] if group is None else [{"ids": [0], "local": group}]
    return Study.parse(
        {
            "rounds": 1,
            "problem": {"name": "least-squares", "dataset": "line"},
            "clients": {"count": 3, "groups": groups},
            "algorithms": algorithms,
        }
    )


def test_a_local_solver_that_is_no_sum_of_gradients_is_refused():
    line = "found 'adam', but 'scaffold' must know how a local solver adds up gradients; use sgd"
    with pytest.raises(ScenarioError, match=f"^algorithms.0.local: {line}"):
        study({"name": "adam"})
    with pytest.raises(ScenarioError, match=f"^clients.groups.0.local: {line}"):
        study({"lr": 0.1}, group={"name": "adam"})


def test_option_1_takes_any_solver(line):
    found = line(
        {"name": "scaffold", "option": 1, "local": {"name": "adagrad", "steps": 1, "lr": 0.5}},
        rounds=1,
    )
    assert found["scaffold"] == pytest.approx(9.5)  # the first step of Adagrad is lr


def test_option_1_pays_for_its_gradient_of_all_rows(tmp_path):
    # 65 rows in minibatches of 32 are 65 / 32 steps, on top of three local steps of 2 s each.
    rows = "client,a,y\n" + "0,1,1\n" * 65
    (tmp_path / "rows.csv").write_text(rows)
    local = {"steps": 3, "batch": 32, "lr": 0.1}
    result = rayfed.run(
        {
            "rounds": 1,
            "problem": {
                "name": "least-squares", "dataset": str(tmp_path / "rows.csv"), "test": 0,
            },
            "clients": {"delay": {"name": "constant", "mean_s": 2.0}},
            "algorithms": [
                {"name": "scaffold", "label": f"option {option}", "option": option, "local": local}
                for option in (1, 2)
            ],
            "executor": {"name": "serial"},
        },
        out=tmp_path / "out", page=False,
    )  # fmt: skip
    seconds = result.events.groupby("label").compute_s.sum()
    assert seconds["option 1"] == pytest.approx(6 + 2 * 65 / 32, rel=1e-12)
    assert seconds["option 2"] == 6
