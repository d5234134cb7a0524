"""A user's own file gives the losses that the formulas give, computed here row by row.

The formulas: F_i = (sum of the losses of client i's rows) / D_i + l2_i / 2 ||x||^2 and
F = sum_i w_i F_i. Nothing of the library's kernels, sums or objectives is used on this side.
"""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.runs.serial import SerialStudy

ROUNDS, STEPS, L2 = 3, 4, 0.3
DIVIDE = ("samples", "all-samples", "none")
L2_PER = ("client", "population", "sample")
WEIGHTING = ("size", "uniform", "sum")
EXACT = {"rtol": 1e-10, "atol": 1e-10}
LR = {"samples": 0.2, "all-samples": 0.2, "none": 0.02}

# Rows of the clients are mixed; "east", the first in the order of names, comes last.
NAMES = ["west", "north", "west", "east", "west", "north", "east", "west", "west", "east", "north"]
TEMP = [0.3, -1.2, 0.8, 1.9, -0.4, 0.0, 2.2, -1.0, 0.6, 1.1, -0.7]
WIND = [1.0, 0.2, -0.6, 0.9, 1.7, -1.1, 0.4, 0.3, -0.2, -1.5, 0.8]
COST = [1.2, -0.3, 0.9, 2.4, 0.1, -0.8, 2.0, -0.9, 0.7, 0.2, -1.0]
SOLD = ["yes", "no", "yes", "yes", "no", "no", "yes", "no", "yes", "no", "yes"]
CLIENTS = ("east", "north", "west")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Return the file for a problem: eleven rows of three clients."""
    folder = tmp_path_factory.mktemp("own")
    frame = pd.DataFrame({"client": NAMES, "temp": TEMP, "wind": WIND})
    frame.assign(cost=COST).to_csv(folder / "least-squares.csv", index=False)
    frame.assign(sold=SOLD).to_csv(folder / "logistic-regression.csv", index=False)
    return lambda problem: folder / f"{problem}.csv"


def recorded(scenario, out):
    """Run a scenario, without a page, and return what it recorded."""
    plan = api.prepare(api.read(scenario))
    outcome = SerialStudy(out).execute(plan.runs, plan.tables, False, lambda *_: None)
    assert set(outcome.values()) == {"finished"}
    return api.Result(out, outcome)


def scenario(file, problem, algorithms, **keys):
    target = {"least-squares": "cost", "logistic-regression": "sold"}[problem]
    local = {"steps": STEPS, "batch": "full", "lr": LR[keys.get("divide_by", "samples")]}
    return {
        "name": "towns",
        "rounds": ROUNDS,
        "problem": {
            "name": problem,
            "dataset": str(file(problem)),
            "target": target,
            "l2": L2,
            **keys,
        },
        "clients": {},
        "algorithms": [{"local": local, **a} for a in algorithms],
        "executor": "serial",
    }


class Formulas:
    """F_i, F and their gradients, one row after the other."""

    def __init__(self, problem, divide_by, l2_per, weighting, spared=False):
        y = COST if problem == "least-squares" else [float(s == "yes") for s in SOLD]
        rows = list(zip(NAMES, TEMP, WIND, y, strict=True))
        self.rows = [[(a, b, 1.0, y) for who, a, b, y in rows if who == c] for c in CLIENTS]
        self.problem, self.sizes = problem, [len(rows) for rows in self.rows]
        n, N = sum(self.sizes), len(self.sizes)
        self.D = {"samples": self.sizes, "all-samples": [n] * N, "none": [1] * N}[divide_by]
        per = {"client": [1] * N, "population": [N] * N, "sample": self.sizes}[l2_per]
        self.l2 = [L2 / p for p in per]
        shares = {"size": [k / n for k in self.sizes], "uniform": [1 / N] * N, "sum": [1.0] * N}
        self.w = shares[weighting]
        self.spared = spared

    def loss(self, z, y):
        """Return the loss of a row and its slope in the score z."""
        if self.problem == "least-squares":
            return 0.5 * (z - y) ** 2, z - y
        return math.log(1 + math.exp(z)) - y * z, 1 / (1 + math.exp(-z)) - y

    def client(self, i, x):
        """Return F_i(x) and its gradient (3,)."""
        value, slope = 0.0, np.zeros(3)
        for *a, y in self.rows[i]:
            loss, d = self.loss(sum(p * q for p, q in zip(a, x, strict=True)), y)
            value += loss / self.D[i]
            slope += d / self.D[i] * np.array(a)
        kept = np.array([x[0], x[1], 0.0 if self.spared else x[2]])
        return value + self.l2[i] / 2 * sum(kept**2), slope + self.l2[i] * kept

    def total(self, models):
        """Return F where client i has model i."""
        return sum(
            w * self.client(i, x)[0] for i, (w, x) in enumerate(zip(self.w, models, strict=True))
        )

    def descend(self, i, x, lr):
        """Return client i's model after the local steps, and its mean loss before each."""
        losses = []
        for _ in range(STEPS):
            value, slope = self.client(i, x)
            losses.append(value)
            x = x - lr * slope
        return x, sum(losses) / STEPS

    def fedavg(self, lr, shares):
        """Return F before the first round and after each, and the last model."""
        x, F = np.zeros(3), []
        for _ in range(ROUNDS):
            F.append(self.total([x] * 3))
            ends = [self.descend(i, x, lr)[0] for i in range(3)]
            x = sum(s * end for s, end in zip(shares, ends, strict=True)) / sum(shares)
        return [*F, self.total([x] * 3)], x

    def local_only(self, lr):
        models, F = [np.zeros(3)] * 3, []
        for _ in range(ROUNDS):
            F.append(self.total(models))
            models = [self.descend(i, x, lr)[0] for i, x in enumerate(models)]
        return [*F, self.total(models)]

    def centralised(self, lr):
        x, F = np.zeros(3), []
        for _ in range(ROUNDS):
            F.append(self.total([x] * 3))
            for _ in range(STEPS):
                x = x - lr * sum(w * self.client(i, x)[1] for i, w in enumerate(self.w))
        return [*F, self.total([x] * 3)]


