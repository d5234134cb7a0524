"""Codecs and clips change uploads: what clients keep of them stays what the server adds up."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from rayfed import api, testing
from rayfed.algorithms import Algorithm, FedAvg
from rayfed.core.columns import Column
from rayfed.core.errors import RunFailed, ScenarioError
from rayfed.messages import Ask, Upload
from tests.channel.test_memory import LR, SIZES, P, X, Y, gradient, loop_of, scenario, top, walked
from tests.fakes.stepping import step

N, W = len(SIZES), SIZES / SIZES.sum()
LOCAL = {"steps": 1, "batch": "full", "lr": LR}
NORM = 0.05
TOP, CLIP = {"name": "top-k", "k": 2}, {"name": "clip", "norm": NORM}
BEST = np.linalg.lstsq(X, Y, rcond=None)[0]


def clipped(*vectors):
    """All vectors of an upload, at most NORM long together."""
    length = np.sqrt(sum(v @ v for v in vectors))
    return [v * min(1, NORM / length) if length else v for v in vectors]


def topped(*vectors):
    return [top(v) for v in vectors]


STAGES = {"top-k": ([TOP], topped), "clip": ([CLIP], clipped),
          "top-k, clip": ([TOP, CLIP], lambda *v: clipped(*topped(*v)))}  # fmt: skip


def fedvarp(x, cohorts, w, sent):
    """What travels is N w_i (Delta_i - y_i), and y_i takes up 1 / (N w_i) of what arrives."""
    y, ybar = np.zeros((N, P)), np.zeros(P)
    for S in cohorts:
        change = {i: sent(N * w[i] * (LR * gradient(i, x) - y[i]))[0] / N for i in S}
        x = x - ybar - sum(change.values()) / w[S].sum()
        for i in S:
            y[i] += change[i] / w[i]
            ybar = ybar + change[i]
        yield x


def mifa(x, cohorts, w, sent):
    """What travels is N w_i (Delta_i - G_i), and G_i takes up 1 / (N w_i) of what arrives."""
    G, mean = np.zeros((N, P)), np.zeros(P)
    for S in cohorts:
        for i in S:
            change = sent(N * w[i] * (LR * gradient(i, x) - G[i]))[0]
            G[i] += change / (N * w[i])
            mean = mean + change / N
        x = x - mean
        yield x


def feddyn(x, cohorts, w, sent, alpha=0.5):
    h_i, h = np.zeros((N, P)), np.zeros(P)
    for S in cohorts:
        deltas = {i: sent(LR * (gradient(i, x) - h_i[i]))[0] for i in S}
        for i in S:
            h_i[i] += alpha * deltas[i]
            h = h + alpha * w[i] * deltas[i]
        x = x - sum(w[i] * deltas[i] for i in S) / w[S].sum() - h / alpha
        yield x


def scaffold(x, cohorts, w, sent):
    """N w_i (c_i+ - c_i) travels, so that c is the weighted mean of the c_i."""
    c_i, c = np.zeros((N, P)), np.zeros(P)
    for S in cohorts:
        mean, moved = np.zeros(P), np.zeros(P)
        for i in S:
            delta = LR * (gradient(i, x) - c_i[i] + c)
            new = c_i[i] - c + delta / LR
            delta, change = sent(delta, N * w[i] * (new - c_i[i]))
            c_i[i] += change / (N * w[i])
            mean, moved = mean + w[i] * delta / w[S].sum(), moved + change / N
        x, c = x - mean, c + moved
        yield x


def fedexp(x, cohorts, w, sent):
    for S in cohorts:
        deltas = {i: sent(LR * gradient(i, x))[0] for i in S}
        mean = sum(w[i] * deltas[i] for i in S) / w[S].sum()
        norms = sum(w[i] * deltas[i] @ deltas[i] for i in S) / w[S].sum()
        x = x - max(1, norms / (2 * (mean @ mean + 1e-3))) * mean
        yield x


def overlap(x, cohorts, w, sent):
    local, z, v = np.tile(x, (N, 1)), x, np.zeros(P)
    for S in cohorts:
        moved = np.zeros(P)
        for i in S:
            after = local[i] - LR * gradient(i, local[i])
            local[i] = after - 0.6 * (after - z)
            moved += w[i] * sent(local[i] - z)[0] / w[S].sum()
        v = 0.7 * v + moved
        z = z + v
        yield z


METHODS = {"fedvarp": fedvarp, "mifa": mifa, "feddyn": feddyn, "scaffold": scaffold,
           "fedexp": fedexp, "overlap-sgd": overlap}  # fmt: skip
SETTINGS = {"feddyn": {"alpha": 0.5}}


@pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES)
@pytest.mark.parametrize("cohort", [None, 2])
@pytest.mark.parametrize("weights", ["size", "uniform"])
@pytest.mark.parametrize("name", METHODS)
def test_a_method_with_stages_is_its_pseudo_code(name, weights, cohort, stages):
    uplink, sent = stages
    method = {"name": name, "weights": weights, "local": LOCAL, **SETTINGS.get(name, {})}
    part = {"select": "all"} if cohort is None else {"cohort": cohort}
    models, cohorts, _ = walked(
        scenario(TOP, algorithms=[method], uplink=uplink, participation=part)
    )
    w = W if weights == "size" else np.full(N, 1 / N)
    expected = list(METHODS[name](models[0], cohorts, w, sent))
    np.testing.assert_allclose(models[1:], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("name", "uplink"), [
    pytest.param("fedvarp", [TOP], marks=pytest.mark.guard),
    ("fedvarp", [CLIP]), ("feddyn", [TOP]), ("feddyn", [CLIP]),
    ("feddyn", [{"name": "rand-k", "k": 5}]), ("mifa", [TOP]), ("scaffold", [CLIP]),
    ("fedvarp", [{"name": "rand-k", "k": 4, "unbiased": False}]), ("ca2fl", [TOP]),
])  # fmt: skip
def test_memories_of_methods_end_at_the_optimum(name, uplink):
    """One full step a round, everybody: without what travels it would be gradient descent."""
    more = {"alpha": 1.0} if name == "feddyn" else {}
    made = scenario(TOP, algorithms=[{"name": name, "local": LOCAL, **more}], uplink=uplink)
    if name == "ca2fl":
        made["algorithms"][0] |= {"buffer": N, "concurrency": N}
        made["problem"] |= {"weighting": "uniform"}
        least = np.linalg.solve(
            sum(X[OF].T @ X[OF] / len(OF) for OF in PARTS),
            sum(X[OF].T @ Y[OF] / len(OF) for OF in PARTS),
        )
    else:
        least = BEST
    loop = loop_of(made | {"rounds": 900})
    state, _ = loop.start()
    for _ in range(900):
        state, _, _ = step(loop, state)
    np.testing.assert_allclose(state.state["x"], least, atol=1e-5)


SECURE = {"name": "secure-sum", "range": 8.0, "bits": 14, "threshold": 0.1}
EF21 = {"name": "ef21", "start": "coded"}


@pytest.mark.parametrize(("method", "uplink", "own", "served"), [
    ({"name": "fedvarp", "weights": "uniform"}, [], "y", "memory"),
    ({"name": "mifa"}, [], "g", "memory"),
    ({"name": "scaffold"}, [], "c", "c"),
    ({"name": "fedavg"}, [TOP | {"memory": EF21}], "uplink.delta", "up.delta"),
    ({"name": "fedavg"}, [{"name": "rand-k", "k": 3, "memory": {"name": "diana", "alpha": 0.3}}],
     "uplink.delta", "up.delta"),
])  # fmt: skip
def test_clients_keep_the_rounding_of_secure_sums(method, uplink, own, served):
    """With 14 bits it would leave the mean of what they keep by a random walk."""
    made = scenario(TOP, algorithms=[method | {"local": LOCAL}], uplink=[*uplink, SECURE])
    plan = api.prepare(api.read(made))
    (run,) = plan.runs
    loop = testing.loop(plan, run)
    state, _ = loop.start()
    for _ in range(40):
        state, _, _ = loop.step(state)
    kept = np.concatenate([rows[own] for rows in loop.exchange.executor.snapshot(loop.run.folder)])
    if method["name"] == "fedavg":
        mean, found = W @ kept, state.channel[served]
    else:
        mean, found = kept.mean(axis=0), state.state[served]
    np.testing.assert_allclose(mean, found, rtol=1e-9, atol=1e-12)


PARTS = np.split(np.arange(SIZES.sum()), SIZES.cumsum()[:-1])


def test_fedasync_codes_what_a_client_moved():
    """x <- (1 - a) x + a (x_v - C(Delta)), where a codec of the model would leave C(x_i)."""
    loop = loop_of(scenario(TOP, algorithms=[{"name": "fedasync", "local": LOCAL}]))
    state, _ = loop.start()
    models = [state.state["x"]]
    for _ in range(30):
        state, _, (event,) = step(loop, state)
        (i,), (v,), x, late = event["client"], event["version"], models[-1], event["staleness"][0]
        a = 0.6 / np.sqrt(1 + late)
        expected = (1 - a) * x + a * (models[v] - top(LR * gradient(i, models[v])))
        np.testing.assert_allclose(state.state["x"], expected, rtol=1e-11)
        models.append(state.state["x"])
    assert late > 0


@dataclass(frozen=True, kw_only=True)
class Recalls(Algorithm):
    """A method of a user's: clients send what changed since the last time, and keep it."""

    name: ClassVar[str] = "recalls"

    def init(self, x0):
        return {"x": x0, "memory": np.zeros_like(x0)}

    def client_state(self, x0):
        return {"y": np.zeros_like(x0)}

    def train(self, clients, x):
        delta = x - clients.solve(x).x
        return Upload({"change": delta - clients.state["y"]}, {"y": delta})

    def round(self, state):
        reply = yield Ask("train", {"x": state["x"]}, {"change": state["x"].size})
        memory = state["memory"] + len(reply.ids) / reply.population * reply.mean["change"]
        return {"x": state["x"] - memory, "memory": memory}, {}


