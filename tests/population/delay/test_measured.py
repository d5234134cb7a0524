"""Measured delays: rounds of a table by hand, the table of a random run, and wrong files."""

import numpy as np
import pandas as pd
import pytest

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.population import ConstantDelay, Group, Lognormal, MeasuredDelay, Population, Stragglers
from rayfed.testing import loop

ROUNDS = 60
"""No client of the cases below has more tasks."""


def measured(folder, text):
    file = folder / "times.csv"
    file.write_text(text)
    return MeasuredDelay(file=str(file))


def test_seconds_hold_until_the_next_row_and_repeat(tmp_path):
    """Of 5 rounds: client 0 has rows 2 and 4, client 2 has row 5, client 1 all of them."""
    rows = "1,1,1\n1,2,2\n1,3,3\n1,4,4\n1,5,5\n2,5,7\n0,4,0.5\n0,2,0.25\n"
    delay = measured(tmp_path, "client,round,seconds\n" + rows)
    population = Population(3, 0, delay)
    found = [population.seconds_per_step(np.arange(3), r, 0).tolist() for r in range(1, 11)]
    one = [0.5, 0.25, 0.25, 0.5, 0.5]
    expected = [[one[r % 5], r % 5 + 1, 7] for r in range(10)]
    assert found == expected
    by_client = population.seconds_per_step(np.array([0, 1, 0]), np.array([3, 9, 11]), 2)
    assert by_client.tolist() == [0.25, 4, 0.5]
    assert population.mean_seconds_per_step(np.arange(3)).tolist() == np.mean(found, 0).tolist()
    assert population.quick_seconds_per_step(np.arange(3), 1e-3).tolist() == [0.25, 1, 7]
    assert delay.mean() == np.mean(found)
    shares = (np.arange(15) + 0.5) / 15
    assert delay.quantile(shares).tolist() == sorted(np.ravel(found[:5]).tolist())


def test_seconds_of_several_steps_and_of_slow_clients(tmp_path):
    delay = measured(tmp_path, "client,round,seconds,steps\n0,1,3,4\n1,1,3,2\n")
    slow = Population(2, 0, delay, Stragglers(fraction=1.0, slowdown=8.0))
    assert slow.seconds_per_step(np.arange(2), 1, 0).tolist() == [6.0, 12.0]
    assert Population(2, 1, delay).seconds_per_step([1, 0], 4, 0).tolist() == [1.5, 0.75]


def test_a_group_may_have_a_table_of_its_own(tmp_path):
    delay = measured(tmp_path, "client,round,seconds\n1,1,3\n4,1,2\n")
    population = Population(5, 0, ConstantDelay(), groups=(Group(ids=(4, 1), delay=delay),))
    assert population.seconds_per_step(np.arange(5), 2, 0).tolist() == [1, 3, 1, 1, 2]
    others = Group(ids=(0, 2, 3), delay=ConstantDelay())
    turned = Population(5, 0, delay, groups=(others,))
    assert turned.seconds_per_step(np.arange(5), 2, 0).tolist() == [1, 3, 1, 1, 2]
    with pytest.raises(ScenarioError, match=r"times\.csv: has no row of client 2; add") as caught:
        Population(5, 0, ConstantDelay(), groups=(Group(ids=(1, 2), delay=delay),))
    assert caught.value.place == "clients.groups.0.delay.file"


def test_parquet_and_names(tmp_path, mixed):
    """The data name their clients, in another order than the file."""
    data = tmp_path / "rows.csv"
    data.write_text("client,a,y\nnorth,1,0\nsouth,2,1\nsouth,1,1\n")
    file = tmp_path / "times.parquet"
    frame = pd.DataFrame({"client": ["south", "north"], "round": [1, 1], "seconds": [2.0, 3.0]})
    frame.to_parquet(file)
    problem = {"name": "least-squares", "dataset": str(data), "target": "y"}
    clients = {"delay": {"name": "measured", "file": str(file)}}
    made = mixed(clients=clients, problem=problem, participation={})
    (run,) = api.prepare(api.read(made)).runs
    seconds = run.federation.population.seconds_per_step(np.arange(2), 1, 0)
    assert dict(zip(run.federation.clients.names, seconds.tolist(), strict=True)) == {
        "north": 3.0, "south": 2.0,
    }  # fmt: skip
    frame.iloc[:1].to_parquet(file)
    with pytest.raises(ScenarioError, match="has no row of client 0"):
        api.prepare(api.read(made))


