"""The seam: what travels is what is charged, and what scenarios say of it is checked."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from rayfed import api
from rayfed.algorithms import Algorithm, FedAvg
from rayfed.core.errors import RunFailed, ScenarioError
from rayfed.core.needs import MEAN
from rayfed.engine.loop import Loop
from rayfed.executors.serial import SerialExecutor
from rayfed.messages import Ask, Upload
from rayfed.study import expand
from tests.fakes.stepping import step

LOCAL = {"steps": 1, "batch": "full", "lr": 0.1}
TOP = {"name": "top-k", "k": 4}
P, CLIENTS = 18, 5  # 3 classes, 5 features and an intercept; float64


def scenario(mixed, *algorithms, **changes):
    made = mixed(rounds=6, algorithms=list(algorithms) or [{"name": "fedavg", "local": LOCAL}])
    made["clients"] = {"count": CLIENTS, "network": {"down_mbps": 1, "up_mbps": 0.5}}
    made["participation"] = {"select": "all"}
    return made | changes


def rows_of(made, index=0):
    """Return the rows of all rounds of a run, and its models."""
    plan = api.prepare(api.read(made))
    run, executor = plan.runs[index], SerialExecutor(plan.tables)
    executor.open(run.folder, run.setup())
    loop = Loop(run, executor)
    state, _ = loop.start()
    rows, models = [], [state.state["x"]]
    for _ in range(run.ending.rounds):
        state, row, _ = loop.step(state)
        rows.append(row)
        models.append(state.state["x"])
    return rows, models


@pytest.mark.parametrize(
    ("codec", "first", "later"),
    [
        (TOP, 35, 35),  # 4 (64 + 5) bits = 276, rounded up to bytes
        (TOP | {"memory": "error-feedback"}, 35, 35),
        (TOP | {"memory": "ef21"}, 144, 35),  # the first as it is: 18 numbers
        (TOP | {"memory": {"name": "ef21", "start": "coded"}}, 35, 35),
        (TOP | {"memory": "ef21+"}, 144, 35),  # 277 bits
        ({"name": "top-k", "k": 17, "memory": "ef21"}, 144, 147),  # 1173 bits
        ({"name": "rand-k", "k": 4}, 40, 40),  # and a seed of 8 bytes
        ("natural", 27, 27),  # 12 bits a number
        ("sign", 11, 11),  # 18 + 64 bits
        ({"name": "qsgd", "levels": 4}, 17, 17),  # 64 + 18 (1 + 3) bits
        ({"name": "power-sgd", "rank": 1}, 72, 72),  # 3 + 6 numbers
    ],
)
def test_uploads_are_charged_what_travels(mixed, codec, first, later):
    rows, _ = rows_of(scenario(mixed, uplink=[codec]))
    assert [row["bytes_up"] for row in rows] == [CLIENTS * first] + 5 * [CLIENTS * later]
    assert {row["bytes_down"] for row in rows} == {CLIENTS * 8 * P}
    seconds = np.diff([0.0, *(row["time_s"] for row in rows)])
    up = (np.array([first] + 5 * [later])) * 8 / 0.5e6
    np.testing.assert_allclose(seconds - seconds[-1], up - up[-1], atol=1e-9)


@pytest.mark.parametrize("k", [4, 17])
def test_a_first_upload_is_exact_even_if_coded_ones_are_larger(mixed, k):
    _, plain = rows_of(scenario(mixed))
    for start in ("full", "coded"):
        memory = {"name": "ef21", "start": start}
        _, found = rows_of(scenario(mixed, uplink=[{"name": "top-k", "k": k, "memory": memory}]))
        close = np.allclose(found[1], plain[1], rtol=1e-12, atol=1e-14)
        assert close is (start == "full")


def test_scalars_travel_as_they_are(mixed):
    scaffold = {"name": "fedexp", "variance_reduction": True, "local": LOCAL}
    plain, _ = rows_of(scenario(mixed, scaffold))
    coded, _ = rows_of(scenario(mixed, scaffold, uplink=[TOP]))
    saved = CLIENTS * (2 * 8 * P - 69)  # 2 x 276 bits of its two vectors; the norm is a scalar
    assert [row["bytes_up"] for row in coded] == [row["bytes_up"] - saved for row in plain]


def test_the_stages_of_an_algorithm_replace_those_of_the_study(mixed):
    made = scenario(
        mixed,
        {"name": "fedavg", "label": "study", "local": LOCAL},
        {"name": "fedavg", "label": "own", "local": LOCAL, "uplink": ["natural"]},
        {"name": "fedavg", "label": "off", "local": LOCAL, "uplink": None, "downlink": None},
        uplink=[TOP],
        downlink=["natural"],
    )
    found = [rows_of(made, index)[0][0] for index in range(3)]
    assert [row["bytes_up"] for row in found] == [CLIENTS * size for size in (35, 27, 144)]
    assert [row["bytes_down"] for row in found] == [CLIENTS * size for size in (27, 27, 144)]
    again = api.read(api.read(made).to_dict())
    assert again.to_dict() == api.read(made).to_dict()


def test_without_stages_nothing_is_recorded_that_was_not_before(mixed):
    made = scenario(mixed, {"name": "fedavg", "local": LOCAL, "uplink": []}, uplink=[TOP])
    (off, models), (bare, same) = rows_of(made), rows_of(scenario(mixed))
    assert off == bare
    np.testing.assert_array_equal(models, same)


def test_grids_address_stages(mixed):
    made = scenario(mixed, uplink=[{"name": "top-k", "share": 0.5}])
    grid = {"uplink.0.share": [0.1, 0.5], "uplink.0.memory": [None, "error-feedback"]}
    settings = expand(api.read(made | {"grid": grid}))
    assert [name for name, _ in settings][1] == "share=0.1, memory=error-feedback"
    assert [study.uplink[0].share for _, study in settings] == [0.1, 0.1, 0.5, 0.5]


def test_what_the_server_codes_is_what_clients_train_from(mixed):
    made = scenario(mixed, downlink=[TOP | {"memory": "ef21"}])
    made["problem"] |= {"test": 0.0}
    _, models = rows_of(made)
    _, plain = rows_of(scenario(mixed) | {"problem": made["problem"]})
    x, had = models[0], models[0]
    for t, found in enumerate(models[1:]):
        if t:
            lacking = x - had
            keep = np.argsort(-np.abs(lacking), kind="stable")[:4]
            had = had.copy()
            had[keep] += lacking[keep]
        x = x - _step(made, had)
        np.testing.assert_allclose(found, x, rtol=1e-12, atol=1e-12)
    assert np.abs(plain[-1] - models[-1]).max() > 1e-4


def _step(made, x):
    """Return how far one round from x moves the model, without a channel."""
    one = {key: value for key, value in made.items() if key != "downlink"}
    plan = api.prepare(api.read(one | {"rounds": 1}))
    run, executor = plan.runs[0], SerialExecutor(plan.tables)
    executor.open(run.folder, run.setup())
    loop = Loop(run, executor)
    state, _ = loop.start()
    state.state["x"].flags.writeable = True
    state.state["x"][:] = x
    return x - loop.step(state)[0].state["x"]


@pytest.mark.parametrize("start", ["full", "coded"])
def test_who_missed_rounds_downloads_what_it_lacks_or_all(mixed, start):
    memory = {"name": "ef21", "start": start}
    made = scenario(mixed, downlink=[TOP | {"memory": memory}], rounds=25)
    made["participation"] = {"cohort": 2}
    plan = api.prepare(api.read(made))
    run, executor = plan.runs[0], SerialExecutor(plan.tables)
    executor.open(run.folder, run.setup())
    loop = Loop(run, executor)
    state, _ = loop.start()
    had, sizes = {}, set()
    for round in range(1, 26):
        state, row, events = step(loop, state)
        wanted = 0
        for client in events[-1]["client"].tolist():
            first = None if start == "full" else round  # all messages so far
            missed = round - had[client] if client in had else first
            size = 144 if missed is None else min(144, -(-missed * 276 // 8))
            wanted, had[client] = wanted + size, round
            sizes.add(size)
        assert row["bytes_down"] == wanted
    assert {35, 69, 144} <= sizes


@dataclass(frozen=True, kw_only=True)
class Twice(FedAvg):
    """Asks twice in a round."""

    name: ClassVar[str] = "twice"

    def round(self, state):
        ask = Ask("train", send={"x": state["x"]}, up={"delta": state["x"].size})
        reply = yield ask
        reply = yield ask
        return {"x": state["x"] - reply.mean["delta"]}, {}


def test_a_memory_is_for_one_ask_of_a_round(mixed):
    twice = Twice(local=LOCAL | {})
    with pytest.raises(RunFailed, match="'error-feedback' is for one Ask in a round"):
        rows_of(scenario(mixed, twice, uplink=[TOP | {"memory": "error-feedback"}]))
    rows, _ = rows_of(scenario(mixed, twice, uplink=[TOP]))
    assert rows[0]["bytes_up"] == 2 * CLIENTS * 35


@dataclass(frozen=True, kw_only=True)
class Looking(FedAvg):
    """Its client function must not see what the channel keeps."""

    name: ClassVar[str] = "looking"

    def train(self, clients, x):
        assert not clients.state
        return Upload({"delta": np.zeros((len(clients.ids), x.size)) + clients.round})


def test_client_functions_do_not_see_what_the_channel_keeps(mixed):
    made = scenario(mixed, Looking(local=LOCAL), uplink=[TOP | {"memory": "error-feedback"}])
    _, models = rows_of(made)
    # 1 + 2 + ... + 6 = 21 of 18 coordinates; 4 in every round, what is left out follows
    assert (models[0] - models[-1]).sum() <= 21 * P


@pytest.mark.parametrize(
    ("codec", "size"),
    [
        ({"name": "power-sgd", "rank": 1}, 8 * (5 + 4 + 4 + 4 + 3 + 3)),
        ({"name": "top-k", "share": 0.1, "by": "layer"}, 43),  # 2, 1, 1 and 1: 338 bits
        ({"name": "top-k", "k": 1, "by": "layer"}, 34),  # 4 numbers, 5 + 2 + 4 + 2 bits of places
        ({"name": "top-k", "k": 1}, 9),  # 64 + 6 bits
    ],
)
def test_layers_are_coded_by_themselves(mixed, codec, size):
    made = scenario(mixed, uplink=[codec])
    made["problem"] |= {"name": "mlp", "hidden": [4], "l2": 0}
    made["dtype"] = "float64"
    rows, models = rows_of(made)  # weights 5 x 4 and 4 x 3, biases 4 and 3
    assert rows[0]["bytes_up"] == CLIENTS * size
    layers = np.split(np.diff(models, axis=0), [20, 24, 36], axis=1)
    if codec.get("by") == "layer":
        assert all((np.abs(layer).max(axis=1) > 0).all() for layer in layers)


RAND = {"name": "rand-k", "k": 4}
REFUSED = [
    (["natural", "qsgd"], [], "fedavg", "uplink: found 'natural' and 'qsgd'; give one codec"),
    ([TOP | {"memory": {"name": "diana", "alpha": 0.1}}], [], "fedavg",
     "uplink: 'diana' needs an unbiased codec"),
    ([RAND | {"memory": "ef21"}], [], "fedavg",
     "'ef21' needs a contractive codec, such as top-k, or unbiased: false"),
    ([{"name": "qsgd", "levels": 1, "memory": "ef21"}], [], "fedavg", "needs a contractive codec"),
    ([TOP | {"memory": "ef21"}], [], "scaffold", "'scaffold' needs the exact weighted mean"),
    ([RAND], [], "mifa", "adds 'change' to what its clients keep, which needs a contractive codec"),
    ([], [TOP | {"memory": "error-feedback"}], "fedavg",
     "downlink: 'error-feedback' is for sums over clients; give ef21"),
    ([], ["natural", "qsgd"], "fedavg", "downlink: give one codec"),
    ([], [{"name": "power-sgd", "rank": 1}], "fedavg", "keeps something with each client"),
]  # fmt: skip


@pytest.mark.parametrize(("up", "down", "name", "message"), REFUSED)
def test_what_does_not_go_together_is_one_sentence(mixed, up, down, name, message):
    made = scenario(mixed, {"name": name, "local": LOCAL}, uplink=up, downlink=down)
    with pytest.raises(ScenarioError, match=message):
        api.prepare(api.read(made))
    own = {"name": name, "local": LOCAL, "uplink": up, "downlink": down}
    with pytest.raises(ScenarioError, match=r"^algorithms\.0\.(up|down)link: "):
        api.prepare(api.read(scenario(mixed, own)))
    api.prepare(api.read(scenario(mixed, own | {"uplink": None, "downlink": None})))


def test_matrices_need_layers(mixed):
    made = scenario(mixed, uplink=[{"name": "power-sgd", "rank": 1}])
    made["problem"] = {"name": "logistic-regression", "dataset": {"name": "mushroom"}}
    with pytest.raises(ScenarioError, match="codes matrices, and the model has none"):
        api.prepare(api.read(made | {"partition": "iid"}))


def test_drift_of_sizes_goes_without_memories_at_the_server(mixed):
    made = scenario(mixed, uplink=[TOP | {"memory": "ef21"}])
    drift = {"name": "arriving", "at": 1, "over": 3}
    with pytest.raises(ScenarioError, match="needs clients of constant size, but drift"):
        api.prepare(api.read(made | {"drift": drift}))


@dataclass(frozen=True, kw_only=True)
class Fixed(Algorithm):
    """Client i sends (1, 2, 3, 4, 5, 6) times i + 1 in every round."""

    name: ClassVar[str] = "fixed"
    needs: ClassVar = Algorithm.needs - {MEAN}
    coded: ClassVar = {"v": "any"}

    def vector(self, clients, x):
        rows = (clients.ids[:, None] + 1.0) * np.arange(1, 7)
        return Upload({"v": rows}, loss=rows[:, 0])

    def round(self, state):
        yield Ask("vector", send={"x": state["x"]}, up={"v": 6})
        return {"x": state["x"]}, {}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("memory", ["error-feedback", {"name": "ef21", "start": "coded"}, "diana"])
def test_rows_tell_what_memories_left_out(mixed, memory, masked):
    """Plain loops: e of error feedback, v - g of EF21, and v - h - C of DIANA."""
    codec = {"name": "top-k", "k": 2, "memory": memory}
    if memory == "diana":  # all coordinates: what is left is nothing but what the shift lacks
        codec = {"name": "rand-k", "k": 6, "memory": {"name": "diana", "alpha": 0.5}}
    uplink = [codec, *[{"name": "secure-sum", "range": 64.0, "bits": 48}] * masked]
    made = scenario(mixed, Fixed(weights="uniform"), uplink=uplink)
    rows, _ = rows_of(made | {"evaluate": {"left_out": True}})
    v = (np.arange(CLIENTS)[:, None] + 1.0) * np.arange(1, 7)
    kept, expected = np.zeros_like(v), []
    for _ in rows:
        whole = kept + v if memory == "error-feedback" else v - kept
        sent = whole.copy()
        if memory != "diana":
            smallest = np.argsort(-np.abs(whole), axis=1, kind="stable")[:, 2:]
            np.put_along_axis(sent, smallest, 0.0, axis=1)
        kept = whole - sent if memory == "error-feedback" else kept + sent
        left = whole - sent
        expected.append(np.sqrt(np.square(left).sum(axis=1).mean()))
    found = [row["left_out"] for row in rows]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_rows_tell_what_memories_left_out_where_vectors_are_seen(mixed):
    """Sums and single vectors tell the same; the model does not move, whatever the rule makes."""
    found = []
    algorithm = {"name": "fedbuff", "buffer": 3, "weights": "uniform", "local": LOCAL}
    algorithm |= {"server_lr": 1e-300}
    for changes in ({}, {"aggregate": "median"}):
        uplink = [TOP | {"memory": "error-feedback"}]
        made = scenario(mixed, algorithm | changes, uplink=uplink, evaluate={"left_out": True})
        made["participation"] = {"cohort": 4}
        found.append([row["left_out"] for row in rows_of(made)[0]])
    assert min(found[0]) > 0
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


def test_rows_tell_nothing_of_memories_that_are_not_there(mixed):
    made = scenario(mixed, uplink=[TOP], evaluate={"left_out": True})
    assert "left_out" not in rows_of(made)[0][0]
