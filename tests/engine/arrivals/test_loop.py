"""The loop of arrivals against calculations by hand and identities with the loop of rounds."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import yaml

import rayfed
from rayfed import api
from rayfed.algorithms import FedBuff
from rayfed.core.episodes import Episodes
from rayfed.core.errors import ScenarioError
from rayfed.testing.studies import LOCAL, drive, mixed, stop_after

TARGETS = {0: 1.0, 1: -2.0, 2: 5.0}
SECONDS = {0: 1.0, 1: 2.5, 2: 4.0}


def points_study(tmp_path, algorithms, **changes):
    """Return clients with F_i(x) = (x - m_i)^2 / 2 and one step of 1/2 in unequal seconds."""
    rows = "".join(f"{i},1,{m}\n" for i, m in TARGETS.items())
    (tmp_path / "points.csv").write_text("client,a,y\n" + rows)
    local = {"steps": 1, "batch": "full", "lr": 0.5}
    groups = [{"ids": [i], "delay": {"name": "constant", "mean_s": s}} for i, s in SECONDS.items()]
    scenario = {
        "name": "points",
        "rounds": 20,
        "problem": {
            "name": "least-squares", "dataset": str(tmp_path / "points.csv"), "intercept": False,
        },
        "clients": {"groups": groups},
        "algorithms": [{**a, "local": local} for a in algorithms],
        "executor": "serial",
    }  # fmt: skip
    return scenario | changes


def run(scenario, out):
    return rayfed.run(scenario, out=out, page=False)


def by_hand(mixing, power, arrivals, wrong=lambda round: False):
    """Return x after each arrival of FedAsync: all three clients are at work all the time.

    Clients that begin from version v send the negative of their difference if round v + 1 is wrong.
    """
    x, version = 0.0, 0
    task = {i: (SECONDS[i], 0, 0.0) for i in TARGETS}  # arrival, version, model at the start
    history = []
    while len(history) < arrivals:
        now = min(end for end, _, _ in task.values())
        arrived = [i for i in sorted(task) if task[i][0] == now]
        for i in arrived:
            _, start, model = task[i]
            a = mixing * (1 + version - start) ** -power
            sign = -1 if wrong(start + 1) else 1
            x = (1 - a) * x + a * (model - sign * 0.5 * (model - TARGETS[i]))
            version += 1
            history.append((now, x, version - 1 - start))
        for i in arrived:
            task[i] = (now + SECONDS[i], version, x)
    return history[:arrivals]


def test_fedasync_is_the_calculation_by_hand(tmp_path):
    """Clients take 1, 2.5 and 4 s; at 4, 5, 8 and 10 s two of them arrive at once."""
    staleness = {"name": "polynomial", "power": 0.7}
    algorithm = {"name": "fedasync", "mixing": 0.8, "staleness": staleness}
    result = run(points_study(tmp_path, [algorithm]), tmp_path / "out")
    rows = result.rounds.iloc[1:]
    wanted = np.array(by_hand(0.8, 0.7, 20))
    targets = np.array(list(TARGETS.values()))
    losses = ((wanted[:, 1:2] - targets) ** 2 / 2).mean(axis=1)
    np.testing.assert_array_equal(rows.time_s, wanted[:, 0])
    np.testing.assert_array_equal(rows.staleness_max, wanted[:, 2])
    np.testing.assert_allclose(rows.loss, losses, rtol=1e-12)
    (name,) = result.outcome
    np.testing.assert_allclose(result.model(name), wanted[-1, 1], rtol=1e-12)


def test_events_say_who_started_from_which_version(tmp_path):
    made = points_study(tmp_path, [{"name": "fedasync"}], rounds=6)
    events = run(made, tmp_path / "out").events
    rows = events.sort_values(["start_s", "client"])
    starts = list(zip(rows.client, rows.start_s, rows.version, rows["round"], strict=True))
    assert starts == [
        (0, 0, 0, 1), (1, 0, 0, 3), (2, 0, 0, 6), (0, 1, 1, 2), (0, 2, 2, 4), (1, 2.5, 3, -1),
        (0, 3, 4, 5),
    ]  # fmt: skip
    assert set(events[events["round"] == -1].status) == {"unfinished"}


@pytest.mark.parametrize("seed", [0, 1])
def test_with_everybody_equally_fast_fedbuff_is_fedavg_to_the_byte(tmp_path, seed):
    """Buffer = concurrency = N, clients of unequal sizes, unequal numbers of steps."""
    made = mixed(
        seeds=[seed],
        algorithms=[
            {"name": "fedavg", "weights": "uniform", "local": dict(LOCAL)},
            {"name": "fedbuff", "buffer": 13, "local": dict(LOCAL)},
        ],
        clients={"count": 13, "groups": [{"fraction": 0.3, "local": {"lr": 0.05, "batch": 3}}]},
        participation={},
    )
    made["problem"]["dataset"].pop("samples")  # unequal sizes
    result = run(made, tmp_path / "out")
    fedavg, fedbuff = (result.rounds[result.rounds.label == n] for n in ("fedavg", "fedbuff"))
    assert len(fedavg) == 13
    scores = ("time_s", "loss", "test_loss", "accuracy", "participants")
    for column in (*scores, "bytes_down", "bytes_up", "bytes_wasted"):
        np.testing.assert_array_equal(fedavg[column], fedbuff[column])
    first, second = (result.model(name) for name in result.outcome)
    np.testing.assert_array_equal(first, second)


def test_one_at_a_time_fedbuff_and_fedasync_are_the_same(tmp_path):
    made = mixed(
        rounds=30,
        algorithms=[
            {"name": "fedbuff", "buffer": 1, "concurrency": 1, "local": dict(LOCAL)},
            {"name": "fedasync", "mixing": 1.0, "concurrency": 1, "local": dict(LOCAL)},
        ],
        participation={},
    )
    made["clients"] |= {"availability": {"name": "cyclic", "groups": 3, "period_s": 20}}
    result = run(made, tmp_path / "out")
    one, other = (result.rounds[result.rounds.label == n] for n in ("fedbuff", "fedasync"))
    np.testing.assert_array_equal(one.time_s, other.time_s)
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-12)
    assert (one.staleness_max.dropna() == 0).all()
    assert one.participants.sum() > 15


@pytest.mark.parametrize("name", ["fedbuff", "fedasync"])
def test_schedules_go_by_the_version_that_work_started_from(tmp_path, name):
    """With a factor of 1e-9 only work that starts from version 0 moves the model."""
    algorithm = {"name": name, **({"buffer": 1} if name == "fedbuff" else {"mixing": 1.0})}
    made = points_study(tmp_path, [algorithm], rounds=8)
    local = made["algorithms"][0]["local"]
    local["lr"] = {"name": "exponential", "start": local["lr"], "factor": 1e-9}
    result = run(made, tmp_path / "out")
    moved = np.abs(np.diff(result.rounds.loss)) > 1e-6
    events = result.events[result.events.status == "used"].set_index("round").sort_index()
    if name == "fedbuff":
        np.testing.assert_array_equal(moved, events.version == 0)
    assert moved[events.version.to_numpy() == 0].all()


EPISODES = ({"start": 4}, {"start": 3, "end": 4, "every": 5})


@pytest.mark.parametrize("episode", EPISODES, ids=str)
def test_episodes_of_faults_go_by_the_version_that_work_started_from(tmp_path, episode):
    fault = {"name": "bit-flip", "ids": [0, 1, 2], **episode}
    staleness = {"name": "polynomial", "power": 0.5}
    algorithm = {"name": "fedasync", "mixing": 0.6, "staleness": staleness}
    made = points_study(tmp_path, [algorithm])
    made["clients"]["faults"] = [fault]
    result = run(made, tmp_path / "out")
    active = Episodes(**episode).active
    expected = by_hand(0.6, 0.5, 20, wrong=lambda round: bool(active(round)))
    want = [np.mean([(x - m) ** 2 / 2 for m in TARGETS.values()]) for _, x, _ in expected]
    np.testing.assert_allclose(result.rounds.loss[1:], want, rtol=1e-12)


@dataclass(frozen=True, kw_only=True)
class RoundReader(FedBuff):
    """The loss that a client reports is its round."""

    name: ClassVar[str] = "round-reader"

    def train(self, clients, x):
        upload = super().train(clients, x)
        return replace(upload, loss=np.full(len(clients.ids), float(clients.round)))


def test_client_functions_of_others_see_the_round_of_each_task(tmp_path):
    made = points_study(tmp_path, [], rounds=8)
    made["clients"] = {"delay": {"name": "exponential", "mean_s": 1.0}}
    made["algorithms"] = [RoundReader(buffer=3, local={"steps": 1, "batch": "full", "lr": 0.5})]
    events = run(made, tmp_path / "out").events
    used = events[events.status == "used"]
    assert used.groupby("round").version.nunique().max() > 1
    np.testing.assert_array_equal(used.loss, used.version + 1)


@pytest.mark.guard
@pytest.mark.parametrize("episode", EPISODES, ids=str)
@pytest.mark.parametrize("name", ["fedbuff", "fedasync"])
def test_a_resumed_run_has_the_same_faulty_tasks(tmp_path, name, episode, assert_same):
    made = points_study(tmp_path, [{"name": name, "concurrency": 3}], rounds=10)
    made["clients"] = {
        "delay": {"name": "exponential", "mean_s": 1.0},
        "faults": [{"name": "bit-flip", "ids": [0, 1, 2], **episode}],
    }
    plan = api.prepare(api.read(made))
    drive(plan, tmp_path / "calm")
    stop_after(plan, tmp_path / "stopped", rounds=2)
    drive(plan, tmp_path / "stopped", resume=True)
    assert_same(tmp_path / "calm", tmp_path / "stopped")


def test_a_row_closes_without_an_update_where_nobody_finishes(tmp_path):
    """Windows of 2 s, work of 2.5 and 4 s: client 0 alone, in a group of its own, is done."""
    made = points_study(tmp_path, [{"name": "fedbuff", "buffer": 1}], rounds=6)
    availability = {"name": "cyclic", "groups": 3, "period_s": 2}
    made["clients"]["groups"] = made["clients"]["groups"][1:]
    made["clients"] |= {"availability": availability, "delay": {"name": "constant", "mean_s": 3}}
    result = run(made, tmp_path / "out")
    rows = result.rounds.iloc[1:]
    assert (rows.participants == 0).all()
    assert (rows.dropped == 6).all()  # two times the three clients
    assert rows.loss.nunique() == 1
    assert (result.events[result.events.status != "unfinished"].staleness == -1).all()


def test_a_run_ends_where_nobody_will_ever_come_back(tmp_path):
    trace = points_study(tmp_path, [{"name": "fedasync"}])
    trace["clients"]["availability"] = {"name": "bernoulli", "p": 0.0, "period_s": 1}
    result = run(trace, tmp_path / "out")
    (name,) = result.outcome
    info = yaml.safe_load((tmp_path / "out" / name / "run.json").read_text())
    assert (info["status"], info["stopped_by"]) == ("finished", "nobody")
    assert len(result.rounds) == 2


def test_a_time_limit_ends_single_works(tmp_path):
    made = points_study(tmp_path, [{"name": "fedbuff", "buffer": 2}], rounds=5)
    made["participation"] = {"timeout_s": 3.0}
    events = run(made, tmp_path / "out").events
    late = events[events.status == "late"]
    assert set(late.client) == {2}
    np.testing.assert_array_equal(late.end_s - late.start_s, 3.0)


@pytest.mark.parametrize("name", ["fedbuff", "fedasync"])
def test_updates_and_simulated_seconds_end_a_run_and_space_its_evaluations(tmp_path, name):
    made = mixed(
        stop={"client_updates": 40}, evaluate={"every_s": 10.0},
        algorithms=[{"name": name, "local": dict(LOCAL)}], participation={"cohort": 5},
    )  # fmt: skip
    if name == "fedbuff":
        made["algorithms"][0]["buffer"] = 2
    made["clients"]["availability"] = "always"
    made.pop("rounds")
    rows = run(made, tmp_path / "out").rounds
    assert 40 <= rows.participants.sum() < 50
    known = rows[rows.loss.notna()]
    assert known["round"].iloc[-1] == rows["round"].iloc[-1]
    assert (np.diff(known.time_s.iloc[:-1] // 10) >= 1).all()
    assert len(known) < len(rows)


def test_a_multiple_of_the_spacing_is_evaluated_whatever_its_rounding(tmp_path):
    """In floating point 0.5 // 0.1 is 4."""
    made = {
        "evaluate": {"every_s": 0.1}, "rounds": 12, "executor": "serial",
        "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 2}},
        "clients": {"count": 2, "delay": {"name": "constant", "mean_s": 0.1}},
        "algorithms": [{"name": "fedavg", "local": {"steps": 1, "batch": 4}}],
    }  # fmt: skip
    rows = run(made, tmp_path / "out").rounds
    assert rows.time_s.iloc[5] == 0.5
    assert rows.loss.notna().all()


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"participation": {"select": {"name": "power-of-d"}, "cohort": 3}}, "select"),
        ({"participation": {"cohort": 3, "over_select": 1.5}}, "over_select"),
        ({"evaluate": {"measures": ["skew"]}}, "evaluate.measures.0"),
    ],
)
def test_what_needs_rounds_is_refused(changes, place):
    made = mixed(algorithms=[{"name": "fedbuff", "local": dict(LOCAL)}], participation={})
    made["clients"]["availability"] = "always"
    with pytest.raises(ScenarioError, match="no rounds") as error:
        api.prepare(api.read(made | changes))
    assert place in str(error.value)


def test_availability_by_rounds_is_refused():
    made = mixed(algorithms=[{"name": "fedbuff", "local": dict(LOCAL)}], participation={})
    with pytest.raises(ScenarioError, match="period_s"):
        api.prepare(api.read(made))


@pytest.mark.guard
@pytest.mark.parametrize("name", ["fedbuff", "fedasync", "async-sgd", "fedat"])
@pytest.mark.parametrize("rounds", [1, 5])
def test_a_resumed_run_is_the_same_to_the_byte(tmp_path, name, rounds, assert_same):
    made = mixed(
        algorithms=[{"name": name, "local": dict(LOCAL)}],
        participation={"cohort": 5, "timeout_s": 40},
    )
    made["clients"]["availability"] = {"name": "cyclic", "groups": 3, "period_s": 20}
    plan = api.prepare(api.read(made))
    drive(plan, tmp_path / "calm")
    stop_after(plan, tmp_path / "stopped", rounds=rounds)
    drive(plan, tmp_path / "stopped", resume=True)
    assert_same(tmp_path / "calm", tmp_path / "stopped")
