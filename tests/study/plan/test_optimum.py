"""F* and x* against methods that share nothing with them, and what theory says of distances."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.datasets import Quadratics
from rayfed.datasets.base import Source
from rayfed.study.plan import optimum as search

CLIENT = np.repeat([0, 1, 2], [4, 9, 6])
N, SIZES = 3, np.array([4.0, 9.0, 6.0])
L2 = 0.05


@pytest.fixture(scope="module")
def data():
    """Return features (19, 3) with very different scales, and numbers to predict."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(19, 3)) * [1.0, 10.0, 0.1]
    return X, X @ [2.0, -0.3, 5.0] + 1.5 + rng.normal(size=19)


@pytest.fixture
def scenario(data, tmp_path):
    """Return a function that makes a scenario on these rows."""
    X, y = data

    def make(name, **keys):
        target = (y > 1.5).astype(int) if name != "least-squares" else y
        frame = pd.DataFrame(X, columns=list("abc")).assign(client=CLIENT, y=target)
        frame.to_csv(tmp_path / "rows.csv", index=False, float_format="%.17g")
        return {
            "rounds": 1,
            "evaluate": {"gap": True},
            "problem": {"name": name, "dataset": str(tmp_path / "rows.csv"), "l2": L2, **keys},
            "clients": {},
            "algorithms": ["fedavg"],
            "executor": "serial",
        }

    return make


def found_in(scenario):
    """Return the optimum as a plan finds it."""
    (run,) = api.prepare(api.read(scenario)).runs
    return run.measuring.optimum


def optimum(scenario):
    """Return F*."""
    return found_in(scenario).value


def shares(divide_by, l2_per, weighting):
    """Return the weight of each row in F (19,), and the coefficient of half ||x||^2."""
    D = {"samples": SIZES, "all-samples": np.full(N, 19.0), "none": np.ones(N)}[divide_by]
    l2 = L2 / {"client": np.ones(N), "population": np.full(N, 3.0), "sample": SIZES}[l2_per]
    w = {"size": SIZES / 19, "uniform": np.ones(N) / N, "sum": np.ones(N)}[weighting]
    return (w / D)[CLIENT], w @ l2


EVERY = list(
    itertools.product(
        ("samples", "all-samples", "none"),
        ("client", "population", "sample"),
        ("size", "uniform", "sum"),
    )
)


@pytest.mark.parametrize("keys", EVERY, ids="-".join)
def test_ridge_regression_by_the_normal_equations(data, scenario, keys):
    rows, ridge = shares(*keys)
    A, y = np.column_stack([data[0], np.ones(19)]), data[1]
    x = np.linalg.solve(A.T @ (rows[:, None] * A) + ridge * np.eye(4), A.T @ (rows * y))
    best = 0.5 * rows @ (A @ x - y) ** 2 + ridge / 2 * x @ x
    names = ("divide_by", "l2_per", "weighting")
    found = optimum(scenario("least-squares", **dict(zip(names, keys, strict=True))))
    assert found == pytest.approx(best, rel=1e-11)


def test_an_intercept_that_is_spared(data, scenario):
    A, y = np.column_stack([data[0], np.ones(19)]), data[1]
    R = L2 * np.diag([1.0, 1.0, 1.0, 0.0])
    x = np.linalg.solve(A.T @ A / 19 + R, A.T @ y / 19)
    best = 0.5 * np.mean((A @ x - y) ** 2) + x @ R @ x / 2
    found = optimum(scenario("least-squares", regularise_intercept=False))
    assert found == pytest.approx(best, rel=1e-11)


def test_logistic_regression_by_an_independent_minimisation(data, scenario):
    A, y = np.column_stack([data[0], np.ones(19)]), (data[1] > 1.5).astype(float)

    def F(x):  # noqa: N802 - as in the formulas
        z = A @ x
        return np.mean(np.log1p(np.exp(-np.abs(z))) + np.maximum(z, 0) - y * z) + L2 / 2 * x @ x

    best = min(
        minimize(F, start, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-15,
                                                           "maxiter": 20000, "maxfev": 20000}).fun
        for start in (np.zeros(4), np.ones(4))
    )  # fmt: skip
    found = optimum(scenario("logistic-regression"))
    assert found == pytest.approx(best, abs=1e-12)


