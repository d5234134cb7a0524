"""Gossip methods against numbers of independent programs: six nodes with 2 to 8 rows of three
features, whose values are multiples of 1/8."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from rayfed import api
from rayfed.algorithms import ChocoSGD
from rayfed.core.errors import ScenarioError
from rayfed.testing import loop

ROWS = """0 -8 4 -1 -12  0 5 3 1 6
1 4 -1 -6 2  1 0 -8 1 -2  1 -4 2 8 -6
2 -8 4 -1 16  2 5 8 -6 16  2 1 -5 6 16  2 -3 -1 1 16
3 7 2 -3 4  3 3 0 -3 8  3 -1 -2 -3 12  3 -5 -4 -3 16  3 8 -6 -3 20
4 -2 -7 5 18  4 -6 2 -7 26  4 7 -6 -2 8  4 3 3 3 16  4 -1 -5 8 24  4 -5 4 -4 6
5 -1 -6 6 32  5 -5 -3 -1 18  5 8 0 -8 30  5 4 3 2 16  5 0 6 -5 28  5 -4 -8 5 14  5 -8 -5 -2 26
5 5 -2 8 12"""
"""Client, three features and the target of each row, in eighths."""
PLAIN = np.array([0.194523937076, -0.965785319374, -0.588809216503])
"""The minimiser of the plain mean of the F_i."""
BY_SIZE = np.array([-0.0142906109104, -1.33286857442, -0.783830743899])
LOCAL = {"steps": 1, "batch": "full", "lr": 0.5}
RING, COMPLETE = {"name": "ring"}, {"name": "complete"}
UNIFORM = {"weights": "uniform"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    numbers = np.array(ROWS.split(), float).reshape(-1, 5)
    numbers[:, 1:] /= 8
    file = tmp_path_factory.mktemp("rows") / "rows.csv"
    lines = [",".join([str(int(row[0])), *map(repr, row[1:].tolist())]) for row in numbers]
    file.write_text("\n".join(["client,a0,a1,a2,y", *lines]))
    return {"name": "table", "path": str(file), "client": "client"}


def scenario(data, algorithm, topology, **more):
    problem = {"name": "least-squares", "dataset": data, "target": "y", "intercept": False}
    return {
        "name": "gossip", "rounds": 10_000, "evaluate": {"every": 10_000}, "problem": problem,
        "algorithms": [algorithm], "executor": "serial", "participation": {"select": "all"},
    } | ({"topology": topology} if topology else {}) | more  # fmt: skip


def from_file(made):
    """Return the plan of a scenario, written to a file and read again."""
    file = Path(made["problem"]["dataset"]["path"]).with_name("scenario.yaml")
    file.write_text(yaml.safe_dump(made))
    return api.prepare(api.read(file))


def after(data, algorithm, topology, steps, **more):
    """Return the model of a row, and the nodes' own models (6, 3)."""
    engine = loop(from_file(scenario(data, algorithm, topology, **more)))
    state, _ = engine.start()
    for _ in range(steps):
        state, _, _ = engine.step(state)
    nodes = np.empty((6, 3))
    for rows in engine.exchange.executor.snapshot(engine.run.folder):
        nodes[rows["ids"]] = rows.get("x", np.nan)
    return state.state["x"], nodes


def consensus(nodes, mean):
    return np.sqrt(((nodes - mean) ** 2).sum(axis=1).mean())


def close(found, *expected):
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=0)


def test_mix_first_on_a_ring(data):
    x, nodes = after(data, {"name": "d-psgd", "local": LOCAL} | UNIFORM, RING, 400)
    close(x, 0.127825695567, -1.00679784575, -0.663689919953)
    close([consensus(nodes, x)], 0.437082527998)
    np.testing.assert_allclose(nodes.mean(axis=0), x, atol=1e-15)


def test_step_first_on_a_ring(data):
    x, nodes = after(data, {"name": "dfedavg", "local": LOCAL} | UNIFORM, RING, 400)
    close(x, 0.17422859219, -1.00318419829, -0.651037620131)
    close([consensus(nodes, x)], 0.308532466335)


