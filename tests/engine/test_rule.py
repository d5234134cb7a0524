"""Robust rules in runs: the algorithm gets what the rule makes of the vectors, and nothing else."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from rayfed import api, testing
from rayfed.algorithms import Algorithm
from rayfed.channel import Buckets, SecureSum
from rayfed.cli.forecasts import server_sees
from rayfed.core.errors import ScenarioError
from rayfed.core.needs import MEAN
from rayfed.core.rng import Key
from rayfed.messages import Ask, Upload
from rayfed.testing import tiny_run
from rayfed.testing.toy import toy_scenario

FEDAVG = {"name": "fedavg", "weights": "uniform"}


@dataclass(frozen=True, kw_only=True)
class Told(Algorithm):
    """Clients send what their number makes; the server keeps what it gets."""

    name: ClassVar[str] = "told"
    needs: ClassVar = Algorithm.needs - {MEAN}

    def init(self, x0):
        return {"x": x0, "got": np.zeros(3), "peeked": np.zeros(1)}

    def number(self, clients, x):
        i = clients.ids[:, None].astype(float)
        ones = np.concatenate([i, i**2], axis=1)
        if self.evaluate_last == 2:
            ones[clients.ids == 3] = np.nan
        return Upload({"one": ones, "two": 10.0 * i, "scalar": i[:, 0]})

    def round(self, state):
        up = {"one": 2, "two": 1, "scalar": 1}
        reply = yield Ask("number", send={"x": state["x"]}, up=up)
        got = np.concatenate([reply.mean["one"], reply.mean["two"]])
        peeked = np.array([float(any(rows.ndim > 1 for rows in reply.each.values()))])
        return {"x": state["x"], "got": got, "peeked": peeked}, {}


def after(rounds=1, **changes):
    algorithm = changes.pop("algorithm", Told(weights="uniform"))
    scenario = toy_scenario(algorithm, **{"participation": {"cohort": 8}, **changes})
    loop = testing.loop(scenario)
    state, _ = loop.start()
    for _ in range(rounds):
        state, _, _ = loop.step(state)
    return state


def last(**changes):
    """Return the row and the state after a round of `Vectors`."""
    changes = {"participation": {"cohort": 8}, **changes}
    loop = testing.loop(toy_scenario(Vectors(weights="uniform"), **changes))
    state, row, _ = loop.step(loop.start()[0])
    return row, state


def test_the_rule_takes_the_place_of_the_mean_for_all_vectors_together():
    # clients 0..7: (i, i^2, 10 i)
    found = after(aggregate="median").state
    np.testing.assert_array_equal(found["got"], [3.5, 12.5, 35])
    assert found["peeked"] == 0  # the algorithm sees no vectors
    np.testing.assert_allclose(after(aggregate=None).state["got"], [3.5, 17.5, 35])
    trimmed = after(aggregate={"name": "trimmed-mean", "f": 3}).state["got"]
    np.testing.assert_array_equal(trimmed, [3.5, 12.5, 35])
    # the same client for each: 3 has the nearest neighbours, as 4, 2 and 1 are near
    chosen = after(aggregate={"name": "krum", "f": 3}).state["got"]
    assert chosen.tolist() in [[i, i**2, 10 * i] for i in range(8)]


def test_the_state_of_a_rule_goes_from_round_to_round():
    rule = {"name": "centred-clipping", "radius": 2.0}
    found = after(aggregate=rule).channel["rule.number.centre"]
    v = np.array([[i, i**2, 10 * i] for i in range(8)], float)
    centre = np.zeros(3)
    for _ in range(2):
        d = v - centre
        norms = np.sqrt((d**2).sum(1))
        share = np.array([min(1, 2 / n) if n else 1 for n in norms])
        centre = centre + (d * share[:, None]).mean(0)
        if _ == 0:
            np.testing.assert_allclose(found, centre, rtol=1e-13)
    again = after(rounds=2, aggregate=rule)
    np.testing.assert_allclose(again.channel["rule.number.centre"], centre, rtol=1e-13)
    np.testing.assert_allclose(again.state["got"], centre, rtol=1e-13)


def test_a_vector_of_nan_reaches_the_rule_and_does_not_count():
    algorithm = Told(weights="uniform", evaluate_last=2)
    found = after(aggregate="median", algorithm=algorithm).state["got"]
    np.testing.assert_array_equal(found, [4, 16, 40])  # of 0, 1, 2, 4, 5, 6, 7
    assert np.isnan(after(algorithm=algorithm).state["got"][:2]).all()


def test_buckets_are_means_of_their_clients_from_sums_alone():
    rule = {"name": "median", "before": {"name": "buckets", "size": 3}}
    found = after(aggregate=rule).state["got"]
    labels = Buckets(size=3).labels(np.arange(8), Key(0, "buckets").sub("1/0"))
    v = np.array([[i, i**2, 10 * i] for i in range(8)], float)
    means = np.array([v[labels == b].mean(0) for b in range(3)])
    np.testing.assert_allclose(found, np.median(means, axis=0), rtol=1e-14)
    assert np.bincount(labels).tolist() == [3, 3, 2]


def test_buckets_that_nobody_answers_of_are_none():
    slow = {"ids": [0, 1, 2, 3, 4], "delay": {"name": "constant", "mean_s": 9.0}}
    delays = {"count": 8, "delay": {"name": "constant", "mean_s": 1.0}, "groups": [slow]}
    rule = {"name": "mean", "before": {"name": "buckets", "size": 2}}
    settings = {"cohort": 8, "deadline_s": 20.0}
    found = after(aggregate=rule, clients=delays, participation=settings).state["got"]
    labels = Buckets(size=2).labels(np.arange(8), Key(0, "buckets").sub("1/0"))
    v = np.array([[i, i**2, 10 * i] for i in range(8)], float)
    there = np.array([5, 6, 7])
    means = [v[there[labels[there] == b]].mean(0) for b in np.unique(labels[there])]
    np.testing.assert_allclose(found, np.mean(means, axis=0), rtol=1e-14)


@dataclass(frozen=True, kw_only=True)
class Vectors(Algorithm):
    """Clients send two vectors and nothing else; the server keeps what it gets."""

    name: ClassVar[str] = "vectors"
    needs: ClassVar = Algorithm.needs - {MEAN}

    def init(self, x0):
        return {"x": x0, "got": np.zeros(3)}

    def number(self, clients, x):
        i = clients.ids[:, None].astype(float)
        return Upload({"one": np.concatenate([i / 3, i**2], axis=1), "two": -i / 7 * [[1, 2]]})

    def round(self, state):
        reply = yield Ask("number", send={"x": state["x"]}, up={"one": 2, "two": 2})
        got = np.concatenate([reply.mean["one"], reply.mean["two"]])
        return {"x": state["x"], "got": got}, {}


I = np.arange(8.0)[:, None]  # noqa: E741
SENT = np.concatenate([I / 3, I**2, -I / 7, -2 * I / 7], axis=1)
MEDIAN = {"name": "median", "before": {"name": "buckets", "size": 2}}
SECURE = {"name": "secure-sum", "range": 70.0, "bits": 32, "threshold": 0.7}
LATE = {  # clients 0, 1 and 2 do not come
    "participation": {"cohort": 8, "deadline_s": 20.0},
    "clients": {
        "count": 8, "delay": {"name": "constant", "mean_s": 1.0},
        "groups": [{"ids": [0, 1, 2], "delay": {"name": "constant", "mean_s": 9.0}}],
    },
}  # fmt: skip


def bucket(size, round=1):
    return Buckets(size=size).labels(np.arange(8), Key(0, "buckets").sub(f"{round}/0"))


@pytest.mark.parametrize("size", [2, 3, 4])
def test_buckets_of_secure_sums_are_those_of_plain_ones_to_the_rounding(size):
    rule = {"name": "median", "before": {"name": "buckets", "size": size}}
    changes = {"algorithm": Vectors(weights="uniform"), "aggregate": rule}
    plain, secure = after(**changes), after(**changes, uplink=[SECURE])
    means = np.array([SENT[bucket(size) == b].mean(0) for b in range(-(-8 // size))])
    expected = np.median(means, axis=0)
    np.testing.assert_allclose(plain.state["got"], expected, rtol=1e-12)
    unit = SecureSum(range=70.0, bits=32).unit(size)
    np.testing.assert_allclose(secure.state["got"], expected, rtol=0, atol=unit)
    assert not np.array_equal(secure.state["got"], plain.state["got"])


def test_what_all_send_together_is_not_opened_where_buckets_are():
    """All squares together are 140, which a sum of two does not hold any more."""
    row, _ = last(aggregate=MEDIAN, uplink=[SECURE])
    assert row["wrapped"] == 0
    row, _ = last(uplink=[SECURE])
    assert row["wrapped"] == 0  # the unit is that of a sum over eight
    row, _ = last(aggregate=MEDIAN, uplink=[SECURE | {"range": 30.0}])
    b = bucket(2)
    sums = np.array([SENT[b == k].sum(0) for k in range(4)])
    assert row["wrapped"] == (np.abs(sums) >= 60).sum() > 0
    # 4 numbers of 4 bytes, two own keys, keys and shares for the other one of the bucket
    assert row["bytes_up"] == 8 * (4 * 4 + 2 * 32 + (80 + 32))


@pytest.mark.parametrize("size", [2, 4])
def test_buckets_of_which_too_few_survive_are_not_opened(size):
    rule = {"name": "mean", "before": {"name": "buckets", "size": size}}
    row, state = last(aggregate=rule, uplink=[SECURE], **LATE)
    b, there = bucket(size), np.arange(3, 8)
    came = np.bincount(b[there], minlength=8 // size)
    opened = [k for k in range(8 // size) if came[k] >= 0.7 * size]
    assert 0 < len(opened) < 8 // size
    means = [SENT[there[b[there] == k]].mean(0) for k in opened]
    unit = SecureSum(range=70.0, bits=32).unit(size)
    np.testing.assert_allclose(state.state["got"], np.mean(means, axis=0), rtol=0, atol=unit)
    assert row["participants"] == came[opened].sum()
    assert row["late"] == 8 - row["participants"]


def test_a_sum_of_one_survivor_is_a_vector_and_never_opened():
    few = {**LATE["clients"]["groups"][0], "ids": [0, 1, 2, 3, 4, 5]}
    for late, participants in ((few, 2), ({**few, "ids": [0, 1, 2, 3, 4, 5, 6]}, 0)):
        changes = {**LATE, "clients": {**LATE["clients"], "groups": [late]}}
        row, _ = last(uplink=[SECURE | {"threshold": 0.1}], **changes)
        assert (row["participants"], row["late"]) == (participants, 8 - participants)


def test_a_bucket_of_one_survivor_is_a_vector_and_never_opened():
    rule = {"name": "mean", "before": {"name": "buckets", "size": 2}}
    low = [SECURE | {"threshold": 0.1}]
    row, _ = last(aggregate=rule, uplink=low, **LATE)
    b = bucket(2)
    whole = [k for k in range(4) if (b[3:] == k).sum() == 2]
    assert row["participants"] == 2 * len(whole) > 0


@pytest.mark.parametrize(
    "rule",
    ["median", {"name": "krum", "f": 1}, {"name": "centred-clipping", "radius": 0.1},
     {"name": "median", "before": "buckets"},
     {"name": "median", "before": {"name": "nearest-neighbours", "f": 1}}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("algorithm", [FEDAVG, {**FEDAVG, "name": "fedadam"}], ids=str)
def test_losses_fall_under_every_rule(tmp_path, rule, algorithm):
    found = tiny_run(tmp_path, algorithm, aggregate=rule, rounds=20)
    assert found.rounds.loss.iloc[-1] < found.rounds.loss.iloc[0]


def test_an_algorithm_may_have_a_rule_of_its_own_or_none(tmp_path):
    algorithms = [
        {**FEDAVG, "label": "study"}, {**FEDAVG, "label": "none", "aggregate": None},
        {**FEDAVG, "label": "own", "aggregate": {"name": "krum", "f": 1}},
        {**FEDAVG, "label": "named", "aggregate": "geometric-median"},
    ]  # fmt: skip
    found = tiny_run(tmp_path, *algorithms, aggregate="median").rounds
    last = found.groupby("label").loss.last()
    assert len(set(last)) == 4
    plain = tiny_run(tmp_path / "plain", FEDAVG).rounds
    assert plain.loss.iloc[-1] == last["none"]


def test_arrivals_go_by_the_rule_too(tmp_path):
    buffered = {"name": "fedbuff", "buffer": 3, "weights": "uniform"}
    clients = {"count": 8, "delay": {"name": "exponential", "mean_s": 1.0}}
    changes = {"clients": clients, "participation": {}, "rounds": 20}
    plain = tiny_run(tmp_path / "plain", buffered, **changes).rounds
    found = tiny_run(tmp_path / "rule", buffered, aggregate="median", **changes).rounds
    assert found.loss.iloc[-1] < found.loss.iloc[0]
    assert found.loss.iloc[-1] != plain.loss.iloc[-1]
    assert found.time_s.tolist() == plain.time_s.tolist()


def test_check_says_what_a_rule_sees():
    def said(cohort, rule):
        participation = {"cohort": cohort}
        made = toy_scenario(FEDAVG, aggregate=rule, participation=participation)
        return server_sees(api.prepare(api.read(made)).runs[0])

    sums = "means of 2 clients, one more for every 2, and the scalars and weight of each client"
    assert said(8, MEDIAN) == f"4 {sums}"
    assert said(5, MEDIAN) == f"3 {sums}"
    assert said(5, "median") == "the vectors of single clients"
    assert said(5, None) == "means of vectors, and the scalars and weight of each client"


KRUM = {"name": "krum", "f": 2}


@pytest.mark.parametrize(
    ("algorithm", "changes", "message"),
    [
        ("fedavg", {"aggregate": "median"},
         "aggregate: 'median' needs clients that count alike, but weights: size"),
        ({"name": "scaffold", "weights": "uniform"}, {"aggregate": KRUM},
         "aggregate: 'scaffold' needs the exact weighted mean of uploads, but 'krum'"),
        ({**FEDAVG, "aggregate": KRUM}, {},
         "algorithms.0.aggregate: 'krum' needs 5 vectors and gets 4; give a smaller f"),
        (FEDAVG, {"aggregate": {**KRUM, "f": 1, "before": {"name": "buckets", "size": 2}}},
         "aggregate: 'krum' needs 3 vectors and gets 2; give a smaller f"),
        (FEDAVG, {"aggregate": {"name": "median", "before": "buckets"},
                  "participation": {"cohort": 4, "late": "stale", "deadline_s": 1.0}},
         "aggregate: 'median' needs replies of the current round alone, but late: stale"),
        ({"name": "fedbuff", "weights": "uniform"},
         {"aggregate": {"name": "median", "before": "buckets"}, "participation": {}},
         "aggregate: 'median' needs rounds, but 'fedbuff' is asynchronous"),
        (FEDAVG, {"aggregate": "median", "uplink": [SECURE]},
         "aggregate: 'median' needs the vector of each client, but 'secure-sum' hides"),
        (FEDAVG, {"aggregate": MEDIAN, "uplink": [SECURE], "participation": {"cohort": 5}},
         "aggregate: of 5 clients one is in a bucket of its own; give another size or cohort"),
        (FEDAVG, {"aggregate": MEDIAN, "uplink": [SECURE], "clients": {"count": 20},
                  "participation": {"cohort": 10, "over_select": 1.1}},  # 11.000000000000002
         "aggregate: of 11 clients one is in a bucket of its own; give another size or cohort"),
        (FEDAVG, {"aggregate": MEDIAN, "uplink": [SECURE],
                  "participation": {"cohort": 4, "retries": 1, "retry": "other"}},
         "aggregate: 'median' needs the clients that were asked first, but retry: other"),
        (FEDAVG, {"aggregate": "median",
                  "uplink": [{"name": "top-k", "k": 1, "memory": "ef21"}]},
         "aggregate: 'median' needs vectors of the round alone, but 'ef21' adds up"),
        (FEDAVG, {"aggregate": "median", "participation": {"cohort": 4, "select": "weighted"}},
         "aggregate: 'median' needs vectors that count alike, but 'weighted'"),
        (FEDAVG, {"aggregate": {"name": "mean", "before": {"name": "nearest-neighbours", "f": 1}},
                  "participation": {"cohort": 4, "select": "weighted"}},
         "aggregate: 'mean' needs vectors that count alike, but 'weighted'"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_a_rule_is_one_line(algorithm, changes, message):
    with pytest.raises(ScenarioError) as error:
        api.prepare(api.read(toy_scenario(algorithm, **changes)))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
