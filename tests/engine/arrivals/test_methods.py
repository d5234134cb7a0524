"""Asynchronous SGD, FedAT and CA2FL on the loop of arrivals, against calculations by hand."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import rayfed
from rayfed import api, testing
from rayfed.algorithms import ConstantStaleness, FedAsync
from rayfed.core.errors import ScenarioError
from rayfed.engine.places import Tiers
from rayfed.messages import Upload
from rayfed.testing.studies import LOCAL, mixed
from tests.chaos.case import Case, run_case
from tests.chaos.faults import Fault
from tests.fakes.stepping import step

LR = 0.5


def study(tmp_path, targets, seconds, algorithms, **changes):
    """Return clients with F_i(x) = (x - m_i)^2 / 2 and one step of 1/2 in unequal seconds."""
    rows = "".join(f"{i},1,{m}\n" for i, m in enumerate(targets))
    (tmp_path / "points.csv").write_text("client,a,y\n" + rows)
    local = {"steps": 1, "batch": "full", "lr": LR}
    delays = [{"ids": [i], "delay": {"name": "constant", "mean_s": s}} for i, s in seconds]
    return {
        "name": "points",
        "rounds": 20,
        "problem": {
            "name": "least-squares", "dataset": str(tmp_path / "points.csv"), "intercept": False,
        },
        "clients": {"groups": delays},
        "algorithms": [{"local": local, **a} for a in algorithms],
        "executor": "serial",
    } | changes  # fmt: skip


def losses(xs, targets):
    return ((np.array(xs)[:, None] - np.array(targets)) ** 2 / 2).mean(axis=1)


# -- asynchronous SGD ----------------------------------------------------------------------

TARGETS, SECONDS = (1.0, -2.0, 5.0), (1.0, 2.5, 4.0)


def async_sgd_by_hand(factor, updates):
    """Return time, x and delay of each update: all three clients are at work all the time."""
    x, version, history = 0.0, 0, []
    task = {i: (SECONDS[i], 0, 0.0) for i in range(3)}  # arrival, version, model at the start
    while len(history) < updates:
        now = min(end for end, _, _ in task.values())
        arrived = [i for i in sorted(task) if task[i][0] == now]
        for i in arrived:
            _, start, model = task[i]
            x -= factor(version - start) * LR * (model - TARGETS[i])
            history.append((now, x, version - start))
            version += 1
        for i in arrived:
            task[i] = (now + SECONDS[i], version, x)
    return np.array(history[:updates])


@pytest.mark.parametrize("smoothness", [None, 0.2])
def test_async_sgd_is_the_calculation_by_hand(tmp_path, smoothness):
    """Client 2 takes 4 s; with three at work its gradients are up to 5 updates old."""

    def factor(delay):
        if delay <= 3:
            return 1.0
        return 0.0 if smoothness is None else min(1.0, 1 / (4 * smoothness * LR * delay))

    algorithm = {"name": "async-sgd", "smoothness": smoothness}
    made = study(tmp_path, TARGETS, enumerate(SECONDS), [algorithm])
    rows = rayfed.run(made, out=tmp_path / "out", page=False).rounds.iloc[1:]
    wanted = async_sgd_by_hand(factor, 20)
    assert {2.0, 3.0, 4.0, 5.0} <= set(wanted[:, 2])  # at the bound, and on both sides of it
    np.testing.assert_array_equal(rows.time_s, wanted[:, 0])
    np.testing.assert_array_equal(rows.staleness_max, wanted[:, 2])
    np.testing.assert_allclose(rows.step, [factor(d) for d in wanted[:, 2]], rtol=1e-15)
    np.testing.assert_allclose(rows.loss, losses(wanted[:, 1], TARGETS), rtol=1e-12)


def test_async_sgd_counts_the_clients_that_are_really_at_work(tmp_path):
    """The cohort is the concurrency where none is given: 2 of 3, so that older than 2 is old."""
    made = study(
        tmp_path, TARGETS, enumerate(SECONDS), [{"name": "async-sgd"}], participation={"cohort": 2}
    )
    rows = rayfed.run(made, out=tmp_path / "out", page=False).rounds.iloc[1:]
    assert rows.staleness_max.max() > 2
    np.testing.assert_array_equal(rows.step, np.where(rows.staleness_max > 2, 0.0, 1.0))


def test_one_at_a_time_async_sgd_is_sgd_to_the_byte(tmp_path):
    """A client after the other, none late: the same draws, and no delays."""
    algorithms = [
        {"name": name, "concurrency": 1, "local": {"steps": 1, "batch": 4, "lr": 0.1}, **more}
        for name, more in (("async-sgd", {"smoothness": 1e-9}), ("fedbuff", {"buffer": 1}))
    ]
    made = mixed(rounds=25, algorithms=algorithms, participation={})
    made["clients"]["availability"] = "always"
    result = rayfed.run(made, out=tmp_path / "out", page=False)
    one, other = (result.model(name) for name in result.outcome)
    np.testing.assert_array_equal(one, other)
    assert (result.rounds.step.dropna() == 1).all()


# -- FedAT ---------------------------------------------------------------------------------

POINTS = (1.0, -2.0, 5.0, 0.5, -4.0)
PACE = (1.0, 1.5, 4.0, 3.5, 2.5)  # tier 0 is 0, 1, 4; tier 1 is 2, 3
TIERS = ((0, 1, 4), (3, 2))


def fedat_by_hand(updates):
    """Return time, x and tier of each update: every tier starts when all of it are done."""
    x, version = 0.0, 0
    models, counts = [0.0, 0.0], [0, 0]
    starts = {0: (0.0, 0.0, 0), 1: (0.0, 0.0, 0)}  # when, from which model, and which version
    history = []
    while len(history) < updates:
        ends = {m: starts[m][0] + max(PACE[i] for i in TIERS[m]) for m in (0, 1)}
        now = min(ends.values())
        done = [m for m in (0, 1) if ends[m] == now]
        done.sort(key=lambda m: max(TIERS[m], key=lambda i: PACE[i]))  # by the last client's id
        for m in done:
            _, start, since = starts[m]
            models[m] = np.mean([start - LR * (start - POINTS[i]) for i in TIERS[m]])
            counts[m] += 1
            x = sum(counts[1 - k] / sum(counts) * models[k] for k in (0, 1))
            history.append((now, x, m, version - since))
            version += 1
        for m in done:
            starts[m] = (now, x, version)
    return np.array(history[:updates])


@pytest.mark.parametrize("tiers", [2, [0, 0, 1, 1, 0]])
def test_fedat_is_the_calculation_by_hand(tmp_path, tiers):
    """Tier 0 takes 2.5 s and tier 1 4 s; at 20 s both are done, first the one of client 2."""
    made = study(tmp_path, POINTS, enumerate(PACE), [{"name": "fedat", "tiers": tiers}], rounds=22)
    rows = rayfed.run(made, out=tmp_path / "out", page=False).rounds.iloc[1:]
    wanted = fedat_by_hand(22)
    at_20 = wanted[wanted[:, 0] == 20]
    assert at_20[:, 2].tolist() == [1, 0]
    np.testing.assert_array_equal(rows.time_s, wanted[:, 0])
    np.testing.assert_array_equal(rows.tier, wanted[:, 2])
    np.testing.assert_array_equal(rows.staleness_max, wanted[:, 3])
    np.testing.assert_array_equal(rows.participants, np.where(rows.tier == 0, 3, 2))
    np.testing.assert_allclose(rows.loss, losses(wanted[:, 1], POINTS), rtol=1e-12)


@pytest.mark.parametrize("weights", ["uniform", "size"])
def test_fedat_with_one_tier_is_fedavg_to_the_byte(tmp_path, weights):
    """Unequal sizes, steps and speeds; some are late, and some lose the connection."""
    algorithms = [
        {"name": name, "weights": weights, "local": dict(LOCAL), **more}
        for name, more in (("fedavg", {}), ("fedat", {"tiers": 1}))
    ]
    made = mixed(algorithms=algorithms, participation={"timeout_s": 15})
    made["problem"]["dataset"].pop("samples")
    made["clients"] |= {
        "availability": "always",
        "network": {"loss": 0.2, "up_mbps": 1},
        "groups": [{"fraction": 0.3, "local": {"lr": 0.05, "batch": 3}}],
    }
    result = rayfed.run(made, out=tmp_path / "out", page=False)
    fedavg, fedat = (result.rounds[result.rounds.label == n] for n in ("fedavg", "fedat"))
    assert fedavg.late.sum() > 0
    assert fedavg.dropped.sum() > 0
    scores = ("time_s", "loss", "test_loss", "participants", "late", "dropped")
    for column in (*scores, "bytes_down", "bytes_up", "bytes_wasted"):
        np.testing.assert_array_equal(fedavg[column], fedat[column])
    first, second = (result.model(name) for name in result.outcome)
    np.testing.assert_array_equal(first, second)


def test_a_tier_begins_only_when_all_of_it_are_done(tmp_path):
    """Clients come and go, two to a tier are at work at a time."""
    made = mixed(
        rounds=40,
        algorithms=[{"name": "fedat", "tiers": 3, "concurrency": 7, "local": dict(LOCAL)}],
        participation={"timeout_s": 12},
    )
    made["clients"] |= {
        "availability": {"name": "cyclic", "groups": 3, "period_s": 20}, "network": {"loss": 0.1},
    }  # fmt: skip
    plan = api.prepare(api.read(made))
    method = plan.runs[0].training.algorithm
    events = rayfed.run(made, out=tmp_path / "out", page=False).events
    events = events[events.status != "unfinished"]
    assert set(events.status) == {"used", "late", "dropped"}
    tier_of = method.tier_of(events.client.to_numpy())
    assert set(tier_of) == {0, 1, 2}
    for tier in range(3):
        over_s, of_tier = 0.0, events[tier_of == tier]
        for start_s, cohort in of_tier.groupby("start_s"):
            assert start_s >= over_s
            assert len(cohort) <= (3 if tier == 0 else 2)
            assert cohort.version.nunique() == 1
            assert cohort[cohort.status == "used"]["round"].nunique() <= 1
            over_s = np.minimum(cohort.end_s, cohort.start_s + 12).max()


def test_the_weights_of_tiers_are_the_counts_of_their_mirror_images(tmp_path):
    """Three tiers at 1, 2 and 5 s: the last column of counts is known from the rows."""
    seconds = (5.0, 1.0, 2.0)
    made = study(tmp_path, TARGETS, enumerate(seconds), [{"name": "fedat", "tiers": 3}], rounds=9)
    result = rayfed.run(made, out=tmp_path / "out", page=False)
    tier = result.rounds.tier.iloc[1:].to_numpy()
    # at 1; 2 (client 1, client 2); 3; 4 (1, 2); 5 (client 0, then client 1); 6
    np.testing.assert_array_equal(tier, [0, 0, 1, 0, 0, 1, 2, 0, 0])
    assert (result.rounds.loss.iloc[:7] == result.rounds.loss.iloc[0]).sum() == 3  # T_3 is 0


AWAY = "client,start_s,end_s\n0,0,99\n1,0,1.5\n1,3,99\n2,0,99\n3,0,1.5\n3,3,99\n"


@pytest.mark.parametrize(
    ("tiers", "times", "participants"),
    [
        ([0, 0, 0, 0], [1.5, 2.5, 3.5], [2, 2, 2]),
        ([0, 0, 1, 0], [1.0, 1.5, 2.0], [1, 1, 1]),
        ([0, 0, 1, 1], [1.5, 1.5, 2.5, 2.5, 3.5], [1, 1, 1, 1, 1]),
    ],
)
def test_a_tier_whose_last_client_cannot_be_asked_again_updates(
    tmp_path, tiers, times, participants
):
    """Clients 1 and 3 take 2 s and are away from 1.5 to 3 s: no task of theirs is asked again.

    With one tier the others wait for it until 1.5 s, and are asked together then and at 2.5 s.
    """
    (tmp_path / "away.csv").write_text(AWAY)
    availability = {"name": "trace", "file": str(tmp_path / "away.csv")}
    made = study(
        tmp_path, POINTS[:4], enumerate((1.0, 2.0, 1.0, 2.0)), [{"name": "fedat", "tiers": tiers}],
        participation={"retries": 1}, rounds=len(times),
    )  # fmt: skip
    made["clients"]["availability"] = availability
    rows = rayfed.run(made, out=tmp_path / "out", page=False).rounds.iloc[1:]
    assert rows.time_s.tolist() == times
    assert rows.participants.tolist() == participants


@pytest.mark.parametrize(
    ("tiers", "text"),
    [([0, 1], "2 tiers for 3 clients"), ([0, 2, 2], "tier 1 is empty"), ([], "tiers")],
)
def test_tiers_that_do_not_fit_are_refused(tmp_path, tiers, text):
    made = study(tmp_path, TARGETS, enumerate(SECONDS), [{"name": "fedat", "tiers": tiers}])
    with pytest.raises(ScenarioError, match=text):
        api.prepare(api.read(made))


def test_more_tiers_than_clients_are_one_client_each(tmp_path):
    made = study(tmp_path, TARGETS, enumerate(SECONDS), [{"name": "fedat", "tiers": 9}])
    method = api.prepare(api.read(made)).runs[0].training.algorithm
    assert (method.tiers, method.tier_count) == ((0, 1, 2), 3)


SECURE = [{"name": "clip", "norm": 1.0}, {"name": "secure-sum", "range": 8.0}]


@pytest.mark.parametrize(
    ("tiers", "clients", "text"),
    [
        (3, {}, None),
        (3, {"crash": {"probability": 0.1}}, "tiers whose clients may fail; let no reply fail"),
        (3, {"availability": {"name": "cyclic", "groups": 3, "period_s": 9}}, "may fail"),
        (8, {}, "of 1 client in a tier; give fewer tiers"),
        ([0] * 11 + [1], {}, "of 1 client in a tier"),
    ],
)
def test_secure_sums_of_tiers_have_several_replies_or_are_refused(tiers, clients, text):
    """The engine adds up what a tier has sent, of however many clients that is."""
    made = mixed(algorithms=[{"name": "fedat", "tiers": tiers, "local": dict(LOCAL)}])
    made |= {"clients": {"count": 12, **clients}, "participation": {}, "uplink": SECURE}
    study = api.read(made)
    if text is None:
        assert api.prepare(study).runs[0].asked == 4
        return
    with pytest.raises(ScenarioError, match=text):
        api.prepare(study)


def test_the_largest_tier_has_the_remainder_of_the_places():
    made = mixed(algorithms=[{"name": "fedat", "concurrency": 11, "local": dict(LOCAL)}])
    made |= {"clients": {"count": 13}, "participation": {}}
    (run,) = api.prepare(api.read(made)).runs
    places = Tiers.of(run.training.algorithm, 13, 11).places
    assert (places, run.asked) == ([4, 4, 3], 4)


# -- CA2FL, and state that clients keep -----------------------------------------------------


def ca2fl_by_hand(updates, buffer, decay=1.0):
    """Return time and x of each update; each client remembers its last update, as it was."""
    x, version, h, waiting, history = 0.0, 0, [0.0] * 3, [], []
    task = {i: (SECONDS[i], 0.0, LR) for i in range(3)}
    while len(history) < updates:
        now = min(end for end, *_ in task.values())
        arrived = [i for i in sorted(task) if task[i][0] == now]
        for i in arrived:
            _, start, lr = task[i]
            waiting.append((i, lr * (start - TARGETS[i])))
            if len(waiting) == buffer:
                before, v = np.mean(h), 0.0
                for client, delta in waiting:
                    v += (delta - h[client]) / buffer
                    h[client] = delta
                x, waiting, version = x - (before + v), [], version + 1
                history.append((now, x))
        for i in arrived:
            task[i] = (now + SECONDS[i], x, LR * decay**version)
    return np.array(history[:updates])


@pytest.mark.parametrize("decay", [1.0, 0.8])
@pytest.mark.parametrize("buffer", [1, 2, 4])
def test_ca2fl_is_the_calculation_by_hand(tmp_path, buffer, decay):
    """With a buffer of 2 or 4, client 0 replies twice to some update."""
    rate = {"name": "exponential", "start": LR, "factor": decay}
    local = {"steps": 1, "batch": "full", "lr": rate}
    algorithm = {"name": "ca2fl", "buffer": buffer, "local": local}
    made = study(tmp_path, TARGETS, enumerate(SECONDS), [algorithm])
    result = rayfed.run(made, out=tmp_path / "out", page=False)
    rows, wanted = result.rounds.iloc[1:], ca2fl_by_hand(20, buffer, decay)
    np.testing.assert_array_equal(rows.time_s, wanted[:, 0])
    np.testing.assert_allclose(rows.loss, losses(wanted[:, 1], TARGETS), rtol=1e-12)
    used = result.events[result.events.status == "used"]
    assert used.duplicated(["round", "client"]).any() == (buffer > 1)


@pytest.mark.parametrize("decay", [1.0, 0.8])
def test_with_everybody_at_once_ca2fl_is_fedvarp_to_the_byte(tmp_path, decay):
    rate = {"name": "exponential", "start": LR, "factor": decay}
    local = {"steps": 1, "batch": "full", "lr": rate}
    both = [
        {"name": "ca2fl", "buffer": 3, "local": local},
        {"name": "fedvarp", "weights": "uniform", "local": local},
    ]
    made = study(tmp_path, TARGETS, [(i, 2.0) for i in range(3)], both, rounds=6)
    result = rayfed.run(made, out=tmp_path / "out", page=False)
    one, other = (result.model(name) for name in result.outcome)
    np.testing.assert_array_equal(one, other)


@dataclass(frozen=True, kw_only=True)
class Counting(FedAsync):
    """Every client counts its own tasks, and that is all it sends."""

    name: ClassVar[str] = "counting"

    def client_state(self, x0):
        return {"works": np.zeros_like(x0)}

    def train(self, clients, x):
        tasks = clients.state["works"] + 1
        return Upload({"delta": x - tasks}, {"works": tasks}, loss=np.zeros(len(tasks)))


def test_a_client_goes_on_from_the_state_that_its_last_work_left(tmp_path):
    """Single vectors, some tasks lost: only those that arrive count, and each counts once."""
    made = study(tmp_path, TARGETS, enumerate(SECONDS), [])
    made["algorithms"] = [Counting(mixing=1.0, staleness=ConstantStaleness())]
    made["clients"]["network"] = {"loss": 0.3}
    loop = testing.loop(made)
    state, _ = loop.start()
    arrived, lost = Counter(), 0
    for _ in range(20):
        state, row, events = step(loop, state)
        (client,) = [
            c for e in events for c, s in zip(e["client"], e["status"], strict=True) if not s
        ]
        lost += row["dropped"]
        arrived[client] += 1
        assert state.state["x"].tolist() == [arrived[client]]
        ((rows),) = list(loop.exchange.executor.snapshot(loop.run.folder))
        assert rows["works"].ravel().tolist() == [arrived[client]]  # nobody else's has changed
    assert lost > 3
    assert min(arrived.values()) > 1


@pytest.mark.guard
def test_state_under_arrivals_is_the_same_on_other_hosts_and_after_a_kill(tmp_path):
    made = mixed(
        rounds=12, algorithms=[{"name": "ca2fl", "buffer": 2, "local": dict(LOCAL)}],
        participation={"cohort": 5},
    )  # fmt: skip
    made |= {"checkpoint": {"every_s": 0}, "executor": "serial"}
    made["clients"] |= {"network": {"loss": 0.2}, "availability": "always"}
    case = Case(0, made, 2, 0.5, (Fault("kill", 0.6, 0.5),), page=False, ray=False)
    outcome = run_case(case, tmp_path)
    assert outcome.findings == []
    assert outcome.runs == {"finished": 1}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"weights": "size"}, "plain means"),
        ({"participation": {"select": "weighted"}}, "remembers all alike"),
    ],
)
def test_ca2fl_counts_all_clients_alike(tmp_path, changes, found):
    made = study(tmp_path, TARGETS, enumerate(SECONDS), [{"name": "ca2fl", **changes}])
    with pytest.raises(ScenarioError, match=found):
        api.prepare(api.read(made))