@pytest.mark.parametrize(
    ("name", "gap"), [("d-psgd", 0.00140205304646), ("dfedavg", 0.000585167822048)]
)
def test_gaps_of_the_mean_models(data, name, gap):
    """F at the mean of the models less F at its minimum, F the plain mean of the F_i."""
    made = scenario(data, {"name": name, "local": LOCAL} | UNIFORM, RING)
    made["problem"] = made["problem"] | {"weighting": "uniform"}
    engine = loop(from_file(made | {"evaluate": {"every": 400, "gap": True}}))
    state, _ = engine.start()
    for _ in range(400):
        state, row, _ = engine.step(state)
    assert row["loss_gap"] == pytest.approx(gap, rel=1e-10)


def test_mix_first_by_size_on_a_geometric_graph(data, tmp_path):
    """Positions are in tenths, and links reach 0.5."""
    places = np.array([(1, 1), (4, 2), (3, 6), (7, 5), (9, 8), (6, 9)]) / 10
    far = np.hypot(*(places[:, None] - places).transpose(2, 0, 1))
    u, v = np.nonzero(np.triu(far <= 0.5, 1))
    file = tmp_path / "links.csv"
    file.write_text("\n".join(["round,u,v", *(f"1,{i},{j}" for i, j in zip(u, v, strict=True))]))
    topology = {"name": "trace", "path": str(file)}
    x, nodes = after(data, {"name": "d-psgd", "local": LOCAL, "weights": "size"}, topology, 1000)
    close([consensus(nodes, x)], 0.579093399606)
    close(x, -0.0648618363484, -1.34545558364, -0.832172334785)


def test_matchings_in_turn(data, tmp_path):
    pairs = [[(0, 1), (2, 3), (4, 5)], [(1, 2), (3, 4), (0, 5)]]
    rows = [f"{k},{u},{v}" for k in range(1, 403) for u, v in pairs[(k - 1) % 2]]
    (tmp_path / "links.csv").write_text("\n".join(["round,u,v", *rows]))
    topology = {"name": "trace", "path": str(tmp_path / "links.csv"), "disconnected": "allow"}
    x, nodes = after(data, {"name": "d-psgd", "local": LOCAL} | UNIFORM, topology, 400)
    close(x, 0.127993888364, -0.994401269516, -0.651799575556)
    close([consensus(nodes, x)], 0.446495487306)


def test_diging(data):
    algorithm = {"name": "diging", "lr": 0.2} | UNIFORM
    _, nodes = after(data, algorithm, RING, 25)
    close(nodes[0], 0.233386374865, -0.686004763989, -0.349175574463)
    assert _first_within(data, algorithm) == 568


def test_extra(data):
    algorithm = {"name": "extra", "lr": 0.5} | UNIFORM
    _, nodes = after(data, algorithm, RING, 25)
    close(nodes[0], 0.209858634903, -0.923256081084, -0.543950464416)
    assert _first_within(data, algorithm) == 214


def _first_within(data, algorithm):
    """Return the first step at which all nodes are within 1e-10 of the minimiser."""
    engine = loop(from_file(scenario(data, algorithm, RING)))
    state, _ = engine.start()
    for step in range(1, 700):
        state, _, _ = engine.step(state)
        (rows,) = engine.exchange.executor.snapshot(engine.run.folder)
        if np.linalg.norm(rows["x"] - PLAIN, axis=1).max() < 1e-10:
            return step
    return None


@pytest.mark.parametrize("name", ["diging", "extra"])
def test_exact_methods_by_size(data, name):
    _, nodes = after(data, {"name": name, "lr": 0.2, "weights": "size"}, RING, 1000)
    np.testing.assert_allclose(nodes, np.tile(BY_SIZE, (6, 1)), atol=1e-10)


def test_exact_diffusion_against_a_plain_loop(data):
    """The update as Yuan et al. print it, with (I + W) / 2 of the ring."""
    _, nodes = after(data, {"name": "exact-diffusion", "lr": 0.5} | UNIFORM, RING, 12)
    numbers = np.array(ROWS.split(), float).reshape(-1, 5)
    ring = sum(np.roll(np.eye(6), shift, axis=1) for shift in (-1, 0, 1)) / 3
    lazy, x, psi = (np.eye(6) + ring) / 2, np.zeros((6, 3)), np.zeros((6, 3))
    for _ in range(12):
        g = np.empty((6, 3))
        for i in range(6):
            a, y = np.hsplit(numbers[numbers[:, 0] == i, 1:] / 8, [3])
            g[i] = (a.T @ (a @ x[i] - y[:, 0])) / len(y)
        now = x - 0.5 * g
        x, psi = lazy @ (now + x - psi), now
    np.testing.assert_allclose(nodes, x, atol=1e-13)
    x, _ = after(data, {"name": "exact-diffusion", "lr": 0.5} | UNIFORM, RING, 400)
    close(x, *PLAIN)


