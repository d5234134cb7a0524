"""Summaries that runs write: what grouping their events gives, however the run came about."""

import json

import numpy as np
import pandas as pd
import pytest

from rayfed import api
from rayfed.core.columns import names
from rayfed.core.summary import DENSITY, STATUS, USAGE
from rayfed.report.read.results import Results
from rayfed.runs.driver import Driver
from rayfed.runs.files.stops import STOPPED
from rayfed.runs.files.summaries import SUMMARIES
from rayfed.testing.compare import assert_same_run
from rayfed.testing.toy import toy_scenario

LOCAL = {"steps": 3, "batch": 4, "lr": 0.05}
SLOW = {"count": 8, "delay": {"name": "exponential", "mean_s": 1.0},
        "network": {"latency_s": 0.25}}  # fmt: skip
AWAY = {"name": "markov", "mean_on_s": 9.0, "mean_off_s": 4.0}
FEDAVG, FEDBUFF = {"name": "fedavg", "local": LOCAL}, {"name": "fedbuff", "local": LOCAL}
STUDIES = {
    "rounds": (FEDAVG, SLOW, {"cohort": 4, "deadline_s": 5.0}),
    "several Asks": ({"name": "giant"}, SLOW, {"cohort": 4, "deadline_s": 5.0}),
    "late: stale": (FEDAVG, SLOW, {"cohort": 4, "deadline_s": 3.0, "late": "stale"}),
    "retries": (FEDAVG, SLOW, {"cohort": 4, "timeout_s": 4.0, "retries": 2}),
    "asynchronous": (FEDBUFF | {"buffer": 3}, SLOW, {"cohort": 4}),
    "away": (FEDAVG, SLOW | {"availability": AWAY}, {"cohort": 4, "deadline_s": 5.0}),
}


def planned(which, **more):
    algorithm, clients, participation = STUDIES[which]
    changes = {"clients": clients, "participation": participation, "rounds": 12} | more
    return api.prepare(api.read(toy_scenario(algorithm, **changes)))


def driver_of(plan, out):
    from rayfed.executors.serial import SerialExecutor

    (run,) = plan.runs
    return Driver(run, out, SerialExecutor(plan.tables))


def run_of(plan, out):
    assert driver_of(plan, out).execute() == "finished"
    return out / plan.runs[0].folder


def tables(run):
    return [pd.read_parquet(run / name) for name in ("events.parquet", *SUMMARIES)]


@pytest.mark.parametrize("which", STUDIES)
def test_a_run_sums_up_its_events(tmp_path, which):
    run = run_of(planned(which), tmp_path)
    events, usage, cells = tables(run)
    assert tuple(usage) == names(USAGE)
    assert tuple(cells) == names(DENSITY)
    status = events["status"].astype(str)
    counts = pd.crosstab(events["client"], status).reindex(columns=STATUS, fill_value=0)
    by_client = usage.set_index("client")
    assert (by_client[list(STATUS)] == counts).all(axis=None)
    assert by_client["asked"].tolist() == counts.sum(axis=1).tolist()
    ended = events[events["round"] >= 0]
    assert by_client["rounds"].tolist() == ended.groupby("client")["round"].nunique().tolist()
    assert by_client["first_round"].tolist() == ended.groupby("client")["round"].min().tolist()
    rows = cells[cells["clock"] == "round"]
    for kind in STATUS:
        mine = ended[ended["status"] == kind].drop_duplicates(["client", "round"])
        expected = mine.groupby("round").size()
        found = rows.groupby("start")[kind].sum()
        assert found[found > 0].to_dict() == expected.to_dict()
    if "staleness" in events:
        old = cells[cells["clock"] == "staleness"].groupby("start")["used"].sum()
        known = events.loc[events["staleness"] >= 0, "staleness"]
        assert old.to_dict() == known.value_counts().to_dict()


@pytest.mark.guard
@pytest.mark.parametrize("which", ["late: stale", "asynchronous", "away"])
def test_one_that_was_stopped_on_the_way_writes_the_same(tmp_path, which):
    plan = planned(which)
    calm = run_of(plan, tmp_path / "calm")
    driver = driver_of(plan, tmp_path / "stopped")
    driver.records.every_s = 0.0
    assert driver.execute(report=lambda progress: progress.round == 5 and driver.stop()) == STOPPED
    stopped = tmp_path / "stopped" / plan.runs[0].folder
    (stopped / "usage.parquet").write_bytes(b"half a fi")  # the machine went down with it
    assert driver_of(plan, tmp_path / "stopped").execute(resume=True) == "finished"
    assert_same_run(calm, stopped)


@pytest.mark.parametrize("checkpoint_s", [10.0, 0.0])  # one after each round: it writes rows, too
def test_a_run_that_goes_on_has_a_summary_of_what_it_has_written(tmp_path, checkpoint_s):
    plan = planned("rounds", checkpoint={"every_s": checkpoint_s})
    driver = driver_of(plan, tmp_path)
    driver.records.every_s, driver.records.summaries.patience = 0.0, 0.0
    seen = []

    def look(progress):
        folder = tmp_path / plan.runs[0].folder
        events, usage, _ = tables(folder)
        assert usage["asked"].sum() == len(events)
        (run,) = Results.read(tmp_path).runs_found
        seen.append(run.usage.asked["time_s"].iloc[0] == run.rounds["time_s"].iloc[-1])
        assert run.usage.asked["away_s"].isna().all()

    driver.execute(report=look)
    assert len(seen) == 12
    assert all(seen)


def test_a_short_run_needs_no_sums_on_the_way(tmp_path):
    driver = driver_of(planned("rounds"), tmp_path)
    driver.records.every_s = 3600.0
    assert driver.execute() == "finished"
    assert not driver.records.summaries.sums.grids
    assert len(tables(tmp_path / driver.run.folder)[1])


def test_one_that_failed_has_a_summary_of_its_rows(tmp_path):
    plan = planned("rounds")
    driver = driver_of(plan, tmp_path)

    def fail(progress):
        if progress.round == 4:
            raise RuntimeError("the user's callback")

    assert driver.execute(report=fail) == "failed"
    events, usage, _ = tables(tmp_path / plan.runs[0].folder)
    assert usage["asked"].sum() == len(events) > 0


def test_readers_make_the_same_of_a_folder_without(tmp_path):
    run = run_of(planned("away"), tmp_path)
    _, usage, cells = tables(run)
    info = json.loads((run / "run.json").read_text())
    for name in SUMMARIES:
        (run / name).unlink()
        del info["files"][name]
    del info["digest"]
    (run / "run.json").write_text(json.dumps(info))
    (again,) = Results.read(tmp_path).runs_found
    found = again.usage.summed
    pd.testing.assert_frame_equal(found.usage, usage, check_dtype=False)
    order = ["clock", "band", "start"]
    left, right = (
        frame.astype({"clock": str}).sort_values(order, ignore_index=True)
        for frame in (found.density, cells)
    )
    pd.testing.assert_frame_equal(left, right)


def test_events_are_read_only_where_there_is_no_summary(tmp_path, monkeypatch):
    run_of(planned("rounds"), tmp_path)
    (run,) = Results.read(tmp_path).runs_found
    monkeypatch.setattr(type(run), "events", property(lambda run: pytest.fail("events are read")))
    assert run.usage.totals["compute_s"] > 0
    assert np.isclose(run.usage.shares.sum(), 1)
    assert len(run.clients_by_speed) == len(run.usage.asked)
