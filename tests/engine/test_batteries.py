"""Batteries against devices that are played one by one, from segment to segment."""

import numpy as np
import pytest

import rayfed
from rayfed import api
from rayfed.core.errors import ScenarioError

MODEL, HOUR = 8 * 3, 3600.0


class Device:
    """A device with a battery: its tasks so far, and the level that follows from them."""

    def __init__(self, rng):
        self.pace, self.steps = float(rng.uniform(100, 1500)), int(rng.integers(1, 4))
        self.latency, self.mbps = float(rng.uniform(0, 300)), 10 ** rng.uniform(-6.5, -5)
        names = ("compute_w", "active_w", "tail_w")
        self.energy = {name: float(rng.uniform(0.5, 5)) for name in names}
        self.energy |= {"down_j_per_mb": 4e6, "up_j_per_mb": 9e6, "tail_s": 400.0}
        share = float(rng.uniform(0.1, 1))
        self.battery = {
            "capacity_wh": float(rng.uniform(0.5, 4)), "low": share, "high": share,
            "least": float(rng.uniform(0.05, 0.3)), "charge_w": float(rng.uniform(0.3, 6)),
            "from_h": float(rng.uniform(0, 12)), "to_h": float(rng.uniform(0, 12)),
        }  # fmt: skip
        if rng.random() < 0.2:
            self.battery["charge_w"] = 0.0
        self.capacity = HOUR * self.battery["capacity_wh"]
        self.least = self.battery["least"] * self.capacity
        self.begun, self.arrived = [], None  # starts of tasks, and of the last one with a reply

    @property
    def group(self):
        return {
            "delay": {"name": "constant", "mean_s": self.pace}, "local": {"steps": self.steps},
            "network": {"latency_s": self.latency, "down_mbps": self.mbps, "up_mbps": self.mbps},
            "energy": {**self.energy, "battery": self.battery},
        }  # fmt: skip

    def segments(self, start):
        """Return power, beginning and end of a task's parts, and the arrival of the reply."""
        way, work = self.energy, self.pace * self.steps
        sent = self.latency + 8e-6 * MODEL / self.mbps
        a, b, c = start + sent, start + sent + work, start + 2 * sent + work
        tail = min(way["tail_s"], work)
        active = way["active_w"]
        parts = [
            (active + 1e-6 * MODEL * way["down_j_per_mb"] / sent, start, a),
            (way["compute_w"] + way["tail_w"], a, a + tail), (way["compute_w"], a + tail, b),
            (active + 1e-6 * MODEL * way["up_j_per_mb"] / sent, b, c),
            (way["tail_w"], c, c + way["tail_s"]),
        ]  # fmt: skip
        return parts, c

    def charging(self, now):
        """Return whether it charges now, and until when that holds."""
        now += 1e-6  # edges are rounded
        day, hour = now // 86400 * 86400, now % 86400 / HOUR
        first, last = self.battery["from_h"], self.battery["to_h"]
        on = first <= hour < last if first < last else not last <= hour < first
        later = [h for h in (first, last, first + 24, last + 24) if h > hour]
        return on, day + HOUR * min(later)

    def charged(self, level, now, until, goal=np.inf):
        """Return the level after charging until a time, or the time at which a goal is reached."""
        while now < until:
            on, end = self.charging(now)
            end, power = min(end, until), self.battery["charge_w"] if on else 0.0
            if level + power * (end - now) >= goal > level:
                return now + (goal - level) / power
            level, now = min(level + power * (end - now), self.capacity), end
            if now > 1e7:
                break
        return level if np.isinf(goal) else np.inf

    def state(self, now):
        """Return the level now, if the last task ends, and since when it would charge."""
        level, since = self.battery["low"] * self.capacity, 0.0
        for k, start in enumerate(self.begun):
            level = self.charged(level, since, start)
            stop = self.begun[k + 1] if k + 1 < len(self.begun) else now
            since, parts = start, self.segments(start)[0]
            for watts, a, end in parts:
                b = min(end, stop)
                if b <= a:
                    break
                if (watts, a, end) != parts[-1] and level < watts * (b - a):
                    since, level = a + level / watts, 0.0
                    break
                since, level = b, level - watts * (b - a)  # below 0 by a tail
        return self.charged(level, since, now)

    def able(self, now):
        return self.state(now) >= self.least * (1 - 1e-9)

    def waits_until(self, now):
        """Return when it may begin: it charges when the tail of its last task is over."""
        if self.begun:
            parts, _ = self.segments(self.begun[-1])
            now = max(now, parts[-1][2]) if self.begun[-1] == self.arrived else now
        return self.charged(self.state(now), now, 2e7, self.least)

    def task(self, start):
        """Begin a task and return when it is over, and whether the reply arrives."""
        level = self.state(start)
        self.begun.append(start)
        parts, arrives = self.segments(start)
        for watts, a, b in parts[:-1]:
            if level < watts * (b - a):
                return a + level / watts, False
            level -= watts * (b - a)
        self.arrived = start
        return arrives, True


