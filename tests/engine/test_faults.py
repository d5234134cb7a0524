"""Faulty clients in runs: what reaches the server, in sums, by bucket and as vectors."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from rayfed import api, testing
from rayfed.algorithms import Algorithm, FedAvg
from rayfed.channel import Buckets
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import MEAN
from rayfed.core.rng import Key
from rayfed.engine.tasks import USED
from rayfed.messages import Ask, Upload
from rayfed.testing import tiny_run
from rayfed.testing.compare import assert_same_results
from rayfed.testing.studies import drive, stop_after
from rayfed.testing.toy import toy_scenario
from tests.fakes.stepping import step

FEDAVG = {"name": "fedavg", "weights": "uniform"}


@dataclass(frozen=True, kw_only=True)
class Numbers(Algorithm):
    """Client i sends (i, round + i^2) and the scalar i; the server keeps the means."""

    name: ClassVar[str] = "numbers"
    needs: ClassVar = Algorithm.needs - {MEAN}

    def init(self, x0):
        return {"x": x0, "got": np.zeros(2), "scalar": np.zeros(1)}

    def number(self, clients, x):
        i = clients.ids.astype(float)
        return Upload({"v": np.stack([i, clients.round + i**2], axis=1), "scalar": i})

    def round(self, state):
        reply = yield Ask("number", send={"x": state["x"]}, up={"v": 2, "scalar": 1})
        scalar = np.array([reply.each["scalar"].sum()])
        return {"x": state["x"], "got": reply.mean["v"], "scalar": scalar}, {}


@dataclass(frozen=True, kw_only=True)
class Close(Numbers):
    """Client i sends 100 + i / 1000."""

    name: ClassVar[str] = "close"

    def number(self, clients, x):
        v = (100 + 1e-3 * clients.ids).astype(x.dtype)
        return Upload({"v": np.stack([v, v], axis=1), "scalar": clients.ids.astype(float)})


def steps(faults, rounds=1, weights="uniform", algorithm=Numbers, **changes):
    """Return the states after each round of all 8 clients, and the rows."""
    settings = {"participation": {"cohort": 8}, "partition": {"name": "sizes", "rows": SIZES}}
    settings["problem"] = {**toy_scenario()["problem"], "test": 0.0}
    settings |= {"clients": {"count": 8, "faults": faults}, **changes}
    loop = testing.loop(toy_scenario(algorithm(weights=weights), **settings))
    state, _ = loop.start()
    states, rows = [], []
    for _ in range(rounds):
        state, row, _ = loop.step(state)
        states.append(state)
        rows.append(row)
    return states, rows


SIZES = [3, 5, 7, 9, 11, 13, 15, 17]
I = np.arange(8.0)  # noqa: E741


def sent(round=1):
    return np.stack([I, round + I**2], axis=1)


def test_wrong_uploads_enter_the_mean_from_their_round_on():
    states, _ = steps([{"name": "scale", "factor": -2.0, "ids": [1, 6], "start": 2}], rounds=2)
    np.testing.assert_allclose(states[0].state["got"], sent(1).mean(0), rtol=1e-14)
    v = sent(2)
    v[[1, 6]] *= -2
    np.testing.assert_allclose(states[1].state["got"], v.mean(0), rtol=1e-14)
    assert states[1].state["scalar"] == 28


def test_replay_sends_what_was_sent_before():
    states, _ = steps([{"name": "replay", "ids": [2], "start": 3}], rounds=4)
    v = sent(4)
    v[2] = sent(2)[2]
    np.testing.assert_allclose(states[3].state["got"], v.mean(0), rtol=1e-14)
    first, _ = steps([{"name": "replay", "ids": [2]}], rounds=3)
    v = sent(3)
    v[2] = sent(1)[2]
    np.testing.assert_allclose(first[2].state["got"], v.mean(0), rtol=1e-14)


def test_episodes_overlap_and_recur():
    """Client 1 is faulty in rounds 2, 3, 5 and 6; 6 in 3 and 4; client 4 repeats in 3 and 5."""
    faults = [
        {"name": "scale", "factor": -2.0, "ids": [1], "start": 2, "end": 3, "every": 3},
        {"name": "bit-flip", "ids": [6], "start": 3, "end": 4},
        {"name": "replay", "ids": [4], "start": 3, "end": 3, "every": 2},
    ]
    states, _ = steps(faults, rounds=6)
    for round, state in enumerate(states, 1):
        v = sent(round)
        if round in (2, 3, 5, 6):
            v[1] *= -2
        if round in (3, 4):
            v[6] *= -1
        if round in (3, 5):
            v[4] = sent(round - 1)[4]
        np.testing.assert_allclose(state.state["got"], v.mean(0), rtol=1e-14)


@pytest.mark.parametrize("weights", ["uniform", "size"])
def test_colluding_clients_know_the_honest_replies(weights):
    w = np.ones(8) if weights == "uniform" else np.array(SIZES, float)
    faults = [{"name": "alie", "z": 1.5, "ids": [0, 7]}, {"name": "bit-flip", "ids": [3]}]
    (state,), _ = steps(faults, weights=weights)
    v, honest = sent(), [1, 2, 4, 5, 6]
    share = w[honest] / w[honest].sum()
    mean = share @ v[honest]
    deviation = np.sqrt(share @ v[honest] ** 2 - mean**2)
    v[[0, 7]] = mean - 1.5 * deviation
    v[3] *= -1
    np.testing.assert_allclose(state.state["got"], w @ v / w.sum(), rtol=1e-12)
    assert state.state["scalar"] == 28  # scalars are theirs


def test_deviations_that_are_small_beside_the_mean_are_right_in_single_precision():
    """Squares of 8-digit numbers leave nothing of a deviation of 1e-3; those of 16 digits do."""
    (state,), _ = steps([{"name": "alie", "z": 1.0, "ids": [7]}], algorithm=Close, dtype="float32")
    v = (100 + 1e-3 * I).astype(np.float32).astype(float)
    v[7] = np.float32(v[:7].mean() - v[:7].std())
    assert abs(8 * float(state.state["got"][0]) - v.sum()) < 2e-4  # 20 % of the deviation: 4e-4


def test_they_reach_a_rule_as_vectors_and_buckets_as_sums():
    faults = [{"name": "ipm", "epsilon": 2.0, "count": 3}]
    (state,), _ = steps(faults, aggregate="median")
    plan = api.prepare(api.read(toy_scenario("fedavg", clients={"count": 8, "faults": faults})))
    liars = plan.runs[0].faults[0].clients
    v = sent()
    v[liars] = -2 * np.delete(v, liars, axis=0).mean(0)
    np.testing.assert_allclose(state.state["got"], np.median(v, axis=0), rtol=1e-12)
    buckets = {"name": "median", "before": {"name": "buckets", "size": 2}}
    (state,), _ = steps(faults, aggregate=buckets)
    labels = Buckets(size=2).labels(np.arange(8), Key(0, "buckets").sub("1/0"))
    means = np.array([v[labels == b].mean(0) for b in range(4)])
    np.testing.assert_allclose(state.state["got"], np.median(means, axis=0), rtol=1e-12)


def test_mimic_copies_an_honest_vector_and_remembers_its_direction():
    states, _ = steps([{"name": "mimic", "ids": [3, 4]}], rounds=2)
    v = sent(2)
    v[[3, 4]] = v[7]  # it stands out most
    np.testing.assert_allclose(states[1].state["got"], v.mean(0), rtol=1e-12)
    assert states[1].channel["fault.0.number.v.t"] == 2
    assert states[1].channel["fault.0.number.v.chosen"] == 7


def test_what_liars_have_stands_for_the_honest_where_there_are_none():
    """Client 3 has another fault; it is no liar who is asked, and not honest."""
    faults = [
        {"name": "ipm", "epsilon": 2.0, "ids": [0, 1, 2, 4]},
        {"name": "alie", "z": 1.5, "ids": [5, 6, 7]},
        {"name": "bit-flip", "ids": [3]},
    ]
    (state,), _ = steps(faults)
    v = sent()
    known = np.delete(v, 3, axis=0)
    v[[0, 1, 2, 4]] = -2 * known.mean(0)
    v[[5, 6, 7]] = known.mean(0) - 1.5 * known.std(0)
    v[3] *= -1
    np.testing.assert_allclose(state.state["got"], v.mean(0), rtol=1e-12)


@dataclass(frozen=True, kw_only=True)
class LateNumbers(FedAvg):
    """In round r client i sends (i + 1, r + i^2)."""

    name: ClassVar[str] = "late-numbers"

    def train(self, clients, x):
        i = clients.ids.astype(float)
        v = np.stack([i + 1, clients.round + i**2], axis=1)
        return Upload({"delta": v}, loss=np.ones(len(i)))


def late_plan(rounds, faults, seed=0, **changes):
    """Return the plan of five clients some of whom are late."""
    made = toy_scenario(
        LateNumbers(weights="uniform", local={"steps": 1, "batch": "full", "lr": 0.1}),
        problem={
            "name": "quadratic", "dataset": {"name": "quadratic", "clients": 5, "features": 2},
        },
        partition=None, seeds=[seed], rounds=rounds,
        clients={"delay": {"name": "exponential", "mean_s": 1.0}, "faults": faults},
        participation={
            "select": "all", "deadline_s": 0.7, "late": "stale",
            "staleness": "constant",
        }, **changes,
    )  # fmt: skip
    return api.prepare(api.read(made))


def late_numbers(rounds, faults, seed=0, **changes):
    """Yield the changes of the model, and the works that were used: client and round."""
    (run,) = (plan := late_plan(rounds, faults, seed, **changes)).runs
    loop = testing.loop(plan, run)
    before, _ = loop.start()
    for _ in range(rounds):
        after, _, ended = step(loop, before)
        used = [
            (int(client), int(version) + 1)
            for part in ended
            for client, version, status in zip(
                *(part[name] for name in ("client", "version", "status")), strict=True
            )
            if status == USED
        ]
        yield before.state["x"] - after.state["x"], used
        before = after


@pytest.mark.parametrize("liars", [(3, 4), (0, 2, 3, 4), (1,)])
@pytest.mark.parametrize("start", [1, 3])
def test_late_liars_know_the_honest_replies_that_enter_the_same_update(liars, start):
    """Those of no round but their own know of none where no other is used: of what they have."""
    faults = [{"name": "ipm", "epsilon": 2.0, "ids": list(liars), "start": start}]
    late = alone = 0
    for seed in range(3):
        for found, used in late_numbers(8, faults, seed):
            sent = np.array([(i + 1.0, r + i**2) for i, r in used]).reshape(-1, 2)
            lie = [i in liars and r >= start for i, r in used]
            known = [i not in liars for i, _ in used]
            late += any(lie) and len({r for _, r in used}) > 1
            if not any(known):
                alone, known = alone + any(lie), lie
            if any(lie):
                sent[lie] = -2 * sent[known].mean(axis=0)
            wanted = sent.mean(axis=0) if used else 0.0
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    assert late > 0
    assert alone > 0 or len(liars) < 3


def test_late_liars_reach_rules_as_vectors():
    """They mimic one of the honest of the update, the one that stands out most, late or not."""
    faults = [{"name": "mimic", "ids": [1, 3]}]
    copied = 0
    for found, used in late_numbers(8, faults, aggregate="median"):
        sent = np.array([(i + 1.0, r + i**2) for i, r in used]).reshape(-1, 2)
        lie = np.array([i in (1, 3) for i, _ in used], bool)
        if not used or not lie.any() or lie.all():
            continue
        copies = [np.where(lie[:, None], sent[k], sent) for k in np.flatnonzero(~lie)]
        medians = np.array([np.median(each, axis=0) for each in copies])
        assert np.abs(medians - found).max(axis=1).min() < 1e-9
        copied += len({r for _, r in used}) > 1
    assert copied > 0


def test_silence_is_a_reply_that_never_comes():
    states, rows = steps([{"name": "silent", "ids": [0, 5], "start": 2}], rounds=2)
    assert [row["participants"] for row in rows] == [8, 6]
    assert [row["dropped"] for row in rows] == [0, 2]
    v = np.delete(sent(2), [0, 5], axis=0)
    np.testing.assert_allclose(states[1].state["got"], v.mean(0), rtol=1e-14)
    assert rows[1]["time_s"] > rows[0]["time_s"]


def test_not_a_number_reaches_the_rule_before_any_check():
    (state,), _ = steps([{"name": "not-a-number", "ids": [0]}], aggregate="median")
    np.testing.assert_array_equal(state.state["got"], np.median(sent()[1:], axis=0))
    (state,), _ = steps([{"name": "not-a-number", "ids": [0]}])
    assert np.isnan(state.state["got"]).all()


def test_labels_are_wrong_at_the_faulty_clients_and_in_training_alone(tmp_path):
    problem = {"name": "logistic-regression", "dataset": "mushroom", "test": 0.2}
    clients = {"count": 8, "faults": [{"name": "label-flip", "ids": [1, 4]}]}
    scenario = toy_scenario(
        FEDAVG, "centralised", problem=problem, partition="iid", clients=clients
    )
    plan = api.prepare(api.read(scenario))
    honest = api.prepare(api.read({**scenario, "clients": {"count": 8}})).runs[0]
    for run, right in ((plan.runs[0], [0, 2, 3, 5, 6, 7]), (plan.runs[1], None)):
        views = run.federation.views
        for view, ids in ((views.training, right), (views.evaluation, range(8))):
            rows = view.with_table(plan.tables).shards
            for client in range(rows.clients):
                one = np.array([client])
                width = int(rows.sizes(one)[0])
                y = rows.targets(one, width)
                if rows.clients == 1:  # the baseline has the true rows
                    assert view is views.training
                    continue
                true = honest.federation.views.evaluation.with_table(plan.tables).shards
                expected = true.targets(one, width)
                wrong = ids is not None and client not in ids
                np.testing.assert_array_equal(y, 1 - expected if wrong else expected)


def test_the_honest_are_measured_apart(tmp_path):
    problem = {"name": "logistic-regression", "dataset": "mushroom", "test": 0.2}
    clients = {"count": 8, "faults": [{"name": "label-flip", "ids": [0, 1, 2]}]}
    evaluate = {"every": 5, "measures": ["honest"]}
    local = {"steps": 5, "batch": "full", "lr": 1.0}
    found = tiny_run(
        tmp_path, {**FEDAVG, "local": local}, problem=problem, partition="iid", clients=clients,
        evaluate=evaluate, participation={},
    ).rounds  # fmt: skip
    assert 0.6 < found.honest_accuracy.iloc[-1] <= 1
    assert found.honest_worst_decile.iloc[-1] <= found.honest_accuracy.iloc[-1]


def test_the_table_of_clients_says_who_was_faulty(tmp_path):
    faults = [{"name": "scale", "ids": [1]}, {"name": "silent", "ids": [6], "start": 2}]
    changes = {"clients": {"count": 8, "faults": faults}, "participation": {}}
    table = tiny_run(tmp_path, FEDAVG, **changes).clients
    assert table["fault"].tolist() == ["", "scale", "", "", "", "", "silent", ""]
    plain = tiny_run(tmp_path / "plain", FEDAVG, participation={}).clients
    assert "fault" not in plain


@pytest.mark.guard
@pytest.mark.parametrize("name", ["noise", "replay", "alie", "mimic"])
def test_runs_with_faults_go_on_after_a_stop_to_the_same_bytes(tmp_path, name):
    clients = {"count": 8, "faults": [{"name": name, "count": 2, "start": 2}]}
    changes = {"clients": clients, "rounds": 6, "aggregate": "centred-clipping"}
    plan = api.prepare(api.read(toy_scenario(FEDAVG, **changes, evaluate={"every": 1})))
    drive(plan, tmp_path / "whole")
    stop_after(plan, tmp_path / "twice", 3)
    drive(plan, tmp_path / "twice", resume=True)
    assert_same_results(tmp_path / "whole", tmp_path / "twice")


def test_late_liars_remember_what_they_have_learnt_after_a_stop(tmp_path):
    plan = late_plan(8, [{"name": "mimic", "ids": [1, 3]}])
    drive(plan, tmp_path / "whole")
    stop_after(plan, tmp_path / "twice", 4)
    drive(plan, tmp_path / "twice", resume=True)
    assert_same_results(tmp_path / "whole", tmp_path / "twice")


ALIE = [{"name": "alie", "count": 2}]


@pytest.mark.parametrize(
    ("algorithm", "faults", "message"),
    [
        ("fedbuff", ALIE, "clients.faults.0: 'alie' needs rounds, but 'fedbuff' is asynchronous"),
        ("fedbuff", [{"name": "silent", "count": 2}], "clients.faults.0: 'silent' needs rounds"),
        ("mifa", ALIE, "clients.faults.0: 'alie' needs weighted means alone, but 'mifa' adds up"),
        ("fedavg", [{"name": "label-flip", "count": 2}],
         "clients.faults.0: 'label-flip' needs class labels, but"),
        ("giant", [{"name": "replay", "count": 2}],
         "clients.faults.0: 'replay' needs one Ask in a round, but 'giant' asks several times"),
        ("fedavg", [{"name": "bit-flip"}], "clients.faults.0: found no faulty clients"),
        ("fedavg", [{"name": "bit-flip", "count": 9}], "clients.faults.0.count: found 9, but 8"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_a_fault_is_one_line(algorithm, faults, message):
    participation = {} if algorithm == "fedbuff" else {"cohort": 4}
    clients = {"count": 8, "faults": faults}
    with pytest.raises(ScenarioError) as error:
        api.prepare(api.read(toy_scenario(algorithm, clients=clients, participation=participation)))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
