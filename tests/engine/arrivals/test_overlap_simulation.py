"""Overlap with time-outs, retries and lost tasks against a simulation of events of its own."""

import math
from dataclasses import replace

import numpy as np
import pytest

from rayfed import api, testing
from rayfed.core.rng import Key
from rayfed.engine.timeline import Timeline
from tests.fakes.stepping import step

BYTES = 8  # of a model of one number
WORDS = ("used", "late", "dropped")


def drawn(rng):
    """Return a random small scenario; constant delays make many things happen at one instant."""
    count = int(rng.integers(1, 6))
    law = str(rng.choice(["constant", "constant", "exponential"]))
    down_s, up_s = float(rng.choice([0.0, 1.0, 2.0])), float(rng.choice([1.0, 4.0, 7.0]))
    network = {"up_mbps": 8e-6 * BYTES / up_s, "loss": float(rng.choice([0.0, 0.3]))}
    if rng.random() < 0.5:
        network["duplex"] = "half"
    if down_s:
        network["down_mbps"] = 8e-6 * BYTES / down_s
    rule = {"timeout_s": float(rng.choice([3.0, 5.0, 6.0, 9.0])), "retries": int(rng.integers(4))}
    availability = "always"
    if rng.random() < 0.4:
        groups = int(rng.integers(1, count + 1))
        availability = {"name": "cyclic", "groups": groups, "period_s": float(rng.choice([5, 12]))}
    return {
        "name": "drawn",
        "seeds": [int(rng.integers(1000))],
        "rounds": 12,
        "problem": {
            "name": "quadratic", "dataset": {"name": "quadratic", "clients": count, "features": 1},
        },
        "clients": {
            "delay": {"name": law, "mean_s": 1.0}, "network": network,
            "stragglers": {"fraction": 0.5, "slowdown": 2}, "availability": availability,
        },
        "participation": rule,
        "algorithms": [{
            "name": "fedbuff", "overlap": True, "buffer": int(rng.integers(1, 4)),
            "concurrency": int(rng.integers(1, count + 1)),
            "local": {"steps": int(rng.integers(1, 4)), "batch": "full", "lr": 1e-3},
        }],
        "executor": "serial",
    }  # fmt: skip