def test_step_first_on_the_complete_graph_is_fedavg(data):
    local = {"name": "dfedavg", "local": LOCAL, "weights": "size"}
    x, _ = after(data, local, COMPLETE, 20)
    close(x, 0.00522700761983, -1.20576893502, -0.664271670039)
    fedavg, _ = after(data, local | {"name": "fedavg"}, None, 20)
    np.testing.assert_allclose(x, fedavg, rtol=0, atol=1e-15)


def test_momentum_begins_at_zero_in_every_step(data):
    """On the complete graph DFedAvgM is FedAvg with the same local momentum."""
    local = LOCAL | {"steps": 3, "momentum": 0.9, "lr": 0.1}
    algorithm = {"name": "dfedavg", "local": local, "weights": "size"}
    x, _ = after(data, algorithm, COMPLETE, 5)
    fedavg, _ = after(data, algorithm | {"name": "fedavg"}, None, 5)
    np.testing.assert_allclose(x, fedavg, rtol=0, atol=1e-14)


def test_nodes_that_are_alone_train_alone(data, tmp_path):
    (tmp_path / "links.csv").write_text("round,u,v\n1,0,1\n1,1,2")
    topology = {"name": "trace", "path": str(tmp_path / "links.csv"), "disconnected": "allow"}
    _, nodes = after(data, {"name": "d-psgd", "local": LOCAL} | UNIFORM, topology, 60)
    numbers = np.array(ROWS.split(), float).reshape(-1, 5)
    rows = numbers[numbers[:, 0] == 5, 1:] / 8
    x = np.zeros(3)
    for _ in range(60):
        x -= 0.5 * rows[:, :3].T @ (rows[:, :3] @ x - rows[:, 3]) / len(rows)
    np.testing.assert_allclose(nodes[5], x, atol=1e-14)


ARCS = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3), (1, 4)]


def arcs_of(tmp_path, arcs, **more):
    file = tmp_path / "arcs.csv"
    file.write_text("\n".join(["round,u,v", *(f"1,{i},{j}" for i, j in arcs)]))
    return {"name": "trace", "path": str(file), "directed": True} | more


def gradients(x):
    """Return the gradients (6, 3) of the F_i at the rows of x."""
    numbers, found = np.array(ROWS.split(), float).reshape(-1, 5), np.empty((6, 3))
    for i in range(6):
        a, y = np.hsplit(numbers[numbers[:, 0] == i, 1:] / 8, [3])
        found[i] = (a.T @ (a @ x[i] - y[:, 0])) / len(y)
    return found


@pytest.mark.parametrize("weights", ["uniform", "size"])
def test_sgp_against_a_plain_loop(data, tmp_path, weights):
    """As Assran et al. print it; by size the sums are those of n_i x_i, with n_i g_i."""
    lists = {"name": "sgp", "local": LOCAL, "weights": weights}
    x, nodes = after(data, lists, arcs_of(tmp_path, ARCS), 12)
    mass = np.array([2.0, 3, 4, 5, 6, 8]) if weights == "size" else np.ones(6)
    p = np.eye(6)
    for j, i in ARCS:
        p[i, j] = 1
    p /= p.sum(axis=0)
    sums, w = np.zeros((6, 3)), mass.copy()
    for _ in range(12):
        z = sums / w[:, None]
        sums, w = p @ (sums - 0.5 * mass[:, None] * gradients(z)), p @ w
    np.testing.assert_allclose(nodes, sums / mass[:, None], atol=1e-13)
    np.testing.assert_allclose(x, sums.sum(axis=0) / mass.sum(), atol=1e-13)


def test_models_of_sgp_are_ratios(data, tmp_path):
    lists = {"name": "sgp", "local": LOCAL} | UNIFORM
    engine = loop(scenario(data, lists, arcs_of(tmp_path, ARCS)))
    state, _ = engine.start()
    for _ in range(9):
        state, _, _ = engine.step(state)
    (rows,) = engine.exchange.executor.snapshot(engine.run.folder)
    assert np.ptp(rows["w"]) > 0.5
    models = engine.run.training.algorithm.models(SimpleNamespace(state=rows), state.state["x"])
    np.testing.assert_array_equal(models, rows["x"] / rows["w"])


