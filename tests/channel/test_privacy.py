"""The accountant's seam, against published numbers and the library called by hand."""

import math
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from rayfed.channel.privacy import Privacy, epsilon, noise_for
from rayfed.core.errors import ScenarioError

pytestmark = [
    pytest.mark.guard,
    pytest.mark.skipif(find_spec("dp_accounting") is None, reason="needs dp-accounting"),
]


@pytest.mark.parametrize(
    ("q", "noise", "rounds", "accountant", "expected", "digits"),
    [
        (0.004, 1.3, 3750, "rdp", 0.922049, 6),
        (0.004, 1.3, 3750, "pld", 0.833589, 6),
        (0.04, 1.5, 2250, "rdp", 7.3293, 4),
    ],
)
def test_published_epsilons(q, noise, rounds, accountant, expected, digits):
    assert round(epsilon(q, noise, rounds, 1e-5, accountant), digits) == expected


def test_one_round_without_sampling_is_the_gaussian_mechanism():
    """Balle and Wang 2018: delta(epsilon) in closed form, solved by bisection."""

    def delta(eps, sigma):
        def below(x):
            return 0.5 * math.erfc(-x / math.sqrt(2))

        a, b = 0.5 / sigma, eps * sigma
        return below(a - b) - math.exp(eps) * below(-a - b)

    for sigma in (0.8, 2.0):
        low, high = 0.0, 50.0
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if delta(middle, sigma) > 1e-5 else (low, middle)
        found = epsilon(1.0, sigma, 1, 1e-5)
        assert low - 1e-9 <= found <= low * 1.002  # the accountant rounds upwards


@pytest.mark.slow
def test_no_round_spends_nothing_and_more_rounds_spend_more():
    assert epsilon(0.1, 1.0, 0, 1e-5) == 0
    spent = [epsilon(0.1, 1.0, rounds, 1e-5) for rounds in (1, 10, 100)]
    assert spent == sorted(spent)
    assert epsilon(0.1, 1.0, 10, 1e-5) <= epsilon(0.1, 1.0, 10, 1e-5, "rdp")


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize("wanted", [0.5, 4.0])
def test_the_noise_that_is_solved_for_is_enough_and_no_more(wanted, accountant):
    noise = noise_for(wanted, 0.02, 300, 1e-5, accountant)
    assert epsilon(0.02, noise, 300, 1e-5, accountant) <= wanted
    assert epsilon(0.02, noise - 3e-4, 300, 1e-5, accountant) > wanted
    assert Privacy(epsilon=wanted, delta=1e-5, accountant=accountant).multiplier(0.02, 300) == noise
    assert Privacy(noise=1.25, delta=1e-5).multiplier(0.02, 300) == 1.25


def test_a_noise_too_small_for_privacy_loss_distributions_is_refused():
    """The privacy loss of one Gaussian round has the mean 1 / (2 z^2), below its epsilon."""
    small, mean = 0.02, 1 / (2 * 0.02**2)
    with pytest.raises(ScenarioError, match=r"^noise: found 0\.02, with which") as caught:
        Privacy(noise=small, delta=1e-5).multiplier(1.0, 1)
    said = float(str(caught.value).partition("epsilon is ")[2].split()[0])
    assert mean < said < 2 * mean
    assert Privacy(noise=small, delta=1e-5, accountant="rdp").multiplier(1.0, 1) == small
    assert Privacy(noise=0.2, delta=1e-5).multiplier(1.0, 1) == 0.2


def test_one_of_noise_and_epsilon_is_given():
    for settings in ({}, {"noise": 1.0, "epsilon": 1.0}):
        with pytest.raises(ScenarioError, match="give noise or epsilon, one of them"):
            Privacy(delta=1e-5, **settings)


@pytest.mark.slow
def test_the_library_is_imported_late():
    code = "import rayfed.channel.privacy, rayfed.api, sys; print('dp_accounting' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
    assert np.isfinite(epsilon(0.1, 1.0, 1, 1e-5))