class Simulated:
    """The same server, client by client and instant by instant, in plain Python.

    A task is a dict. It ``computes`` until it has computed and the upload before has left; then it
    is ``ready`` until all who are asked at that instant have begun, and then it ``waits`` until the
    link is free, and ``sends``. On a half-duplex link one transfer of a client is under way.
    """

    def __init__(self, scenario, population):
        (self.algorithm,), self.population = scenario["algorithms"], population
        self.rule, self.seed = scenario["participation"], scenario["seeds"][0]
        self.rows, self.count = scenario["rounds"], population.count
        self.places = min(self.algorithm["concurrency"], self.count)
        self.now, self.version, self.row, self.begun, self.failed_in_a_row = 0.0, 0, 1, 0, 0
        self.tasks, self.buffer, self.done, self.times = [], [], [], {}
        self.half = scenario["clients"]["network"].get("duplex") == "half"

    def at(self, client, *stages):
        return [w for w in self.tasks if w["client"] == client and w["stage"] in stages]

    @property
    def computing(self):
        return [w["client"] for w in self.tasks if w["stage"] == "computes"]

    def free_s(self, task):
        sent = [w["arrives"] for w in self.at(task["client"], "waits", "sends")]
        return max([task["computed"], *sent])

    def link(self):
        """Let transfers begin whose clients have the link for themselves."""
        for task in self.tasks:
            busy = self.half and any(
                self.now < w["got"] < math.inf for w in self.at(task["client"], "computes")
            )
            if task["stage"] == "waits" and not busy:
                task["stage"], task["arrives"] = "sends", self.now + task["up"]
            sends = self.half and [
                w for w in self.at(task["client"], "sends") if w["arrives"] > self.now
            ]
            if task["stage"] == "computes" and math.isinf(task["got"]) and not sends:
                task["got"] = self.now + task["down"]
                task["computed"] = task["got"] + task["compute"]

    def begin(self, client, attempt):
        self.begun += 1
        number = self.times[client] = self.times.get(client, 0) + 1
        ids = [client]
        down, up = (float(s[0]) for s in self.population.transfer_s(ids, BYTES, BYTES))
        pace = float(self.population.seconds_per_step(ids, number, 0)[0])
        compute = pace * self.algorithm["local"]["steps"]
        gone = float(self.population.next_change(ids, self.now)[0])
        share = float(self.population.lost(ids, number, 0)[0])
        if math.isfinite(share):
            gone = min(gone, self.now + share * (down + compute + up))
        self.tasks.append({
            "client": client, "serial": self.begun, "start": self.now, "version": self.version,
            "down": down, "compute": compute, "up": up, "gone": gone, "attempt": attempt,
            "got": math.inf, "computed": math.inf,
            "limit": self.now + self.rule["timeout_s"], "stage": "computes", "arrives": math.inf,
        })  # fmt: skip

    def move(self):
        """Let uploads arrive, and free who has computed; return whether anything happens now."""
        self.link()
        ready = [w for w in self.tasks if w["stage"] == "computes" and self.free_s(w) <= self.now]
        for task in self.tasks:
            if task["stage"] == "sends" and task["arrives"] <= self.now:
                task["over"] = True
        for task in ready:
            task["stage"] = "ready"
        return bool(ready) or any(
            w.get("over") or min(w["gone"], w["limit"]) <= self.now for w in self.tasks
        )

    def end(self):
        """Handle what is over, client by client; return the works to be asked for again."""
        again = []
        over = [w for w in self.tasks if w.get("over") or min(w["gone"], w["limit"]) <= self.now]
        for task in sorted(over, key=lambda w: (w["client"], w["serial"])):
            self.tasks.remove(task)
            task["end"], held = self.now, task["stage"] in ("computes", "ready")
            status = "dropped" if task["gone"] <= task["limit"] else "late"
            if task.get("over"):
                status = "used"
            if status == "used":
                self.failed_in_a_row = 0
                self.buffer.append(task)
            else:
                self.failed_in_a_row += 1
                self.told(task, status, -1)
                if task["attempt"] < self.rule["retries"]:
                    again.append((not held, task["client"], task["attempt"] + 1))
            if len(self.buffer) == self.algorithm["buffer"]:
                for each in self.buffer:
                    self.told(each, "used", self.version - each["version"])
                self.buffer, self.version, self.row = [], self.version + 1, self.row + 1
            elif self.failed_in_a_row == 2 * self.places:
                self.failed_in_a_row, self.row = 0, self.row + 1
            if self.row > self.rows:
                break
        return again

    def told(self, task, status, staleness):
        self.done.append((self.row, task["client"], task["start"], task["end"], status,
                          task["version"], staleness))  # fmt: skip

    def dispatch(self, again):
        """Ask again those who held a place, then the others, then who is selected."""
        for _, client, attempt in sorted(again):
            there = self.population.available([client], self.now, 1)[0]
            if there and client not in self.computing and len(self.computing) < self.places:
                self.begin(client, attempt)
        free = self.places - len(self.computing)
        key = Key(self.seed, "cohort").permutation(self.count, round=self.begun + 1)
        order = range(self.count) if free == self.count else key(np.arange(self.count)).tolist()
        there = [i for i in order if self.population.available([i], self.now, 1)[0]]
        for client in sorted([i for i in there if i not in self.computing][:free]):
            self.begin(client, 0)
        self.link()
        for task in self.tasks:
            if task["stage"] == "ready":
                task["stage"] = "waits"
        self.link()

    def run(self):
        while self.row <= self.rows:
            again = []
            while self.row <= self.rows and self.move():
                again += self.end()
            if self.row > self.rows:
                break
            self.dispatch(again)
            instants = [min(w["arrives"], w["gone"], w["limit"]) for w in self.tasks]
            instants += [self.free_s(w) for w in self.tasks if w["stage"] == "computes"]
            instants += [w["got"] for w in self.tasks if w["got"] > self.now]
            if len(self.computing) < self.places:
                idle = [i for i in range(self.count) if i not in self.computing]
                instants += [float(self.population.next_change([i], self.now)[0]) for i in idle]
            now = min(instants)
            if math.isinf(now):
                break
            self.now = max(self.now, now)
        return self.done


def recorded(plan, *, anew):
    """Return the same of the loop of arrivals; `anew`: from the values of checkpoints."""
    (run,) = plan.runs
    loop = testing.loop(plan, run)
    state, _ = loop.start()
    names = ("round", "client", "start_s", "end_s", "status", "version", "staleness")
    rows = []
    for _ in range(run.ending.rounds):
        state, _, events = step(loop, state)
        for part in events:
            rows += zip(*(part[name].tolist() for name in names), strict=True)
        if anew:
            state = replace(state, timeline=Timeline.of(state.timeline.arrays()))
    return [(*row[:4], WORDS[row[4]], *row[5:]) for row in rows]


def test_agrees_with_an_independent_simulation_of_events():
    """In 3 and 10 a client that was sending fails with one of a higher number that computes."""
    rng, kinds = np.random.default_rng(9), set()
    for number in range(12):
        scenario = drawn(rng)
        plan = api.prepare(api.read(scenario))
        wanted = Simulated(scenario, plan.runs[0].federation.population).run()
        found = recorded(plan, anew=number % 2 == 1)
        assert len(found) == len(wanted), f"scenario {number}: {scenario}"
        for one, other in zip(sorted(found), sorted(wanted), strict=True):
            assert one == pytest.approx(other), f"scenario {number}: {scenario}"
        kinds |= {row[4] for row in found}
    assert kinds == set(WORDS)
