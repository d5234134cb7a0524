"""Studies at URLs whose machines die."""

import pytest

from rayfed import api
from rayfed.runs.remote.objects import Objects
from rayfed.testing.compare import assert_same_results
from rayfed.testing.studies import mixed
from tests.chaos.faults import Attempt
from tests.chaos.remote import Blow, run_at_url


def test_machines_that_die_change_nothing(tmp_path):
    stateful = {"name": "local-only", "local": {"steps": 2, "batch": 4}}
    plan = api.prepare(api.read(mixed(rounds=4, seeds=[1, 2], algorithms=[stateful])))
    calm = Attempt(plan, api.begin(plan, tmp_path / "calm"), 0)
    calm.execute()
    blows = [Blow(1, (0, 0)), Blow(30, (4, 9)), Blow(20, (0, 0))]
    found = run_at_url(plan, tmp_path / "machines", blows)
    assert_same_results(calm.folder, found)
    begun = [(tmp_path / "machines" / name).is_dir() for name in ("0", "1", "2", "last")]
    assert all(begun)


def test_an_upload_that_is_left_out_is_noticed(tmp_path, monkeypatch):
    stateful = {"name": "local-only", "local": {"steps": 2, "batch": 4}}
    plan = api.prepare(api.read(mixed(rounds=2, algorithms=[stateful])))
    calm = Attempt(plan, api.begin(plan, tmp_path / "calm"), 0)
    calm.execute()
    put = Objects.put

    def without_models(self, files):
        put(self, {name: path for name, path in files.items() if "model.npz" not in name})

    monkeypatch.setattr(Objects, "put", without_models)
    with pytest.raises(AssertionError, match=r"model\.npz"):
        assert_same_results(calm.folder, run_at_url(plan, tmp_path / "machines", []))