WRONG = {
    "has the columns client, round; give client, round and seconds": "client,round\n0,1\n",
    "row 2: seconds is '-1'; give a number of at least 0": "client,round,seconds\n0,1,1\n0,2,-1\n",
    "row 1: seconds is 'slow'; give a number of": "client,round,seconds\n0,1,slow\n",
    "row 1: seconds is 'nan'; give a number of": "client,round,seconds\n0,1,\n",
    "row 1: round is '0'; give a number of at least 1": "client,round,seconds\n0,0,1\n",
    "row 1: round is 1.5; rounds are whole numbers": "client,round,seconds\n0,1.5,1\n",
    "row 1: steps is '0'; give a number above 0": "client,round,seconds,steps\n0,1,1,0\n",
    "row 3: client 0 has round 2 twice; keep one": "client,round,seconds\n0,2,1\n0,1,2\n0,2,2\n",
    "row 1: client is 0.5; ids are": "client,round,seconds\n0.5,1,1\n",
    "found client 9; ids go from 0 to 5": "client,round,seconds\n9,1,1\n",
    "has no row of client 1; add one, or give the client": "client,round,seconds\n0,1,1\n2,1,1\n",
    "has no rows": "client,round,seconds\n",
    "has the column 'step'; did you mean 'steps'?": "client,round,seconds,step\n0,1,1,3\n",
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_files_are_one_line_at_their_key(tmp_path, mixed, message):
    (tmp_path / "times.csv").write_text(WRONG[message])
    made = mixed(clients={"count": 6})
    made["clients"]["delay"] = {"name": "measured", "file": str(tmp_path / "times.csv")}
    with pytest.raises(ScenarioError) as caught:
        api.prepare(api.read(made))
    assert caught.value.place == "clients.delay.file"
    assert f"times.csv: {message}" in str(caught.value)
    assert "\n" not in str(caught.value)


# -- runs: the table of random delays gives the events of these delays ----------------------------

LOCAL = {"steps": 3, "batch": 2, "lr": 0.1}
RING = {"topology": "ring"}
CASES = {
    "rounds": {"name": "fedavg"},
    "a deadline": {"name": "fedavg", "participation": {"deadline_s": 4}},
    "partial": {"name": "fedavg", "participation": {"deadline_s": 4, "late": "partial"}},
    "stale": {"name": "fedavg", "participation": {"deadline_s": 4, "late": "stale"}},
    "over-selection": {"name": "fedavg", "participation": {"cohort": 2, "over_select": 2}},
    "timeout": {"name": "fedasync", "participation": {"timeout_s": 5}},
    "arrivals": {"name": "fedbuff", "buffer": 2, "concurrency": 4},
    "tiers": {"name": "fedat", "tiers": 2},
    "edges": {"name": "hierfavg", "edges": [0, 0, 1, 1, 1, 0], "edge_rounds": 2},
    "steps": {"name": "d-psgd"},
    "impatient steps": {"name": "dfedavg", "participation": {"patience_s": 1}},
    "meetings": {"name": "ad-psgd"},
    "messages": {"name": "gossip-learning", "period_s": 2},
}  # fmt: skip


def tasks_of(made, rows=12):
    engine = loop(made)
    state, _ = engine.start()
    found = []
    for _ in range(rows):
        state, row, ended = engine.step(state)
        for counted in ended:
            tasks = counted.tasks
            found += [(row["time_s"], *task) for task in
                      (tasks if isinstance(tasks, list) else tasks.rows())]  # fmt: skip
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_table_of_random_delays_gives_their_events(tmp_path, case):
    constant = case in ("tiers", "edges")  # by mean seconds; several requests in a round
    delay = {"name": "lognormal", "sigma": 0.8, "correlation": float(constant)}
    ids, random = np.arange(6), Population(6, 0, Lognormal(sigma=0.8, correlation=float(constant)))
    rows = [(i, r, s) for r in range(1, ROUNDS + 1)
            for i, s in zip(ids, random.seconds_per_step(ids, r, 0), strict=True)]  # fmt: skip
    file = tmp_path / "times.csv"
    pd.DataFrame(rows, columns=["client", "round", "seconds"]).to_csv(file, index=False)
    data = {"name": "linear", "features": 2}
    groups = [{"ids": [5], "local": {"steps": 7}},
              {"ids": [0], "network": {"down_mbps": 0.001, "latency_s": 0.5}}]  # fmt: skip
    runs = []
    for given in (delay, {"name": "measured", "file": str(file)}):
        clients = {"count": 6, "delay": given, "groups": groups,
                   "stragglers": {"fraction": 0.2, "slowdown": 3}}  # fmt: skip
        made = {"name": "case", "rounds": 12, "executor": "serial", "clients": clients, **RING,
                "problem": {"name": "least-squares", "dataset": data},
                "algorithms": [{"local": LOCAL} | CASES[case]]}  # fmt: skip
        runs.append(tasks_of(made))
    assert runs[0] == runs[1]
    assert len({task[0] for task in runs[0]}) > 6  # the clock moved on


def test_walks_number_no_tasks_of_clients(tmp_path, mixed):
    measured(tmp_path, "client,round,seconds\n" + "".join(f"{i},1,1\n" for i in range(6)))
    made = mixed(
        clients={"count": 6, "delay": {"name": "measured", "file": str(tmp_path / "times.csv")}},
        participation={},
        **RING,
    )
    made["algorithms"] = [{"name": "multi-walk", "local": LOCAL}]
    with pytest.raises(ScenarioError, match=r"'measured' needs rounds, or tasks .* numbers the"):
        api.prepare(api.read(made))