@dataclass(frozen=True, kw_only=True)
class Declares(Recalls):
    """The same, with a state that follows what is sent."""

    name: ClassVar[str] = "declares"
    coded: ClassVar = {"change": "contractive"}

    def train(self, clients, x):
        upload = super().train(clients, x)
        return Upload(upload.values, upload.state, mirrors={"y": ("change", 1.0)})


@dataclass(frozen=True, kw_only=True)
class Adds(FedAvg):
    """A subclass that adds client state to a method which declares nothing."""

    name: ClassVar[str] = "adds"

    def client_state(self, x0):
        return {"y": np.zeros_like(x0)}


@dataclass(frozen=True, kw_only=True)
class Below(Declares):
    """A subclass whose client state the declaration of its base says nothing of."""

    name: ClassVar[str] = "below"

    def client_state(self, x0):
        return {"y": np.zeros_like(x0)}


@dataclass(frozen=True, kw_only=True)
class Trains(Declares):
    """A subclass with a client function of its own, which mirrors nothing."""

    name: ClassVar[str] = "trains"

    def train(self, clients, x):
        delta = x - clients.solve(x).x
        return Upload({"change": delta - clients.state["y"]}, {"y": delta})


@dataclass(frozen=True, kw_only=True)
class Chooses(FedAvg):
    """A method without client state that uploads its losses as well."""

    name: ClassVar[str] = "chooses"
    diagnostics: ClassVar = (Column("least"),)

    def train(self, clients, x):
        losses = np.stack([clients.value(x), clients.value(2 * x)], axis=1)
        return Upload({**super().train(clients, x).values, "losses": losses})

    def round(self, state):
        up = {"delta": state["x"].size, "losses": 2}
        reply = yield Ask("train", {"x": state["x"]}, up)
        least = float(reply.mean["losses"].min())
        return {"x": state["x"] - reply.mean["delta"]}, {"least": least}