@pytest.mark.parametrize("weights", ["uniform", "size"])
def test_epidemic_learning_takes_the_mean_of_what_came(data, tmp_path, weights):
    lists = {"name": "epidemic", "local": LOCAL, "weights": weights}
    _, nodes = after(data, lists, arcs_of(tmp_path, ARCS), 7)
    mass = np.array([2.0, 3, 4, 5, 6, 8]) if weights == "size" else np.ones(6)
    w = np.eye(6)
    for j, i in ARCS:
        w[i, j] = 1
    w = w * mass / (w @ mass)[:, None]
    x = np.zeros((6, 3))
    for _ in range(7):
        x = w @ (x - 0.5 * gradients(x))
    np.testing.assert_allclose(nodes, x, atol=1e-14)


def test_epidemic_learning_on_regular_graphs_is_step_first(data):
    """EL-Oracle: with equal degrees the mean of what came has Metropolis weights."""
    topology = {"name": "regular", "degree": 3, "every": 1}
    lists = {"name": "epidemic", "local": LOCAL} | UNIFORM
    _, nodes = after(data, lists, topology, 9)
    _, others = after(data, lists | {"name": "dfedavg"}, topology, 9)
    np.testing.assert_allclose(nodes, others, atol=1e-14)


@pytest.mark.parametrize("name", ["d-psgd", "dfedavg", "diging", "extra", "exact-diffusion"])
def test_symmetric_weights_need_links(data, tmp_path, name):
    given = {"local": LOCAL} if name in ("d-psgd", "dfedavg") else {}
    with pytest.raises(ScenarioError, match="links in both directions, but topology has"):
        loop(scenario(data, {"name": name, **given}, arcs_of(tmp_path, ARCS)))


def test_arcs_without_return_are_refused(data, tmp_path):
    topology = arcs_of(tmp_path, ARCS[:5])
    with pytest.raises(ScenarioError, match="has no way from client 0 to some other client"):
        loop(scenario(data, {"name": "sgp", "local": LOCAL}, topology))


def test_push_needs_two_sums(data):
    with pytest.raises(ScenarioError, match="found push, whose weights at a node do not add up"):
        loop(scenario(data, {"name": "d-psgd", "local": LOCAL, "mixing": "push"}, RING))


def ring_of(mass):
    """Return the matrix of the ring of six by the rule: m_j / max(S_i, S_j), the rest at i."""
    around = sum(np.roll(mass, shift) for shift in (-1, 0, 1))
    w = np.zeros((6, 6))
    for i in range(6):
        for j in ((i - 1) % 6, (i + 1) % 6):
            w[i, j] = mass[j] / max(around[i], around[j])
        w[i, i] = 1 - w[i].sum()
    return w


def largest(v):
    """Return the coordinate that is largest in magnitude in each row, zeros elsewhere."""
    return np.where(np.abs(v) == np.abs(v).max(axis=1, keepdims=True), v, 0.0)


TOP = [{"name": "top-k", "k": 1}]


@pytest.mark.parametrize("weights", ["uniform", "size"])
@pytest.mark.parametrize("uplink", [[], TOP])
def test_choco_sgd_against_a_plain_loop(data, weights, uplink):
    """Koloskova et al. 2019, Algorithm 2: quantise, then mix; every node has all estimates."""
    lists = {"name": "choco-sgd", "gamma": 0.3, "local": LOCAL, "weights": weights}
    mean, nodes = after(data, lists, RING, 15, uplink=uplink)
    mass = np.array([2.0, 3, 4, 5, 6, 8]) if weights == "size" else np.ones(6)
    w, x, estimates = ring_of(mass), np.zeros((6, 3)), np.zeros((6, 3))
    for _ in range(15):
        x = x - 0.5 * gradients(x)
        estimates = estimates + (largest if uplink else np.asarray)(x - estimates)
        x = x + 0.3 * (w @ estimates - estimates)
    np.testing.assert_allclose(nodes, x, atol=1e-13)
    np.testing.assert_allclose(mean, mass @ x / mass.sum(), atol=1e-13)


