"""FedAdagrad, FedAdam and FedYogi: two rounds by hand in both forms."""

import math

import numpy as np
import pytest

from rayfed.algorithms import FedAdagrad, FedAdam, FedYogi
from rayfed.testing import answer, reply

BETAS = {"beta1": 0.5, "beta2": 0.75}


def path(algorithm, *deltas):
    """Return where the server goes from 0, in units of its step."""
    state, places = algorithm.init(np.zeros(1)), []
    for delta in deltas:
        state, diagnostics, (ask,) = answer(algorithm, state, reply({"delta": [delta]}))
        assert (dict(ask.up), diagnostics) == ({"delta": 1}, {})
        places.append(state["x"].item() / algorithm.server_lr)
    return places


def test_the_first_step_of_adagrad_is_the_sign():
    for inside in (False, True):
        algorithm = FedAdagrad(server_lr=0.1, tau=0.0, tau_inside=inside)
        delta = reply({"delta": [4.0, -1e-3, 0.0]})
        state, _, _ = answer(algorithm, algorithm.init(np.zeros(3)), delta)
        assert state["x"] == pytest.approx([-0.1, 0.1, 0.0], rel=1e-12)


def test_adagrad_outside_of_the_root():
    # v = 1 + 8 = 9: 2 sqrt(2) / (3 + 1); v = 9 + 16 = 25: 4 / (5 + 1)
    root = math.sqrt(8)
    places = path(FedAdagrad(tau=1.0), root, 4.0)
    assert places == pytest.approx([-root / 4, -root / 4 - 4 / 6], rel=1e-12)


def test_adagrad_inside_of_the_root():
    # v = 9, root of 9 + 7; v = 9 + 9 = 18, root of 25
    places = path(FedAdagrad(tau=7.0, tau_inside=True), 3.0, 3.0)
    assert places == pytest.approx([-3 / 4, -3 / 4 - 3 / 5], rel=1e-12)


def test_adam_outside_of_the_root_without_bias_correction():
    # m = 1, v = 3/4 + 1 = 7/4; m = 1/2 + 1, v = 21/16 + 1 = 37/16
    places = path(FedAdam(tau=1.0, **BETAS), 2.0, 2.0)
    first = 1 / (math.sqrt(7) / 2 + 1)
    assert places == pytest.approx([-first, -first - 1.5 / (math.sqrt(37) / 4 + 1)], rel=1e-12)


def test_adam_inside_of_the_root():
    # v from 0: m = 1, v = 1, root of 4; m = 1.5, v = 7/4, root of 19/4
    places = path(FedAdam(tau=3.0, tau_inside=True, **BETAS), 2.0, 2.0)
    assert places == pytest.approx([-0.5, -0.5 - 1.5 / math.sqrt(19 / 4)], rel=1e-12)


def test_yogi_changes_v_by_its_share_of_the_square():
    # v = 1 + 4/4 = 2 (D^2 = 4 above 1); then D^2 = 1 below 2: v = 2 - 1/4; m = 1, then 0.5 - 0.5
    places = path(FedYogi(tau=1.0, **BETAS), 2.0, -1.0)
    first = 1 / (math.sqrt(2) + 1)
    assert places == pytest.approx([-first, -first], rel=1e-12)
    assert FedYogi(**BETAS).second_moment(np.array([4.0]), np.array([2.0])).item() == 4.0


def test_published_defaults():
    assert (FedAdam().beta1, FedAdam().beta2) == (0.9, 0.99)
    assert FedAdam(tau=0.5).init(np.zeros(2))["v"].tolist() == [0.25, 0.25]
