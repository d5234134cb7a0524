"""What ``executor: auto`` chooses: by a rule, the first that fits, and never another result."""

from dataclasses import dataclass

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.runs.forecast import MeasuredRound
from rayfed.selection import UniformSelection
from rayfed.study import Study
from rayfed.study.forecast import placing
from rayfed.study.forecast.cost import Cost
from rayfed.study.forecast.placing import OneProcess
from rayfed.study.scenario.parts import Executor

SCENARIO = {
    "name": "small",
    "seeds": [0, 1],
    "rounds": 100,
    "problem": {"name": "softmax-regression", "dataset": {"name": "synthetic", "features": 3}},
    "clients": {"count": 8},
    "participation": {"cohort": 4},
    "algorithms": ["fedavg"],
}


@pytest.fixture(scope="module")
def plan():
    return api.prepare(api.read(SCENARIO))


@pytest.fixture
def takes(plan, monkeypatch):
    """Returns what is chosen if a round takes so many seconds, of which clients compute a part."""

    def chosen(round_s, clients_s=0.0, cpus=2, runs=plan.runs, **given):
        work = MeasuredRound(round_s, clients_s, 2)
        monkeypatch.setattr(placing, "measure", lambda run, tables: work)
        return placing.choose(Executor(**given), runs, plan.tables, cpus)

    return chosen


def test_it_is_the_default(plan):
    assert plan.study.executor == Executor(name="auto")
    assert plan.executor.name == "auto"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"clients_per_actor": 1}, "ray"),
        ({"address": "auto"}, "ray"),
        ({"workers": 3}, "workers"),
        ({"memory_gb": 1.0}, "auto"),
    ],
)
def test_settings_of_one_of_them_stand_for_its_name(given, name):
    study = Study.parse(SCENARIO | {"executor": given})
    assert study.executor.name == name
    assert Study.parse(study.to_dict()).executor == study.executor


def test_short_runs_stay_in_this_process(takes, plan):
    choice = takes(1e-3, 1e-3)
    assert choice.executor.name == "serial"
    assert choice.why == (
        "2 runs take 200 ms in one process, of which clients compute 200 ms in 400 requests, "
        "with messages of 0.3 ms each; 2 CPUs"
    )


def test_long_runs_go_to_workers(takes):
    """Twice 100 s in one process."""
    assert takes(1.0, 0.9, memory_gb=2.0).executor == Executor(name="workers", memory_gb=2.0)


def test_a_single_long_run_goes_to_actors(takes, plan):
    assert takes(1.0, 0.9, runs=plan.runs[:1]).executor.name == "ray"
    assert takes(1.0, 0.1, runs=plan.runs[:1]).executor.name == "serial"


W, R = "workers", "ray"


@pytest.mark.parametrize(
    ("runs", "cpus", "seconds", "clients_s", "asks", "order"),
    [
        (2, 2, 1.5, 1.5, 10, [W]),  # 2.5 times 0.6 s
        (2, 2, 1.4, 1.4, 10, []),
        (1, 2, 9.9, 9.9, 10, []),
        (1, 2, 10.0, 5.0, 10, [R]),  # 2.5 times 4 s
        (1, 2, 10.0, 4.9, 10, []),
        (1, 2, 10.0, 9.0, 2000, [R]),  # 4.5 ms an Ask; 5 times 0.3 ms and 0.6 ns for 1 MB is 4.5
        (1, 2, 10.0, 9.0, 2001, []),
        (2, 2, 10.0, 9.0, 10, [W, R]),
        (2, 4, 10.0, 9.0, 10, [R, W]),  # two of four CPUs would have no run
        (3, 4, 10.0, 9.0, 10, [W, R]),
    ],
)
def test_the_rule_by_hand(runs, cpus, seconds, clients_s, asks, order):
    assert OneProcess(runs, cpus, seconds, clients_s, asks).order(0.9e-3) == order


@pytest.mark.parametrize(
    ("algorithm", "times", "models"),
    [
        ("fedavg", 1, 1),
        ({"name": "fedbuff", "buffer": 10}, 2, 10),  # a reply may be of a version of its own
        ("fedasync", 2, 1),
        ("fedat", 1, 1),  # a tier begins together
    ],
)
def test_an_ask_holds_as_many_models_as_versions(algorithm, times, models):
    run = api.prepare(api.read(SCENARIO | {"algorithms": [algorithm]})).runs[0]
    each = 0.3e-3 + 0.6e-9 * models * run.training.x0.nbytes
    assert placing.message_seconds(run) == pytest.approx(times * each)


def test_the_longest_message_of_a_study_counts(takes):
    """Of FedAvg's 0.3 ms and FedBuff's 0.6 ms and more, whichever comes first."""
    for algorithms in (["fedavg", "fedbuff"], ["fedbuff", "fedavg"]):
        runs = api.prepare(api.read(SCENARIO | {"algorithms": algorithms})).runs
        longest = max(1e3 * placing.message_seconds(run) for run in runs)
        assert longest >= 0.6
        assert f"with messages of {longest:.2g} ms each" in takes(1e-3, 1e-3, runs=runs).why