EVERY = list(itertools.product(DIVIDE, L2_PER, WEIGHTING))
each_problem = pytest.mark.parametrize("problem", ["least-squares", "logistic-regression"])
each_objective = pytest.mark.parametrize(("divide_by", "l2_per", "weighting"), EVERY)


def poolable(divide_by, weighting):
    """Whether every row has the same weight w_i / D_i: n_i / n over n_i, or neither has n_i."""
    return (divide_by == "samples") == (weighting == "size")


@each_problem
@each_objective
def test_losses(file, tmp_path, problem, divide_by, l2_per, weighting):
    keys = {"divide_by": divide_by, "l2_per": l2_per, "weighting": weighting}
    names = ["fedavg", "local-only", *(["centralised"] if poolable(divide_by, weighting) else [])]
    given = scenario(file, problem, [{"name": name} for name in names], **keys)
    result = recorded(given, tmp_path)
    formulas, lr = Formulas(problem, **keys), LR[divide_by]
    F, x = formulas.fedavg(lr, formulas.sizes)
    losses = {label: rows.loss.to_numpy() for label, rows in result.rounds.groupby("label")}
    assert sorted(losses) == sorted(names)
    np.testing.assert_allclose(losses["fedavg"], F, **EXACT)
    np.testing.assert_allclose(losses["local-only"], formulas.local_only(lr), **EXACT)
    if "centralised" in losses:
        np.testing.assert_allclose(losses["centralised"], formulas.centralised(lr), **EXACT)
    np.testing.assert_allclose(result.model("fedavg-seed0"), x, **EXACT)
    assert F[-1] < 0.95 * F[0]  # there is something to compare


@each_objective
def test_rows_of_different_weight_cannot_be_pooled(file, divide_by, l2_per, weighting):
    keys = {"divide_by": divide_by, "l2_per": l2_per, "weighting": weighting}
    given = scenario(file, "least-squares", [{"name": "centralised"}], **keys)
    if poolable(divide_by, weighting):
        assert len(api.prepare(api.read(given)).runs) == 1
    else:
        with pytest.raises(ScenarioError, match="weights the rows of clients unequally"):
            api.prepare(api.read(given))


@each_problem
def test_participants_may_weigh_the_same(file, tmp_path, problem):
    """The mean of the models is not weighted then, though F still is."""
    given = scenario(file, problem, [{"name": "fedavg", "weights": "uniform"}])
    formulas = Formulas(problem, "samples", "client", "size")
    F, _ = formulas.fedavg(0.2, [1, 1, 1])
    np.testing.assert_allclose(recorded(given, tmp_path).rounds.loss, F, **EXACT)
    assert abs(F[-1] - formulas.fedavg(0.2, formulas.sizes)[0][-1]) > 1e-6