@dataclass(frozen=True, kw_only=True)
class Misnames(Recalls):
    """A method that mirrors, or squares, something that is not there."""

    name: ClassVar[str] = "misnames"
    coded: ClassVar = {"change": "contractive"}
    wrong: str = "name"

    def train(self, clients, x):
        wrong = {
            "state": {"mirrors": {"z": ("change", 1.0)}},
            "vector": {"mirrors": {"y": ("changes", 1.0)}},
            "factor": {"mirrors": {"y": ("change", np.ones(len(clients.ids)))}},
            "square": {"squares": {"norm": "changes"}},
        }[self.wrong]
        return replace(super().train(clients, x), **wrong)

    def round(self, state):
        up = {"change": state["x"].size} | ({"norm": 1} if self.wrong == "square" else {})
        reply = yield Ask("train", {"x": state["x"]}, up)
        return {"x": state["x"] - reply.mean["change"], "memory": state["memory"]}, {}


def study_of(cls, uplink, **changes):
    made = scenario(TOP, algorithms=[{"name": f"{__name__}:{cls.__name__}", "local": LOCAL}])
    return made | {"uplink": uplink} | changes


@pytest.mark.parametrize("uplink", [[TOP], [CLIP], [{"name": "rand-k", "k": 2}]])
@pytest.mark.parametrize("cls", [Recalls, Adds, Below, Trains])
def test_client_state_without_a_declaration_is_refused(cls, uplink):
    with pytest.raises(ScenarioError, match=r"uplink: .* does not declare which uploads may"):
        api.prepare(api.read(study_of(cls, uplink)))


