"""Energy of runs against a loop over the tasks of each client."""

import numpy as np
import pytest

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.runs.forecast import forecast

MODEL = 8 * 3  # bytes
HOURS = [100.0, 500.0, 0.0, 300.0]


class Case:
    """Random clients in two groups of devices: unequal speeds, links, steps, powers and radios."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.count = int(rng.integers(3, 8))
        self.pace, self.steps = rng.uniform(100, 3000, self.count), rng.integers(1, 4, self.count)
        self.latency = rng.uniform(0, 300, self.count)
        self.down, self.up = 10 ** rng.uniform(-6.5, -5, (2, self.count))
        names = ("compute_w", "down_j_per_mb", "up_j_per_mb", "active_w", "tail_w", "tail_s")
        draws = [{name: float(rng.uniform(0.1, 9)) for name in names} for _ in range(2)]
        self.energy = [
            {**each, "tail_s": float(rng.uniform(0, 900)), "down_j_per_mb": 1e5 * k + 1e4}
            for k, each in enumerate(draws)
        ]
        self.second = rng.random(self.count) < 0.5

    def of(self, client):
        return self.energy[int(self.second[client])]

    def scenario(self, folder, method, rule, clients):
        table = "hour,g_per_kwh\n" + "\n".join(f"{h},{g}" for h, g in enumerate(HOURS))
        (folder / "grid.csv").write_text(table)
        carbon = {"carbon": str(folder / "grid.csv"), "start_h": 1.5}
        groups = [
            {
                "ids": [i], "delay": {"name": "constant", "mean_s": self.pace[i]},
                "local": {"steps": int(self.steps[i])},
                "network": {
                    "latency_s": self.latency[i], "down_mbps": self.down[i], "up_mbps": self.up[i],
                    "loss": 0.2,
                },
                "energy": self.of(i) | carbon,
            }
            for i in range(self.count)
        ]  # fmt: skip
        data = {"name": "linear", "features": 3, "samples": self.count * 4}
        return {
            "name": "energy", "rounds": 5, "evaluate": {"every": 5}, "dtype": "float64",
            "executor": "serial", "algorithms": [{**method, "local": {"lr": 0.01}}],
            "problem": {"name": "least-squares", "dataset": data, "intercept": False},
            "clients": {"count": self.count, "groups": groups, **clients},
            "participation": rule,
        }  # fmt: skip


def grams(watts, start_s, end_s):
    """Return the grams of a power, hour by hour."""
    total, now = 0.0, start_s
    while now < end_s:
        hour = (now + 5400) // 3600
        until = min(end_s, (hour + 1) * 3600 - 5400)
        until = until if until > now else end_s  # rounding
        total += watts * (until - now) / 3.6e6 * HOURS[int(hour) % len(HOURS)]
        now = until
    return total


def spans(case, event, up_bytes):
    """Yield power, beginning and end of what a task does if nothing stops it: W, s, s."""
    i, way = event.client, case.of(event.client)
    down_s = case.latency[i] + 8e-6 * MODEL / case.down[i]
    up_s = case.latency[i] + 8e-6 * up_bytes / case.up[i]
    a, b = event.start_s, event.start_s + down_s
    c = b + event.compute_s
    yield True, way["active_w"] + 1e-6 * way["down_j_per_mb"] * MODEL / down_s, a, b
    yield False, way["compute_w"], b, c
    yield True, way["tail_w"], b, min(c, b + way["tail_s"])
    yield True, way["active_w"] + 1e-6 * way["up_j_per_mb"] * up_bytes / up_s, c, c + up_s
    yield True, way["tail_w"], c + up_s, c + up_s + way["tail_s"]


def by_hand(case, events, now_s, row, up_bytes):
    """Return joules, those of the radio, those in vain, and grams up to a row."""
    joules = radio = vain = carbon = 0.0
    for _, own in events.groupby("client"):
        own = own.sort_values("start_s")
        starts = [*own["start_s"].tolist()[1:], np.inf]
        for event, next_s in zip(own.itertuples(), starts, strict=True):
            if not 1 <= event.round <= row:
                continue
            plan = list(spans(case, event, up_bytes))
            arrives = event.end_s >= plan[3][3] - 1e-6
            stop = min(next_s, now_s) if arrives else min(next_s, now_s, event.end_s)
            for on, watts, start, end in plan:
                end = min(end, stop)
                if end > start:
                    joules += watts * (end - start)
                    radio += watts * (end - start) if on else 0.0
                    vain += watts * (end - start) if event.status != "used" else 0.0
                    carbon += grams(watts, start, end)
    return joules, radio, vain, carbon


AWAY = {"availability": {"name": "markov", "mean_on_s": 9000, "mean_off_s": 3000}}
CASES = {
    "rounds": ({"name": "fedavg"}, {}, {}),
    "cohorts": ({"name": "fedavg"}, {"cohort": 2, "over_select": 1.5}, AWAY),
    "deadline": ({"name": "fedavg"}, {"deadline_s": 3000}, AWAY),
    "partial": ({"name": "fedavg"}, {"deadline_s": 5000, "late": "partial"}, {}),
    "stale": ({"name": "fedavg"}, {"deadline_s": 3000, "late": "stale"}, {}),
    "retries": ({"name": "fedavg"}, {"retries": 2, "timeout_s": 8000}, AWAY),
    "crashes": ({"name": "fedavg"}, {}, {"crash": {"probability": 0.5, "restart_s": 60}}),
    "edges": ({"name": "hierfavg", "edges": [0, 1, 0], "edge_rounds": 2}, {}, {}),
    "arrivals": ({"name": "fedasync", "concurrency": 3}, {"timeout_s": 9000}, AWAY),
    "buffer": ({"name": "fedbuff", "concurrency": 2, "buffer": 3}, {}, {}),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_every_row_is_the_loop_over_tasks(tmp_path, name, seed):
    case = Case(seed)
    method, rule, clients = CASES[name]
    if "edges" in method:
        method = {**method, "edges": [i % 2 for i in range(case.count)]}
    made = case.scenario(tmp_path, method, rule, clients)
    result = rayfed.run(made, out=tmp_path / "out", page=False)
    events, up = result.events, MODEL
    rows = result.rounds.iloc[1:]
    wanted = [by_hand(case, events, row.time_s, row.round, up) for row in rows.itertuples()]
    found = rows[["energy_j", "energy_radio_j", "energy_wasted_j", "carbon_g"]].cumsum()
    np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-7, atol=1e-7)
    assert found.to_numpy()[-1].min() >= 0
    assert found["energy_j"].is_monotonic_increasing


def small(method, energy, **more):
    data = {"name": "linear", "features": 3, "samples": 40}
    return {
        "name": "energy", "rounds": 3, "executor": "serial",
        "problem": {"name": "least-squares", "dataset": data},
        "clients": {"count": 5, "network": {"latency_s": 0.5}, "energy": energy},
        "algorithms": [{"name": method, "local": {"steps": 2, "lr": 0.01}}],
    } | more  # fmt: skip


BYTES = {"compute_w": 0, "down_j_per_mb": 3e4, "up_j_per_mb": 7e4}


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("fedavg", {"uplink": [{"name": "top-k", "k": 2}]}),
        ("fedavg", {"participation": {"cohort": 2, "select": {"name": "power-of-d", "d": 4}}}),
        ("scaffold", {}),
        ("d-psgd", {"topology": "ring"}),
        ("ad-psgd", {"topology": "ring"}),
        ("multi-walk", {"topology": "ring"}),
    ],
)
def test_energy_of_bytes_is_that_of_the_counted_bytes(tmp_path, method, more):
    """Every message arrives, so that each byte that is counted was paid for."""
    rows = rayfed.run(small(method, BYTES, **more), out=tmp_path / "out", page=False).rounds
    wanted = 0.03 * rows["bytes_down"] + 0.07 * rows["bytes_up"]
    assert wanted.iloc[1:].min() > 0
    np.testing.assert_allclose(rows["energy_j"].iloc[1:], wanted.iloc[1:], rtol=1e-12)
    np.testing.assert_array_equal(rows["energy_radio_j"], rows["energy_j"])


@pytest.mark.parametrize("method", ["d-psgd", "ad-psgd", "multi-walk", "gossip-learning"])
def test_messages_cost_energy_where_steps_are_lost_too(tmp_path, method):
    """A walk goes on without the steps that a crash has ended, and a message was there before."""
    made = small(method, BYTES, topology="ring", rounds=30)
    made["clients"] |= {"count": 6, "crash": {"probability": 0.5}}
    rows = rayfed.run(made, out=tmp_path / "out", page=False).rounds
    assert rows["dropped"].sum() > 5
    wanted = 0.03 * rows["bytes_down"] + 0.07 * rows["bytes_up"]
    np.testing.assert_allclose(rows["energy_j"].iloc[1:], wanted.iloc[1:], rtol=1e-12)


@pytest.mark.parametrize("method", ["ad-psgd", "gossip-learning"])
def test_ends_of_a_meeting_with_other_radios_are_refused(method):
    made = small(method, BYTES, topology="ring")
    made["clients"]["groups"] = [{"ids": [0], "energy": {**BYTES, "up_j_per_mb": 1}}]
    with pytest.raises(ScenarioError, match="charges an exchange to one of its ends"):
        api.prepare(api.read(made))
    made["clients"]["groups"][0]["energy"] = {**BYTES, "compute_w": 4}
    api.prepare(api.read(made))


def test_a_round_of_nobody_costs_nothing(tmp_path):
    never = {"name": "trace", "file": str(tmp_path / "trace.csv")}
    (tmp_path / "trace.csv").write_text("client,start_s,end_s\n0,50,60\n")
    made = small("fedavg", {"compute_w": 4, "radio": "3g", "g_per_kwh": 10})
    made["clients"] |= {"count": 1, "availability": never}
    made["participation"] = {"patience_s": 10}
    rows = rayfed.run(made, out=tmp_path / "out", page=False).rounds
    assert rows["participants"].tolist() == [0, 0, 0, 0]
    assert (rows[["energy_j", "carbon_g"]].iloc[1:] == 0).all(axis=None)


@pytest.mark.guard
def test_stopped_and_resumed_it_is_the_same(tmp_path):
    """Tails and late tasks outlast rows, so that their state is in the checkpoint."""
    case = Case(1)
    for each in case.energy:
        each["tail_s"] = 1e5
    rule = {"cohort": 1, "over_select": 2}
    made = case.scenario(tmp_path, {"name": "fedavg"}, rule, {})
    whole = rayfed.run(made, out=tmp_path / "whole", page=False).rounds
    api.run({**made, "rounds": 2}, out=tmp_path / "part", page=False)
    path = tmp_path / "part" / "scenario.yaml"
    path.write_text(path.read_text().replace("rounds: 2", "rounds: 5"))
    rest = api.resume(tmp_path / "part", page=False).rounds
    columns = ["round", "energy_j", "energy_radio_j", "energy_wasted_j", "carbon_g"]
    np.testing.assert_array_equal(rest[columns], whole[columns])


@pytest.mark.parametrize(
    ("energy", "more", "text"),
    [
        ({"compute_w": -1}, {}, "compute_w: found -1; it should be at least 0"),
        ({}, {}, "compute_w: is missing; give watts, or a delay trace with a column watts"),
        ({"compute_w": 1, "start_h": 2}, {}, "start_h: goes with a file of carbon"),
        ({"compute_w": 1, "radio": "5g"}, {}, "radio"),
        (
            {"compute_w": 1},
            {"server": {"uploads_mbps": 1}},
            "clients.energy: energy needs transfer times",
        ),
        ({"compute_w": 1}, {"participation": {"interrupted": "resume"}}, "tasks that do not pause"),
        (
            {"compute_w": 1, "radio": "wifi"},
            {"topology": "ring", "algorithms": ["d-psgd"]},
            "energy with a radio's power needs a server",
        ),
    ],
)
def test_bad_settings_are_refused_in_one_line(energy, more, text):
    made = small("fedavg", energy)
    made["clients"]["network"]["down_mbps"] = 1
    with pytest.raises(ScenarioError, match=text) as caught:
        api.prepare(api.read(made | more))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("hour,g_per_kwh\n0,1\n2,3\n", "hour 1 is missing; give every hour from 0 to 1 once"),
        ("hour,g_per_kwh\n0,1\n0,3\n", "an hour comes twice"),
        ("hour,g_per_kwh\n0,1\n0.5,3\n", "an hour is no whole number"),
        ("hour,g_per_kwh\n1700000000000,1\n", "looks like milliseconds since 1970"),
        ("hour,g_per_kwh\n0,-1\n", "row 1: g_per_kwh is '-1'; give a number of at least 0"),
        ("hour,g_per_kwh\n0,\n", "row 1: g_per_kwh is 'nan'"),
        ("time,g\n0,1\n", "has the columns time, g; give hour and g_per_kwh"),
    ],
)
def test_bad_tables_are_refused_in_one_line(tmp_path, table, text):
    (tmp_path / "grid.csv").write_text(table)
    made = small("fedavg", {"compute_w": 1, "carbon": str(tmp_path / "grid.csv")})
    with pytest.raises(ScenarioError, match=text) as caught:
        api.read(made)
    assert "clients.energy.carbon: grid.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_forecast_is_what_the_run_spends(tmp_path):
    made = Case(2).scenario(tmp_path, {"name": "fedavg"}, {"deadline_s": 3000}, AWAY)
    (run,) = api.prepare(api.read(made)).runs
    wanted = rayfed.run(made, out=tmp_path / "out", page=False).rounds["energy_j"].iloc[1:]
    assert forecast(run).energy_j == pytest.approx(wanted.mean(), rel=1e-12)
    (plain,) = api.prepare(api.read({**made, "clients": {"count": 4}})).runs
    assert forecast(plain).energy_j is None
