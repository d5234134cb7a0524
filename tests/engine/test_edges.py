"""Clocks and bytes of edge servers against an event-by-event recurrence."""

import numpy as np
import pytest

from rayfed.testing import loop

MODEL = 8 * 3  # bytes


class Case:
    """Random clients of edge servers: unequal speeds, steps, links, rows, absences and faults."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.count = count = int(rng.integers(1, 8))
        edges = int(rng.integers(1, count + 1))
        self.edge = rng.permutation([*range(edges), *rng.integers(0, edges, count - edges)])
        self.rounds, self.edge_rounds = 3, int(rng.integers(1, 4))
        self.pace, self.steps = rng.uniform(0.1, 3, count), rng.integers(1, 4, count)
        self.latency = rng.uniform(0, 0.5, count)
        self.down, self.up = 10 ** rng.uniform(-4, -3, (2, count))
        self.cloud_latency, self.cloud_down, self.cloud_up = 0.3, *(10 ** rng.uniform(-4, -3, 2))
        self.deadline = float(rng.uniform(1, 6)) if rng.random() < 0.5 else None
        # client 0 is away for a while
        self.away = (5.0, 5.0 + float(rng.uniform(0, 9))) if count > 1 else None
        self.silent = rng.permutation(count)[: rng.integers(0, 3)].tolist()

    def scenario(self, folder):
        groups = [
            {
                "ids": [i], "delay": {"name": "constant", "mean_s": self.pace[i]},
                "local": {"steps": int(self.steps[i])},
                "network": {
                    "latency_s": self.latency[i], "down_mbps": self.down[i], "up_mbps": self.up[i],
                },
            }
            for i in range(self.count)
        ]  # fmt: skip
        if self.away is not None:
            rows = [f"0,0,{self.away[0]}", f"0,{self.away[1]},1e7"]
            rows += [f"{i},0,1e7" for i in range(1, self.count)]
            (folder / "trace.csv").write_text("\n".join(["client,start_s,end_s", *rows]))
        trace = {"name": "trace", "file": str(folder / "trace.csv")}
        data = {"name": "linear", "features": 3, "samples": self.count * 4}
        method = {
            "name": "hierfavg", "edges": self.edge.tolist(), "edge_rounds": self.edge_rounds,
            "cloud_latency_s": self.cloud_latency, "cloud_down_mbps": self.cloud_down,
            "cloud_up_mbps": self.cloud_up, "local": {"lr": 0.01},
        }  # fmt: skip
        return {
            "name": "edges", "rounds": self.rounds, "evaluate": {"every": self.rounds},
            "dtype": "float64", "executor": "serial", "algorithms": [method],
            "problem": {"name": "least-squares", "dataset": data, "intercept": False},
            "clients": {
                "count": self.count, "groups": groups,
                "availability": "always" if self.away is None else trace,
                "faults": [{"name": "silent", "ids": self.silent}] if self.silent else [],
            },
            "participation": {"deadline_s": self.deadline},
        }  # fmt: skip

    def present(self, client, time_s):
        return client or self.away is None or not self.away[0] <= time_s < self.away[1]

    def alone(self, i, begin):
        """Return the end of an undisturbed task, and its fate."""
        bits = 8 * MODEL / 1e6
        computed = begin + self.latency[i] + bits / self.down[i] + self.pace[i] * self.steps[i]
        if i in self.silent:
            return computed, "dropped"
        return computed + self.latency[i] + bits / self.up[i], "used"

    def played(self):
        """Yield the end of each round, and for each task its client, start and status."""
        now, bits = 0.0, 8 * MODEL / 1e6
        for _ in range(self.rounds):
            cohort = [i for i in range(self.count) if self.present(i, now)]
            start = now + self.cloud_latency + bits / self.cloud_down
            clocks = {self.edge[i]: start for i in cohort}
            tasks, answered = [], True
            for _ in range(self.edge_rounds):
                replies = 0
                for edge, begin in list(clocks.items()):
                    limit = begin + (self.deadline or np.inf)
                    ends = []
                    for i in (i for i in cohort if self.edge[i] == edge):
                        end, fate = self.alone(i, begin)
                        if not self.present(i, begin):
                            end, fate = begin, "dropped"
                        elif i == 0 and self.away is not None and begin < self.away[0] < end:
                            end, fate = self.away[0], "dropped"
                        if end > limit:
                            fate = "late"
                        replies += fate == "used"
                        ends.append(min(end, limit))
                        tasks.append((i, begin, fate))
                    clocks[edge] = max(ends)
                answered = replies > 0
                if not answered:
                    break
            now = max(clocks.values())
            if answered:
                now += self.cloud_latency + bits / self.cloud_up
            yield now, tasks


def check(seed, folder):
    case = Case(seed)
    engine = loop(case.scenario(folder))
    state, _ = engine.start()
    fates = set()
    for now, tasks in case.played():
        fates |= {fate for *_, fate in tasks}
        state, row, ended = engine.step(state)
        assert row["time_s"] == pytest.approx(now, rel=1e-12), seed
        found = [
            (client, start, ("used", "late", "dropped")[status])
            for each in ended
            for client, start, status in zip(
                each.tasks.client, each.tasks.start_s, each.tasks.status, strict=True
            )
        ]
        assert [each[::2] for each in sorted(found)] == [each[::2] for each in sorted(tasks)], seed
        starts = [each[1] for each in sorted(tasks)]
        np.testing.assert_allclose([each[1] for each in sorted(found)], starts, rtol=1e-12)
        assert row["bytes_down"] == MODEL * len(tasks)
        assert row["bytes_up"] == MODEL * sum(fate != "dropped" for *_, fate in tasks)
        if not np.isnan(row["cloud_bytes_down"]):
            assert row["cloud_bytes_down"] == MODEL * (case.edge.max() + 1)
            heard = {case.edge[i] for i, _, fate in tasks if fate == "used"}
            assert row["cloud_bytes_up"] == MODEL * len(heard)
    return fates


@pytest.mark.parametrize("seed", range(3))
def test_clocks_of_edge_servers(seed, tmp_path):
    check(seed, tmp_path)


def test_clocks_of_a_hundred_edge_networks(tmp_path):
    fates = set().union(*(check(seed, tmp_path) for seed in range(3, 103)))
    assert fates == {"used", "late", "dropped"}