def test_a_declared_memory_follows_what_is_sent():
    models, cohorts, _ = walked(study_of(Declares, [TOP]))
    w = np.full(N, 1 / N)
    expected = list(fedvarp(models[0], cohorts, w, topped))
    found = walked(study_of(Declares, [TOP], problem=scenario(TOP)["problem"]))[0]
    np.testing.assert_array_equal(found, models)
    weighted = scenario(TOP, algorithms=[{"name": "fedvarp", "weights": "uniform", "local": LOCAL}])
    np.testing.assert_allclose(walked(weighted)[0][1:], expected, rtol=1e-11)
    with pytest.raises(ScenarioError, match="adds 'change' to what its clients keep"):
        api.prepare(api.read(study_of(Declares, [{"name": "rand-k", "k": 2}])))


def test_losses_of_a_method_that_declares_nothing_travel_as_they_are():
    """The model of round 1 is the same, and so are the losses."""
    rows = []
    for uplink in ([], [{"name": "sign"}]):
        loop = loop_of(study_of(Chooses, uplink))
        rows.append(step(loop, loop.start()[0])[1])
    plain, signed = rows
    assert signed["least"] == plain["least"]
    assert signed["loss"] != plain["loss"]


@pytest.mark.parametrize(("wrong", "message"), [
    ("state", "mirrors 'z', which it does not keep"),
    ("vector", "'changes', which it does not upload"),
    ("factor", r"by a factor \(\d,\); give a number or \(\d, 1\)"),
    ("square", "'changes', which it does not upload"),
])  # fmt: skip
@pytest.mark.parametrize("uplink", [[TOP], []])
def test_wrong_mirrors_are_named(wrong, message, uplink):
    made = study_of(Misnames, uplink)
    made["algorithms"][0]["wrong"] = wrong
    loop = loop_of(made)
    state, _ = loop.start()
    with pytest.raises(RunFailed, match=message):
        step(loop, state)