def devices(seed):
    rng = np.random.default_rng(seed)
    return [Device(rng) for _ in range(int(rng.integers(2, 6)))]


def scenario(them, method, rounds, **rule):
    data = {"name": "linear", "features": 3, "samples": len(them) * 4}
    return {
        "name": "batteries", "rounds": rounds, "evaluate": {"every": rounds}, "dtype": "float64",
        "executor": "serial", "algorithms": [{**method, "local": {"lr": 0.01}}],
        "problem": {"name": "least-squares", "dataset": data, "intercept": False},
        "clients": {
            "count": len(them),
            "groups": [{"ids": [i], **each.group} for i, each in enumerate(them)],
        },
        "participation": rule,
    }  # fmt: skip


def rounds_by_hand(them, count, deadline):
    """Yield time, clients used, dropped and late, and empty batteries of each round."""
    now, known = 0.0, set()
    for _ in range(count):
        while not any(each.able(now) for each in them):
            then = min(each.waits_until(now) for each in them)
            if np.isinf(then):
                break
            now = then
        cohort = [each for each in them if each.able(now)]
        ends = [each.task(now) for each in cohort]
        known |= set(map(id, cohort))
        close = max((end for end, _ in ends), default=now)
        close = min(close, now + deadline)
        late = sum(end > close for end, _ in ends)
        dropped = sum(end <= close and not arrives for end, arrives in ends)
        now = close
        empty = sum(id(each) in known and not each.able(now) for each in them)
        yield now, len(cohort) - late - dropped, dropped, late, empty