def test_softmax_with_two_classes_is_logistic_with_half_the_l2(scenario):
    """Of all x_1 - x_0 = z the least ||x_0||^2 + ||x_1||^2 is ||z||^2 / 2."""
    softmax = optimum(scenario("softmax-regression", l2=2 * L2))
    assert softmax == pytest.approx(optimum(scenario("logistic-regression")), abs=1e-12)


def test_float32_is_measured_in_float32(scenario):
    """The gap is that of the losses as they are computed, not negative by rounding of the data."""
    one = optimum(scenario("least-squares"))
    two = optimum(scenario("least-squares") | {"dtype": "float32"})
    assert two != one
    assert two == pytest.approx(one, rel=1e-5)


def test_a_sample_of_clients_cannot_tell(scenario):
    made = scenario("least-squares") | {"evaluate": {"gap": True, "clients": 2}}
    with pytest.raises(ScenarioError, match=r"evaluate\.gap: needs `evaluate.clients: all`"):
        optimum(made)


def test_it_is_not_computed_unless_something_asks(scenario):
    made = scenario("least-squares")
    assert found_in(made | {"evaluate": {}}) is None
    assert found_in(made | {"evaluate": {}, "stop": {"loss_gap": 0.1}}).least is None
    assert found_in(made | {"evaluate": {"measures": ["skew"]}}).least is not None


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"evaluate": {"gap": True}}, "evaluate.gap"),
        ({"evaluate": {"measures": ["distance"]}}, "evaluate.measures.0"),
        ({"evaluate": {}, "stop": {"loss_gap": 0.1}}, "stop.loss_gap"),
    ],
)
def test_a_problem_that_is_not_convex_is_refused_by_the_key_that_asks(scenario, keys, place):
    made = scenario("mlp", l2=0) | keys
    with pytest.raises(ScenarioError, match=f"{place}: .* needs a known optimum, but 'mlp'"):
        found_in(made)


def test_measures_that_can_do_without_it_are_not_refused(scenario):
    asked = {"measures": ["heterogeneity", "skew"]}
    assert found_in(scenario("mlp", l2=0) | {"evaluate": asked}) is None
    assert found_in(scenario("least-squares") | {"evaluate": asked | {"clients": 2}}) is None


def test_it_is_computed_once_for_all_algorithms_of_a_seed(scenario):
    made = scenario("least-squares") | {"algorithms": ["fedavg", "fedexp", "centralised"]}
    one, two, three = api.prepare(api.read(made)).runs
    assert one.measuring.optimum is two.measuring.optimum is three.measuring.optimum


