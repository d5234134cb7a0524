"""How likely clients are to be there, against how often they are."""

import numpy as np
import pytest

from rayfed.population import Bernoulli, Cyclic, Diurnal, Markov, Outages, PopulationInfo
from rayfed.population.availability.bernoulli import Chance

IDS = np.arange(6)
SIZES = np.array([1, 2, 3, 4, 6, 12])


def info(seed):
    return PopulationInfo(6, seed, ranks=IDS, sizes=SIZES)


@pytest.mark.parametrize(
    "availability",
    [
        Bernoulli(p=Chance(by="rows", bias=0.7)),
        Bernoulli(p=Chance(by="rows", bias=0.7, wave=True, cycle=6)),
        Bernoulli(p=Chance(by="few-rows", wave=True, cycle=5), period_s=40.0),
        Markov(mean_on_s=10.0, mean_off_s=30.0),
        Outages(regions=3, mean_up_s=20.0, mean_down_s=5.0),
    ],
)
def test_over_seeds_clients_are_there_as_often_as_is_said(availability):
    time_s, round, seeds = 123.0, 9, 600
    there = [availability.available(IDS, time_s, round, info(seed)) for seed in range(seeds)]
    said = availability.chance(IDS, time_s, round, info(0))
    error = np.sqrt(said * (1 - said) / seeds)
    assert (np.abs(np.mean(there, axis=0) - said) <= 4.5 * error).all()


@pytest.mark.parametrize(
    "availability",
    [Cyclic(groups=3), Cyclic(groups=2, period_s=3600.0), Diurnal(from_h=20.0, to_h=5.0)],
)
def test_over_time_clients_are_there_as_often_as_is_said(availability):
    hours = np.arange(0, 12 * 24) + 0.5
    there = [
        availability.available(IDS, 3600.0 * hour, k + 1, info(0)) for k, hour in enumerate(hours)
    ]
    np.testing.assert_allclose(
        np.mean(there, axis=0), availability.chance(IDS, 0.0, 1, info(0)), rtol=1e-12
    )