@pytest.mark.parametrize("deadline", [None, 2500.0])
@pytest.mark.parametrize("seed", range(8))
def test_rounds_are_those_of_devices_played_one_by_one(tmp_path, seed, deadline):
    them = devices(seed)
    made = scenario(them, {"name": "fedavg"}, 12, deadline_s=deadline)
    rows = rayfed.run(made, out=tmp_path / "out", page=False).rounds.iloc[1:]
    wanted = np.array(list(rounds_by_hand(them, 12, deadline or np.inf)))
    found = rows[["time_s", "participants", "dropped", "late", "batteries_empty"]]
    np.testing.assert_allclose(found.to_numpy(float), wanted, rtol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_arrivals_are_those_of_devices_played_one_by_one(tmp_path, seed):
    them = devices(seed)
    made = scenario(them, {"name": "fedasync", "concurrency": len(them)}, 12)
    events = rayfed.run(made, out=tmp_path / "out", page=False).events
    assert (events["status"] == "dropped").any() or seed not in (0, 1)
    for client, own in events.sort_values("start_s").groupby("client"):
        each, now = them[client], 0.0
        for event in own.itertuples():
            now = now if each.able(now) else each.waits_until(now)
            end, arrives = each.task(now)
            assert event.start_s == pytest.approx(now, rel=1e-9)
            if event.status != "unfinished":
                assert event.end_s == pytest.approx(end, rel=1e-9)
                assert event.status == ("used" if arrives else "dropped")
            now = end


@pytest.mark.parametrize("name", ["fedavg", "fedbuff"])
def test_a_level_that_is_reached_as_charging_stops_is_enough(tmp_path, name):
    them = devices(0)[:1]
    them[0].battery = {"capacity_wh": 8, "low": 0, "high": 0, "least": 1, "charge_w": 1, "to_h": 8}
    made = scenario(them, {"name": name}, 1)
    events = rayfed.run(made, out=tmp_path / "out", page=False).events
    assert events["start_s"].iloc[0] == 8 * HOUR


@pytest.mark.guard
@pytest.mark.parametrize("name", ["fedavg", "fedbuff"])
def test_stopped_and_resumed_it_is_the_same(tmp_path, name):
    them = devices(3)
    made = scenario(them, {"name": name}, 10, timeout_s=4000)
    whole = rayfed.run(made, out=tmp_path / "whole", page=False).rounds
    api.run({**made, "rounds": 4}, out=tmp_path / "part", page=False)
    path = tmp_path / "part" / "scenario.yaml"
    path.write_text(path.read_text().replace("rounds: 4", "rounds: 10"))
    rest = api.resume(tmp_path / "part", page=False).rounds
    columns = ["round", "time_s", "participants", "dropped", "energy_j", "batteries_empty"]
    np.testing.assert_array_equal(rest[columns], whole[columns])
    assert whole["dropped"].sum() > 0


@pytest.mark.parametrize(
    ("method", "rule"),
    [
        ({"name": "fedavg"}, {"retries": 2}),
        ({"name": "fedavg"}, {"deadline_s": 1000, "late": "stale"}),
        ({"name": "fedavg"}, {"cohort": 1, "over_select": 2}),
        ({"name": "fedavg"}, {"cohort": 1, "select": {"name": "power-of-d", "d": 2}}),
        ({"name": "fedbuff", "concurrency": 2}, {"retries": 1, "timeout_s": 3000}),
        ({"name": "fedat", "tiers": 2}, {}),
    ],
)
def test_no_battery_gives_more_than_it_has(tmp_path, method, rule):
    """Without charging, all energy but the last tails comes out of the first levels."""
    them = devices(5)
    for each in them:
        each.battery["charge_w"] = 0.0
    made = scenario(them, method, 25, **rule)
    rows = rayfed.run(made, out=tmp_path / "out", page=False).rounds
    first = sum(each.battery["low"] * each.capacity for each in them)
    tails = sum(each.energy["tail_w"] * each.energy["tail_s"] for each in them)
    assert 0.2 * first < rows["energy_j"].sum() <= first + tails
    assert rows["batteries_empty"].iloc[-1] >= len(them) - 1
    assert rows["participants"].iloc[-1] == 0


def test_a_tail_of_a_poll_may_leave_nothing_for_the_task_after_it(tmp_path):
    """The poll of the fast client is over long before the others: its tail takes 204 J of 36 J."""
    battery = {"capacity_wh": 0.01}
    fast = {
        "ids": [0], "delay": {"name": "constant", "mean_s": 1.0}, "network": {"latency_s": 1.0},
        "energy": {"compute_w": 1, "tail_w": 5, "tail_s": 100, "battery": battery},
    }  # fmt: skip
    slow = {
        "ids": [1, 2],
        "delay": {"name": "constant", "mean_s": 10.0},
        "network": {"latency_s": 20.0},
    }
    made = scenario(
        devices(0), {"name": "fedavg"}, 1, cohort=3, select={"name": "power-of-d", "d": 4}
    )
    made["clients"] = {"count": 4, "groups": [fast, slow]}
    events = rayfed.run(made, out=tmp_path / "out", page=False).events
    last = events[events["client"] == 0].iloc[-1]
    assert (last["ask"], last["status"]) == (1, "dropped")
    assert last["end_s"] >= last["start_s"] > 40


@pytest.mark.parametrize(("least", "begun", "energy"), [(0.05, 3, 36), (0.5, 2, 20), (0.9, 1, 10)])
def test_a_client_below_least_drops_out_of_a_later_ask(tmp_path, least, begun, energy):
    """Two requests of 10 s at 1 W take 20 of 36 J, and a third of 50 s would take all."""
    own = {"capacity_wh": 0.01, "least": least}
    first = {"ids": [0], "network": {"latency_s": 1}, "energy": {"compute_w": 1, "battery": own}}
    made = scenario(devices(0), {"name": "giant"}, 1)
    made["algorithms"] = ["giant"]
    made["clients"] = {"count": 3, "delay": {"name": "constant", "mean_s": 10}, "groups": [first]}
    result = rayfed.run(made, out=tmp_path / "out", page=False)
    events = result.events[result.events["client"] == 0]
    took = (events["end_s"] - events["start_s"]).tolist()
    assert events["status"].tolist() == ["used"] * min(begun, 2) + ["dropped"]
    assert took == [[12, 0], [12, 12, 0], [12, 12, 17]][begun - 1]
    assert result.rounds["energy_j"].iloc[-1] == pytest.approx(energy)


NO_TIME = "takes 9 J/MB for uploads that take no time; give network.up_mbps or latency_s"


@pytest.mark.parametrize(
    ("network", "group", "text"),
    [
        ({}, {}, f"clients.energy.battery: {NO_TIME}"),
        ({"down_mbps": 1}, {}, f"clients.energy.battery: {NO_TIME}"),
        ({"up_mbps": 1}, {}, ""),
        ({"latency_s": 1}, {}, ""),
        ({"latency_s": 1}, {"network": {}}, f"clients.energy.battery: {NO_TIME}"),
        ({"latency_s": 1}, {"network": {}, "energy": {"compute_w": 1}}, ""),
    ],
)
def test_transfers_that_take_energy_and_no_time_are_refused(network, group, text):
    """No battery could end in one: the whole of it would be paid, or nothing."""
    made = scenario(devices(0), {"name": "fedavg"}, 2)
    energy = {"compute_w": 1, "up_j_per_mb": 9, "battery": {"capacity_wh": 1}}
    groups = [{"ids": [1], **group}] if group else []
    made["clients"] = {"count": 4, "energy": energy, "network": network, "groups": groups}
    if not text:
        api.prepare(api.read(made))
        return
    with pytest.raises(ScenarioError) as caught:
        api.prepare(api.read(made))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("battery", "more", "text"),
    [
        ({"capacity_wh": 0}, {}, "battery.capacity_wh"),
        (
            {"capacity_wh": 1, "low": 0.5, "high": 0.4},
            {},
            "battery.low: found 0.5, above high, 0.4",
        ),
        ({"capacity_wh": 1, "low": 50}, {}, "battery.low: found 50; it should be at most 1"),
        ({"capacity_wh": 1, "from_h": 7, "to_h": 7}, {}, "battery.to_h: found 7, as from_h"),
        ({"capacity_wh": 1}, {"topology": "ring", "algorithms": ["d-psgd"]}, "needs a server"),
        ({"capacity_wh": 1}, {"algorithms": ["proxskip"]}, "needs all clients"),
        (
            {"capacity_wh": 1},
            {
                "privacy": {"noise": 1, "delta": 1e-5},
                "participation": {"select": "poisson", "cohort": 2},
                "uplink": [{"name": "clip", "norm": 1}],
                "algorithms": [{"name": "fedavg", "weights": "uniform"}],
            },
            "needs clients without memory, but a battery keeps state between rounds; leave it out",
        ),
    ],
)
def test_bad_settings_are_refused_in_one_line(battery, more, text):
    made = scenario(devices(0), {"name": "fedavg"}, 2)
    made["clients"] = {"count": 4, "energy": {"compute_w": 1, "battery": battery}}
    with pytest.raises(ScenarioError, match=text) as caught:
        api.prepare(api.read(made | more))
    assert "\n" not in str(caught.value)
