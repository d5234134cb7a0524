"""The published studies against the numbers that others measured."""

from pathlib import Path

import numpy as np
import pytest

from rayfed.api import load
from rayfed.datasets import FedExPRegression
from rayfed.datasets.base import Source
from rayfed.reproduce.studies import begin, conclude, execute, find
from rayfed.runs.backend import ProgressDisplay

pytestmark = pytest.mark.slow  # 200 rounds of thirteen algorithms

SYNTHETIC = Path(__file__).parents[2] / "scenarios" / "jhunjhunwala_2023_synthetic.yaml"


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """The first part of the study, run and judged."""
    study = find(str(SYNTHETIC), out=tmp_path_factory.mktemp("fedexp") / "o")
    plan, kept = begin(study, "main")
    execute(study, "main", plan, kept, ProgressDisplay())
    return conclude(study, {})


@pytest.fixture(scope="module")
def losses(outcome):
    folder = outcome.study.folder("main")
    return load(folder).rounds.set_index(["label", "round"])


@pytest.fixture(scope="module")
def rows():
    """A_i (20, 30, 1000) and b_i (20, 30) of the authors' data."""
    table = FedExPRegression().load(Source.here(), seed=0)
    return table.X.reshape(20, 30, 1000), table.y.reshape(20, 30)


def test_what_the_source_claims_of_200_rounds_holds(outcome):
    judged = [v for v in outcome.verdicts if v.claim.part == "main"]
    assert len(judged) >= 13
    assert [(v.claim.says, v.measured) for v in judged if not v.holds] == []


def descend(A, b, w, correction):
    """Twenty full steps of 0.1 along A'(A w - b) + correction, for each client by itself."""
    w = np.tile(w, (len(A), 1))
    for _ in range(20):
        for i in range(len(A)):
            w[i] -= 0.1 * (A[i].T @ (A[i] @ w[i] - b[i]) + correction[i])
    return w


def loss(A, b, w):
    return sum(np.sum((A[i] @ w - b[i]) ** 2) for i in range(len(A))) / len(A)


def test_scaffold_follows_its_pseudo_code(losses, rows):
    """Option 2 in the authors' units: everybody takes part, eta_l 0.1, 20 steps, eta_g 10."""
    A, b = rows
    w, c, own = np.zeros(1000), np.zeros(1000), np.zeros((20, 1000))
    for t in range(1, 11):
        ends = descend(A, b, w, c - own)
        own = own - c + (w - ends) / (20 * 0.1)
        w, c = w + 10 * (ends - w).mean(axis=0), own.mean(axis=0)
        assert losses.loss["SCAFFOLD", t] == pytest.approx(loss(A, b, w), rel=1e-9)


def test_fedadagrad_follows_its_pseudo_code(losses, rows):
    A, b = rows
    w, v = np.zeros(1000), np.zeros(1000)
    for t in range(1, 11):
        D = (descend(A, b, w, np.zeros((20, 1))) - w).mean(axis=0)
        v += D**2
        w = w + 0.1 * D / np.sqrt(v)
        assert losses.loss["FedAdagrad", t] == pytest.approx(loss(A, b, w), rel=1e-9)
