"""How long a client works: drawn anew in every round, or less and less as the loss falls."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rayfed
from rayfed.core.errors import ScenarioError
from rayfed.engine.state import RunState
from rayfed.runs.files.records import Records
from rayfed.solvers import SGD, AdaComm, UniformSteps
from rayfed.study import Study

IDS = np.arange(4000)


def test_both_ends_are_drawn_and_all_numbers_equally_often():
    drawn = UniformSteps(low=2, high=5).draw(IDS, seed=0, draw=1)
    numbers, counts = np.unique(drawn, return_counts=True)
    assert numbers.tolist() == [2, 3, 4, 5]
    # 1000 each, with a standard deviation of sqrt(4000 * 3/16) = 27
    assert (np.abs(counts - 1000) < 5 * 27.4).all()


def test_a_draw_belongs_to_its_client_round_and_seed():
    length = UniformSteps(low=1, high=1000)
    one = length.draw(IDS[:50], seed=0, draw=3)
    assert length.draw(IDS[20:30], seed=0, draw=3).tolist() == one[20:30].tolist()
    assert length.draw(IDS[:50], seed=0, draw=4).tolist() != one.tolist()
    assert length.draw(IDS[:50], seed=1, draw=3).tolist() != one.tolist()


def test_drawn_epochs_are_passes_over_the_rows_and_drawn_steps_are_steps():
    sizes = np.full(len(IDS), 65)  # three minibatches of 32
    where = {"ids": IDS, "seed": 2, "draw": 7}
    epochs = UniformSteps(low=2, high=5).draw(IDS, seed=2, draw=7)
    passes = SGD(epochs=UniformSteps(low=2, high=5)).step_counts(sizes, **where)
    assert passes.tolist() == (3 * epochs).tolist()
    assert (
        SGD(steps=UniformSteps(low=2, high=5)).step_counts(sizes, **where).tolist()
        == epochs.tolist()
    )
    full = SGD(epochs=UniformSteps(low=2, high=5), batch="full").step_counts(sizes, **where)
    assert full.tolist() == epochs.tolist()


def test_a_number_that_falls_below_its_low_end_is_refused():
    with pytest.raises(ScenarioError, match="found low 5 above high 2; exchange them"):
        UniformSteps(low=5, high=2)


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
    assert read.algorithms[0].local == SGD(epochs=UniformSteps(low=2, high=5))
    assert read.to_dict()["algorithms"][0]["local"]["epochs"] == {
        "name": "uniform",
        "low": 2,
        "high": 5,
    }
    assert Study.parse(read.to_dict()) == read


@pytest.mark.parametrize(
    ("epochs", "line"),
    [
        ({"low": 5, "high": 2}, r"^algorithms.0.local.epochs: found low 5 above high 2"),
        ({"low": 2}, r"^algorithms.0.local.epochs.high: is missing; give it"),
        ({"low": 2, "hihg": 5}, r"unknown key 'hihg'; did you mean 'high'"),
        ({"low": 0, "high": 2}, r"^algorithms.0.local.epochs.low: found 0; it should be at least"),
        (-1, r"^algorithms.0.local.epochs: found -1; it should be greater than 0"),
    ],
)
def test_bad_lengths_are_one_clear_line(epochs, line):
    with pytest.raises(ScenarioError, match=line):
        study({"epochs": epochs})


def run(tmp_path, local, rounds=6, **more):
    """Three clients of one row (1, 1) each and least squares without intercept."""
    rows = "client,a,y\n" + "".join(f"{c},1,1\n" for c in range(3))
    (tmp_path / "rows.csv").write_text(rows)
    return rayfed.run(
        {
            "rounds": rounds,
            "problem": {
                "name": "least-squares", "half": True, "intercept": False,
                "dataset": str(tmp_path / "rows.csv"), "test": 0,
            },
            "clients": {"delay": {"name": "constant", "mean_s": 1.0}, **more},
            "algorithms": [{"name": "fedavg", "local": {"batch": "full", **local}}],
            "executor": {"name": "serial"},
        },
        out=tmp_path / "out", page=False,
    )  # fmt: skip


def test_adacomm_by_hand(tmp_path):
    # Every client has F_i(x) = (x - 1)^2 / 2, so a step of 1/2 quarters the loss. Four steps from
    # x = 0 see 1/2, 1/8, 1/32, 1/128: a mean of 85/512, and leave a loss of 1/512.
    # Round 2 sees 1/256 of that, so ceil(4 sqrt(1/256)) = 1 step is left from round 3 on.
    result = run(tmp_path, {"lr": 0.5, "steps": {"name": "adacomm", "start": 4, "every": 2}})
    events = result.events
    assert np.allclose(events.loss[events["round"] == 1], 85 / 512, rtol=1e-12)
    steps = events.groupby("round").steps.unique().map(list).tolist()
    assert steps == [[4], [4], [1], [1], [1], [1]]


def test_adacomm_halves_where_the_loss_does_not_fall_and_stops_at_one(tmp_path):
    local = {"lr": 1e-9, "steps": {"name": "adacomm", "start": 5, "every": 1}}
    result = run(tmp_path, local)
    steps = result.events.groupby("round").steps.first().tolist()
    assert steps == [5, 5, 3, 2, 1, 1]  # the first round only tells F_0


def test_adacomm_counts_intervals_on_the_virtual_clock(tmp_path):
    # Five steps of a second each: rounds 1 and 2 end at 5 and 10 s, the second interval ends in
    # round 3 (15 s) of 12 s each, and three steps a round follow.
    local = {"lr": 1e-9, "steps": {"name": "adacomm", "start": 5, "every_s": 12}}
    result = run(tmp_path, local)
    assert result.events.groupby("round").steps.first().tolist() == [5, 5, 5, 3, 3, 3]


def test_the_loss_that_adacomm_learns_is_one_number_more_in_every_upload(tmp_path):
    adaptive = run(tmp_path, {"lr": 0.5, "steps": {"name": "adacomm", "start": 4}}, rounds=1)
    up = adaptive.rounds.bytes_up.iloc[-1]
    plain = run(tmp_path, {"lr": 0.5, "steps": 4}, rounds=1)
    assert up == plain.rounds.bytes_up.iloc[-1] + 3 * 8


def test_a_group_of_its_own_learns_from_its_own_losses(tmp_path):
    # Clients 0 and 1 go 7/8 of the way to 1, client 2 stays: of three, 1 - x falls by 5/12 a round.
    # Client 2 sees (1 - x)^2 / 2: ceil(8 * 5/12) = 4 after round 2, ceil(8 * (5/12)^3) = 1 after 4.
    groups = [
        {"ids": [2], "local": {"lr": 1e-9, "steps": {"name": "adacomm", "start": 8, "every": 2}}}
    ]
    result = run(tmp_path, {"lr": 0.5, "steps": 3}, groups=groups, rounds=5)
    steps = result.events.pivot(index="round", columns="client", values="steps")
    assert steps[0].tolist() == [3] * 5
    assert steps[2].tolist() == [8, 8, 4, 4, 1]


def test_what_was_learnt_is_in_the_checkpoint(tmp_path):
    rule = AdaComm(start=8, every=1)
    state = rule.learn(rule.learn(rule.init(), 4.0, round=1, time_s=0), 1.0, round=2, time_s=0)
    records = Records(tmp_path)
    x = np.zeros(2)
    held = {f"0.{name}": value for name, value in state.items()}
    records.save(RunState(2, 0.0, {"x": x}, {}, held, (x,)), [])
    moment, _ = Records(tmp_path).load()
    back = {name[2:]: value for name, value in moment.step_state.items()}
    assert rule.draw(IDS[:3], seed=0, draw=3, state=back).tolist() == [4, 4, 4]


def test_rounds_and_seconds_together_are_refused():
    with pytest.raises(ScenarioError, match="found every too; give rounds or seconds, not both"):
        AdaComm(start=4, every=2, every_s=1.0)


@given(st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=30), st.integers(1, 1000))
def test_adacomm_never_rises_and_never_falls_below_one(losses, start):
    rule = AdaComm(start=start, every=1)
    state, numbers = rule.init(), [start]
    for round, loss in enumerate(losses, 1):
        state = rule.learn(state, loss, round=round, time_s=0.0)
        numbers.append(int(rule.draw(IDS[:1], seed=0, draw=round + 1, state=state)[0]))
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[-1] >= 1
