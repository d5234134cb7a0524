"""The digests that two commits are compared by: they see values, and every change of them."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml

from scripts import digests

SMALL = {
    "rounds": 3,
    "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 3}},
    "clients": {"count": 4},
    "participation": {"cohort": 2},
    "algorithms": [{"name": "fedavg", "local": {"steps": 2, "batch": 4, "lr": 0.01}}],
}
TABLE = pd.DataFrame({"round": [0, 1], "loss": [0.5, np.nan], "status": ["used", None]})


@pytest.fixture(scope="module")
def listing(tmp_path_factory):
    """Return the digests of the small scenario, by name of table, under a seed."""

    def run(seed):
        scenarios = {"small": SMALL | {"seeds": [seed]}}
        out = tmp_path_factory.mktemp("out")
        (line,) = digests.lines(scenarios, [("small", "serial")], out)
        name, status, *parts = line.split()
        assert name == f"small/serial/fedavg-seed{seed}"
        assert status == "finished"
        return dict(part.split("=") for part in parts)

    return run


def test_the_same_seed_gives_the_same_digests_and_another_seed_others(listing):
    first, again, other = listing(0), listing(0), listing(1)
    assert first == again
    assert {"rounds", "events", "clients", "model"} <= set(first)
    for name in ("rounds", "events", "clients", "model"):
        assert first[name] != other[name]


def test_the_digest_of_a_table_is_that_of_its_values():
    shuffled = TABLE[["status", "loss", "round"]]
    encoded = TABLE.assign(status=TABLE["status"].astype(pd.CategoricalDtype(["late", "used"])))
    for same in (shuffled, encoded):
        assert digests.digest_table(same) == digests.digest_table(TABLE)


@pytest.mark.parametrize(
    "other",
    [
        TABLE.assign(loss=[0.5, 0.0]),
        TABLE.assign(loss=[np.nextafter(0.5, 1), np.nan]),
        TABLE.assign(round=[0.0, 1.0]),
        TABLE.assign(round=TABLE["round"].astype(np.int32)),
        TABLE.assign(status=["used", "None"]),
        TABLE.assign(status=["late", None]),
        TABLE.rename(columns={"loss": "cost"}),
        TABLE.drop(columns="loss"),
        TABLE.iloc[::-1],
        TABLE.iloc[:1],
    ],
)
def test_every_change_of_a_table_changes_its_digest(other):
    assert digests.digest_table(other) != digests.digest_table(TABLE)


@pytest.mark.parametrize(
    "other",
    [{"x": np.zeros(3)}, {"x": np.zeros((1, 2))}, {"x": np.zeros(2, "f4")}, {"w": np.zeros(2)}],
)
def test_names_types_and_shapes_of_arrays_count(other):
    assert digests.digest_arrays(other) != digests.digest_arrays({"x": np.zeros(2)})


def test_what_differs_is_named():
    here = digests.by_run(["a/serial/r finished rounds=1 model=2", "b/serial/r finished rounds=1"])
    there = digests.by_run(["a/serial/r finished rounds=1 model=3", "total 5"])
    assert digests.differences(here, there) == ["a/serial/r: model", "b/serial/r: only here"]
    assert digests.differences(here, here) == []


def test_a_run_that_was_disturbed_must_be_as_the_serial_one():
    here = {"a/serial/r": "finished rounds=1", "a/resumed/r": "finished rounds=2"}
    (text,) = digests.disturbed(here)
    assert text.startswith("a/resumed/r")
    assert digests.disturbed(here | {"a/resumed/r": "finished rounds=1"}) == []


def test_a_listing_is_compared_with_a_saved_one(monkeypatch, tmp_path, capsys):
    file = tmp_path / "digests.yaml"
    monkeypatch.setattr(digests, "SCENARIOS", file)
    saved = tmp_path / "saved.txt"
    file.write_text(yaml.safe_dump({"ways": {}, "scenarios": {"small": SMALL}}))
    assert digests.main([]) == 0
    saved.write_text(capsys.readouterr().out + "other/serial/run finished rounds=1\n")
    assert digests.main(["--only", "small", "--against", str(saved)]) == 0
    changed = {"ways": {}, "scenarios": {"small": SMALL | {"rounds": 2}}}
    file.write_text(yaml.safe_dump(changed))
    assert digests.main(["--only", "small", "--against", str(saved)]) == 1
    assert "small/serial/fedavg-seed0: " in capsys.readouterr().err


def test_every_algorithm_is_in_a_scenario():
    known = yaml.safe_load(digests.SCENARIOS.read_text(encoding="utf-8"))
    command = [sys.executable, "-m", "rayfed", "list", "algorithms"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = {line.split()[0] for line in told.splitlines()[1:] if not line.startswith(" ")}
    assert len(names) > 20
    scenarios = known["scenarios"].values()
    assert names == {each["name"] for held in scenarios for each in held["algorithms"]}
    assert {name for way in known["ways"].values() for name in way} <= set(known["scenarios"])
