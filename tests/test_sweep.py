"""Sweeps: the same trials and bytes however they are run, what is best, failed and pruned."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import yaml
from threadpoolctl import threadpool_info, threadpool_limits

import rayfed
from rayfed import api, trials
from rayfed.core.errors import RayfedError, ScenarioError
from rayfed.report.best import Aim, Best
from rayfed.report.read.results import Results
from rayfed.runs.serial import SerialStudy
from rayfed.study.search import OptunaSampler, Search
from rayfed.trials import median_bounds


def scenario(**changes):
    """Return a sweep of two algorithms over steps that may diverge."""
    return {
        "name": "searched", "rounds": 3, "seeds": [0, 1],
        "problem": {
            "name": "least-squares", "dataset": {"name": "linear", "features": 3, "samples": 10},
            "validation": 0.3,
        },
        "clients": {"count": 3, "delay": {"name": "exponential", "mean_s": 1.0}},
        "algorithms": [
            {"name": "fedavg", "local": {"steps": 2, "batch": 4, "lr": 0.1}},
            {"name": "fedavg", "label": "fixed", "local": {"steps": 2, "batch": 4, "lr": 0.1}},
        ],
        "search": {
            "algorithms.0.local.lr": {"log": [1e-3, 0.5]},
            "algorithms.0.local.steps": {"int": [1, 3]},
        },
        "sweep": {"sampler": "tpe", "trials": 4, "batch": 2},
        "executor": "serial",
    } | changes  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def plain():
    """Leave out pages, which take longer than the sweeps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rayfed.Result, "report", lambda result, **_: None)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the folder of a sweep that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    rayfed.sweep(scenario(), out=folder)
    return folder


def trials_of(folder):
    return (folder / "trials.csv").read_text()


def test_the_score_of_a_trial_is_its_last_validation_loss_over_seeds(whole):
    trials = pd.read_csv(whole / "trials.csv")
    assert trials["algorithm"].tolist() == ["fedavg"] * 4 + ["fixed"]
    assert trials["trial"].tolist() == [1, 2, 3, 4, 1]
    for _, trial in trials.iterrows():
        of_label = [p for p in whole.glob("*/run.json") if is_of(json.loads(p.read_text()), trial)]
        ends = [
            pd.read_parquet(p.parent / "rounds.parquet").validation_loss.iloc[-1] for p in of_label
        ]
        assert len(ends) == 2
        assert trial.validation_loss == pytest.approx(np.mean(ends), rel=1e-15)
    assert (trials.status == "finished").all()


def is_of(record, trial):
    return (record["label"], record["trial"]["number"]) == (trial.algorithm, trial.trial)


def test_the_runs_are_those_of_their_settings_alone(whole, tmp_path, assert_same):
    """A trial that is run by hand gives the same bytes."""
    trial = pd.read_csv(whole / "trials.csv").iloc[3]
    own = {"steps": int(trial["local.steps"]), "lr": float(trial["local.lr"]), "batch": 4}
    made = scenario(search={}, algorithms=[{"name": "fedavg", "local": own}])
    result = rayfed.run(made, out=tmp_path / "alone")
    for seed in (0, 1):
        (home,) = whole.glob(f"fedavg-trial-4-*-seed{seed}")
        rows = pd.read_parquet(home / "rounds.parquet")
        alone = pd.read_parquet(result.folder / f"fedavg-seed{seed}" / "rounds.parquet")
        pd.testing.assert_frame_equal(rows, alone)


def test_workers_give_the_same_bytes_as_one_process(whole, tmp_path, assert_same):
    rayfed.sweep(scenario(executor={"name": "workers", "workers": 2}), out=tmp_path / "out")
    assert trials_of(tmp_path / "out") == trials_of(whole)
    assert_same(whole, tmp_path / "out")


@pytest.mark.ray
@pytest.mark.slow
def test_client_actors_give_the_same_bytes_as_one_process(whole, tmp_path, assert_same):
    """Batches follow one another on the same pool of actors, whose state is keyed by run."""
    rayfed.sweep(scenario(executor={"name": "ray", "clients_per_actor": 2}), out=tmp_path / "out")
    assert trials_of(tmp_path / "out") == trials_of(whole)
    assert_same(whole, tmp_path / "out")


