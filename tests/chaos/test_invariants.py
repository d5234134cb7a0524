"""Every invariant notices a record that breaks it."""

import json
import shutil
from collections import defaultdict

import pandas as pd
import pytest

from rayfed import api
from rayfed.executors.serial import SerialExecutor
from rayfed.testing.studies import mixed
from tests.chaos.ended import Ended
from tests.chaos.faults import Attempt
from tests.chaos.hosts import Watched
from tests.chaos.invariants import broken, invariants


def run(scenario, out):
    plan = api.prepare(api.read(scenario))
    watched = []

    def executor(tables):
        watched.append(Watched(SerialExecutor(tables)))
        return watched[-1]

    attempt = Attempt(plan, api.begin(plan, out), 0)
    attempt.execute(executor)
    return Ended(plan.runs[0], attempt.folder / plan.runs[0].folder, watched[0].traffic)


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    clients = mixed()["clients"] | {"availability": {"name": "cyclic", "groups": 2, "period_s": 9}}
    return run(mixed(rounds=5, clients=clients), tmp_path_factory.mktemp("rounds") / "out")


@pytest.fixture(scope="module")
def asynchronous(tmp_path_factory):
    methods = [{"name": "fedbuff", "buffer": 3, "local": {"steps": 2, "batch": 4}}]
    clients = {"count": 4, "delay": {"name": "exponential", "mean_s": 1.0}}
    made = mixed(rounds=6, clients=clients, participation={"cohort": 3}, algorithms=methods)
    return run(made, tmp_path_factory.mktemp("arrivals") / "out")


@pytest.fixture(scope="module")
def stale(tmp_path_factory):
    clients = {"count": 8, "delay": {"name": "exponential", "mean_s": 1.0}}
    waits = {"cohort": 4, "deadline_s": 5, "late": "stale"}
    made = mixed(rounds=6, clients=clients, participation=waits)
    return run(made, tmp_path_factory.mktemp("stale") / "out")


@pytest.fixture(scope="module")
def ahead(tmp_path_factory):
    """Clients of other speeds that compute while they send, and are not always asked."""
    delay = {"name": "exponential", "mean_s": 1.0}
    clients = {"count": 5, "delay": delay, "network": {"latency_s": 2.0}}
    methods = [{"name": "overlap-sgd", "local": {"steps": 2, "batch": 4}}]
    made = mixed(rounds=8, clients=clients, participation={"cohort": 4}, algorithms=methods)
    return run(made, tmp_path_factory.mktemp("ahead") / "out")


@pytest.fixture(scope="module")
def enough(tmp_path_factory):
    """Clients 0, 2, ..., 12 are there for 9 s, then the other six for as long."""
    clients = mixed()["clients"] | {"availability": {"name": "cyclic", "groups": 2, "period_s": 9}}
    made = mixed(rounds=4, clients=clients, participation={"cohort": 4, "minimum": 7})
    return run(made, tmp_path_factory.mktemp("enough") / "out")


@pytest.fixture(scope="module")
def again(tmp_path_factory):
    """Some tasks are timed out and asked for again."""
    waits = {"cohort": 4, "timeout_s": 2, "retries": 2}
    clients = {"count": 8, "delay": {"name": "exponential", "mean_s": 1.0}}
    made = mixed(rounds=4, clients=clients, participation=waits)
    return run(made, tmp_path_factory.mktemp("again") / "out")


@pytest.fixture(scope="module")
def resting(tmp_path_factory):
    """No client takes part again within three rounds."""
    pytest.importorskip("dp_accounting")
    private = {
        "uplink": [{"name": "clip", "norm": 1.0}],
        "privacy": {"name": "tree", "noise": 1.0, "delta": 1e-5, "separation": 3},
    }
    methods = [{"name": "fedavg", "weights": "uniform", "local": {"steps": 2, "batch": 4}}]
    made = mixed(rounds=9, algorithms=methods, participation={"cohort": 3}) | private
    return run(made, tmp_path_factory.mktemp("resting") / "out")


@pytest.fixture(scope="module")
def metered(tmp_path_factory):
    """Some replies are late, and cost energy in vain."""
    energy = {"compute_w": 2.0, "up_j_per_mb": 1e4}
    delay = {"name": "exponential", "mean_s": 1.0}
    clients = {"count": 6, "delay": delay, "network": {"up_mbps": 5}, "energy": energy}
    made = mixed(rounds=5, clients=clients, participation={"cohort": 4, "deadline_s": 3})
    return run(made, tmp_path_factory.mktemp("metered") / "out")


@pytest.fixture(scope="module")
def changing(tmp_path_factory):
    """A rule selects more clients from round 3 on."""
    rule = {"column": "round", "above": 1.5, "set": {"cohort": 5}, "start": 2}
    methods = [{"name": "fedavg", "local": {"steps": 2, "batch": 4}, "control": [rule]}]
    made = mixed(rounds=5, algorithms=methods, participation={"cohort": 3})
    return run(made, tmp_path_factory.mktemp("changing") / "out")


def table(name, change):
    """Return what changes a table of a run's folder."""

    def tamper(folder):
        path = folder / f"{name}.parquet"
        part = next(path.iterdir()) if path.is_dir() else path
        frame = pd.read_parquet(part)
        change(frame).to_parquet(part)

    return tamper


