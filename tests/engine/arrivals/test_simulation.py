"""The schedule of arrivals against a simulation of events that is written for the test alone."""

import numpy as np

from rayfed import api, testing
from rayfed.core.rng import Key
from tests.fakes.stepping import step

SCENARIOS = 200


def drawn(rng):
    """Return a random small scenario of FedBuff."""
    count = int(rng.integers(1, 7))
    law = rng.choice(["constant", "lognormal", "exponential"])
    delay = {"name": str(law), "mean_s": float(rng.choice([0.5, 1.0, 3.0]))}
    availability = "always"
    if rng.random() < 0.6:
        groups, period_s = int(rng.integers(1, count + 1)), float(rng.choice([1.0, 2.5, 7.0]))
        availability = {"name": "cyclic", "groups": groups, "period_s": period_s}
    places, buffer = int(rng.integers(1, count + 2)), int(rng.integers(1, 5))
    timeout_s = float(rng.choice([2.0, 6.0])) if rng.random() < 0.4 else None
    steps = int(rng.integers(1, 4))
    return {
        "name": "drawn",
        "seeds": [int(rng.integers(1000))],
        "rounds": int(rng.integers(1, 9)),
        "problem": {
            "name": "quadratic", "dataset": {"name": "quadratic", "clients": count, "features": 1},
        },
        "clients": {
            "delay": delay, "availability": availability,
            "stragglers": {"fraction": 0.3, "slowdown": 4},
            "network": {"latency_s": float(rng.choice([0.0, 0.25]))},
        },
        "participation": {"timeout_s": timeout_s},
        "algorithms": [{
            "name": "fedbuff", "concurrency": places, "buffer": buffer,
            "local": {"steps": steps, "batch": "full", "lr": 1e-3},
        }],
        "executor": "serial",
    }  # fmt: skip


def simulated(scenario, population):  # noqa: C901 - one loop, to be read from top to bottom
    """Return the works that end: row, client, start, end, status, version, staleness.

    Time goes from instant to instant. At each, tasks that are over are handled client by client,
    and again those that took no time; then free places are given to idle clients in the order of a
    keyed permutation. Tasks never end in a row of a later update than that which they belong to.
    """
    algorithm, rows = scenario["algorithms"][0], scenario["rounds"]
    seed, count = scenario["seeds"][0], population.count
    wait, steps = scenario["participation"]["timeout_s"], algorithm["local"]["steps"]
    places = min(algorithm["concurrency"], count)
    latency = scenario["clients"]["network"]["latency_s"]
    now, version, row, dispatched, failed_in_a_row = 0.0, 0, 1, 0, 0
    under_way, buffer, done, times = {}, [], [], {}
    while True:
        over = sorted(c for c, task in under_way.items() if task["over"] <= now)
        for client in over:
            task = under_way.pop(client)
            if task["status"] == "used":
                failed_in_a_row = 0
                buffer.append(task)
            else:
                done.append((row, client, task["start"], task["over"], task["status"],
                             task["version"], -1))  # fmt: skip
                failed_in_a_row += 1
            if len(buffer) == algorithm["buffer"]:
                done += [(row, w["client"], w["start"], w["over"], "used", w["version"],
                          version - w["version"]) for w in buffer]  # fmt: skip
                buffer, version, row = [], version + 1, row + 1
            elif failed_in_a_row == 2 * places:
                failed_in_a_row, row = 0, row + 1
            if row > rows:
                return done
        order = Key(seed, "cohort").permutation(count, round=dispatched + 1)(np.arange(count))
        if places - len(under_way) == count:
            order = np.arange(count)
        there = [i for i in order.tolist() if population.available([i], now, 1)[0]]
        chosen = sorted([i for i in there if i not in under_way][: places - len(under_way)])
        for client in chosen:
            dispatched += 1
            times[client] = times.get(client, 0) + 1
            pace = population.seconds_per_step([client], times[client], 0)[0]
            end = now + latency + pace * steps + latency
            gone = population.next_change([client], now)[0]
            status, last = ("dropped", gone) if gone < end else ("used", end)
            if wait is not None and last > now + wait:
                status, last = "late", now + wait
            under_way[client] = {"client": client, "start": now, "over": last, "status": status,
                                 "version": version}  # fmt: skip
        instants = [task["over"] for task in under_way.values()]
        if len(under_way) < places:
            idle = [i for i in range(count) if i not in under_way]
            instants += [population.next_change([i], now)[0] for i in idle]
        now = max(now, min(instants))


def recorded(plan):
    """Return the same of the loop of arrivals."""
    (run,) = plan.runs
    loop = testing.loop(plan, run)
    state, _ = loop.start()
    names = ("round", "client", "start_s", "end_s", "status", "version", "staleness")
    rows = []
    for _ in range(run.ending.rounds):
        state, _, events = step(loop, state)
        for part in events:
            rows += zip(*(part[name].tolist() for name in names), strict=True)
    words = ("used", "late", "dropped")
    return [(*row[:4], words[row[4]], *row[5:]) for row in rows]


def test_uploads_that_take_no_time_are_the_same_with_overlap():
    rng = np.random.default_rng(1)
    for number in range(30):
        scenario = drawn(rng)
        scenario["clients"]["network"]["latency_s"] = 0.0
        alone = recorded(api.prepare(api.read(scenario)))
        scenario["algorithms"][0]["overlap"] = True
        overlapped = recorded(api.prepare(api.read(scenario)))
        assert alone == overlapped, f"scenario {number}: {scenario}"


def test_agrees_with_an_independent_simulation_of_events():
    rng = np.random.default_rng(0)
    kinds = set()
    for number in range(SCENARIOS):
        scenario = drawn(rng)
        plan = api.prepare(api.read(scenario))
        wanted = simulated(scenario, plan.runs[0].federation.population)
        found = recorded(plan)
        assert sorted(found) == sorted(wanted), f"scenario {number}: {scenario}"
        kinds |= {row[4] for row in found}
    assert kinds == {"used", "late", "dropped"}
