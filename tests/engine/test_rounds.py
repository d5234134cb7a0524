"""The loop of rounds, answered by hand-made clients: who is asked, late, dropped and used."""

import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import rayfed
from rayfed import testing
from rayfed.algorithms import Algorithm
from rayfed.core.errors import RunFailed
from rayfed.messages import Ask, Upload
from rayfed.problems import LeastSquares
from rayfed.selection import UniformSelection
from tests.fakes.stepping import step


def loop_for(scenario):
    return testing.loop(scenario)


def test_a_round_without_replies_leaves_the_state_and_records_a_row(mixed):
    loop = loop_for(mixed(participation={"cohort": 3, "deadline_s": 1e-6}))
    before, _ = loop.start()
    after, row, events = step(loop, before)
    assert after.state["x"].tobytes() == before.state["x"].tobytes()
    assert (row["participants"], row["late"], row["bytes_up"] > 0) == (0, 3, True)
    assert row["time_s"] == pytest.approx(1e-6)
    assert events[0]["status"].tolist() == [1, 1, 1]
    assert np.isnan(events[0]["loss"]).all()  # work that nobody uses is not computed


def test_the_clock_jumps_to_when_somebody_comes(mixed):
    scenario = mixed()
    away = {"name": "cyclic", "groups": 2, "period_s": 50.0}
    scenario["clients"] = {
        "count": 2,
        "delay": {"name": "constant", "mean_s": 1.0},
        "groups": [{"ids": [0], "delay": {"name": "constant", "mean_s": 100.0}}],
        "availability": away,
    }
    scenario["participation"] = {"cohort": 1}
    # client 0 is there in [0, 50) of every 100 s but needs 500 s: it is dropped at 50 s;
    # client 1 is there in [50, 100) and needs 5 s
    loop = loop_for(scenario)
    run_state, _ = loop.start()
    seen = []
    for _ in range(12):
        run_state, row, events = step(loop, run_state)
        seen.append((events[0]["client"].tolist(), row["time_s"], row["dropped"]))
    assert seen[0] == ([0], 50.0, 1)
    assert seen[1:11] == [([1], 55.0 + 5 * k, 0) for k in range(10)]
    assert seen[11] == ([0], 150.0, 1)


def test_nobody_there_and_the_clock_jumps(mixed):
    scenario = mixed()
    scenario["clients"] = {
        "count": 2,
        "availability": {"name": "cyclic", "groups": 2, "period_s": 50.0},
        "groups": [{"ids": [1], "availability": {"name": "cyclic", "groups": 1, "period_s": 1e9}}],
    }
    scenario["clients"]["groups"][0]["availability"] = {
        "name": "bernoulli", "p": 1e-9, "period_s": 1e9,
    }  # fmt: skip
    scenario["participation"] = {"cohort": 2}
    loop = loop_for(scenario)
    run_state, _ = loop.start()
    starts = []
    for _ in range(12):
        run_state, _, events = step(loop, run_state)
        starts.append(events[0]["start_s"].tolist())
    # steps of 1 s, 5 a round: ten rounds in [0, 50), then nobody until 100
    assert starts == [[5.0 * k] for k in range(10)] + [[100.0], [105.0]]


@dataclass(frozen=True, kw_only=True)
class TwoAsks(Algorithm):
    """Asks the cohort twice; who has left after the first Ask cannot answer the second."""

    name: ClassVar[str] = "two-asks"

    second: float = 1.0  # cost of the second Ask

    def work(self, clients):
        return Upload({"ids": clients.ids.astype(float)})

    def round(self, state):
        first = yield Ask("work", send={}, up={"ids": 1}, cost=3.0)
        second = yield Ask("work", send={}, up={"ids": 1}, cost=self.second)
        return {"x": state["x"] + 100 * len(first.ids) + len(second.ids)}, {}


def left_between_two_asks(mixed, **settings):
    """Client 1 needs 3 s and is there in [20, 40) of every 40 s; client 0 needs 30 s."""
    scenario = mixed(algorithms=[TwoAsks(**settings)])
    scenario["clients"] = {
        "count": 2,
        "groups": [{"ids": [0], "delay": {"name": "constant", "mean_s": 10.0}}],
        "availability": {"name": "cyclic", "groups": 1, "period_s": 1e9},
    }
    scenario["clients"]["groups"].append(
        {"ids": [1], "availability": {"name": "cyclic", "groups": 2, "period_s": 20.0}}
    )
    scenario["participation"] = {"cohort": 2}
    return scenario


def test_who_left_between_two_asks_is_dropped_from_the_second(mixed):
    scenario = left_between_two_asks(mixed)
    loop = loop_for(scenario)
    run_state, _ = loop.start()
    run_state = replace(run_state, time_s=20.0)  # the second of two groups is there in [20, 40)
    after, row, events = step(loop, run_state)
    assert events[0]["status"].tolist() == [0, 0]
    assert events[1]["status"].tolist() == [0, 2]
    assert events[1]["end_s"].tolist() == [60.0, 50.0]
    assert after.state["x"][0] == 201.0
    assert (row["participants"], row["dropped"]) == (1, 1)