def test_small_asynchronous_updates_stay_in_this_process():
    """Twice ten models of 31.4 kB, 0.3 ms and 0.19 ms each: five times that is 4.9 ms."""
    one, ten = 0.3e-3 + 0.6e-9 * 31_400, 2 * (0.3e-3 + 0.6e-9 * 314_000)
    few = OneProcess(1, 2, 20.0, 16.0, 8000)  # 2 ms of clients' computing an Ask
    assert few.order(one) == ["ray"]
    assert few.order(ten) == []
    assert OneProcess(1, 2, 20.0, 16.0, 3300).order(ten) == []
    assert OneProcess(1, 2, 20.0, 16.0, 3200).order(ten) == ["ray"]


def test_what_does_not_fit_is_not_taken(takes, monkeypatch):
    def of(executor, runs, tables, cpus):
        class Fits:
            def check(self):
                if executor.name == "workers":
                    raise ScenarioError("executor", "needs more memory")

        return Fits()

    monkeypatch.setattr(Cost, "of", of)
    assert takes(1.0, 0.9).executor.name == "ray"


def test_one_cpu_another_device_and_a_clock_that_sleeps_need_no_round(plan, monkeypatch):
    monkeypatch.setattr(placing, "measure", None)
    choose = placing.choose
    alone = choose(Executor(), plan.runs, plan.tables, 1)
    assert (alone.executor.name, alone.why) == ("serial", "there is one CPU")
    assert choose(Executor(device="cuda"), plan.runs, plan.tables, 2).executor.name == "serial"
    slow = api.prepare(api.read(SCENARIO, {"clock": {"name": "wall", "scale": 0.001}}))
    assert choose(Executor(), slow.runs, slow.tables, 2).executor.name == "ray"


def test_a_round_that_fails_is_left_to_the_run(plan, monkeypatch):
    def fails(run, tables):
        raise ZeroDivisionError

    monkeypatch.setattr(placing, "measure", fails)
    choice = placing.choose(Executor(), plan.runs, plan.tables, 2)
    assert (choice.executor.name, choice.why) == ("serial", "a round ended with an error")


def test_a_round_is_measured_with_one_thread_as_runs_have(plan, monkeypatch):
    threads = set()

    def seen(run, tables):
        threads.update(pool["num_threads"] for pool in threadpool_info())
        return MeasuredRound(1.0, 0.9, 2)

    monkeypatch.setattr(placing, "measure", seen)
    with threadpool_limits(2):
        placing.choose(Executor(), plan.runs, plan.tables, 2)
    assert threads == {1}


def test_workers_must_find_the_plug_ins(takes):
    @dataclass(frozen=True, kw_only=True)
    class Mine(UniformSelection):
        name = "mine"

    own = api.prepare(api.read(SCENARIO | {"participation": {"cohort": 4, "select": Mine()}}))
    assert takes(1.0, 0.9, runs=own.runs).executor.name == "ray"


def test_later_algorithms_are_taken_for_the_longest(plan, monkeypatch):
    """Where measuring has taken its time."""
    several = api.prepare(api.read(SCENARIO, {"algorithms": ["fedavg", "fedprox", "scaffold"]}))
    measured = []
    now = iter([0.0, 1.0, 5.0, 5.0, 5.0, 5.0])
    monkeypatch.setattr(placing.time, "monotonic", lambda: next(now))

    def measure(run, tables):
        measured.append(run.label)
        return MeasuredRound(float(len(measured)), 0.0, 1)

    monkeypatch.setattr(placing, "measure", measure)
    tasks = placing._measured(several.runs, several.tables)
    assert measured == ["fedavg", "fedprox"]
    found = {run.label: tasks[run.folder].round_s for run in several.runs}
    assert found == {"fedavg": 1.0, "fedprox": 2.0, "scaffold": 2.0}


def test_the_scenario_stays_as_it_was(tmp_path, monkeypatch, assert_same):
    """A resume elsewhere chooses anew; the bytes are those of any placement."""
    monkeypatch.setattr(api.Result, "report", lambda result, **_: None)
    short = SCENARIO | {"rounds": 2}
    result = rayfed.run(short, out=tmp_path / "auto", page=False)
    rayfed.run(short | {"executor": "serial"}, out=tmp_path / "serial", page=False)
    assert_same(tmp_path / "auto", tmp_path / "serial")
    assert "name: auto" in (result.folder / "scenario.yaml").read_text()


def test_sweeps_take_workers():
    search = SCENARIO | {"search": {"algorithms.*.local.lr": {"log": [0.01, 1]}}}
    for executor in ({}, {"executor": "auto"}, {"executor": {"memory_gb": 2.0}}):
        study = api.with_search(api.read(search | executor))
        assert study.executor.name == "workers"
    assert study.executor.memory_gb == 2.0