def test_quadratics_have_their_optimum_in_closed_form():
    table = Quadratics(seed=2).load(Source.here(), 0)
    found = found_in({
        "rounds": 1, "evaluate": {"measures": ["heterogeneity"]}, "executor": "serial",
        "problem": {"name": "quadratic", "dataset": {"name": "quadratic", "seed": 2}},
        "clients": {"count": 30}, "algorithms": ["fedavg"],
    })  # fmt: skip
    best = (table.mass @ table.X) / (table.mass @ table.y)
    assert found.x == pytest.approx(best, rel=1e-12)
    assert found.x == pytest.approx([12.2702, 9.0502, 11.8897, 10.8750, 10.3948], abs=1e-4)
    assert found.value == pytest.approx(2255.7401, abs=1e-3)
    assert found.least == pytest.approx(np.zeros(30), abs=1e-9)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    columns=st.integers(1, 9),
    rank=st.integers(1, 9),
)
def test_of_many_minimisers_it_is_the_one_nearest_to_the_first_model(
    tmp_path_factory, seed, sizes, columns, rank
):
    """Least squares with any shape and rank; singular value decompositions give the answers."""
    folder, rng = tmp_path_factory.mktemp("rows"), np.random.default_rng(seed)
    client, n, rank = np.repeat(np.arange(len(sizes)), sizes), sum(sizes), min(rank, columns)
    X = rng.normal(size=(n, rank)) @ np.linalg.qr(rng.normal(size=(columns, rank)))[0].T
    y, x0 = rng.normal(size=n), rng.normal(size=columns)
    frame = pd.DataFrame(X, columns=[f"a{j}" for j in range(columns)])
    frame.assign(client=client, y=y).to_csv(folder / "r.csv", index=False, float_format="%.17g")
    np.save(folder / "x0.npy", x0)
    found = found_in({
        "rounds": 1, "evaluate": {"measures": ["heterogeneity"]}, "executor": "serial",
        "problem": {"name": "least-squares", "dataset": str(folder / "r.csv"),
                    "intercept": False, "init": str(folder / "x0.npy")},
        "clients": {}, "algorithms": ["fedavg"],
    })  # fmt: skip
    step, *_ = np.linalg.lstsq(X, y - X @ x0, rcond=1e-10)
    assert found.x == pytest.approx(x0 + step, abs=1e-6)
    assert found.value == pytest.approx(0.5 * np.mean((X @ (x0 + step) - y) ** 2), abs=1e-12)
    for k, least in enumerate(found.least):
        A, t = X[client == k], y[client == k]
        own, *_ = np.linalg.lstsq(A, t, rcond=1e-10)
        assert least == pytest.approx(0.5 * np.mean((A @ own - t) ** 2), abs=1e-12)


@pytest.fixture(scope="module")
def interpolating(tmp_path_factory):
    """Return 14 rounds of FedExP and of FedAvg on FedExP's synthetic task: 600 rows, d = 1000."""
    local = {"steps": 20, "batch": "full", "lr": 0.05}  # the loss has no half
    made = {
        "rounds": 14,
        "evaluate": {"measures": ["distance"]},
        "problem": {
            "name": "least-squares", "half": False, "divide_by": "none", "weighting": "uniform",
            "intercept": False, "test": 0,
            "dataset": {"name": "fedexp-regression", "seed": 0},
        },
        "clients": {"count": 20},
        "algorithms": [
            {"name": "fedexp", "epsilon": 0, "max_one": False, "weights": "uniform",
             "local": local},
            {"name": "fedavg", "weights": "uniform", "local": local},
        ],
        "executor": "serial",
    }  # fmt: skip
    rows = rayfed.run(made, out=tmp_path_factory.mktemp("interpolating") / "out", page=False).rounds
    return {label: part.reset_index() for label, part in rows.groupby("label")}


def test_the_distance_at_the_start_is_the_published_norm_of_the_interpolant(interpolating):
    """It starts from 0, and of all solutions of its 600 equations the least is the nearest."""
    assert interpolating["fedexp"].distance[0] == pytest.approx(7.45366, abs=1e-5)


def test_the_distance_falls_in_every_round_though_the_loss_does_not(interpolating):
    """One model is best for everybody, and the local step 0.1 is below 2/L_i = 0.124, so that no
    local model is farther from x* than x is. Then FedExP's server step brings x nearer, whatever
    the loss does (Jhunjhunwala et al. 2023, section 3)."""
    distance, loss = (interpolating["fedexp"][name].to_numpy() for name in ("distance", "loss"))
    assert (np.diff(distance) < 0).all()
    assert (np.diff(loss) > 0).any()


def test_steps_without_extrapolation_lower_both(interpolating):
    distance, loss = (interpolating["fedavg"][name].to_numpy() for name in ("distance", "loss"))
    assert (np.diff(distance) < 0).all()
    assert (np.diff(loss) < 0).all()
    assert distance[-1] > interpolating["fedexp"].distance.iloc[-1]


