"""Bandwidths over time: exact transfers, tasks of runs one by one, refusals and wrong files."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.engine.tasks import DROPPED
from rayfed.population import Connection, Group, Population
from rayfed.population.bandwidth import Bandwidths
from rayfed.testing import loop


def written(folder, text):
    (folder / "rates.csv").write_text(text)
    return str(folder / "rates.csv")


def plain(rows, repeat_s, size, start_s):
    """Return the seconds of a transfer as a fraction; rows are (seconds, Mbit/s)."""
    rows = [(Fraction(t), Fraction(rate) * 125_000) for t, rate in sorted(rows)]
    now, left = Fraction(start_s), Fraction(size)
    while left:
        lap = 0 if repeat_s is None else now // Fraction(repeat_s) * Fraction(repeat_s)
        before = [rate for t, rate in rows if t <= now - lap]
        rate = before[-1] if before else rows[0 if repeat_s is None else -1][1]
        later = [t + lap for t, _ in rows if t > now - lap]
        until = later[0] if later else None if repeat_s is None else lap + Fraction(repeat_s)
        if rate and (until is None or now + left / rate <= until):
            return now + left / rate - Fraction(start_s)
        left, now = left - (until - now) * rate, until
    return now - Fraction(start_s)


def table(seed, clients=5, longest_s=40):
    """Return random rows: several rates of 0, clients with one row, and rows in any order."""
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame({"client": draw.integers(0, clients, 30)})
    frame["time_s"] = draw.integers(0, 4 * longest_s, 30) / 4
    frame = pd.concat([frame, pd.DataFrame({"client": range(clients), "time_s": longest_s})])
    frame = frame.drop_duplicates(ignore_index=True)
    for way in ("down_mbps", "up_mbps"):
        frame[way] = draw.choice([0.0, 0.125, 1.0, 5.0], len(frame))
        frame.loc[frame.time_s == longest_s, way] = 2.0
    return frame.sample(frac=1, random_state=seed)


@pytest.mark.parametrize("repeat_s", [None, 40.25, 100.0])
@pytest.mark.parametrize("seed", range(5))
def test_transfers_are_those_of_a_plain_loop(tmp_path, seed, repeat_s):
    frame, draw = table(seed), np.random.default_rng(100 + seed)
    frame.to_parquet(tmp_path / "rates.parquet")
    rates = Bandwidths.read(str(tmp_path / "rates.parquet"), repeat_s)
    ids = draw.integers(0, 5, 200)
    sizes = draw.choice([0, 1, 1000, 10**6, 10**7], 200).astype(float)
    starts = draw.choice([0.0, 3.5, 39.75, 40.0, 40.25, 1e4], 200)
    for way, name in enumerate(("down_mbps", "up_mbps")):
        found = rates.seconds(way, ids, sizes, starts)
        rows = [frame[frame.client == i][["time_s", name]].to_numpy().tolist() for i in range(5)]
        expected = [
            float(plain(rows[i], repeat_s, size, start))
            for i, size, start in zip(ids.tolist(), sizes.tolist(), starts.tolist(), strict=True)
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert rates.seconds(0, ids[:0], sizes[:0], starts[:0]).shape == (0,)


def test_a_latency_comes_before_a_download_and_after_an_upload(tmp_path):
    """1 MB are 8 Mbit: 2 s at 4 Mbit/s, and 8 s at 1 Mbit/s from second 10 on."""
    file = written(tmp_path, "client,time_s,mbps\n0,0,4\n0,10,1\n")
    population = Population(1, 0, network=Connection(file=file, latency_s=1.0))
    for start_s, compute_s, down_s, up_s in [(0, 0, 3, 3), (9, 0, 9, 9), (0, 6, 3, 1 + 1 + 4)]:
        found = population.transfer_s([0], 1_000_000, 1_000_000, start_s, compute_s)
        assert [seconds.tolist() for seconds in found] == [[down_s], [up_s]]


def test_one_way_and_groups(tmp_path):
    file = written(tmp_path, "client,time_ms,up_kbps\n0,0,8000\n2,0,4000\n2,1000,8000\n")
    rest = Group(ids=(1,), network=Connection(down_mbps=2.0))
    network = Connection(file=file, down_mbps=16.0)
    population = Population(3, 0, network=network, groups=(rest,))
    down, up = population.transfer_s(np.arange(3), 1_000_000, 1_000_000)
    assert down.tolist() == [0.5, 4.0, 0.5]
    assert up.tolist() == [1.0, 0.0, 0.5 + 0.75]  # sent after 0.5 s


# -- runs -----------------------------------------------------------------------------------------

LOCAL = {"steps": 3, "batch": 2, "lr": 0.1}
CASES = {
    "rounds": {"name": "fedavg"},
    "a deadline": {"name": "fedavg", "participation": {"deadline_s": 12}},
    "stale": {"name": "fedavg", "participation": {"deadline_s": 12, "late": "stale"}},
    "over-selection": {"name": "fedavg", "participation": {"cohort": 2, "over_select": 2}},
    "retries": {"name": "fedavg", "participation": {"retries": 2, "timeout_s": 15}},
    "timeout": {"name": "fedasync", "participation": {"timeout_s": 15}},
    "arrivals": {"name": "fedbuff", "buffer": 2, "concurrency": 4},
    "coded arrivals": {"name": "fedbuff", "buffer": 2, "concurrency": 4},
    "tiers": {"name": "fedat", "tiers": 2},
    "edges": {"name": "hierfavg", "edges": [0, 0, 1, 1, 0], "edge_rounds": 2},
    "polls": {"name": "fedavg", "participation": {"cohort": 2, "select": "power-of-d"}},
}  # fmt: skip


def scenario(case, network, **more):
    clients = {"count": 5, "network": network, "delay": {"name": "exponential", "mean_s": 2},
               "crash": {"probability": 0.2, "restart_s": 1}}  # fmt: skip
    uplink = {"uplink": [{"name": "top-k", "share": 0.5}]} if "coded" in case else {}
    return {
        "name": "case", "rounds": 12, "executor": "serial", "clients": clients,
        "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 999}},
        "algorithms": [{"local": LOCAL} | CASES.get(case, {"name": "fedavg"})],
    } | uplink | more  # fmt: skip


def rows_of(made):
    engine = loop(made)
    state, _ = engine.start()
    for _ in range(12):
        state, row, ended = engine.step(state)
        tasks = [each.tasks for each in ended]
        yield row, [t for each in tasks for t in (each if isinstance(each, list) else each.rows())]


@pytest.mark.parametrize("case", CASES)
def test_one_rate_for_good_is_a_bandwidth(tmp_path, case):
    """Bitwise: 0.0078125 Mbit/s are 977 bytes a second, of models with 8 kB."""
    rates = "".join(f"{i},{t},0.0078125,0.015625\n" for i in range(5) for t in (0, 30))
    file = written(tmp_path, "client,time_s,down_mbps,up_mbps\n" + rates.replace(",30,", ",1e6,"))
    steady = {"down_mbps": 0.0078125, "up_mbps": 0.015625}
    runs = [
        list(rows_of(scenario(case, network | {"latency_s": 0.5, "loss": 0.1})))
        for network in (steady, {"file": file})
    ]
    assert repr(runs[0]) == repr(runs[1])


@pytest.mark.parametrize("case", CASES)
def test_every_task_takes_the_rates_of_its_time(tmp_path, case):
    """From the start, the computing time and the bytes of each, crashes and pauses included."""
    frame = table(3)
    frame[["down_mbps", "up_mbps"]] /= 64
    file = str(tmp_path / "rates.csv")
    frame.to_csv(file, index=False)
    ways = [[frame[frame.client == i][["time_s", way]].to_numpy().tolist() for i in range(5)]
            for way in ("down_mbps", "up_mbps")]  # fmt: skip
    network = {"file": file, "repeat_s": 50, "latency_s": 0.5}
    seen, now_s = 0, 0.0
    for row, tasks in rows_of(scenario(case, network)):
        for task in tasks:
            if task.status == DROPPED:
                continue
            down_s = 0.5 + plain(ways[0][task.client], 50, task.down_bytes, task.start_s + 0.5)
            sent_s = float(task.start_s + down_s) + task.compute_s
            up_s = 0.5 + plain(ways[1][task.client], 50, task.up_bytes, sent_s)
            assert task.end_s == pytest.approx(sent_s + float(up_s), rel=1e-9)
            seen += 1
        if case == "rounds":
            assert row["time_s"] == max(task.end_s for task in tasks if task.status != DROPPED)
            assert {task.start_s for task in tasks} == {now_s}
            now_s = row["time_s"]
    assert seen > 8


@pytest.mark.parametrize(
    ("shown", "more"),
    [
        ("late: partial", {"participation": {"deadline_s": 9, "late": "partial"}}),
        ("interrupted: resume", {"participation": {"interrupted": "resume"}}),
        ("the server", {"server": {"uploads_mbps": 9}}),
        ("overlap: true", {"algorithms": [{"name": "fedbuff", "overlap": True, "local": LOCAL}]}),
        ("'overlap-sgd'", {"algorithms": [{"name": "overlap-sgd", "local": LOCAL}]}),
        *(
            (f"'{name}'", {"topology": "ring", "algorithms": [{"name": name, "local": LOCAL}]})
            for name in ("d-psgd", "ad-psgd", "gossip-learning", "multi-walk")
        ),
    ],
)
def test_refusals_name_the_file(tmp_path, shown, more):
    rates = "".join(f"{i},0,1\n" for i in range(5))
    made = scenario("", {"file": written(tmp_path, "client,time_s,mbps\n" + rates)}, **more)
    del made["clients"]["crash"]
    match = f"{shown} needs bandwidths that do not change, but network.file changes them over time"
    with pytest.raises(ScenarioError, match=match):
        api.prepare(api.read(made))


WRONG = {
    "has the columns client, time_s; give client, time_s, and mbps": "client,time_s\n0,1\n",
    "has the columns client, mbps; give time_s": "client,mbps\n0,1\n",
    "has the columns client, time_s, mbps, up_mbps; give": "client,time_s,mbps,up_mbps\n0,0,1,1\n",
    "has the column 'up_mpbs'; did you mean 'up_mbps'?": (
        "client,time_s,down_mbps,up_mpbs\n0,0,1,1\n1,0,1,1\n"
    ),
    "row 2: mbps is '-1'; give a number of at least 0": "client,time_s,mbps\n0,0,1\n1,0,-1\n",
    "begins at 1.7e+12 s, which looks like milliseconds": "client,time_s,mbps\n0,1.7e12,1\n",
    "row 2: client 0 has time 3 twice": "client,time_s,mbps\n0,3,1\n0,3,2\n",
    "transfers of client 0 never end": "client,time_s,mbps\n0,0,1\n0,3,0\n1,0,1\n",
    "found client 2; ids go from 0 to 1": "client,time_s,mbps\n0,0,1\n1,0,1\n2,0,1\n",
    "has no row of client 1; add one": "client,time_s,mbps\n0,0,1\n",
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_files_are_one_line(tmp_path, message):
    file = written(tmp_path, WRONG[message])
    with pytest.raises(ScenarioError) as caught:
        Population(2, 0, network=Connection(file=file))
    assert caught.value.place == "clients.network.file"
    assert caught.value.problem.startswith(f"rates.csv: {message}")
    assert "\n" not in str(caught.value)


def test_settings_that_do_not_go_together(tmp_path):
    file = written(tmp_path, "client,time_s,mbps\n0,5,1\n")
    for place, text, network in [
        ("repeat_s", "goes with a file", {"repeat_s": 5}),
        ("file", "in place of 3 Mbit/s", {"file": file, "up_mbps": 3}),
        ("file", "has a row at 5 s, but repeat_s is 5", {"file": file, "repeat_s": 5}),
    ]:
        groups = (Group(ids=(0,), network=Connection(**network)),)
        with pytest.raises(ScenarioError, match=text) as caught:
            Population(2, 0, groups=groups)
        assert caught.value.place == f"clients.groups.0.network.{place}"


def test_names_of_clients(tmp_path):
    data = tmp_path / "rows.csv"
    data.write_text("client,a,y\nnorth,1,0\nsouth,2,1\nsouth,1,1\n")
    file = written(tmp_path, "client,time_s,mbps\nsouth,0,8\nnorth,0,4\n")
    problem = {"name": "least-squares", "dataset": str(data), "target": "y"}
    made = scenario("rounds", {}, problem=problem, clients={"network": {"file": file}})
    (run,) = api.prepare(api.read(made)).runs
    seconds, _ = run.federation.population.transfer_s(np.arange(2), 1_000_000, 0)
    assert dict(zip(run.federation.clients.names, seconds, strict=True)) == {"north": 2, "south": 1}
