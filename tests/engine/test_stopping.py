"""Rules that end a run: what a row must say, after a resume too."""

import json
import math

import numpy as np
import pytest

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.engine.settings import Stop
from rayfed.engine.stopping import LastEvaluation
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.driver import Driver
from rayfed.runs.files.stops import STOPPED
from rayfed.runs.serial import SerialStudy

ROW = {"time_s": 3.0, "loss": 0.5, "loss_gap": math.nan, "accuracy": 0.9}
CHANGED = {"loss_change": 1e-3, "model_change": 1e-2}


@pytest.mark.parametrize(
    ("rules", "met"),
    [
        ({"time_s": 3.0}, "time_s"),
        ({"time_s": 3.1}, None),
        ({"client_updates": 7}, "client_updates"),
        ({"client_updates": 8}, None),
        ({"loss": 0.5}, "loss"),
        ({"loss_gap": 1.0}, None),  # it is not known
        ({"accuracy": 0.91}, None),
        ({"accuracy": 0.9, "loss": 0.4}, "accuracy"),
        ({"loss_change": 1e-3}, "loss_change"),
        ({"loss_change": 9e-4}, None),
        ({"model_change": 1e-2, "loss_change": 9e-4}, "model_change"),
    ],
)
def test_which_rule_a_row_meets(rules, met):
    assert Stop(**rules).rule(ROW | CHANGED, updates=7) == met


def test_no_rule_needs_no_columns():
    assert Stop().rule(ROW, updates=0) is None
    assert Stop(loss=0.1).columns == ()
    assert Stop(model_change=0.1, loss_change=0.1).columns == ("loss_change", "model_change")


def test_a_loss_is_compared_with_the_last_that_is_known():
    """Evaluated in rounds 0, 2, 4 and 6: 5, 4, 4 and 4; nobody answers in rounds 3 and 4."""
    last, changes = LastEvaluation(5.0), []
    for loss, answered in [(math.nan, True), (4, False), (math.nan, False), (4, False)]:
        row = {"loss": loss, "round": len(changes) + 1, "time_s": 0.0}
        last, change = last.after(row, answered, due=not math.isnan(loss))
        changes.append(change)
    last, change = last.after({"loss": 4.0, "round": 5, "time_s": 0.0}, True, due=True)
    np.testing.assert_equal([*changes, change], [math.nan, 1.0, math.nan, math.nan, 0.0])


@pytest.fixture
def one(tmp_path):
    """Return a study of F(x) = (x - 1)^2 / 2 from 0: with step 1/2 x is 1/2, 3/4, 7/8, ..."""

    def make(**keys):
        (tmp_path / "1.csv").write_text("client,a,y\n0,1,1\n")
        return {
            "rounds": 20,
            "problem": {
                "name": "least-squares", "dataset": str(tmp_path / "1.csv"), "intercept": False,
            },
            "clients": {},
            "algorithms": [{"name": "gradient-descent", "lr": 0.5}],
            "executor": "serial",
        } | keys  # fmt: skip

    return make


def recorded(scenario, out):
    plan = api.prepare(api.read(scenario))
    outcome = SerialStudy(out).execute(plan.runs, plan.tables, False, lambda *_: None)
    told = json.loads((out / plan.runs[0].folder / "run.json").read_text())
    return api.Result(out, outcome).rounds, told["stopped_by"]


def test_the_change_of_the_model(one, tmp_path):
    rounds, by = recorded(one(stop={"model_change": 0.0625}), tmp_path)
    assert by == "model_change"
    assert rounds.model_change.tolist()[1:] == [0.5, 0.25, 0.125, 0.0625]
    assert math.isnan(rounds.model_change[0])


def test_the_change_of_the_loss(one, tmp_path):
    rounds, by = recorded(one(stop={"loss_change": 0.03}), tmp_path)
    assert by == "loss_change"
    assert rounds.loss_change.tolist()[1:] == [0.375, 0.09375, 0.0234375]


def test_losses_change_between_evaluations(one, tmp_path):
    """Of 1/2, 1/32 and 1/512, in rounds 0, 2 and 4; round 1 and 3 are not evaluated."""
    given = one(stop={"loss_change": 0.1}, evaluate={"every": 2})
    rounds, by = recorded(given, tmp_path)
    assert by == "loss_change"
    expected = [math.nan, math.nan, 1 / 2 - 1 / 32, math.nan, 1 / 32 - 1 / 512]
    np.testing.assert_array_equal(rounds.loss_change, expected)


