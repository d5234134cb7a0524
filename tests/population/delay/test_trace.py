"""Traces of devices: a table by hand, what a batch costs, FedScale's file, and wrong files."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.engine.clock import Clock, StepCounter
from rayfed.population import Connection, ConstantDelay, DelayTrace, Energy, Group, Population

DEVICES = pd.DataFrame({"compute_s": [0.5, 0.1], "down_mbps": [8.0, 16.0], "up_mbps": [4.0, 8.0]})


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "devices.csv"
    DEVICES.to_csv(path, index=False)
    return str(path)


def test_a_client_has_the_speed_and_the_bandwidths_of_one_device(file):
    ids, population = np.arange(2000), Population(2000, 0, DelayTrace(file=file))
    seconds = population.seconds_per_step(ids, 1, 0)
    down, up = population.transfer_s(ids, 1_000_000, 500_000)  # 8 and 4 Mbit
    slow = seconds == 0.5
    assert set(seconds.tolist()) == {0.1, 0.5}
    assert set(down[slow].tolist()) == set(up[slow].tolist()) == {1.0}
    assert set(down[~slow].tolist()) == set(up[~slow].tolist()) == {0.5}
    assert stats.binomtest(int(slow.sum()), 2000, 0.5).pvalue > 0.01
    assert population.seconds_per_step(ids, 8, 2).tolist() == seconds.tolist()
    assert population.mean_seconds_per_step(ids).tolist() == seconds.tolist()


def test_a_network_of_the_scenario_comes_before_that_of_the_devices(file):
    groups = (
        Group(ids=(1,), network=Connection(up_mbps=1.0)),
        Group(ids=(2,), delay=ConstantDelay()),
    )
    population = Population(3, 0, DelayTrace(file=file), groups=groups)
    own_down, _ = population.transfer_s([1], 1_000_000, 0)
    down, up = population.transfer_s([0, 1, 2], 1_000_000, 1_000_000)
    assert up[1] == 8.0
    assert down[1] == own_down[0] in (1.0, 0.5)
    assert (down[2], up[2]) == (0.0, 0.0)  # a constant delay brings no bandwidth


def test_scaled_to_a_mean_the_seconds_are_those_of_a_step(file):
    scaled = DelayTrace(file=file, mean_s=3.0)
    assert scaled.quantile(np.array([0.25, 0.75])).tolist() == pytest.approx([1.0, 5.0])
    assert (scaled.by_sample, DelayTrace(file=file).by_sample) == (False, True)


def test_a_step_takes_the_seconds_of_its_batch_or_of_all_rows(file, mixed):
    clients = {
        "count": 6,
        "delay": {"name": "trace", "file": file},
        "groups": [
            {"name": "whole", "ids": [0, 1], "local": {"batch": "full"}},
            {"name": "fixed", "ids": [2], "delay": {"name": "constant", "mean_s": 7.0}},
        ],
    }
    (run,) = api.prepare(api.read(mixed(clients=clients))).runs
    clock, ids = Clock(run, StepCounter(run)), np.arange(6)
    device = run.federation.population.seconds_per_step(ids, 1, 0)  # of one sample
    rows = run.federation.views.training.shards.sizes(ids)
    expected = device * np.array([rows[0], rows[1], 1, 4, 4, 4])  # the batch of the algorithm is 4
    assert clock.pace(ids, 1).tolist() == expected.tolist()
    assert expected[2] == 7.0


def test_clients_of_the_file_have_their_own_devices_and_others_draw_one(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("client,compute_s,up_mbps\n4,0.5,4\n0,0.1,8\n2,0.3,2\n")
    population = Population(6, 3, DelayTrace(file=str(path)))
    seconds = population.seconds_per_step(np.arange(6), 1, 0)
    assert seconds[[4, 0, 2]].tolist() == [0.5, 0.1, 0.3]
    assert set(seconds[[1, 3, 5]].tolist()) <= {0.1, 0.3, 0.5}
    assert population.transfer_s([4, 0, 2], 0, 1_000_000)[1].tolist() == [2.0, 1.0, 4.0]
    without = tmp_path / "without.csv"
    without.write_text("compute_s,up_mbps\n0.5,4\n0.1,8\n0.3,2\n")
    drawn = Population(6, 3, DelayTrace(file=str(without))).seconds_per_step([1, 3, 5], 1, 0)
    assert seconds[[1, 3, 5]].tolist() == drawn.tolist()  # their luck is that without the column


def test_parquet_without_bandwidths(tmp_path):
    path = tmp_path / "devices.parquet"
    DEVICES[["compute_s"]].to_parquet(path)
    population = Population(5, 0, DelayTrace(file=str(path)))
    down, up = population.transfer_s(np.arange(5), 1e9, 1e9)
    assert down.tolist() == up.tolist() == [0.0] * 5


def test_capacities_of_fedscale(traces):
    """The quartiles of the file are 24, 41 and 148 ms; training takes three times as long."""
    file = traces / "client_device_capacity_ul_dl.csv"
    delay = DelayTrace(file=str(file))
    middle = delay.quantile(np.array([0.25, 0.5, 0.75]) + 1e-9)
    np.testing.assert_allclose(middle, 3e-3 * np.array([24.0, 41.0, 148.0]))
    table = pd.read_csv(file)
    assert delay.mean() == pytest.approx(3e-3 * table["computation"].mean())
    ids, population = np.arange(3000), Population(3000, 2, delay)
    _, up = population.transfer_s(ids, 0, 125)  # a kilobit
    assert stats.ks_2samp(1 / up, table["communication"]).pvalue > 0.01
    pairs = zip(population.seconds_per_step(ids, 1, 0) / 3e-3, 1 / up, strict=True)
    known = set(zip(table["computation"].round(6), table["communication"].round(6), strict=True))
    assert {(round(c, 6), round(b, 6)) for c, b in list(pairs)[:200]} <= known


def test_units_in_the_names_of_columns(tmp_path):
    """Half a second for a sample, and 8 and 4 Mbit/s."""
    file = tmp_path / "devices.csv"
    file.write_text("compute_ms,down_kbps,up_kbps\n500,8000,4000\n")
    population = Population(1, 0, DelayTrace(file=str(file)))
    assert population.seconds_per_step([0], 1, 0).tolist() == [0.5]
    down, up = population.transfer_s([0], 1_000_000, 1_000_000)
    assert (down[0], up[0]) == (1.0, 2.0)


WRONG = {
    "devices.csv: has the columns compute_s and compute_ms; leave one out": (
        "compute_s,compute_ms\n1,2\n"
    ),
    "devices.csv: has the columns speed; give compute_s": "speed\n1\n",
    "devices.csv: row 2: compute_s is '0'; give a number above 0": "compute_s\n1\n0\n",
    "devices.csv: row 1: up_mbps is 'fast'; give a number above 0": "compute_s,up_mbps\n1,fast\n",
    "devices.csv: has no rows": "compute_s\n",
    "devices.csv: has the column 'watt'; did you mean 'watts'": "compute_s,watt\n1,5\n",
    "devices.csv: has the column 'clients'; did you mean 'client'": "clients,compute_s\n1,5\n",
    "devices.csv: has the column 'wats'; did you mean 'watts'": (
        "computation,communication,wats\n1,5,1\n"
    ),
    "devices.csv: client 1 has two rows; give": "client,compute_s\n1,1\n0,2\n1,3\n",
    "devices.csv: found client 99": "client,compute_s\n99,1\n",
    "devices.csv: row 1: client is 'north', but the data do not": "client,compute_s\nnorth,1\n",
    "devices.csv: cannot be read: No such file or directory": None,
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_files_are_one_line_at_their_key(tmp_path, mixed, message):
    file = tmp_path / "devices.csv"
    if WRONG[message] is not None:
        file.write_text(WRONG[message])
    made = mixed()
    made["clients"]["delay"] = {"name": "trace", "file": str(file)}
    with pytest.raises(ScenarioError, match=message) as caught:
        api.prepare(api.read(made))
    assert caught.value.place == "clients.delay.file"


def test_a_wrong_file_of_a_group_is_named_there(tmp_path):
    groups = (Group(ids=(0,)), Group(ids=(1,), delay=DelayTrace(file=str(tmp_path / "none.csv"))))
    with pytest.raises(ScenarioError, match=r"none\.csv: cannot be read: No such file") as caught:
        Population(3, 0, groups=groups)
    assert caught.value.place == "clients.groups.1.delay.file"


def test_the_power_is_that_of_the_clients_device(tmp_path, file):
    path = tmp_path / "powered.csv"
    DEVICES.assign(watts=[2.5, 0.0]).to_csv(path, index=False)
    groups = (Group(ids=(1,), delay=ConstantDelay(), energy=Energy(compute_w=7.0)),)
    made = Population(50, 0, DelayTrace(file=str(path)), groups=groups, energy=Energy())
    population, ids = made, np.arange(50)
    watts, seconds = population.watts(ids), population.seconds_per_step(ids, 1, 0)
    assert watts[1] == 7.0
    others = ids != 1
    assert (watts[others] == np.where(seconds[others] == 0.5, 2.5, 0.0)).all()
    assert set(watts[others].tolist()) == {0.0, 2.5}
    assert population.watts([7]).tolist() == [watts[7]]
    # Who has which device does not depend on the column.
    plain = Population(
        50, 0, DelayTrace(file=file), groups=(Group(ids=(1,), delay=groups[0].delay),)
    )
    assert plain.watts(ids) is None
    assert plain.seconds_per_step(ids, 1, 0).tolist() == seconds.tolist()


def test_a_power_below_zero_is_refused(tmp_path):
    path = tmp_path / "powered.csv"
    DEVICES.assign(watts=[2.5, -1.0]).to_csv(path, index=False)
    with pytest.raises(ScenarioError, match=r"row 2: watts is .-1\.0."):
        Population(2, 0, DelayTrace(file=str(path)))
