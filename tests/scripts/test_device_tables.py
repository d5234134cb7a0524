"""The tables of devices that come with the study `real_devices` are what their quantiles say."""

import numpy as np
import pandas as pd
import pytest

from rayfed.reproduce.studies import find
from scripts import device_tables

NAMES = ("real_devices.capacities.csv", "real_devices.availability.csv")


def test_the_tables_are_those_that_the_script_writes(tmp_path):
    device_tables.main(tmp_path)
    for name in NAMES:
        assert (tmp_path / name).read_text() == (device_tables.FOLDER / name).read_text()


@pytest.mark.parametrize("what", device_tables.QUANTILES)
def test_numbers_have_the_quantiles_of_what_was_measured(what):
    numbers = device_tables.drawn(np.random.default_rng(1), what, 200_000)
    wanted = dict(zip(device_tables.SHARES, device_tables.QUANTILES[what], strict=True))
    assert (numbers >= wanted[0]).all()
    assert (numbers <= wanted[1]).all()
    for share in (0.25, 0.5, 0.75, 0.95):
        assert np.quantile(numbers, share) == pytest.approx(wanted[share], rel=0.05)


def test_intervals_of_a_device_follow_each_other():
    table = pd.read_csv(device_tables.FOLDER / NAMES[1])
    assert (table.end_s > table.start_s).all()
    after = table.start_s - table.groupby("device").end_s.shift()
    assert (after.dropna() >= 1).all()
    assert table.end_s.max() <= device_tables.DAYS * 86_400


def test_devices_that_are_alike_have_the_mean_speed_of_the_table():
    study = find("real_devices").studies["even"]
    table = pd.read_csv(device_tables.FOLDER / NAMES[0])
    step_s = study.algorithms[0].local.batch * table.compute_s.mean()
    assert study.clients.delay.mean_s == pytest.approx(step_s, rel=1e-4)