def record(**changes):
    def tamper(folder):
        path = folder / "run.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return tamper


def put(column, row, value):
    def change(frame):
        values = frame[column].astype(object).tolist()
        values[row] = value(values[row]) if callable(value) else value
        return frame.assign(**{column: values})

    return change


def twice(frame):
    return pd.concat([frame, frame.iloc[:1]], ignore_index=True)


BROKEN = {
    "attempts": table("events", lambda frame: frame.assign(end_s=frame["end_s"] + 0.5)),
    "bytes": table("rounds", put("bytes_up", 2, lambda count: count + 8)),
    "clients": table("clients", put("used", 0, lambda count: count + 1)),
    "clock": table("rounds", put("time_s", 3, 0.0)),
    "cohort": table("rounds", put("participants", 1, 99)),
    "ends": table("events", lambda frame: frame.iloc[:-1]),
    "energy": table("rounds", put("energy_j", 2, lambda joules: joules / 2)),
    "flight": table("events", lambda frame: frame.assign(start_s=0.0)),
    "counts": table("rounds", put("late", 1, lambda count: count + 1)),
    "minimum": table("events", lambda frame: frame.assign(start_s=frame["start_s"] + 9)),
    "places": table("events", lambda frame: frame.assign(start_s=0.0)),
    "rows": table("rounds", lambda frame: frame.drop(index=2)),
    "scores": table("rounds", put("loss", 2, float("nan"))),
    "separation": table("events", lambda frame: frame.assign(client=0)),
    "status": record(reason="it broke\nin two lines"),
    "versions": table("events", lambda frame: frame.assign(version=frame["version"] - 1)),
    "there": table("events", lambda frame: frame.assign(end_s=frame["end_s"] + 100)),
    "work": table("events", twice),
}


@pytest.fixture(scope="module")
def runs(ended, asynchronous, stale, enough, again, resting, metered):
    """The run that a broken record is made of, by invariant; `ended` if there is no other."""
    mine = {"flight": asynchronous, "versions": asynchronous, "places": asynchronous}
    mine |= {"ends": stale, "minimum": enough, "attempts": again, "separation": resting}
    mine |= {"energy": metered}
    return defaultdict(lambda: ended, mine)


def test_a_sound_run_keeps_them_all(
    ended, asynchronous, stale, ahead, enough, again, resting, metered
):
    for sound in (ended, asynchronous, stale, ahead, enough, again, resting, metered):
        assert list(broken(sound)) == []
    before = ahead.rounds.set_index("round")["time_s"][ahead.events["round"] - 1].to_numpy()
    assert (ahead.events["start_s"] < before).any()
    assert (stale.events["staleness"] > 0).any()
    assert (ended.events["status"] == "used").sum() > 5
    assert (again.events["ask"] > 0).any()
    assert asynchronous.events["client"].value_counts().max() > 1
    assert (metered.rounds["energy_wasted_j"] > 0).any()


def test_the_cohort_may_change_between_rounds(changing, tmp_path):
    counts = changing.rounds["participants"].tolist()
    assert max(counts[:3]) == 3
    assert max(counts[3:]) == 5
    assert list(broken(changing)) == []
    folder = tmp_path / "run"
    shutil.copytree(changing.folder, folder)
    table("rounds", put("participants", 2, 4))(folder)
    assert "cohort" in dict(broken(Ended(changing.run, folder, changing.traffic)))


def test_work_that_takes_no_time_may_come_before_other_work(asynchronous, tmp_path):
    """Delays may be shorter than what the clock can show; rows then have one start."""
    folder = tmp_path / "run"
    shutil.copytree(asynchronous.folder, folder)

    def before(frame):
        first = frame[frame["end_s"] > frame["start_s"]].iloc[:1]
        return pd.concat([frame, first.assign(end_s=first["start_s"])], ignore_index=True)

    table("events", before)(folder)
    changed = Ended(asynchronous.run, folder, asynchronous.traffic)
    assert len(changed.events) == len(asynchronous.events) + 1
    assert "flight" not in dict(broken(changed))


def test_each_has_a_record_that_breaks_it():
    assert set(BROKEN) == set(invariants())


COUNTED = ("bytes_down", "bytes_up", "bytes_wasted")


@pytest.mark.parametrize("column", COUNTED)
@pytest.mark.parametrize("overlaps", ["asynchronous", "stale"])
def test_bytes_are_counted_where_works_outlast_their_row(request, overlaps, column, tmp_path):
    """Those of one task are missing, or stand in the row after: totals are then as they were."""
    sound = request.getfixturevalue(overlaps)
    for delayed in (0, 1):
        folder = tmp_path / str(delayed)
        shutil.copytree(sound.folder, folder)

        def moved(frame, delayed=delayed):
            counts = frame[column].tolist()
            counts[2], counts[3] = counts[2] - 48, counts[3] + 48 * delayed
            return frame.assign(**{column: counts})

        table("rounds", moved)(folder)
        assert "bytes" in dict(broken(Ended(sound.run, folder, sound.traffic)))


@pytest.mark.parametrize("name", BROKEN)
def test_it_notices(runs, name, tmp_path):
    folder, sound = tmp_path / "run", runs[name]
    shutil.copytree(sound.folder, folder)
    BROKEN[name](folder)
    assert name in dict(broken(Ended(sound.run, folder, sound.traffic)))
