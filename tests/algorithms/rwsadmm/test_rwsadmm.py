"""RWSADMM: its x-step by brute force, what it becomes without room, and what room brings."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar

import rayfed
from rayfed import api
from rayfed.algorithms.rwsadmm import RWSADMM
from rayfed.clients.solvers import SGD
from rayfed.core.errors import ScenarioError
from rayfed.testing import answer, points, reply

ONE = {"steps": 1, "batch": "full"}


def kept(targets, x, z, steps=1, **more):
    """Clients with F_j(x) = (x - m_j)^2 / 2, at models x and with multipliers z (K,)."""
    return points(targets, solver=SGD(steps=steps, batch="full"), state={"x": x, "z": z, **more})


def soft(w, width):
    return np.sign(w) * np.maximum(np.abs(w) - width, 0)


def test_the_x_step_is_the_minimiser_of_its_sub_problem():
    rng = np.random.default_rng(0)
    k, beta, room, y = 1000, 7.0, 0.3, 0.4
    m, x0, z0 = rng.standard_normal((3, k)) * [[2], [1], [3]]
    after = RWSADMM(beta=beta, epsilon=room).walk(kept(m, x0, z0), np.array([y])).state["x"][:, 0]
    g = x0 - m

    def value(x):
        """The linearised F_j, and beta / 2 times the squared distance of the constraint."""
        outside = np.maximum(np.abs(y - x + z0 / beta) - room, 0)
        return g * x + beta / 2 * outside**2

    grid = after + np.linspace(-5, 5, 2001)[:, None]
    assert (value(after) <= value(grid).min(axis=0) + 1e-9).all()
    # and nothing else is: a hundredth to either side is worse
    for way in (-0.01, 0.01):
        assert (value(after) < value(after + way)).all()


def test_two_steps_by_hand():
    # m = 5, x = 1, z = 2, y = 0, beta 2, room 1/2, kappa 1/2. g = -4: x <- 0 + 1 + 2 + 1/2 = 3.5;
    # z <- 2 + (S(2 - 7) - 2) / 2 with S(-5) = -4: z = -1. g = -1.5: x <- -0.5 + 0.75 + 0.5 = 0.75;
    # z <- -1 + (S(-1 - 1.5) + 1) / 2 with S(-2.5) = -1.5: z = -1.25.
    method = RWSADMM(beta=2.0, epsilon=0.5, kappa=0.5)
    one = np.ones(1)
    upload = method.walk(kept(5 * one, one, 2 * one, steps=2), np.zeros(1))
    assert upload.state["x"].item() == pytest.approx(0.75, rel=1e-14)
    assert upload.state["z"].item() == pytest.approx(-1.25, rel=1e-14)
    # x - z / beta + room sgn(z): 0.75 + 0.625 - 0.5 = 0.875, before 1 - 1 + 0.5
    assert upload.values["change"].item() == pytest.approx(0.875 - 0.5, rel=1e-14)
    assert upload.values["distance"].item() == pytest.approx(0.75, rel=1e-14)


def test_two_steps_down_by_hand():
    # m = 5, x = 1, z = 2, y = 0, beta 2, room 1/2, kappa 1/2. g = -4, S(2 - 2) = 0: x <- 1 + 2 = 3;
    # z <- 2 + (S(2 - 6) - 2) / 2 with S(-4) = -3: z = -1/2. g = -2, S(-1/2 - 6) = -5.5:
    # x <- 3 - (-2 + 5.5) / 2 = 1.25; z <- -1/2 + (S(-1/2 - 2.5) + 1/2) / 2 = -1/2 + (-2 + 1/2) / 2.
    method = RWSADMM(beta=2.0, epsilon=0.5, kappa=0.5, formulation="descent")
    one = np.ones(1)
    clients = kept(5 * one, one, 2 * one, steps=2, part=0.25 * one)
    upload = method.walk(clients, np.zeros(1))
    assert upload.state["x"].item() == pytest.approx(1.25, rel=1e-14)
    assert upload.state["z"].item() == pytest.approx(-1.25, rel=1e-14)
    # the part is y - S(-1.25 - 2.5) / 2 = 2.75 / 2, before it was 1/4
    assert upload.state["part"].item() == pytest.approx(1.375, rel=1e-14)
    assert upload.values["change"].item() == pytest.approx(1.125, rel=1e-14)


def test_two_steps_as_printed_by_hand():
    # m = 5, x = 1, z = 2, y = 2, beta 2, room 1/2, kappa 1/4: s = 1 and g = -4, so
    # x <- 2 + (2 - 1/2 + 4) / 2 = 4.75; z <- 2 + 1/4 * 2 (2.75 - 1/2) = 3.125. Now s = -1,
    # g = -1/4: x <- 2 - (3.125 - 1/2 + 1/4) / 2 = 0.5625; z <- 3.125 + (1.4375 - 0.5) / 2 = 3.59375
    method = RWSADMM(beta=2.0, epsilon=0.5, kappa=0.25, formulation="printed")
    one = np.ones(1)
    upload = method.walk(kept(5 * one, one, 2 * one, steps=2), 2 * one)
    assert upload.state["x"].item() == pytest.approx(0.5625, rel=1e-14)
    assert upload.state["z"].item() == pytest.approx(3.59375, rel=1e-14)
    # x - (z / beta + room) s, with s = 1 before and after
    assert upload.values["old"].item() == pytest.approx(1 - 1.5, rel=1e-14)
    assert upload.values["new"].item() == pytest.approx(0.5625 - 1.796875 - 0.5, rel=1e-14)


def test_two_steps_of_the_released_code_by_hand():
    # m = 5, x = 1, z = 2, token = 2, beta 2, room 1/2, M 4, kappa 1/4, halved by every step.
    # g = -4: x <- 2 - (-4 - 2 + 1/2) / 2 = 4.75; z <- 2 + 1/4 * 2 (4.75 - 2 - 1/2) = 3.125;
    # x - z / beta goes from 0 to 3.1875, the token to 2.796875. g = -1/4:
    # x <- 2.796875 - (-1/4 - 3.125 + 1/2) / 2; z <- 3.125 + 1/8 * 2 (4.234375 - 2.796875 - 1/2).
    method = RWSADMM(
        beta=2.0, epsilon=0.5, kappa=0.25, kappa_decay=0.5, users=4, formulation="released-code"
    )
    one = np.ones(1)
    upload = method.walk(kept(5 * one, one, 2 * one, steps=2), 2 * one)
    assert upload.state["x"].item() == pytest.approx(4.234375, rel=1e-14)
    assert upload.state["z"].item() == pytest.approx(3.359375, rel=1e-14)
    assert upload.values["mean"].item() == upload.state["x"].item()


@pytest.mark.parametrize("formulation", ["sound", "descent"])
def test_bits_do_not_depend_on_who_else_is_there(formulation):
    m, x, z, part = np.random.default_rng(1).standard_normal((4, 7))
    method = RWSADMM(beta=3.0, epsilon=0.2, kappa=0.7, formulation=formulation)
    work, y = method.walk, np.array([0.1])
    stack = work(kept(m, x, z, steps=3, part=part), y)
    for k in range(7):
        alone = work(kept(m[k:][:1], x[k:][:1], z[k:][:1], steps=3, part=part[k:][:1]), y)
        for name, rows in alone.state.items():
            assert rows.tobytes() == stack.state[name][k].tobytes()
        assert alone.values["change"].tobytes() == stack.values["change"][k].tobytes()


@pytest.fixture
def study(tmp_path):
    """Clients with F_j(x) = ||x - c_j||^2 / 2 in five dimensions: 20, eight of them a round."""
    centres = np.random.default_rng(0).standard_normal((20, 5))

    def run(rounds, scenario_keys=None, clients=20, **settings):
        rows = pd.DataFrame(np.tile(np.eye(5), (clients, 1)), columns=list("abcde"))
        rows["client"], rows["y"] = np.repeat(np.arange(clients), 5), centres[:clients].ravel()
        rows.to_csv(tmp_path / "centres.csv", index=False)
        scenario = {
            "rounds": rounds,
            "problem": {
                "name": "least-squares", "half": True, "divide_by": "none", "intercept": False,
                "weighting": "uniform", "dataset": str(tmp_path / "centres.csv"), "test": 0,
            },
            "clients": {},
            "participation": {"cohort": 8},
            "evaluate": {"every": rounds},
            "algorithms": [{"name": "rwsadmm", "local": ONE, **settings}],
            "executor": "serial",
        } | (scenario_keys or {})  # fmt: skip
        return rayfed.run(scenario, out=tmp_path / "out")

    return centres, run


def test_without_room_it_is_walkman_and_finds_the_consensus(study):
    centres, run = study
    result = run(700, epsilon=0.0, beta=10.0)
    assert np.abs(result.model("rwsadmm-seed0") - centres.mean(axis=0)).max() < 1e-12
    assert result.rounds.token_distance.iloc[-1] < 1e-12


@pytest.mark.parametrize("formulation", ["sound", "descent"])
def test_walking_around_a_ring_it_finds_the_consensus(study, formulation):
    centres, run = study
    rule = {"name": "metropolis", "lazy": 0.1}
    walk = {"topology": "ring", "participation": {"select": {"name": "walk", "rule": rule}}}
    result = run(600, walk, clients=6, formulation=formulation, beta=6.0)
    mean = centres[:6].mean(axis=0)
    assert np.abs(result.model("rwsadmm-seed0") - mean).max() < 1e-12
    assert result.rounds.participants.dropna().iloc[1:].unique().tolist() == [3]


def test_going_down_ends_in_the_least_loss_that_the_room_allows(study):
    centres, run = study
    result = run(500, formulation="descent", epsilon=0.5, beta=6.0)

    def least(c):  # of a coordinate: x_j is as near to c_j as the room around y allows
        def loss(y):
            return np.mean(np.maximum(np.abs(c - y) - 0.5, 0) ** 2) / 2

        return minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-9}).fun

    known = sum(least(c) for c in centres.T)
    assert result.rounds.personal_loss.iloc[-1] == pytest.approx(known, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_the_lagrangian_that_it_goes_down_is_measured(study, epsilon):
    centres, run = study
    settings = {"formulation": "descent", "epsilon": epsilon, "beta": 6.0, "watch": True}
    rows = run(300, {"evaluate": {"every": 1}}, **settings).rounds
    squares = np.sum(centres**2)
    # at first x_j = y = z_j = 0: the mean loss, and gradients -c_j in x_j alone
    assert rows.lagrangian[0] == pytest.approx(squares / 40, rel=1e-12)
    assert rows.stationarity[0] == pytest.approx(squares**0.5, rel=1e-12)
    assert rows.stationarity_best.tolist() == np.minimum.accumulate(rows.stationarity).tolist()
    assert rows.stationarity.diff().max() > 0  # else that would say nothing
    assert (rows.beta_bound == 5.0).all()  # 2 L^2 + L + 2 with L = 1, below beta
    known = rows.lagrangian[20:]  # everybody has been asked
    # steps along gradients at the last x_j may raise it, by a second difference of x_j
    assert np.diff(known).max() < 1e-5 * (known.iloc[0] - known.iloc[-1])
    assert rows.stationarity.iloc[-1] < 1e-3 * rows.stationarity[0]
    assert known.iloc[-1] == pytest.approx(rows.personal_loss.iloc[-1], rel=1e-6)


def test_what_is_watched_needs_a_lagrangian_and_all_clients(study):
    _, run = study
    with pytest.raises(ScenarioError, match="watch: found true, but 'printed' follows from no"):
        RWSADMM(formulation="printed", watch=True)
    rows = run(1, {"evaluate": {"clients": 5}}, watch=True).rounds
    assert rows[["lagrangian", "stationarity"]].isna().all(axis=None)


def test_room_lets_models_differ_about_so_much_and_lowers_their_losses(study):
    centres, run = study
    result = run(300, epsilon=0.1, beta=10.0)
    consensus = 0.5 * np.mean(np.sum((centres - centres.mean(axis=0)) ** 2, axis=1))
    last = result.rounds.iloc[-1]
    # An independent implementation of these updates went from 2.242 to 1.872 (centres from NumPy's
    # default generator, seed 0).
    assert consensus == pytest.approx(2.242, abs=5e-4)
    assert last.personal_loss == pytest.approx(1.872, abs=5e-3)
    assert last.loss == pytest.approx(consensus, rel=1e-3)
    # five coordinates at the edge of the room: 0.1 sqrt(5), and a little beyond
    assert 0.9 * 0.1 * 5**0.5 < last.token_distance < 1.2 * 0.1 * 5**0.5


def test_the_printed_formulas_diverge_though_beta_is_above_its_bound(study):
    _, run = study
    loss = run(300, formulation="printed", epsilon=0.1, beta=10.0).rounds.loss.dropna()
    assert loss.iloc[-1] > 1e6 * loss.iloc[0]


def test_the_released_code_holds_clients_at_their_anchor(study):
    # its multipliers freeze, and a step moves a client by its gradient over beta
    centres, run = study
    settings = {"beta": 100.0, "epsilon": 1e-5, "kappa": 1e-3, "kappa_decay": 0.95, "users": 8}
    result = run(300, formulation="released-code", **settings)
    apart = result.rounds.token_distance.iloc[-1]
    assert apart < 1.5 * np.sqrt(np.sum(centres**2, axis=1)).mean() / 100
    assert apart > 0


def test_every_client_may_have_a_room_of_its_own(study):
    _, run = study
    rooms = [0.0] * 10 + [0.2] * 10
    clients = run(200, epsilon=rooms, beta=10.0).clients.set_index("client")
    same = run(200, epsilon=0.0, beta=10.0).clients.set_index("client")
    assert (clients.loss[10:] < same.loss[10:]).all()
    with pytest.raises(ScenarioError, match="found 2 widths for 20 clients; give one for each"):
        run(1, epsilon=[0.1, 0.2])


def test_local_steps_that_would_not_be_its_own_are_refused(study):
    _, run = study
    with pytest.raises(ScenarioError, match="'rwsadmm' brings its own: leave them out"):
        run(1, local={**ONE, "momentum": 0.9})


@pytest.mark.parametrize(("clients", "features", "rows"), [
    (1_000_000, 3, None), (20, 784, None), (20, 60, 1_000_000),
])  # fmt: skip
def test_a_bound_that_would_take_long_is_looked_for_only_where_that_is_asked(
    clients, features, rows
):
    class Shards:  # whose rows must not be read, of the many not even their numbers
        def sizes(self, ids):
            return np.full(len(ids), rows)

    Shards.clients, Shards.features = clients, features
    examiner = RWSADMM().examiner.bound(Shards(), None, None)
    assert np.isnan(examiner.beta_bound)


@pytest.mark.parametrize("formulation", ["printed", "released-code"])
def test_what_the_theory_is_not_about_has_no_bound(formulation):
    assert RWSADMM(formulation=formulation).examiner is None


def test_the_bound_is_that_of_the_most_curved_client(tmp_path):
    rows = "".join(f"{k},{k + 1},1\n" for k in range(70))  # F'' are 1, 4, ..., 4900
    (tmp_path / "rows.csv").write_text(f"client,a,y\n{rows}")
    problem = {
        "name": "least-squares", "half": True, "divide_by": "none", "intercept": False,
        "dataset": str(tmp_path / "rows.csv"), "test": 0,
    }  # fmt: skip
    one = {"name": "rwsadmm", "local": ONE}
    keys = {"rounds": 1, "clients": {}, "problem": problem, "algorithms": [one]}
    (run,) = api.prepare(api.read(keys)).runs
    assert run.measuring.examiner.beta_bound == pytest.approx(2 * 4900**2 + 4900 + 2)


def test_as_printed_the_token_loses_the_sum_of_what_was():
    # y = 1, and two of four answer with means 0.6 and 0.2: 1 + 2 * 0.6 / 4 - 2 * 0.2
    sums = reply({"new": [0.6], "old": [0.2]}, each={"distance": [1.0, 1.0]}, population=4)
    state, _, _ = answer(RWSADMM(formulation="printed"), {"x": np.ones(1)}, sums)
    assert state["x"] == pytest.approx(0.9)


@pytest.mark.parametrize("formulation", ["sound", "descent"])
def test_who_begins_at_the_minimum_stays_there(formulation):
    method, three = RWSADMM(formulation=formulation), np.full(1, 3.0)
    upload = method.walk(kept(three, **method.client_state(three)), three)
    assert upload.values["change"].item() == 0


def around(client, count):
    """A client of a ring and those beside it."""
    return [(client - 1) % count, client, (client + 1) % count]


def neighbourhoods(centres, way, beta, room, kappa, setting):
    """Walk with a y_i for each client of a ring, as a plain loop; return x (N, p) and y (N, p).

    `setting` gives y_i from itself and the parts x_j - z_j / beta + room sgn(z_j) of those around,
    before and after the step.
    """
    x, z, y = (np.zeros_like(centres) for _ in range(3))
    for here in way:
        for_all = around(here, len(centres))
        before = x[for_all] - z[for_all] / beta + room * np.sign(z[for_all])
        g = x[for_all] - centres[for_all]
        x[for_all] = y[here] + z[for_all] / beta - g / beta - room * np.sign(g)
        pull = soft(z[for_all] + beta * (y[here] - x[for_all]), beta * room)
        z[for_all] += kappa * (pull - z[for_all])
        after = x[for_all] - z[for_all] / beta + room * np.sign(z[for_all])
        y[here] = setting(y[here], before, after)
    return x, y


def to_mean(y, before, after):
    return after.mean(axis=0)


def walk_on_a_ring(**keys):
    rule = {"name": "metropolis", "lazy": 0.1}
    return {"topology": "ring", "participation": {"select": {"name": "walk", "rule": rule}}} | keys


@pytest.mark.parametrize(("room", "kappa"), [(0.0, 1.0), (0.3, 0.5)])
def test_every_neighbourhood_may_have_a_token_of_its_own(study, room, kappa):
    centres, run = study
    settings = {"epsilon": room, "kappa": kappa, "beta": 6.0, "tokens": "neighbourhood"}
    result = run(80, walk_on_a_ring(), clients=6, **settings)
    way = result.rounds.position.dropna().astype(int)
    assert way.nunique() == 6
    x, y = neighbourhoods(centres[:6], way, 6.0, room, kappa, to_mean)
    assert result.model("rwsadmm-seed0") == pytest.approx(y.mean(axis=0), abs=1e-12)
    losses = np.sum((x - centres[:6]) ** 2, axis=1) / 2
    assert result.rounds.personal_loss.iloc[-1] == pytest.approx(losses.mean(), rel=1e-12)
    # the distance is told from the token as it was fetched
    _, fetched = neighbourhoods(centres[:6], way[:-1], 6.0, room, kappa, to_mean)
    here = way.iloc[-1]
    apart = np.sqrt(np.sum((x - fetched[here]) ** 2, axis=1))[around(here, 6)]
    assert result.rounds.token_distance.iloc[-1] == pytest.approx(apart.mean(), rel=1e-12)


def test_tokens_that_moved_by_changes_would_be_driven_apart():
    # why a neighbourhood's token is set to the mean of its parts
    centres = np.random.default_rng(0).standard_normal((6, 5))
    way = np.cumsum(np.random.default_rng(1).integers(-1, 2, 600)) % 6

    def by_changes(y, before, after):
        return y + (after - before).mean(axis=0)

    _, driven = neighbourhoods(centres, way, 6.0, 0.0, 1.0, by_changes)
    _, held = neighbourhoods(centres, way, 6.0, 0.0, 1.0, to_mean)
    assert np.abs(driven).max() > 1e6
    assert np.abs(held).max() < 3 * np.abs(centres).max()


def test_going_down_may_have_a_token_for_each_neighbourhood(study):
    # a server that stays is in one neighbourhood for good: its token is the minimum there
    centres, run = study
    keys = walk_on_a_ring()
    keys["participation"]["select"] |= {
        "start": 2,
        "rule": {"name": "metropolis", "lazy": 1 - 1e-12},
    }
    settings = {"formulation": "descent", "beta": 6.0, "tokens": "neighbourhood"}
    result = run(400, keys, clients=6, **settings)
    mean = centres[1:4].mean(axis=0)
    assert result.model("rwsadmm-seed0") * 6 == pytest.approx(mean, abs=1e-12)  # others stay at 0


def test_tokens_of_neighbourhoods_may_walk_where_others_would_draw(study):
    _, run = study
    rows = run(1, {"topology": "ring"}, tokens="neighbourhood", select="walk").rounds
    assert rows.participants.iloc[-1] == 3


def test_a_neighbourhoods_token_costs_two_models_more(study):
    _, run = study
    moves = [run(5, walk_on_a_ring(), clients=6, tokens=t).rounds for t in ("one", "neighbourhood")]
    one, each = (rows.iloc[-1] for rows in moves)
    model = 5 * 8
    assert one.bytes_up == 3 * (model + 8)
    assert (each.bytes_up, each.bytes_down) == (one.bytes_up + model, one.bytes_down + model)
    assert each.participants == one.participants == 3


def test_where_the_visited_client_is_away_its_token_is_too(study):
    _, run = study
    away = {"name": "cyclic", "groups": 3, "rounds": 1}
    keys = walk_on_a_ring(clients={"availability": away})
    rows = run(30, keys, clients=6, tokens="neighbourhood").rounds.iloc[1:]
    absent = rows[rows.participants == 0]
    assert 0 < len(absent) < 30
    assert (absent.bytes_up == 0).all()


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({}, r"algorithms.0: 'rwsadmm' asks whom its server visits; found 'uniform', which visits"),
        ({"watch": True}, "tokens: found neighbourhood with watch: true, which knows one token"),
        ({"formulation": "released-code"}, "tokens: found neighbourhood with 'released-code'"),
    ],
)
def test_tokens_that_cannot_be_kept_are_one_clear_line(study, settings, line):
    _, run = study
    with pytest.raises(ScenarioError, match=line):
        run(1, tokens="neighbourhood", **settings)


@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize(("beta", "warned"), [(5.0, True), (5.1, False)])
def test_a_beta_that_is_not_above_its_bound_is_a_warning(study, beta, warned, watch):
    _, run = study
    result = run(2, beta=beta, epsilon=0.0, watch=watch)
    assert ("beta_bound" in result.rounds) == watch
    told = json.loads((result.folder / "rwsadmm-seed0" / "run.json").read_text())
    line = "rwsadmm: beta 5 is not above 2 L^2 + L + 2 = 5, as the theory asks"  # L = 1
    assert told["warnings"] == ([line] if warned else [])