@pytest.fixture
def minimised(monkeypatch):
    """Count the optimisations of F."""
    counted, minimise = [], search.minimise

    def counting(*function):
        counted.append(function)
        return minimise(*function)

    monkeypatch.setattr(search, "minimise", counting)
    return counted


def optima(scenario):
    return [run.measuring.optimum for run in api.prepare(api.read(scenario)).runs]


def test_an_objective_is_minimised_once_however_many_settings_share_it(scenario, minimised):
    made = scenario("least-squares") | {
        "evaluate": {"gap": True, "measures": ["skew"]},
        "seeds": [0, 1],
    }
    grid = {"algorithms.fedavg.local.lr": [0.1, 0.2], "algorithms.fedavg.local.steps": [1, 2]}
    grid |= {"participation.cohort": [1, 2]}
    found = optima(made | {"grid": grid})
    assert len(found) == 16
    assert len(minimised) == 1 + 3  # F and F_1, F_2, F_3
    assert all(one is not None and one.least is not None for one in found)
    assert len({one.value for one in found}) == 1


@pytest.mark.parametrize(
    ("grid", "objectives"),
    [
        ({"problem.l2": [0.05, 0.1]}, 2),
        ({"problem.weighting": ["size", "uniform", "sum"]}, 3),
        ({"problem.divide_by": ["samples", "all-samples"]}, 2),
        ({"problem.l2_per": ["client", "sample"]}, 2),
        ({"problem.intercept": [True, False]}, 2),
        ({"problem.regularise_intercept": [True, False]}, 2),
        ({"problem.test": [0.0, 0.3]}, 2),
        ({"problem.name": ["logistic-regression", "softmax-regression"]}, 2),
        ({"dtype": ["float32", "float64"]}, 2),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
)
def test_settings_that_change_f_have_optima_of_their_own(scenario, minimised, grid, objectives):
    made = scenario("logistic-regression") | {"grid": grid}
    alone = []
    for key, values in grid.items():
        for value in values:
            one = scenario("logistic-regression")
            part = one["problem"] if key.startswith("problem") else one
            part[key.split(".")[-1]] = value
            alone.append(optimum(one))
    minimised.clear()
    assert [one.value for one in optima(made)] == alone
    assert len(minimised) == objectives


@pytest.mark.parametrize(
    ("keys", "objectives"),
    [
        ({"grid": {"partition.alpha": [0.1, 10.0]}}, 2),
        ({"grid": {"clients.count": [3, 5]}}, 2),
        ({"seeds": [0, 1]}, 2),
        ({"grid": {"problem.dataset.seed": [1, 2]}, "partition": None}, 2),
        ({"seeds": [0, 1], "generated": {"seed": 1}}, 1),
        ({"grid": {"problem.dataset.drift": [0.5, 1.0]}, "generated": {"seed": 1}}, 2),
    ],
    ids=["partition", "clients", "seed", "data seed", "data seed for all", "data"],
)
def test_data_and_partitions_have_optima_of_their_own(scenario, minimised, keys, objectives):
    keys = dict(keys)
    made = scenario("least-squares")
    generated = keys.pop("generated", None) or ("partition" in keys and {})
    keys.pop("partition", None)
    if isinstance(generated, dict):
        made["problem"]["dataset"] = {"name": "linear", "features": 3, "samples": 9, **generated}
        made["clients"] = {"count": 3}
    else:
        made |= {"problem": {"name": "logistic-regression", "dataset": "mushroom", "l2": 1.0}}
        made |= {"clients": {"count": 4}, "partition": {"name": "dirichlet", "alpha": 1.0}}
    found = optima(made | keys)
    assert len({one.value for one in found}) == len(minimised) == objectives


def test_of_many_minimisers_each_first_model_has_its_own(scenario, minimised):
    made = scenario("least-squares", l2=0.0, test=0.0) | {"seeds": [0, 1]}
    made["problem"]["init"] = "normal"
    optima(made)
    assert len(minimised) == 2