@pytest.mark.parametrize("codec", [{"name": "rand-k", "k": 1}, {"name": "qsgd", "levels": 1}])
def test_choco_sgd_refuses_codecs_with_which_it_diverges_for_every_gamma(data, codec):
    """Estimates e <- e + Q(x - e) depart where |Q(v) - v| > |v|, whatever the mixing."""
    lists = {"name": "choco-sgd", "gamma": 0.001, "local": LOCAL}
    match = "adds 'q' to what its clients keep, which needs a contractive codec, such as top-k"
    with pytest.raises(ScenarioError, match=match):
        loop(scenario(data, lists, RING, uplink=[codec]))
    for fine in ({"name": "qsgd", "levels": 2}, {"name": "rand-k", "k": 1, "unbiased": False}):
        loop(scenario(data, lists, RING, uplink=[fine]))  # 3 / 4 of |v|^2 at most


def test_choco_sgd_without_codec_and_with_full_steps_is_dfedavg(data):
    lists = {"local": LOCAL, "weights": "size"}
    _, nodes = after(data, lists | {"name": "choco-sgd", "gamma": 1.0}, RING, 9)
    _, others = after(data, lists | {"name": "dfedavg"}, RING, 9)
    np.testing.assert_allclose(nodes, others, atol=1e-13)