@pytest.mark.parametrize(
    ("interrupted", "status", "time_s"), [("drop", [0, 2], 50.0), ("resume", [0, 0], 60.0)]
)
def test_work_that_takes_no_time_is_not_done_by_who_is_away(mixed, interrupted, status, time_s):
    scenario = left_between_two_asks(mixed, second=0.0)
    scenario["participation"]["interrupted"] = interrupted
    loop = loop_for(scenario)
    run_state, _ = loop.start()
    _, row, events = step(loop, replace(run_state, time_s=20.0))
    # client 1 has answered at 23 s and is away in [40, 60), client 0 answers at 50 s
    assert events[0]["end_s"].tolist() == [50.0, 23.0]
    assert events[1]["status"].tolist() == status
    assert row["time_s"] == pytest.approx(time_s, rel=1e-15)


@dataclass(frozen=True, kw_only=True)
class ByClient(TwoAsks):
    """Costs a step a row, and ten more at client 1; then the rows once, client 1 twice."""

    name: ClassVar[str] = "by-client"

    def round(self, state):
        yield Ask("work", send={}, up={"ids": 1}, cost=lambda ids, sizes: sizes + 10.0 * (ids == 1))
        yield Ask("work", send={}, up={"ids": 1}, cost=0.0, passes=lambda ids, _: 1.0 + (ids == 1))
        return state, {}


def test_a_cost_may_be_a_function_of_the_clients_and_their_rows(mixed):
    made = mixed(algorithms=[ByClient()], participation={"select": "all"})
    made["problem"] |= {"test": 0.0}
    made["problem"]["dataset"]["samples"] = {"low": 4, "high": 40}
    pace = {"name": "constant", "mean_s": 2.0}
    leaves = {"name": "cyclic", "groups": 1, "period_s": 1e9}
    made["clients"] = {"count": 4, "delay": pace, "availability": leaves}
    loop = loop_for(made)
    sizes = loop.run.federation.views.training.shards.sizes(np.arange(4))
    _, row, (first, second) = step(loop, loop.start()[0])
    assert len(set(sizes.tolist())) > 2
    assert first["compute_s"].tolist() == (2.0 * (sizes + 10 * np.eye(4)[1])).tolist()
    passes = sizes / 32  # steps of the default batch
    assert second["compute_s"].tolist() == (2.0 * (1 + np.eye(4)[1]) * passes).tolist()
    assert row["time_s"] == first["compute_s"].max() + second["compute_s"].max()
    assert row["local_steps"] == 0


@dataclass(frozen=True, kw_only=True)
class Polling(UniformSelection):
    """Asks its candidates something before it takes them all."""

    name: ClassVar[str] = "polling"

    def answer(self, clients):
        return Upload({"loss": np.zeros(len(clients.ids))})

    def select(self, view, state):
        ids, state = yield from super().select(view, state)
        reply = yield Ask("answer", send={}, up={"loss": 1}, cost=1.0, clients=ids)
        return reply.ids, state


def test_an_over_selected_cohort_is_cut_after_a_poll_too(mixed):
    scenario = mixed(participation={"cohort": 2, "over_select": 2.0, "select": Polling()})
    scenario["clients"]["availability"] = "always"
    _, row, events = step(loop_for(scenario), loop_for(scenario).start()[0])
    assert len(events[0]["client"]) == 4
    assert (events[0]["status"] == 0).all()
    assert sorted(events[1]["status"].tolist()) == [0, 0, 1, 1]
    assert (row["participants"], row["late"]) == (2, 2)


@dataclass(frozen=True, kw_only=True)
class Named(TwoAsks):
    """Asks clients that it names before it asks the cohort."""

    name: ClassVar[str] = "named"

    def round(self, state):
        yield Ask("work", send={}, up={"ids": 1}, cost=1.0, clients=np.arange(5))
        return (yield from super().round(state))


def test_an_over_selected_cohort_is_cut_but_not_those_who_are_named(mixed):
    part = {"cohort": 2, "over_select": 2.0}
    made = mixed(algorithms=[Named()], participation=part)
    made["clients"]["availability"] = "always"
    loop = loop_for(made)
    _, _, events = step(loop, loop.start()[0])
    assert (events[0]["status"] == 0).all()
    assert sorted(events[1]["status"].tolist()) == [0, 0, 1, 1]


