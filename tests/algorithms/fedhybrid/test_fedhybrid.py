"""FedHybrid: rounds by hand, against Algorithm 1 in plain loops, and the published counts."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import rayfed
from rayfed import api, testing
from rayfed.algorithms import FedHybrid
from rayfed.algorithms.fedhybrid import fedhybrid
from rayfed.algorithms.fedhybrid.theorem import Merit
from rayfed.core.errors import ScenarioError
from rayfed.engine.loop import Loop
from rayfed.executors.base import merged
from rayfed.executors.serial import SerialExecutor
from rayfed.testing import answer, reply

MIXED = {
    "name": "fedhybrid", "newton": [1], "alpha_gradient": 0.5, "beta_gradient": 0.25,
    "alpha_newton": 1.0, "beta_newton": 0.125, "mu": 1.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("rounds", "x0"),
    [
        (1, 6.0),  # x = 5, 7; lambda = 0, 0
        (2, 4.0),  # x = 3, 5; lambda = 1/4, -1/4
        (3, 3.0),  # x = 2.125, 3.875; lambda = 1/2, -1/2
    ],
)
def test_a_gradient_and_a_newton_client_by_hand(line, rounds, x0):
    """r = x_i - m_i - lambda_i + x_i - x_0, M = 2; x_i and x_0 start at 10, m = 0 and 4."""
    assert line(MIXED, rounds=rounds)["fedhybrid"] == x0


def test_conjugate_gradients_do_the_same(line):
    assert line({**MIXED, "newton_solver": "cg"}, rounds=3)["fedhybrid"] == pytest.approx(3.0)


def test_inner_steps_see_the_rounds_server_and_the_dual_step_the_old_x(line):
    """Round 1, alpha = 1/4: x = 10 -> 7.5 -> 6.25, and 10 -> 8.5 -> 7.75; x_0 = 7.

    Round 2: r = 6.25 - 0.75, then 4.875 - 2.125; r = 3.75 + 0.75, then 2.625 - 0.375. The dual
    steps are 1/4 (7 - 6.25) and 1/4 (7 - 7.75) and cancel in the mean.
    """
    algorithm = {**MIXED, "newton": 0, "alpha_gradient": 0.25, "inner_steps": 2}
    assert line(algorithm, rounds=1)["fedhybrid"] == 7.0
    first = 6.25 - (6.25 - 0.75) / 4
    first -= (first + first - 7) / 4
    second = 7.75 - (3.75 + 0.75) / 4
    second -= (second - 4 + second - 7) / 4
    assert line(algorithm, rounds=2)["fedhybrid"] == (first + second) / 2


def test_it_minimises_f_where_rows_weigh_clients(line):
    x = line({**MIXED, "alpha_gradient": 0.3}, rows=(1, 3), rounds=200)["fedhybrid"]
    assert x == pytest.approx(3.0, abs=1e-9)  # 3/4 of 4; an unweighted sum has 2


def test_it_minimises_f_where_one_client_at_a_time_takes_part(line):
    one = {"participation": {"cohort": 1, "select": "uniform"}}
    x = line({**MIXED, "beta_gradient": 0.1}, rounds=200, **one)["fedhybrid"]
    assert x == pytest.approx(2.0, abs=1e-3)


def test_who_is_away_counts_with_what_it_last_sent():
    algorithm = FedHybrid()
    state = algorithm.init(np.array([1.0, 2.0]))
    changes = reply({"change": [4.0, -2.0]}, population=8)
    after, diagnostics, (ask,) = answer(algorithm, state, changes)
    assert after["x"].tolist() == [2.0, 1.5]  # two of eight changed by that on average
    assert (dict(ask.up), ask.plain) == ({"change": 2}, ("change",))
    assert diagnostics["indefinite"] == 0
    assert diagnostics["cg_residual"] == 0  # nobody solves anything


def rows_of(task):
    """Return a row for every direction of every term: least squares with just these terms."""
    values, vectors = np.linalg.eigh(task.H)
    A = np.sqrt(task.d * values)[:, :, None] * vectors.swapaxes(1, 2)
    y = np.linalg.solve(A.swapaxes(1, 2) / task.d, task.b[:, :, None])[:, :, 0]
    frame = pd.DataFrame(A.reshape(-1, task.d), columns=[f"x{j}" for j in range(task.d)])
    return frame.assign(client=np.repeat(np.arange(task.n), task.d), y=y.ravel())


def engine_on(task, tmp_path, participation, dtype="float64", **algorithm):
    rows_of(task).to_csv(tmp_path / "rows.csv", index=False)
    dataset = {"dataset": str(tmp_path / "rows.csv"), "intercept": False}
    scenario = {
        "rounds": 100, "problem": {"name": "least-squares", **dataset}, "dtype": dtype,
        "clients": {}, "participation": participation, "executor": "serial",
        "algorithms": [{"name": "fedhybrid", **algorithm}],
    }  # fmt: skip
    plan = api.prepare(api.read(scenario))
    (run,) = plan.runs
    executor = SerialExecutor(plan.tables)
    executor.open(run.folder, run.setup())
    return Loop(run, executor), executor


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_it_is_algorithm_1_whatever_the_steps_of_each_client(terms, tmp_path, solver):
    task, newton = terms(5, 3, -1.0, seed=2), np.array([False, True, True, False, False])
    primal, dual = task.rng.uniform(0.02, 0.3, (2, 5))
    engine, _ = engine_on(
        task, tmp_path, {"select": "all"}, newton=[1, 2], mu=0.7, newton_solver=solver,
        alpha_gradient=primal, alpha_newton=primal, beta_gradient=dual, beta_newton=dual,
    )  # fmt: skip
    moment, _ = engine.start()
    x, lifted, x0 = np.zeros((5, 3)), np.zeros((5, 3)), np.zeros(3)
    for _ in range(30):
        moment, _, _ = engine.step(moment)
        x, lifted, x0 = task.round(x, lifted, x0, 0.7, newton, primal, dual)
        np.testing.assert_allclose(moment.state["x"], x0, rtol=1e-9, atol=1e-10)


def test_the_server_stays_at_the_mean_however_long_it_adds_changes(terms, tmp_path):
    """In single precision, with two of six clients a round."""
    few = {"cohort": 2, "select": "uniform"}
    engine, executor = engine_on(
        terms(6, 3, -1.0, seed=4), tmp_path, few, "float32", newton=[0], mu=0.5, beta_gradient=0.05
    )
    moment, _ = engine.start()
    for _ in range(400):
        moment, _, _ = engine.step(moment)
    held = merged(executor.snapshot(engine.run.folder))
    mean = held["x"].mean(axis=0, dtype=float) - held["dual"].mean(axis=0, dtype=float) / 0.5
    np.testing.assert_allclose(moment.state["x"], mean, rtol=4 * np.finfo(np.float32).eps)


# Set-up 1' of the follow-up study, as papers and code give it: the gap falls below e^-20 in the
# iteration with this number, counted from 0, which ends round number + 1. Steps are powers of 2.
SET_UP = {
    "evaluate": {"gap": True},
    "stop": {"loss_gap": float(np.exp(-20))},
    "problem": {
        "name": "least-squares", "intercept": False, "l2": 0.01,
        "divide_by": "all-samples", "l2_per": "population", "weighting": "sum",
        "dataset": {
            "name": "fedhybrid-quadratic", "seed": 2022, "samples": 10000,
            "scale_mean": 0, "scale_sigma": 0.5, "ill_conditioned": 0,
        },
    },
    "clients": {}, "participation": {"select": "all"}, "executor": "serial", "rounds": 200,
}  # fmt: skip


@pytest.mark.parametrize(
    ("newton", "steps", "more", "count"),
    [
        ([0, 6], (2, -7, 0, -3, -5), {}, 42),
        ("all", (0, 0, 0, -3, -5), {}, 8),
        ("all", (0, 0, 0, -3, -5), {"newton_solver": "cg"}, 8),
        ([], (1, -6, 0, 0, -5), {"inner_steps": 4}, 39),
    ],
    ids=["two", "all", "all by cg", "four inner steps"],
)
def test_the_published_iterations_of_set_up_1(tmp_path, newton, steps, more, count):
    names = ("alpha_gradient", "beta_gradient", "alpha_newton", "beta_newton", "mu")
    algorithm = dict(zip(names, 2.0 ** np.array(steps), strict=True))
    made = {"algorithms": [{"name": "fedhybrid", "newton": newton, **algorithm, **more}]}
    rows = rayfed.run(SET_UP | made, out=tmp_path / "out", page=False).rounds
    assert rows["round"].iloc[-1] == count + 1


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_the_bits_do_not_depend_on_how_many_clients_are_stacked(mixed, solver):
    made = mixed(algorithms=[{"name": "fedhybrid", "newton": 6, "newton_solver": solver}])
    plan = api.prepare(api.read(made))
    (run,) = plan.runs
    models = []
    for block in (1, 7):
        executor = SerialExecutor(plan.tables)
        executor.open(run.folder, replace(run, block=block).setup())
        engine = Loop(run, executor)
        moment, _ = engine.start()
        for _ in range(6):
            moment, _, _ = engine.step(moment)
        models.append(moment.state["x"].tobytes())
    assert models[0] == models[1]


def test_no_more_hessians_are_held_than_there_is_room_for(terms, tmp_path, monkeypatch):
    task, models = terms(5, 3, -1.0, seed=3), []
    for room in (2**28, 2 * 8 * 3 * 3):  # all at once; two at a time
        monkeypatch.setattr(fedhybrid, "MOST_HESSIANS", room)
        engine, _ = engine_on(task, tmp_path, {"select": "all"}, newton=[0, 1, 3, 4, 2])
        moment, _ = engine.start()
        for _ in range(3):
            moment, _, _ = engine.step(moment)
        models.append(moment.state["x"].tobytes())
    assert models[0] == models[1]


def ask_of(**settings):
    algorithm = FedHybrid(newton=(1,), **settings)
    return next(algorithm.round(algorithm.init(np.zeros(6))))


def test_the_clock_charges_what_a_newton_step_computes():
    ids, sizes = np.arange(3), np.array([10, 10, 30])
    # p = 6: a gradient takes 4 n p = 240 operations, the Newton step of client 1 as many,
    # n p^2 = 360 for its Hessian, p^3 / 3 = 72 to factor it, 4 p^2 = 144 to use it
    passes = ask_of().passes(ids, sizes)
    np.testing.assert_allclose(passes, [1, 1 + (360 + 72 + 144) / 240, 1], rtol=1e-12)
    assert ask_of(inner_steps=4).passes(ids, sizes)[[0, 2]].tolist() == [4, 4]
    assert ask_of(newton_solver="cg", cg_steps=9).passes(ids, sizes).tolist() == [1, 11, 1]
    assert ask_of().cost == 0.0


def test_one_vector_travels_each_way_and_a_number_for_newton_clients():
    assert dict(ask_of().up) == {"change": 6, "indefinite": 1}
    assert {name: v.size for name, v in ask_of().send.items()} == {"x": 6}


def test_clients_whose_curvature_is_negative_are_counted(tmp_path):
    scenario = {
        "rounds": 2, "seeds": [1],
        "problem": {"name": "circle", "dataset": "disc"},
        "clients": {"count": 4}, "participation": {"select": "all"}, "executor": "serial",
        "algorithms": [{"name": "fedhybrid", "newton": 3, "mu": 0.1, "alpha_gradient": 0.01}],
    }  # fmt: skip
    result = rayfed.run(scenario, out=tmp_path / "out", page=False)
    rows = result.rounds
    assert rows.indefinite.iloc[1] == 3  # a small circle has most points outside
    assert np.isfinite(rows.loss).all()
    (warning,) = result.warnings
    rounds = int((rows.indefinite > 0).sum())
    assert warning.startswith(
        f"fedhybrid: in {rounds} rounds the matrix of a Newton client was not"
    )


def test_where_all_is_positive_definite_nothing_is_said():
    reported = {"indefinite": [np.nan, 0, 0], "cg_residual": [np.nan] * 3, "cg_tolerance": [1] * 3}
    assert FedHybrid().warnings({name: np.array(v) for name, v in reported.items()}) == []


@pytest.mark.parametrize(("steps", "warned"), [(1, True), (2, False)])
def test_newton_systems_that_are_not_solved_are_a_warning(tmp_path, steps, warned):
    """f_i = x'diag(1, 9)x / 2 - x'(1, 1) and mu = 1: at 0 both clients solve diag(2, 10) d = r.

    One step along r = (-1, -1) has the length 2 / 12 and leaves (1 - 2/6, 1 - 10/6), of norm
    2/3 sqrt(2); two steps solve it.
    """
    frame = pd.DataFrame({"a": [1.0, 0.0] * 2, "b": [0.0, 3.0] * 2, "y": [1.0, 1 / 3] * 2})
    frame.assign(client=[0, 0, 1, 1]).to_csv(tmp_path / "rows.csv", index=False)
    dataset = {"dataset": str(tmp_path / "rows.csv"), "intercept": False, "test": 0}
    half = {"name": "least-squares", "half": True, "divide_by": "none"}
    method = {"name": "fedhybrid", "newton": "all", "newton_solver": "cg", "cg_steps": steps}
    scenario = {
        "rounds": 1, "problem": half | dataset, "clients": {}, "executor": "serial",
        "participation": {"select": "all"}, "algorithms": [method],
    }  # fmt: skip
    result = rayfed.run(scenario, out=tmp_path / "out", page=False)
    last = result.rounds.iloc[-1]
    assert last.cg_residual == pytest.approx(2 / 3 if warned else 0, rel=1e-12, abs=1e-13)
    said = result.warnings
    line = "fedhybrid: in 1 rounds conjugate gradients ended before their tolerance"
    assert said == ((f"{line}, with a relative residual of up to 0.67",) if warned else ())


@pytest.mark.parametrize(
    ("settings", "place", "message"),
    [
        ({"alpha_newton": (0.1, 0.2)}, r"algorithms\.0\.alpha_newton", "2 steps for 4 clients"),
        ({"newton": 5}, r"algorithms\.0\.newton", "5 Newton clients of 4"),
        (
            {"newton": [0, -1]},
            r"algorithms\.0\.newton\.1",
            "found -1; it should be at least 0 or a text$",
        ),
        ({"mu": 0}, r"algorithms\.0\.mu", "found 0; it should be greater than 0"),
        (
            {"beta_newton": [1, 0]},
            r"algorithms\.0\.beta_newton\.1",
            "found 0; it should be greater",
        ),
        ({"steps": "theorem", "mu": 3.0, "beta_newton": 2.0}, "steps", "theorem and beta_newton"),
        ({"steps": "theorem", "inner_steps": 2}, "steps", "theorem and inner_steps"),
        ({"weights": "size"}, "weights", "leave it out or give uniform"),
    ],
)
def test_settings_that_do_not_go_together(mixed, settings, place, message):
    made = mixed(algorithms=[{"name": "fedhybrid", **settings}])
    made["clients"] |= {"count": 4}
    with pytest.raises(ScenarioError, match=f"{place}.*{message}"):
        api.prepare(api.read(made))


def test_an_error_says_which_of_several_it_is(mixed):
    made = mixed(algorithms=["fedavg", {"name": "fedhybrid", "newton": [99]}])
    with pytest.raises(ScenarioError, match=r"^algorithms\.1\.newton: found client 99"):
        api.prepare(api.read(made))


@pytest.mark.parametrize(
    ("problem", "settings", "message"),
    [
        ({"name": "mlp"}, {"newton": 1}, "'fedhybrid' needs Hessians, but 'mlp' gives no Hessians"),
        (
            {"name": "mlp"},
            {"steps": "theorem"},
            "steps.*no bound on the curvature of 'mlp' is known",
        ),
        (
            {"dataset": {"name": "synthetic", "features": 2500, "classes": 3, "samples": 12}},
            {"newton": 1},
            "newton_solver.*found cholesky.*7503 x 7503 takes 429 MiB; use cg",
        ),
        (
            {"l2": 0.0},
            {"steps": "theorem"},
            "steps.*client 0 has a flat direction; give problem.l2",
        ),
    ],
)
def test_problems_that_it_cannot_do(mixed, problem, settings, message):
    made = mixed(algorithms=[{"name": "fedhybrid", **settings}])
    made["problem"] |= problem
    with pytest.raises(ScenarioError, match=message):
        api.prepare(api.read(made))


def test_newton_clients_must_be_known():
    algorithm = FedHybrid(newton=3)
    with pytest.raises(ValueError, match="see `bound`"):
        next(algorithm.round(algorithm.init(np.zeros(1))))


def test_a_reply_of_all_is_the_plain_mean():
    algorithm = FedHybrid()
    changes = reply({"change": [0.2]}, weights=(1, 1, 1), population=3)
    state, _, _ = answer(algorithm, algorithm.init(np.array([0.1])), changes)
    assert state["x"] == 0.1 + 0.2
    # 0.1 + 0.2 is not 0.3 in floating point; what is missing is kept
    assert state["x"][0] + state["cut"][0] == state["x"][0]
    assert state["cut"][0] != 0


@pytest.mark.parametrize("steps", ["theorem", "given"])
def test_the_merit_function_is_measured_beside_what_is_guaranteed(terms, tmp_path, steps):
    task = terms(3, 2, -0.5, seed=6)
    engine, executor = engine_on(
        task, tmp_path, {"select": "all"}, newton=[2], mu=0.6, steps=steps, merit=True
    )
    moment, row = engine.start()
    x, dual = np.zeros((3, 2)), np.zeros((3, 2))
    found = []
    for _ in range(5):
        exact = task.merit(x, dual, moment.state["x"], 0.6)
        assert row["merit"] == pytest.approx(exact, rel=1e-7, abs=1e-9)
        found.append(row["merit"])
        moment, row, _ = engine.step(moment)
        assert row["contraction_measured"] == pytest.approx(row["merit"] / found[-1], rel=1e-12)
        held = merged(executor.snapshot(engine.run.folder))
        x, dual = held["x"], held["dual"]
    if steps == "given":
        assert np.isnan(row["contraction"])
    else:
        assert 0 < row["contraction"] < 1
        assert (np.divide(found[1:], found[:-1]) <= row["contraction"]).all()


def test_the_merit_of_a_logistic_regression_against_a_search_over_everything(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(14, 2)), columns=["a", "b"])
    frame["client"], frame["y"] = np.repeat([0, 1], [4, 10]), rng.integers(0, 2, 14)
    frame.to_csv(tmp_path / "two.csv", index=False)
    mu = 0.5
    scenario = {
        "rounds": 2, "clients": {}, "participation": {"select": "all"}, "executor": "serial",
        "problem": {
            "name": "logistic-regression", "dataset": str(tmp_path / "two.csv"),
            "l2": 0.3, "intercept": False,
        },
        "algorithms": [{"name": "fedhybrid", "newton": [0], "mu": mu, "merit": True}],
    }  # fmt: skip
    engine = testing.loop(scenario)
    moment, _ = engine.start()
    for _ in range(2):
        moment, row, _ = engine.step(moment)
    held = merged(engine.exchange.executor.snapshot(engine.run.folder))
    parts = [(g[["a", "b"]].to_numpy(), g.y.to_numpy()) for _, g in frame.groupby("client")]

    def f(i, v):  # n_i over the mean n_j times F_i
        A, y = parts[i]
        mean = np.mean(np.logaddexp(0, A @ v) - y * (A @ v)) + 0.15 * v @ v
        return len(y) / 7 * mean

    def lagrangian(both):
        z, off = both[:2], [both[:2] - both[2:4], both[:2] - both[4:]]
        return sum(f(i, z - d) + held["dual"][i] @ d + mu / 2 * d @ d for i, d in enumerate(off))

    least = minimize(lambda v: f(0, v) + f(1, v), np.zeros(2), tol=1e-12).fun
    dual = minimize(lagrangian, np.zeros(6), tol=1e-12).fun
    primal = lagrangian(np.concatenate([moment.state["x"], *held["x"]]))
    assert row["merit"] == pytest.approx(13 * (least - dual) + primal - dual, rel=1e-6)


def test_the_merit_of_separable_classes_is_found_in_a_few_dozen_sums(tmp_path, monkeypatch):
    """The infimum is at infinity: Newton steps end early, and L-BFGS took hundreds and more.

    At the start lambda = 0 and x_i = x_0, so that g = F* = 0 and Delta = L = 3 log 3.
    """
    scenario = {
        "rounds": 1, "clients": {"count": 3}, "participation": {"select": "all"},
        "problem": {
            "name": "softmax-regression",
            "dataset": {
                "name": "synthetic", "seed": 1, "features": 2, "classes": 3, "samples": 9,
            },
        },
        "algorithms": [{"name": "fedhybrid", "merit": True}], "executor": "serial",
    }  # fmt: skip
    asked, whole = [], Merit.envelope

    def envelope(merit, clients, z):
        asked.append(z)
        return whole(merit, clients, z)

    monkeypatch.setattr(Merit, "envelope", envelope)
    (run,) = (plan := api.prepare(api.read(scenario))).runs
    executor = SerialExecutor(plan.tables)
    executor.open(run.folder, run.setup())
    _, row = Loop(run, executor).start()
    assert row["merit"] == pytest.approx(3 * np.log(3), rel=1e-10)
    assert len(asked) < 50


def test_there_is_no_merit_where_the_optimum_is_not_known(tmp_path):
    scenario = {
        "rounds": 1, "problem": {"name": "circle", "dataset": "disc"}, "clients": {"count": 3},
        "algorithms": [{"name": "fedhybrid", "merit": True}], "executor": "serial",
    }  # fmt: skip
    assert rayfed.run(scenario, out=tmp_path / "out", page=False).rounds.merit.isna().all()