def test_choco_gossip_contracts_as_its_theorem_says():
    """Theorem 2: by 1 - delta^2 omega / 82 a step, for gamma as there; the ring has delta = 1/3.

    An independent program measured 0.998063542706 a step, from a start and over a window that are
    not known. Searched without a hit to 6e-13: starts from 30 normal and uniform draws, from rows,
    means and minimisers of the nodes, gradients at 0 and unit vectors; the sum of both squares and
    the consensus distance, squared and not, measured after and between the two halves of a step;
    both orders of the halves; usual first steps up to 4000 and all last ones up to 5000.
    """
    w, omega, delta, beta = ring_of(np.ones(6)), 1 / 3, 1 / 3, 4 / 3
    rate = 1 - delta**2 * omega / 82
    assert rate == pytest.approx(0.999548328817, rel=1e-11)
    below = 16 * delta + delta**2 + 4 * beta**2 + 2 * delta * beta**2 - 8 * delta * omega
    choco = ChocoSGD(gamma=delta**2 * omega / below)
    x = np.random.default_rng(3).normal(size=(6, 3))
    state, errors = dict(choco.client_state(x)), []
    for _ in range(3000):
        nodes = SimpleNamespace(state=state, solve=lambda x: SimpleNamespace(x=x, loss=None))
        sent = choco.step(nodes)
        q = largest(sent.values["q"])
        state |= sent.state
        state["estimate"] = state["estimate"] + (q - sent.values["q"])
        state |= choco.mix(nodes, w @ q).state
        off, behind = state["x"] - x.mean(axis=0), state["x"] - state["estimate"]
        errors.append((off**2).sum() + (behind**2).sum())
    assert errors[-1] < errors[0] * rate ** (len(errors) - 1)
    np.testing.assert_allclose(state["x"].mean(axis=0), x.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("name", ["d-psgd", "dfedavg"])
def test_neighbours_mix_what_they_decode(data, name):
    """Scheme Q2-G of Koloskova et al. 2019: x_i + near(Q(x))_i - Q(x_i), which keeps the mean."""
    _, nodes = after(data, {"name": name, "local": LOCAL, "weights": "size"}, RING, 8, uplink=TOP)
    w, x = ring_of(np.array([2.0, 3, 4, 5, 6, 8])), np.zeros((6, 3))
    for _ in range(8):
        change = -0.5 * gradients(x)
        sent = x if name == "d-psgd" else x + change
        x = x + change + w @ largest(sent) - largest(sent)
    np.testing.assert_allclose(nodes, x, atol=1e-13)


def test_choco_sgd_needs_a_graph_that_stays(data):
    topology = {"name": "random", "p": 0.5, "every": 2, "disconnected": "repair"}
    with pytest.raises(ScenarioError, match="needs a graph that stays the same, but topology"):
        loop(scenario(data, {"name": "choco-sgd", "local": LOCAL}, topology))


@pytest.mark.parametrize("name", ["diging", "extra", "exact-diffusion", "sgp"])
def test_exact_messages_are_not_coded(data, name):
    given = {"local": LOCAL} if name == "sgp" else {}
    with pytest.raises(ScenarioError, match="needs its uploads as they are, but 'top-k' changes"):
        loop(scenario(data, {"name": name, **given}, RING, uplink=TOP))


@pytest.mark.parametrize("weights", ["uniform", "size"])
@pytest.mark.parametrize("name", ["d-psgd", "dfedavg", "epidemic"])
def test_absent_nodes_keep_their_models_and_weights_stay_at_home(data, name, weights):
    there = {"clients": {"availability": {"name": "bernoulli", "p": 0.6}}}
    engine = loop(scenario(data, {"name": name, "local": LOCAL, "weights": weights}, RING, **there))
    state, _ = engine.start()
    mass = np.array([2.0, 3, 4, 5, 6, 8]) if weights == "size" else np.ones(6)
    full, x, seen = ring_of(mass), np.zeros((6, 3)), set()
    for _ in range(12):
        state, _, (counted,) = engine.step(state)
        active = np.isin(np.arange(6), counted.tasks.client)
        seen.add(int(active.sum()))
        w = np.where(np.outer(active, active), full, 0)
        if name == "epidemic":
            w = np.where(w > 0, mass, 0)
            w = w / np.maximum(w.sum(axis=1, keepdims=True), 1e-9)
        else:
            w += np.diag(1 - w.sum(axis=1))
        change = -0.5 * gradients(x)
        new = w @ x + change if name == "d-psgd" else w @ (x + change * active[:, None])
        x = np.where(active[:, None], new, x)
    assert len(seen) > 3
    (rows,) = engine.exchange.executor.snapshot(engine.run.folder)
    np.testing.assert_allclose(rows["x"], x, atol=1e-13)
    np.testing.assert_allclose(state.state["x"], mass @ x / mass.sum(), atol=1e-13)


@pytest.mark.parametrize("name", ["diging", "extra", "exact-diffusion", "sgp", "choco-sgd"])
@pytest.mark.parametrize(
    "more",
    [
        {"clients": {"availability": {"name": "bernoulli", "p": 0.5}}},
        {"participation": {"select": "all", "patience_s": 3.0}},
        {"clients": {"crash": {"probability": 0.1}}},
    ],
)
def test_methods_that_need_all_messages_refuse_absence(data, name, more):
    given = {"local": LOCAL} if name in ("sgp", "choco-sgd") else {}
    with pytest.raises(ScenarioError, match="needs all clients in every round"):
        loop(scenario(data, {"name": name, **given}, RING, **more))


@pytest.mark.parametrize(
    ("place", "more"),
    [
        ("participation.cohort", {"participation": {"cohort": 3}}),
        ("participation.over_select", {"participation": {"over_select": 1.5}}),
        ("participation.late", {"participation": {"late": "stale"}}),
        ("participation.retries", {"participation": {"retries": 2}}),
        ("participation.select", {"participation": {"select": "poisson", "cohort": 3}}),
        ("uplink", {"uplink": [{"name": "top-k", "k": 1, "memory": "ef21"}]}),
        ("uplink", {"uplink": [{"name": "secure-sum", "range": 4.0}]}),
        ("downlink", {"downlink": ["natural"]}),
        ("aggregate", {"aggregate": "median"}),
        ("clients.faults.0", {"clients": {"faults": [{"name": "replay", "count": 1}]}}),
    ],
)
def test_parts_of_a_server_are_refused(data, place, more):
    with pytest.raises(ScenarioError, match="needs a server") as refused:
        loop(scenario(data, {"name": "d-psgd", "local": LOCAL} | UNIFORM, RING, **more))
    assert refused.value.place.startswith(place)


def test_a_graph_is_needed(data):
    with pytest.raises(ScenarioError, match="give a graph of clients"):
        loop(scenario(data, {"name": "d-psgd", "local": LOCAL}, None))


def test_the_bandwidth_of_a_server_is_for_methods_that_have_one(data):
    limited = {"server": {"uploads_mbps": 3}}
    gossip = {"name": "d-psgd", "local": LOCAL}
    both = {**scenario(data, gossip, RING, **limited), "algorithms": [gossip, "fedavg"]}
    api.prepare(api.read(both)).check_used()
    with pytest.raises(ScenarioError, match=r"^server: limits its bandwidth, but no algorithm"):
        api.prepare(api.read(scenario(data, gossip, RING, **limited))).check_used()


# -- faults ------------------------------------------------------------------------------------


WRONG = {
    "bit-flip": ({}, lambda v: -v),
    "scale": ({"factor": 3.0}, lambda v: 3 * v),
    "noise": ({"alone": True, "deviation": 0}, np.zeros_like),
}
"""Settings of faults, and what they send in place of v."""


def estimating(w, sees):
    """CHOCO-SGD without a codec: each node has the estimates that it was sent."""
    x, near, own = np.zeros((6, 3)), np.zeros((6, 3)), np.zeros((6, 3))
    for k in range(STEPS):
        x = x - 0.5 * gradients(x)
        q = x - own
        near, own = near + sees(w, q, k), own + q
        x = x + 0.3 * (near - own)
    return x


def stepping(w, sees):
    x = np.zeros((6, 3))
    for k in range(STEPS):
        x = sees(w, x - 0.5 * gradients(x), k)
    return x


def mixing_first(w, sees):
    x = np.zeros((6, 3))
    for k in range(STEPS):
        x = sees(w, x, k) - 0.5 * gradients(x)
    return x


STEPS = 4
PROGRAMS = {
    "d-psgd": ({"local": LOCAL}, mixing_first),
    "dfedavg": ({"local": LOCAL}, stepping),
    "choco-sgd": ({"local": LOCAL, "gamma": 0.3}, estimating),
}


@pytest.mark.parametrize("weights", ["uniform", "size"])
@pytest.mark.parametrize("fault", list(WRONG))
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_faulty_nodes_send_wrong_messages_and_keep_their_own(data, name, fault, weights):
    """Nodes 1 and 4 of the ring are faulty from the second step on."""
    (settings, program), (given, wrong) = PROGRAMS[name], WRONG[fault]
    faults = [{"name": fault, "ids": [1, 4], "start": 2} | given]
    made = {"name": name, "weights": weights} | settings
    _, nodes = after(data, made, RING, STEPS, clients={"faults": faults})
    mass = np.array([2.0, 3, 4, 5, 6, 8]) if weights == "size" else np.ones(6)
    w = ring_of(mass)

    def sees(w, v, k):
        out = np.zeros_like(v)
        for i, j in np.argwhere(w):
            lies = i != j and j in (1, 4) and k >= 1
            out[i] += w[i, j] * (wrong(v[j]) if lies else v[j])
        return out

    np.testing.assert_allclose(nodes, program(w, sees), rtol=1e-10, atol=1e-12)


def test_silent_nodes_sit_steps_out(data):
    """The weight of what does not come stays at home, and a silent node keeps its model."""
    faults = [{"name": "silent", "ids": [2], "start": 3}]
    made = {"name": "dfedavg", "local": LOCAL} | UNIFORM
    _, nodes = after(data, made, RING, 5, clients={"faults": faults})
    x = np.zeros((6, 3))
    for k in range(5):
        w, stepped = ring_of(np.ones(6)), x - 0.5 * gradients(x)
        for j in (1, 3) if k >= 2 else ():
            w[j, j], w[j, 2] = w[j, j] + w[j, 2], 0
        mixed = w @ stepped
        if k >= 2:
            mixed[2] = x[2]
        x = mixed
    np.testing.assert_allclose(nodes, x, atol=1e-14)


def test_messages_that_are_not_numbers_reach_neighbours_alone(data):
    made = {"name": "dfedavg", "local": LOCAL} | UNIFORM
    faults = [{"name": "not-a-number", "ids": [2]}]
    _, nodes = after(data, made, RING, 1, clients={"faults": faults})
    assert np.isnan(nodes).all(axis=1).tolist() == [False, True, False, True, False, False]


@pytest.mark.parametrize(
    ("name", "fault", "text"),
    [
        ("dfedavg", "replay", "needs a server, but 'dfedavg' learns without one"),
        ("dfedavg", "ipm", "needs a server, but 'dfedavg' learns without one"),
        ("diging", "silent", "all clients in every round, but absence or failure"),
        ("multi-walk", "silent", "models of the clients' own, but 'multi-walk' has no"),
    ],
)
def test_faults_without_a_meaning_are_refused(data, name, fault, text):
    faults = [{"name": fault, "count": 1}]
    with pytest.raises(ScenarioError, match=text):
        loop(scenario(data, {"name": name, "local": LOCAL}, RING, clients={"faults": faults}))
