"""Runs whose clients move while they go on: to nodes that come, and away from those that go."""

import pytest

from rayfed import api
from rayfed.testing.compare import assert_same_results
from rayfed.testing.studies import LOCAL, mixed
from tests.chaos.faults import Attempt
from tests.chaos.hosts import ChangingCluster
from tests.fakes.cluster import no_ray

pytestmark = pytest.mark.guard

COMES, GOES, RESTARTS = 0.0, 0.5, 0.9


def test_nodes_that_come_and_go_change_no_byte(tmp_path):
    made = mixed(rounds=9, algorithms=[{"name": "scaffold", "local": LOCAL}])
    plan = api.prepare(api.read(made | {"checkpoint": {"every_s": 0}}))
    calm = Attempt(plan, api.begin(plan, tmp_path / "calm"), 0)
    calm.execute()
    changes = {5: (COMES, 0.9), 12: (GOES, 0.0), 16: (RESTARTS, 0.0)}
    used, asked = [], []

    class Watched(ChangingCluster):
        def open(self, *given):
            super().open(*given)
            used.append(list(self.pool.sizes))
            asked.append(self.count)

    moving = Attempt(plan, api.begin(plan, tmp_path / "moving"), 0)
    with no_ray():
        moving.execute(lambda tables: Watched(tables, plan.clients, changes))
    assert_same_results(calm.folder, moving.folder)
    assert used == [[3], [3, 3], [3], [3]]
    assert asked[0] == 0
    assert 5 <= asked[1] < 12  # at the next checkpoint, before anything was lost
    assert asked[2:] == [12, 16]  # at once
    log = (moving.folder / plan.runs[0].folder / "log.txt").read_text()
    assert log.count("clients are dealt anew") == 1
    assert log.count("to replay") == 2