@pytest.mark.parametrize(("name", "keys", "message"), [
    ("marina", {"uplink": [TOP]}, "'marina' needs its uploads as they are"),
    ("mifa", {"uplink": [{"name": "rand-k", "k": 2}]}, "such as top-k, or unbiased: false"),
    ("proxskip", {"downlink": ["natural"]}, "'proxskip' needs exactly what the server"),
    ("giant", {"downlink": ["natural"]}, "'giant' needs exactly what the server sends"),
    ("proxskip", {"clients": {"availability": {"name": "bernoulli", "p": 0.5}}},
     "clients: 'proxskip' needs all clients in every round, but absence or failure"),
    ("proxskip", {"participation": {"deadline_s": 9}}, "deadline_s: 'proxskip' needs all clients"),
    ({"name": "fedavg", "weights": "uniform"},
     {"aggregate": "median", "participation": {"deadline_s": 9, "late": "stale"}},
     "'median' needs vectors that count alike, but late: stale"),
    ("feddrift", {"downlink": [TOP | {"memory": "ef21"}]}, "one Ask in a round, but 'feddrift'"),
])  # fmt: skip
def test_what_a_method_needs_is_refused_with_its_reason(name, keys, message):
    method = {"name": name, "local": {"lr": 0.1}} if name == "proxskip" else name
    made = scenario(TOP, algorithms=[method])
    with pytest.raises(ScenarioError, match=message):
        api.prepare(api.read(made | {"uplink": []} | keys))


SPEEDS = {"groups": [{"ids": [1, 3], "delay": {"name": "constant", "mean_s": 3.5}}]}


def test_a_rule_takes_late_vectors_times_their_discount():
    """As a mean adds them up: the median of s(staleness_i) Delta_i."""
    fedbuff = {"name": "fedbuff", "buffer": 3, "weights": "uniform", "local": LOCAL}
    found = {}
    for rule in (None, "mean", "median"):
        made = scenario(TOP, algorithms=[fedbuff], uplink=[], clients=SPEEDS, aggregate=rule)
        loop = loop_of(made | {"rounds": 20})
        state, _ = loop.start()
        models = [state.state["x"]]
        for _ in range(20):
            state, _, events = step(loop, state)
            used = events[-1] if rule == "median" else None
            if used is not None:
                vectors = [
                    LR * gradient(i, models[v]) / np.sqrt(1 + s)
                    for i, v, s in zip(
                        used["client"], used["version"], used["staleness"], strict=True
                    )
                ]
                expected = models[-1] - np.median(vectors, axis=0)
                np.testing.assert_allclose(state.state["x"], expected, rtol=1e-11, atol=1e-13)
            models.append(state.state["x"])
        found[rule] = models
    np.testing.assert_allclose(found["mean"], found[None], rtol=1e-11, atol=1e-13)


def test_a_plain_mean_of_late_work_discounts_it():
    late = {"select": "all", "deadline_s": 1.5, "late": "stale"}
    fedavg = {"name": "fedavg", "weights": "uniform", "local": LOCAL}
    plain, mean = (
        walked(
            scenario(TOP, algorithms=[fedavg], uplink=[], clients=SPEEDS, participation=late,
                     aggregate=rule)
        )[0]
        for rule in (None, "mean")
    )  # fmt: skip
    np.testing.assert_allclose(mean, plain, rtol=1e-11, atol=1e-13)


@dataclass(frozen=True, kw_only=True)
class Twice(FedAvg):
    """A method of a user's that asks for local steps twice in a round."""

    name: ClassVar[str] = "twice"

    def round(self, state):
        x = state["x"]
        for _ in range(2):
            reply = yield Ask("train", {"x": x}, {"delta": x.size})
            x = x - reply.mean["delta"]
        return {"x": x}, {}


@pytest.mark.parametrize(("keys", "name"), [
    ({"uplink": [TOP | {"memory": "error-feedback"}]}, "'error-feedback'"),
    ({"downlink": [TOP | {"memory": "ef21"}]}, "'ef21'"),
    ({"participation": {"select": "all", "deadline_s": 1.5, "late": "stale"}}, "late: stale"),
])  # fmt: skip
def test_what_is_kept_for_one_ask_does_not_meet_a_second(keys, name):
    loop = loop_of(study_of(Twice, []) | keys)
    state, _ = loop.start()
    with pytest.raises(RunFailed, match=f"{name} is for one Ask in a round, and 'twice' asks"):
        step(loop, state)