@pytest.mark.guard
def test_what_was_interrupted_goes_on_with_the_same_trials(
    whole, tmp_path, assert_same, monkeypatch
):
    """After seven runs: the first seed of a trial of the second batch has ended."""
    execute, count, after = SerialStudy.execute, 0, 7

    def stopped(self, runs, tables, resume, report):
        nonlocal count
        room = after - count
        count += len(runs)
        found = execute(self, runs[: max(room, 0)], tables, resume, report)
        if count > after:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(SerialStudy, "execute", stopped)
    with pytest.raises(KeyboardInterrupt):
        rayfed.sweep(scenario(), out=tmp_path / "out")
    assert len(list((tmp_path / "out").glob("*/run.json"))) == after
    monkeypatch.undo()
    rayfed.resume(tmp_path / "out")
    assert trials_of(tmp_path / "out") == trials_of(whole)
    assert_same(whole, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["serial", {"name": "workers", "workers": 2}])
def test_what_was_killed_goes_on_with_the_same_trials(whole, tmp_path, assert_same, executor):
    path, out = tmp_path / "searched.yaml", tmp_path / "out"
    path.write_text(yaml.safe_dump(scenario(executor=executor)))
    command = [sys.executable, "-m", "rayfed", "sweep", str(path), "--out", str(out)]
    killed = 0
    for runs in (1, 4, 7):
        process = subprocess.Popen(
            command if not killed else [*command[:3], "resume", str(out)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while len(list(out.glob("*/run.json"))) < runs and process.poll() is None:
            time.sleep(0.01)
        killed += process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert killed == 3
    rayfed.resume(out)
    assert trials_of(out) == trials_of(whole)
    assert_same(whole, out)


@pytest.mark.parametrize("batch", [2, 3])
def test_what_is_recorded_is_replayed_and_not_proposed_anew(
    tmp_path, assert_same, monkeypatch, batch
):
    """Killed after the first and the second batch; some trials are repetitions of others."""
    made = scenario(sweep={"sampler": "tpe", "trials": 8, "batch": batch}, seeds=[0], rounds=2)
    made["search"] = {"algorithms.0.local.steps": {"int": [1, 4]}}
    whole = rayfed.sweep(made, out=tmp_path / "whole").folder
    asked, ask = [], OptunaSampler.ask
    monkeypatch.setattr(
        OptunaSampler, "ask", lambda self, known: (asked.extend(known), ask(self, known))[1]
    )
    for batches in (1, 2):
        out = tmp_path / f"out{batches}"
        with monkeypatch.context() as patched:
            after_batches(patched, batches)
            with pytest.raises(KeyboardInterrupt):
                rayfed.sweep(made, out=out)
        asked.clear()
        rayfed.resume(out)
        assert [values is None for values in asked] == [k >= batches * batch for k in range(8)]
        assert trials_of(out) == trials_of(whole)
        assert_same(whole, out)
        asked.clear()
        rayfed.resume(out)
        assert None not in asked


def after_batches(patched, count):
    """Let a sweep end as if killed when it would propose another batch than so many."""
    propose, begun = Search.propose, []

    def stop(self):
        if len(begun) == count:
            raise KeyboardInterrupt
        begun.append(1)
        return propose(self)

    patched.setattr(Search, "propose", stop)


def test_what_is_recorded_counts_though_it_would_not_be_proposed(tmp_path, monkeypatch):
    """As after another version of Optuna: the values of a trial are those that ran."""
    made = scenario(seeds=[0], rounds=2)
    whole = rayfed.sweep(made, out=tmp_path / "out").folder
    before = trials_of(whole)
    monkeypatch.setattr(
        OptunaSampler,
        "_sampler",
        lambda self, number: self.optuna.samplers.RandomSampler(seed=number),
    )
    rayfed.resume(whole)
    assert trials_of(whole) == before
    assert len(list(whole.glob("*/run.json"))) == 5


def test_a_trial_that_fails_is_a_row_with_the_reason_and_the_worst(tmp_path, monkeypatch):
    """Without validation rows the loss is made best."""
    told, tell = [], Search.tell
    monkeypatch.setattr(
        Search, "tell", lambda *given: (told.extend(given[2]), tell(*given))
    )  # fmt: skip
    diverges = {"algorithms.0.local.lr": {"choice": [1e-2, 1e30]}}
    sampled = {"sampler": "random", "trials": 4}
    made = scenario(search=diverges, sweep=sampled, rounds=20, seeds=[0])
    made["problem"] |= {"validation": None}
    result = rayfed.sweep(made, out=tmp_path / "out")
    trials = pd.read_csv(result.folder / "trials.csv")
    failed = trials[trials["local.lr"] == 1e30]
    assert len(failed)
    assert (failed["status"] == "failed").all()
    assert failed["reason"].str.contains("not finite|diverge").all()
    assert np.isinf(told).tolist() == (trials["status"] == "failed").tolist()
    known = trials["status"] == "finished"
    assert np.array(told)[known].tolist() == trials["loss"][known].tolist()
    assert trials["same_as"].notna().sum() == 2  # four trials of two values
    best = Best(Results.read(result.folder), Aim("loss"))
    assert best.winners[0].best.setting == "lr=0.01"
    assert (best.winners[0].tried, best.winners[0].failed) == (2, 1)
    assert "no rows are held out" in best.notes[0]


def test_the_best_settings_run_again_as_they_were(whole, tmp_path):
    """With the seeds of the search; the file has others, which had no part in the choice."""
    best = Best(Results.read(whole), Aim("validation_loss"))
    (path,) = best.write()
    searched = {run.seed for run in best.results.runs_found}
    assert searched.isdisjoint(yaml.safe_load(path.read_text())["seeds"])
    again = rayfed.run(path, out=tmp_path / "again", overrides=[f"seeds={sorted(searched)}"])
    last = again.rounds.groupby(["label", "seed"]).validation_loss.last().groupby("label").mean()
    for winner in best.winners:
        assert last[winner.best.algorithm] == winner.best.value


def test_what_the_machine_stopped_is_no_score(tmp_path, monkeypatch):
    """A resume goes on with the run; until then no trial follows from it."""
    step = "rayfed.runs.driver.Driver._finish"
    with monkeypatch.context() as patched:
        patched.setattr(step, lambda self, state: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(RayfedError, match=r"was stopped by this machine: .*disk full.*resume"):
            rayfed.sweep(scenario(), out=tmp_path / "out")
    assert len(list((tmp_path / "out").glob("*/run.json"))) == 6  # the first batch
    rayfed.resume(tmp_path / "out")
    assert len(pd.read_csv(tmp_path / "out" / "trials.csv")) == 5


class TestPruning:
    def test_the_median_of_what_came_so_far_by_hand(self):
        def history(times, values):
            return pd.DataFrame({"time_s": times, "value": values})

        histories = [
            history([0, 1, 2, 3, 4], [9, 8, 7, 6, 5]),
            history([0, 2, 4], [9, 5, 1]),
            history([0, 4], [9, 0]),
            history([0, 1.5, 3, 4.5], [9, 3, 2, 1]),
            history([0, 1], [9, 20]),  # pruned after a second
        ]
        # the median length is 4: moments 1, 2 and 3
        assert median_bounds(histories, 1.0) == [
            (1.0, 9.0),  # 8, 9, 9, 9, 20
            (2.0, 6.0),  # 7, 5, 9, 3 without the one that was pruned
            (3.0, 5.5),  # 6, 5, 9, 2
        ]
        assert median_bounds(histories, -1.0)[0] == (1.0, -9.0)

    def test_with_few_runs_or_no_time_there_is_no_rule(self):
        one = pd.DataFrame({"time_s": [0.0, 2.0], "value": [3.0, 1.0]})
        assert median_bounds([one] * 3, 1.0) == []
        assert len(median_bounds([one] * 4, 1.0)) == 3
        assert median_bounds([one.assign(time_s=0.0)] * 4, 1.0) == []
        assert median_bounds([one.iloc[:0]] * 4, 1.0) == []
        late = pd.DataFrame({"time_s": [3.0, 6.0, 9.0], "value": [3.0, 2.0, 1.0]})
        assert median_bounds([late] * 4, 1.0) == [(4.5, 3.0), (6.75, 2.0)]  # none at 2.25 s

    def test_runs_that_are_behind_end_early(self, tmp_path):
        made = self.pruning()
        first = rayfed.sweep(made, out=tmp_path / "first")
        trials = pd.read_csv(first.folder / "trials.csv")
        assert (trials.status[:4] == "finished").all()
        pruned = trials[trials.status == "pruned"]
        assert 1 <= len(pruned) <= 4
        # among the runs of a convex problem the small steps are behind
        kept = trials[(trials.algorithm == "fedavg") & (trials.status == "finished")]
        assert pruned["local.lr"].median() < kept["local.lr"].median()
        for number in pruned.trial:
            (home,) = first.folder.glob(f"fedavg-trial-{number}-*")
            told = json.loads((home / "run.json").read_text())
            assert (told["status"], told["stopped_by"]) == ("finished", "pruned")
            assert len(pd.read_parquet(home / "rounds.parquet")) < 9
        best = Best(Results.read(first.folder), Aim("validation_loss")).winners[0].best
        assert not best.pruned

    @pytest.mark.slow
    def test_workers_prune_the_same_runs(self, tmp_path, assert_same):
        made = self.pruning()
        rayfed.sweep(made, out=tmp_path / "first")
        workers = {"executor": {"name": "workers", "workers": 2}}
        rayfed.sweep(made | workers, out=tmp_path / "second")
        assert trials_of(tmp_path / "first") == trials_of(tmp_path / "second")
        assert_same(tmp_path / "first", tmp_path / "second")

    def pruning(self):
        search = {"algorithms.0.local.lr": {"log": [1e-6, 0.3]}}
        sampled = {"sampler": "random", "trials": 8, "batch": 4, "prune": True}
        return scenario(search=search, sweep=sampled, rounds=8, seeds=[0])


def test_a_trial_that_cannot_be_read_is_no_failed_one(whole, tmp_path):
    """It would be told to the sampler as the worst of all, and steer the search."""
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    run = min(out.glob("*-seed0"))
    record = json.loads((run / "run.json").read_text())
    for unknown in ("digest", "files"):  # as of a version that did not write them
        record.pop(unknown)
    (run / "run.json").write_text(json.dumps(record))
    (part,) = (run / "rounds.parquet").iterdir()
    part.unlink()
    part.with_name("part-000000000000.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(RayfedError, match=r"cannot be read \(.*; no trial is chosen without it"):
        rayfed.resume(out)
    assert trials_of(out) == trials_of(whole)
    shutil.rmtree(run)
    rayfed.resume(out)
    assert trials_of(out) == trials_of(whole)


def test_run_and_sweep_each_refuse_what_is_the_others():
    with pytest.raises(ScenarioError, match=r"^search: is for rayfed sweep; run that"):
        rayfed.run(scenario())
    with pytest.raises(ScenarioError, match=r"^search: is missing; give distributions"):
        rayfed.sweep(scenario(search={}))
    with pytest.raises(
        ScenarioError, match=r"^sweep.by: unknown score 'lost'; did you mean 'loss'"
    ):
        rayfed.sweep(scenario(sweep={"by": "lost"}))
    with pytest.raises(
        ScenarioError, match=r"^sweep.by: rows of 'fedavg' have no 'objective_gradient_norm'"
    ):
        rayfed.sweep(scenario(sweep={"by": "objective_gradient_norm"}))


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ("search", {"algorithms.0.local.lr": {"log": [0.1, 0.5]}}),
        ("sweep", {"sampler": "tpe", "trials": 6, "batch": 2}),
        ("sweep", {"sampler": "tpe", "trials": 4, "batch": 2, "by": "loss"}),
    ],
)
def test_another_search_does_not_go_on_with_the_trials(whole, tmp_path, key, other):
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    path, listed = out / "scenario.yaml", (out / "trials.csv").read_bytes()
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {key: other}))
    with pytest.raises(ScenarioError, match="search or sweep has changed since it began"):
        rayfed.resume(out)
    assert (out / "trials.csv").read_bytes() == listed


def test_every_batch_is_planned_with_one_thread(tmp_path, monkeypatch):
    threads, plan = [], trials._plan

    def seen(*given):
        threads.append({pool["num_threads"] for pool in threadpool_info()})
        return plan(*given)

    monkeypatch.setattr(trials, "_plan", seen)
    with threadpool_limits(2):
        rayfed.sweep(scenario(rounds=1, seeds=[0]), out=tmp_path / "out")
    assert threads == [{1}, {1}]


def test_workers_are_the_default_of_a_sweep():
    made = scenario()
    del made["executor"]
    assert api.with_search(api.read(made)).executor.name == "workers"
    assert api.with_search(api.read(scenario())).executor.name == "serial"


def test_moments_are_ascending_shares():
    assert list(trials.MOMENTS) == sorted(trials.MOMENTS)
    assert 0 < trials.MOMENTS[0] < trials.MOMENTS[-1] < 1
