"""Work that is not done when its round ends: cut short, or used when it arrives."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rayfed
from rayfed import api, testing
from rayfed.algorithms import FedAvg
from rayfed.core.errors import ScenarioError
from rayfed.engine.clock import Clock, StepCounter, Traffic, steps_in_time
from rayfed.engine.tasks import Task
from rayfed.engine.timeline import Timeline
from rayfed.executors.serial import SerialExecutor
from rayfed.messages import Ask, Upload
from rayfed.runs.driver import Driver
from rayfed.runs.files.stops import STOPPED
from tests.fakes.stepping import step

PACES = (1.0, 3.0, 7.0, 20.0)  # seconds of a step of clients 0 to 3


@dataclass(frozen=True, kw_only=True)
class Drifting(FedAvg):
    """What a client sends depends on the model, its id, its steps and its round."""

    name: ClassVar[str] = "drifting"

    def train(self, clients, x):
        own = (clients.ids + 1.0)[:, None] * np.ones_like(x) + clients.round * 10.0
        loss = np.ones(len(clients.ids))
        return Upload({"delta": 0.25 * x + own + clients.steps[:, None]}, loss=loss)


def scenario(mixed, participation, steps=2, **clients):
    made = mixed(rounds=9, algorithms=[Drifting(local={"steps": steps, "batch": 2, "lr": 0.1})])
    made["problem"]["dataset"]["samples"] = {"low": 4, "high": 40}
    groups = [
        {"ids": [i], "delay": {"name": "constant", "mean_s": pace}} for i, pace in enumerate(PACES)
    ]
    made["clients"] = {"count": len(PACES), "groups": groups, **clients}
    made["participation"] = {"select": "all", **participation}
    return made


def loop_of(made):
    return testing.loop(made)


def walked(loop, rounds):
    state, _ = loop.start()
    seen = []
    for _ in range(rounds):
        state, row, events = step(loop, state)
        seen.append((state, row, events))
    return seen


def simulated(sizes, rounds, deadline_s, discount, steps=2, x0=0.0):
    """An independent simulation in plain Python: (x, time, participants, in flight) a round."""
    x, t, flying, rows = x0, 0.0, {}, []
    for number in range(1, rounds + 1):
        while len([c for c, task in flying.items() if task[0] > t]) == len(PACES):
            t = min(task[0] for task in flying.values())
        free = [c for c in range(len(PACES)) if c not in flying or flying[c][0] <= t]
        close = min(max(t + steps * PACES[c] for c in free), t + deadline_s)
        mine = {c: 0.25 * x + c + 1 + 10 * number + steps for c in free}
        old = [(c, *task[1:]) for c, task in flying.items() if task[0] <= close]
        flying = {c: task for c, task in flying.items() if task[0] > close}
        used = [(c, mine[c], number) for c in free if t + steps * PACES[c] <= close] + old
        late = {c: (t + steps * PACES[c], mine[c], number) for c in free}
        flying |= {c: task for c, task in late.items() if task[0] > close}
        weights = [sizes[c] * discount(number - began) for c, _, began in used]
        if used:
            x -= sum(w * v for w, (_, v, _) in zip(weights, used, strict=True)) / sum(weights)
        t = close
        rows.append((x, t, len(used), len(flying)))
    return rows


@pytest.mark.parametrize("deadline_s", [5.0, 6.5, 14.0, 39.0])
@pytest.mark.parametrize("power", [0.0, 1.0])
def test_late_replies_are_used_in_the_round_in_which_they_arrive(mixed, deadline_s, power):
    staleness = {"name": "polynomial", "power": power}
    participation = {"deadline_s": deadline_s, "late": "stale", "staleness": staleness}
    loop = loop_of(scenario(mixed, participation))
    sizes = loop.run.federation.views.training.shards.sizes(np.arange(4)).tolist()
    assert len(set(sizes)) == 4
    expected = simulated(sizes, 9, deadline_s, lambda rounds: (1 + rounds) ** -power)
    for (state, row, _), (x, t, used, flying) in zip(walked(loop, 9), expected, strict=True):
        np.testing.assert_allclose(state.state["x"], x, rtol=1e-12)
        assert (row["time_s"], row["participants"], row["in_flight"]) == (t, used, flying)
        assert len(state.timeline) == flying


def test_an_event_is_in_the_round_that_uses_it_and_says_how_old_it_is(mixed):
    """By hand: clients 0, 1 take 2 s and 6 s; client 2 takes 14 s, client 3 40 s; deadline 10 s.

    Rounds close at 10 (deadline), 16 (client 1), 26 (deadline), 32 (client 1), 42 (deadline).
    """
    loop = loop_of(scenario(mixed, {"deadline_s": 10.0, "late": "stale"}))
    late = []
    for _, row, events in walked(loop, 5):
        late += [
            (row["time_s"], int(client), int(version), int(old), end)
            for event in events
            for client, version, old, end in zip(
                *(event[k] for k in ("client", "version", "staleness", "end_s")), strict=True
            )
            if old
        ]
    assert late == [(16.0, 2, 0, 1, 14.0), (32.0, 2, 2, 1, 30.0), (42.0, 3, 0, 4, 40.0)]


def test_a_client_that_leaves_after_the_deadline_is_dropped_in_a_later_round(mixed):
    """Client 3 takes 40 s and is there for the first 25 s; client 0 takes 2 s."""
    away = {"name": "cyclic", "groups": 2, "period_s": 25.0}
    made = scenario(mixed, {"deadline_s": 10.0, "late": "stale"})
    made["clients"] = {
        "count": 2,
        "availability": {"name": "cyclic", "groups": 1, "period_s": 25.0},
        "groups": [
            {"ids": [0], "delay": {"name": "constant", "mean_s": 20.0}, "availability": away},
            {"ids": [1], "delay": {"name": "constant", "mean_s": 1.0}},
        ],
    }
    rows = [row for _, row, _ in walked(loop_of(made), 9)]
    # rounds end at 10, 12, 14, ... 26; client 0 goes away at 25 s
    assert [row["dropped"] for row in rows] == [0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert [row["in_flight"] for row in rows] == [1, 1, 1, 1, 1, 1, 1, 1, 0]
    assert sum(row["late"] for row in rows) == 0
    one = rows[1]["bytes_down"]
    assert rows[0]["bytes_down"] == 2 * one
    assert sum(row["bytes_up"] for row in rows) == 9 * one  # what went away never sent anything


class TestCutShort:
    """participation.late: partial."""

    def test_download_upload_and_full_gradients_take_their_whole_time(self, mixed):
        """By hand, 30 s: client k downloads in 2 s, uploads in 4 s, reads its rows in 1 step.

        That leaves 24 s less a step: 23, 7 (21 s), 2 (14 s of 17 s), and 4 s of client 3.
        """
        made = scenario(mixed, {"deadline_s": 30.0, "late": "partial"}, steps=40)
        for group in made["clients"]["groups"]:
            group["network"] = {"down_mbps": 8.0, "up_mbps": 4.0}
        (run,) = api.prepare(api.read(made)).runs
        clock = Clock(run, StepCounter(run))
        clock.counter.reading = lambda ids, rows=None: np.ones(len(ids))
        ask = Ask("train", send={}, up={}, passes=1.0)
        timing = clock.begun(
            ask, Traffic(2_000_000, 2_000_000), np.arange(4), 100.0, round=1, step_state={},
            ahead={}, fit_s=130.0,
        )  # fmt: skip
        assert timing.duration.steps.tolist() == [23, 7, 2, 40]
        assert timing.end_s.tolist() == [130.0, 130.0, 127.0, 100.0 + 6 + 41 * 20.0]

    def test_weights_are_those_of_all_who_send_and_steps_are_the_true_ones(self, mixed):
        loop = loop_of(scenario(mixed, {"deadline_s": 10.0, "late": "partial"}, steps=5))
        sizes = loop.run.federation.views.training.shards.sizes(np.arange(4)).tolist()
        ((state, row, events),) = walked(loop, 1)
        taken = [5, 3, 1]  # 10 s: 5 of 1 s, 3 of 3 s, one of 7 s, none of 20 s
        sent = [client + 1 + 10 + steps for client, steps in enumerate(taken)]
        np.testing.assert_allclose(state.state["x"], -np.average(sent, weights=sizes[:3]))
        assert events[0]["steps"].tolist() == [*taken, 5]
        assert (row["participants"], row["late"], row["local_steps"]) == (3, 1, 9)
        assert row["time_s"] == 10.0

    @given(
        st.lists(
            st.tuples(
                st.integers(0, 50), st.floats(0.0, 9.0), st.floats(0.0, 40.0), st.floats(1e-3, 7.0)
            ),
            max_size=5,
        ),
        st.floats(0.0, 1e6),
        st.floats(0.1, 60.0),
    )
    def test_nobody_could_take_another_step(self, clients, start_s, wait_s):
        steps, before, after, pace = (
            np.array([c[k] for c in clients], dtype=float) for k in range(4)
        )
        steps = steps.astype(int)

        def end_s(taken):
            return start_s + before + pace * taken + after

        deadline_s = start_s + wait_s
        taken = steps_in_time(steps, pace, end_s, deadline_s)
        in_time = end_s(taken) <= deadline_s
        assert (taken <= steps).all()
        assert (in_time | (taken == steps)).all()
        assert (~in_time | (taken == steps) | (end_s(taken + 1) > deadline_s)).all()
        assert (in_time | (end_s(np.ones(len(steps))) > deadline_s) | (steps == 0)).all()


TABLES = ("rounds", "events", "clients")


def run_in(folder, made, **participation):
    made = {**made, "participation": {**made["participation"], **participation}}
    rayfed.run({**made, "executor": "serial"}, out=folder, page=False)
    return folder


def table(folder, name):
    (run,) = [path.parent for path in Path(folder).glob(f"*/{name}.parquet")]
    return pd.read_parquet(run / f"{name}.parquet")


@pytest.mark.parametrize("late", ["partial", "stale"])
def test_a_deadline_that_nobody_misses_changes_nothing(mixed, tmp_path, late):
    made = scenario(mixed, {"deadline_s": 40.0})
    dropped = run_in(tmp_path / "drop", made)
    other = run_in(tmp_path / late, made, late=late)
    for name in TABLES:
        one, two = table(dropped, name), table(other, name)
        assert not one.empty
        pd.testing.assert_frame_equal(one, two[list(one)], check_categorical=False)
    if late == "stale":
        assert (table(other, "rounds")["in_flight"].iloc[1:] == 0).all()


@pytest.mark.parametrize(
    ("select", "interrupted"), [("all", "resume"), ("weighted", "drop"), ("rpow-d", "resume")]
)
def test_all_work_ends_once(mixed, tmp_path, select, interrupted):
    """Downloads are counted when work begins, events when it ends."""
    cohort = {} if select == "all" else {"cohort": 3, "over_select": 1.4}
    made = scenario(
        mixed, {"select": select, **cohort}, network={"loss": 0.1},
        availability={"name": "markov", "mean_on_s": 30.0, "mean_off_s": 9.0},
    )  # fmt: skip
    how = {"late": "stale", "deadline_s": 7.0, "interrupted": interrupted}
    folder = run_in(tmp_path / "out", {**made, "rounds": 40}, **how)
    rounds, events = table(folder, "rounds"), table(folder, "events")
    model = len(np.load(next(Path(folder).glob("*/model.npz")))["x"]) * 8
    assert rounds["bytes_down"].sum() == model * len(events)
    counted = events["status"].value_counts()
    assert counted["used"] == rounds["participants"].sum()
    assert counted["dropped"] == rounds["dropped"].sum() > 0
    assert counted["late"] == rounds["late"].sum() == 0
    assert counted["unfinished"] == rounds["in_flight"].iloc[-1]
    used = events[events["status"] == "used"]
    assert (used["staleness"] > 0).any()
    old = used[used["staleness"] > 0]
    assert (old["round"] - old["version"] - 1 == old["staleness"]).all()


@pytest.mark.guard
def test_work_under_way_is_resumed_to_the_byte(mixed, tmp_path, assert_same):
    made = scenario(mixed, {"deadline_s": 7.0, "late": "stale"})
    made["algorithms"] = [{"name": "ditto", "local": {"steps": 2, "batch": 2, "lr": 0.05}}]
    made |= {"checkpoint": {"every_s": 0}, "executor": "serial", "rounds": 12}
    whole = run_in(tmp_path / "whole", made)
    plan = api.prepare(api.read(made))
    executor = SerialExecutor(plan.tables)
    out = api.begin(plan, tmp_path / "part")
    driver = Driver(plan.runs[0], out, executor)
    assert driver.execute(report=lambda seen: driver.stop() if seen.round == 5 else None) == STOPPED
    held = next(out.glob("*/checkpoint/server-5.npz"))
    assert len(np.load(held)["timeline.works.client"]) > 0
    rayfed.resume(out, page=False)
    assert_same(whole, out)


def test_work_under_way_is_the_same_after_a_checkpoint():
    line, blank = Timeline(), Task(*[0] * len(Task._fields))
    line.begin([blank._replace(client=3, serial=1, version=2, over_s=2.5, weight=1.5)])
    line.update(2, {"x": np.arange(2.0)})
    line.begin([blank._replace(client=1, serial=2, version=4, over_s=1.5)])
    line.update(4, {"x": np.ones(2)})
    again = Timeline.of(line.arrays())
    assert again.open == line.open
    assert [send["x"].tolist() for send in again.sends.values()] == [[0.0, 1.0], [1.0, 1.0]]
    assert again.next_s == 1.5
    again.advance(2.5)
    over = [again.over(), again.over()]
    assert [task.client for task in over] == [1, 3]
    again.forget(over)
    assert list(again.sends) == [4]  # the newest is what the next one starts from
    assert not len(Timeline.of(Timeline().arrays()))


@pytest.mark.parametrize(
    ("late", "algorithm", "found"),
    [
        ("partial", "giant", "'giant' does not ask for local steps"),
        ("partial", "gradient-descent", "'gradient-descent' does not ask for local steps"),
        ("stale", "scaffold", "'scaffold' needs replies of the current round"),
        ("stale", "mifa", "'mifa' needs replies of the current round"),
        ("stale", "feddyn", "'feddyn' needs replies of the current round"),
        (
            "stale",
            {"name": "fednova", "variance_reduction": True},
            "'fednova' adds up vectors without weights",
        ),
        ("stale", "fedbuff", "'fedbuff' is asynchronous and has no rounds"),
    ],
)
def test_an_algorithm_that_cannot_do_it_says_so(mixed, late, algorithm, found):
    deadline_s = None if algorithm == "fedbuff" else 5.0  # it would be refused first
    made = scenario(mixed, {"deadline_s": deadline_s, "late": late})
    with pytest.raises(ScenarioError, match=found) as error:
        api.prepare(api.read({**made, "algorithms": [algorithm]}))
    assert error.value.place == "participation.late"
