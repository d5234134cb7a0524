"""What is forecast of rounds is what then happens in them."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import rayfed
from rayfed import api
from rayfed.algorithms import FedAvg, FedBuff, MaxFL, PFedMe
from rayfed.core.errors import ScenarioError
from rayfed.engine.loop import Loop
from rayfed.executors.serial import SerialExecutor
from rayfed.runs.forecast import _SHORT_ROUNDS, few_asked, forecast, measure, probe
from rayfed.testing import tiny_run
from rayfed.testing.studies import mixed, mixed_for
from rayfed.testing.toy import toy_scenario


@pytest.mark.parametrize("algorithm", [FedAvg, PFedMe, MaxFL, FedBuff])
def test_replies_and_times_are_those_of_the_run(algorithm, tmp_path, monkeypatch):
    monkeypatch.setattr(api.Result, "report", lambda result, **_: None)
    scenario = mixed_for(algorithm, rounds=7)
    plan = api.prepare(api.read(scenario))
    told = forecast(plan.runs[0])
    rows = rayfed.run(scenario, out=tmp_path / "out", page=False).rounds.query("round > 0")
    length = 28 if algorithm.asynchronous else 7  # of small updates `mixed_for` makes four a round
    assert told.rounds == len(rows) == length
    assert told.participants == rows.participants.mean()
    assert told.empty == (rows.participants == 0).sum()
    assert told.time_s == rows.time_s.iloc[-1] / length


MASKED = {"name": "secure-sum", "range": 16.0}
TOP = {"name": "top-k", "k": 1, "memory": "error-feedback"}
POISSON = {"cohort": 4, "select": "poisson"}
PRIVACY = {"noise": 1.0, "delta": 1e-5, "accountant": "rdp"}
BUCKETS = {"name": "median", "before": {"name": "buckets", "size": 2}}


@pytest.mark.parametrize(
    "changes",
    [
        {"uplink": [MASKED]},
        {"uplink": [MASKED], "aggregate": BUCKETS},
        {"uplink": [TOP], "evaluate": {"left_out": True}},
        {"uplink": [{"name": "clip", "norm": 1.0}], "privacy": PRIVACY, "participation": POISSON},
        {
            "uplink": [{"name": "clip", "norm": {"start": 1.0, "noise": 2.0}}, MASKED],
            "privacy": PRIVACY,
            "participation": POISSON,
        },
    ],
    ids=["secure", "buckets", "left out", "private", "adaptive"],
)
def test_a_channel_does_not_hide_who_takes_part(changes, tmp_path):
    if "privacy" in changes:
        pytest.importorskip("dp_accounting")
    phones = {"count": 8, "availability": {"name": "bernoulli", "p": 0.7}}
    made = {"clients": phones, "rounds": 20, **changes}
    algorithm = {"name": "fedavg", "weights": "uniform"}
    (run,) = api.prepare(api.read(toy_scenario(algorithm, **made))).runs
    told, rows = forecast(run), tiny_run(tmp_path, algorithm, **made).rounds.query("round > 0")
    assert (told.rounds, told.participants) == (20, rows.participants.mean())
    assert told.time_s == pytest.approx(rows.time_s.iloc[-1] / 20, rel=1e-12)


def test_rounds_without_any_reply_are_counted():
    rare = mixed(rounds=50)
    rare["clients"]["availability"] = {"name": "bernoulli", "p": 0.02}  # of 13 clients, by round
    (run,) = api.prepare(api.read(rare)).runs
    told = forecast(run, rounds=50)
    assert 0 < told.participants < 1
    assert told.empty >= 20


def test_nothing_is_forecast_where_it_depends_on_what_is_computed(caplog):
    caplog.set_level("DEBUG", "rayfed")
    scenario = mixed(
        algorithms=[{"name": "clusterfedvarp", "clusters": {"by": "updates", "number": 2}}]
    )
    (run,) = api.prepare(api.read(scenario)).runs
    assert forecast(run) is None
    assert f"{run.folder}: no forecast of its rounds: " in caplog.text


def test_a_probed_round_takes_time_and_one_thread_and_changes_nothing(monkeypatch):
    plan = api.prepare(api.read(mixed()))
    threads, step = set(), Loop.step

    def seen(loop, state):
        threads.update(pool["num_threads"] for pool in threadpool_info())
        return step(loop, state)

    monkeypatch.setattr(Loop, "step", seen)
    with threadpool_limits(2):
        start_s, round_s = probe(plan.runs[0], plan.tables)
    assert threads == {1}
    assert 0 < start_s < 10
    assert 0 < round_s < 10


def test_a_study_that_asks_the_same_client_again_and_again_says_so(tmp_path):
    """One of twenty clients is there, the others never are."""
    study = mixed(rounds=40, participation={"cohort": 5})
    here = {"name": "here", "ids": [3], "availability": "always"}
    rare = {"name": "bernoulli", "p": 1e-9}
    study["clients"] = {"count": 20, "groups": [here], "availability": rare}
    (run,) = api.prepare(api.read(study)).runs
    line = forecast(run).few_asked
    assert line.startswith("40 rounds asked 1 of the 5 clients of a cohort on average, and 1 of 20")
    assert "participation.minimum" in line
    assert line in rayfed.run(study, out=tmp_path / "out", page=False).warnings


@pytest.mark.parametrize("kind", ["private", "asynchronous"])
def test_what_a_run_may_not_have_is_not_advised(kind):
    private = {"uplink": [{"name": "clip", "norm": 1.0}], "privacy": PRIVACY}
    if kind == "private":
        pytest.importorskip("dp_accounting")
        algorithm = {"name": "fedavg", "weights": "uniform"}
        made = toy_scenario(algorithm, participation=POISSON, **private)
    else:
        made = toy_scenario({"name": "fedbuff", "buffer": 2}, participation={"cohort": 4})
    (run,) = api.prepare(api.read(made)).runs
    line = few_asked(run, 20, np.zeros(20, np.int64))
    assert line.endswith("; change clients.availability or participation.cohort")
    with pytest.raises(ScenarioError, match="minimum"):
        api.prepare(api.read({**made, "participation": {**made["participation"], "minimum": 2}}))


@pytest.mark.parametrize(
    ("cohort", "asked", "rounds", "warned"),
    [
        (4, [0, 1, 2, 3] * 10, 10, True),  # of 100 clients ten cohorts would reach 33
        (4, list(range(12)) * 4, 12, False),
        (4, list(range(40)), 20, False),  # half a cohort
        (4, list(range(38)), 20, True),
        (None, list(range(20)), 10, False),
        (None, [7] * 100, 100, True),
        (4, [], 10, False),  # of empty rounds another warning tells
        (200, list(range(100)), 1, False),
    ],
)
def test_when_few_clients_are_few(cohort, asked, rounds, warned):
    study = mixed(participation={"cohort": cohort} if cohort and cohort < 100 else {})
    study["clients"] = {"count": 100}
    (run,) = api.prepare(api.read(study)).runs
    assert bool(few_asked(run, rounds, np.array(asked, dtype=np.int64))) == warned


SCENARIO = {
    "rounds": 4,
    "problem": {"name": "softmax-regression", "dataset": {"name": "synthetic", "features": 3}},
    "clients": {"count": 6},
    "participation": {"cohort": 3},
    "algorithms": [{"name": "scaffold", "local": {"steps": 2, "lr": 0.1}}],
    "executor": "serial",
}


def test_a_measured_round_is_of_the_run_and_changes_nothing(capsys):
    plan = api.prepare(api.read(SCENARIO))
    run = plan.runs[0]
    task = measure(run, plan.tables)
    assert 0 < task.clients_s < task.round_s < 60
    assert task.asks == 2  # the local work of a round, and its evaluation
    assert capsys.readouterr() == ("", "")


def test_short_rounds_are_measured_more_often(monkeypatch):
    """Other programs disturb them most; no run goes beyond its end."""
    asked = []
    exchange = SerialExecutor.exchange

    def counted(self, key, request, send):
        asked.append(request.round)
        return exchange(self, key, request, send)

    monkeypatch.setattr(SerialExecutor, "exchange", counted)
    for rounds, most in ((4, 4), (1000, _SHORT_ROUNDS)):
        asked.clear()
        plan = api.prepare(api.read(SCENARIO | {"rounds": rounds}))
        measure(plan.runs[0], plan.tables)
        assert 3 <= max(asked) <= most