@each_problem
@pytest.mark.parametrize("spared", [True, False])
def test_an_intercept_may_be_spared_the_l2_term(file, tmp_path, problem, spared):
    algorithms = [{"name": "fedavg"}, {"name": "centralised"}]
    given = scenario(file, problem, algorithms, regularise_intercept=not spared)
    result = recorded(given, tmp_path)
    formulas = Formulas(problem, "samples", "client", "size", spared)
    losses = {label: rows.loss.to_numpy() for label, rows in result.rounds.groupby("label")}
    np.testing.assert_allclose(losses["fedavg"], formulas.fedavg(0.2, formulas.sizes)[0], **EXACT)
    np.testing.assert_allclose(losses["centralised"], formulas.centralised(0.2), **EXACT)


def test_what_is_told_about_clients(file, tmp_path):
    """Sizes in the order of names, F_i of the final model, accuracy on the rows themselves."""
    given = scenario(file, "logistic-regression", [{"name": "fedavg"}])
    result = recorded(given, tmp_path)
    formulas = Formulas("logistic-regression", "samples", "client", "size")
    _, x = formulas.fedavg(0.2, formulas.sizes)
    clients = result.clients
    assert clients.client.tolist() == [0, 1, 2]
    assert clients.samples.tolist() == [3, 3, 5]
    assert clients.test_samples.tolist() == [0, 0, 0]  # nothing is held out of a user's file
    assert clients.selected.tolist() == clients.used.tolist() == [ROUNDS] * 3
    np.testing.assert_allclose(clients.loss, [formulas.client(i, x)[0] for i in range(3)], **EXACT)
    right = [
        [(a * x[0] + b * x[1] + x[2] > 0) == (y == 1) for a, b, _, y in rows]
        for rows in formulas.rows
    ]
    np.testing.assert_allclose(clients.accuracy, [sum(r) / len(r) for r in right], **EXACT)
    total = sum(map(sum, right)) / 11
    assert result.rounds.accuracy.iloc[-1] == pytest.approx(total, abs=1e-12)
    assert result.rounds.test_loss.isna().all()


def test_the_loss_of_an_event_is_the_mean_over_the_local_steps(file, tmp_path):
    result = recorded(scenario(file, "least-squares", [{"name": "fedavg"}]), tmp_path)
    formulas = Formulas("least-squares", "samples", "client", "size")
    first = result.events[result.events["round"] == 1]
    expected = [formulas.descend(i, np.zeros(3), 0.2)[1] for i in range(3)]
    assert first.client.tolist() == [0, 1, 2]
    np.testing.assert_allclose(first.loss, expected, **EXACT)
    assert (first.steps == STEPS).all()


def test_a_test_file_is_what_accuracy_is_measured_on(file, tmp_path):
    """Two rows on either side of the plane, one of them with the wrong class."""
    pd.DataFrame(
        {"wind": [0.0, 0.0, 0.0], "temp": [9.0, -9.0, -9.0], "sold": ["yes", "no", "yes"]}
    ).to_csv(tmp_path / "later.csv", index=False)
    given = scenario(file, "logistic-regression", [{"name": "fedavg"}])
    given["problem"]["test"] = str(tmp_path / "later.csv")
    result = recorded(given, tmp_path / "out")
    formulas = Formulas("logistic-regression", "samples", "client", "size")
    F, x = formulas.fedavg(0.2, formulas.sizes)
    assert x[0] > 0.1  # warm towns sell
    np.testing.assert_allclose(result.rounds.loss, F, **EXACT)
    last = result.rounds.iloc[-1]
    assert last.accuracy == pytest.approx(2 / 3)
    scores = [(9 * x[0] + x[2], 1), (-9 * x[0] + x[2], 0), (-9 * x[0] + x[2], 1)]
    expected = sum(formulas.loss(z, y)[0] for z, y in scores) / 3
    assert last.test_loss == pytest.approx(expected, abs=1e-10)


def test_held_out_rows_are_not_trained_on(file, tmp_path):
    """A third of each client's rows: 1, 1 and 2 of 3, 3 and 5."""
    given = scenario(file, "least-squares", [{"name": "fedavg"}])
    given["problem"]["test"] = 1 / 3
    clients = recorded(given, tmp_path).clients
    assert clients.test_samples.tolist() == [1, 1, 2]
    assert clients.samples.tolist() == [2, 2, 3]


def test_parquet_says_the_same(file, tmp_path):
    given = scenario(file, "least-squares", [{"name": "fedavg"}])
    text = recorded(given, tmp_path / "text")
    pd.read_csv(file("least-squares")).to_parquet(tmp_path / "towns.parquet")
    given["problem"]["dataset"] = str(tmp_path / "towns.parquet")
    binary = recorded(given, tmp_path / "binary")
    assert text.rounds.loss.to_numpy().tobytes() == binary.rounds.loss.to_numpy().tobytes()