def test_a_wall_clock_sleeps_and_decides_nothing(mixed, tmp_path, assert_same):
    made = mixed(rounds=3)
    made["clients"] |= {"delay": {"name": "constant", "mean_s": 1.0}, "network": {}, "groups": []}
    made["clients"]["stragglers"] = {}
    made["participation"] = {"cohort": 4}
    rayfed.run(made, out=tmp_path / "virtual", page=False)
    began = time.monotonic()
    rayfed.run(made | {"clock": {"name": "wall", "scale": 0.02}}, out=tmp_path / "wall", page=False)
    assert time.monotonic() - began >= 3 * 5 * 0.02  # three rounds of five steps of 1 s
    assert_same(tmp_path / "virtual", tmp_path / "wall")


@pytest.mark.parametrize(("cohort", "over_select", "asked"), [(50, 1.1, 55), (4, 1.3, 6)])
def test_over_selection_rounds_up_but_not_for_the_sake_of_rounding(
    mixed, cohort, over_select, asked
):
    made = mixed(participation={"cohort": cohort, "over_select": over_select})
    made["clients"] |= {"count": 60, "availability": "always"}
    loop = loop_for(made)
    assert len(step(loop, loop.start()[0])[2][0]["client"]) == asked


def test_a_deadline_counts_from_when_somebody_came(mixed):
    made = mixed(participation={"cohort": 2, "deadline_s": 30.0, "select": Polling()})
    made["clients"] = {
        "count": 2,
        "delay": {"name": "constant", "mean_s": 1.0},
        "availability": {"name": "cyclic", "groups": 2, "period_s": 100.0},
        # client 0 is never there, so that nobody is until 100 s
        "groups": [{"ids": [0], "availability": {"name": "bernoulli", "p": 0.0}}],
    }
    loop = loop_for(made)
    after, row, events = step(loop, loop.start()[0])
    assert [e["start_s"].tolist() for e in events] == [[100.0], [101.0]]  # the poll takes 1 s
    assert (row["participants"], row["late"], after.time_s) == (1, 0, 106.0)


@dataclass(frozen=True, kw_only=True)
class Talkative(TwoAsks):
    """Returns a diagnostic that it does not declare."""

    def round(self, state):
        state, _ = yield from super().round(state)
        return state, {"mood": 1.0}


def test_a_diagnostic_that_is_not_declared_is_refused(mixed):
    loop = loop_for(mixed(algorithms=[Talkative()]))
    with pytest.raises(
        RunFailed, match=r"round 1: 'round' of 'two-asks' returns mood.*`diagnostics`"
    ):
        loop.step(loop.start()[0])


@dataclass(frozen=True, kw_only=True)
class Blind(LeastSquares):
    """Cannot predict."""

    name: ClassVar[str] = "blind"

    def value(self, x, batch):
        raise ZeroDivisionError("no eyes")


def test_a_problem_that_fails_in_an_evaluation_fails_the_run(mixed):
    made = mixed()
    made["problem"] = {"name": Blind, "dataset": {"name": "linear"}}
    loop = loop_for(made)
    with pytest.raises(RunFailed, match=r"(?s)evaluation of round 0.*client 0.*no eyes"):
        loop.start()


def test_the_servers_own_rows_score_no_models_that_it_does_not_have(mixed, tmp_path):
    frame = pd.DataFrame({"a": np.arange(40.0) - 20, "y": np.arange(40) // 20})
    frame.to_csv(tmp_path / "train.csv", index=False)
    frame.to_csv(tmp_path / "test.csv", index=False)
    scores = {}
    for name in ("fedavg", "local-only"):
        made = mixed(algorithms=[{"name": name}], partition={"name": "iid"})
        files = {"dataset": str(tmp_path / "train.csv"), "test": str(tmp_path / "test.csv")}
        made["problem"] = {"name": "logistic-regression", **files}
        loop = loop_for(made)
        scores[name] = loop.start()[1]["accuracy"]
    assert scores["fedavg"] == 0.5
    assert np.isnan(scores["local-only"])


@pytest.mark.parametrize("block", [1, 2])
def test_the_servers_own_rows_are_scored_alike_in_any_stack(mixed, tmp_path, block):
    """1,476 rows are three pieces, the last one shorter than the others."""
    rng = np.random.default_rng(0)
    for part, n in (("train", 60), ("test", 1476)):
        frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
        frame["y"] = (frame.a + rng.normal(size=n) > 0).astype(int)
        frame.to_csv(tmp_path / f"{part}.csv", index=False)
    files = {"dataset": str(tmp_path / "train.csv"), "test": str(tmp_path / "test.csv")}
    made = mixed(rounds=6, partition={"name": "iid"})
    made["problem"] = {"name": "logistic-regression", **files}
    losses = []
    for width in (100, block):
        loop = loop_for(made)
        loop.exchange.executor.open(loop.run.folder, replace(loop.run.setup(), block=width))
        run_state, row = loop.start()
        for _ in range(6):
            run_state, row, _ = loop.step(run_state)
            losses.append(row["test_loss"])
    assert losses[:6] == losses[6:]