def test_a_model_that_stops_between_evaluations_is_evaluated(one, tmp_path):
    rounds, _ = recorded(one(stop={"model_change": 0.125}, evaluate={"every": 5}), tmp_path)
    assert rounds["round"].iloc[-1] == 3
    assert rounds.loss.iloc[-1] == 0.5 * (1 / 8) ** 2


def test_a_tolerance_that_is_never_met_ends_by_rounds(one, tmp_path):
    rounds, by = recorded(one(stop={"model_change": 1e-9, "loss_change": 0}), tmp_path)
    assert (by, len(rounds)) == ("rounds", 21)


def test_a_round_that_nobody_answers_is_no_change(one, tmp_path):
    """About half of the rounds miss their deadline: they do not end the run."""
    slow = {"delay": {"name": "uniform", "mean_s": 1.5, "spread": 0.5}}
    given = one(stop={"model_change": 1e-3, "loss_change": 1e-6}, clients=slow, rounds=8)
    given["participation"] = {"deadline_s": 1.5}
    rounds, by = recorded(given, tmp_path)
    assert by == "rounds"
    missed = rounds.participants[1:] == 0
    assert 0 < missed.sum() < 8
    assert rounds.loss_change[1:][missed].isna().all()
    assert rounds.model_change[1:][missed].isna().all()
    assert (rounds.model_change[1:][~missed] > 1e-3).all()


@pytest.mark.guard
@pytest.mark.parametrize("at", [3, 4, 5])
@pytest.mark.parametrize(
    ("stop", "ends"),
    [({"loss_change": 4.0**-3}, 6), ({"loss_change": 4.0**-6}, 9), ({"model_change": 2.0**-7}, 7)],
)
def test_a_run_that_is_resumed_ends_in_the_same_round(one, tmp_path, assert_same, stop, ends, at):
    """F = 4^-r / 2, evaluated every 3 rounds: it stops between what is compared, and just there."""
    (run,) = (plan := api.prepare(api.read(one(stop=stop, evaluate={"every": 3})))).runs

    def driver(folder):
        return Driver(run, tmp_path / folder, SerialExecutor(plan.tables))

    driver("calm").execute()
    disturbed = driver("stopped")
    assert (
        disturbed.execute(report=lambda p: disturbed.stop() if p.round == at else None) == STOPPED
    )
    assert driver("stopped").execute(resume=True) == "finished"
    assert_same(tmp_path / "calm", tmp_path / "stopped")
    told = json.loads((tmp_path / "calm" / run.folder / "run.json").read_text())
    assert told["stopped_by"] == next(iter(stop))
    assert api.Result(tmp_path / "calm", {run.folder: ""}).rounds["round"].iloc[-1] == ends


FREE = {"delay": {"name": "constant", "mean_s": 0}}


@pytest.mark.parametrize("algorithm", ["gradient-descent", "centralised", "local-only"])
def test_a_clock_that_stands_still_ends_nothing(one, algorithm):
    given = one(rounds=None, stop={"time_s": 5}, clients=FREE, algorithms=[algorithm])
    with pytest.raises(ScenarioError, match=r"^stop\.time_s: alone ends '.*stands still; give ro"):
        api.prepare(api.read(given))


@pytest.mark.parametrize(
    "keys",
    [
        {"rounds": 3},
        {"stop": {"time_s": 5, "loss": 0.1}},
        {"clients": {"delay": "constant"}},
        {"clients": FREE | {"network": {"up_mbps": 1}}},
        {"clients": FREE | {"network": {"latency_s": 1}}},
    ],
    ids=str,
)
def test_what_else_may_end_it(one, keys):
    api.prepare(api.read(one(**{"rounds": None, "stop": {"time_s": 5}, "clients": FREE} | keys)))


def test_traffic_moves_no_clock_where_nothing_travels(one):
    alone = {"algorithms": ["local-only"], "clients": FREE | {"network": {"up_mbps": 1}}}
    with pytest.raises(ScenarioError, match=r"^stop\.time_s"):
        api.prepare(api.read(one(rounds=None, stop={"time_s": 5}, **alone)))
