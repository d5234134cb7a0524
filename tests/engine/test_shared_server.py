"""A server with limited bandwidth: rounds, asynchronous runs, and what occupies the link."""

import math

import numpy as np
import pytest

from rayfed import api, testing
from rayfed.core.errors import ScenarioError
from rayfed.engine.timeline import Timeline
from tests.fakes.stepping import step

FEATURES = 125  # a model of 1,000 bytes
FAST = {"name": "constant", "mean_s": 1.0}
SHARED = {"uploads_mbps": 0.008}  # 1,000 bytes/s: one model in a second
INF = math.inf
WORDS = ("used", "late", "dropped", "unfinished")


def scenario(count=3, algorithm="fedavg", **changes):
    return {
        "name": "shared",
        "rounds": 1,
        "problem": {
            "name": "quadratic",
            "dataset": {"name": "quadratic", "clients": count, "features": FEATURES},
        },
        "clients": {"delay": FAST},
        "server": SHARED,
        "algorithms": [{"name": algorithm, "local": {"steps": 1, "batch": "full", "lr": 1e-3}}],
        "executor": "serial",
        **changes,
    }


def events(made, flights=False):
    """Return the rows of a run (client, start, end, status) and the times of its rounds."""
    loop = testing.loop(made)
    state, _ = loop.start()
    rows, times = [], []
    for _ in range(loop.run.ending.rounds):
        if flights:  # as if it were killed and resumed
            object.__setattr__(state, "timeline", Timeline.of(state.timeline.arrays()))
        state, _, parts = step(loop, state)
        times.append(state.time_s)
        for part in parts:
            columns = (part[name].tolist() for name in ("client", "start_s", "end_s"))
            words = [WORDS[status] for status in part["status"].tolist()]
            rows += zip(*columns, words, strict=True)
    return rows, times


class TestRounds:
    def test_uploads_share_the_link(self):
        """Three models at 1,000 bytes/s after a second of computing."""
        rows, times = events(scenario())
        assert rows == [(k, 0.0, 4.0, "used") for k in range(3)]
        assert times == [4.0]

    def test_downloads_too_and_latency_occupies_nothing(self):
        """1.5 s down, half a second to get there, computing, half a second, and 3 s up."""
        server = {"downloads_mbps": 0.016, "uploads_mbps": 0.008}
        clients = {"delay": FAST, "network": {"latency_s": 0.5}}
        _, times = events(scenario(server=server, clients=clients))
        assert times == [6.5]

    def test_a_deadline_breaks_off_what_is_under_way(self):
        """Client 0 computes for 1 s, the others for 2.5: at 4 s each of them has sent 750 bytes.

        The next round finds the link free, and goes the same way.
        """
        slow = {"ids": [1, 2], "delay": {"name": "constant", "mean_s": 2.5}}
        clients = {"delay": FAST, "groups": [slow]}
        made = scenario(rounds=2, clients=clients, participation={"deadline_s": 4.0})
        rows, times = events(made)
        assert rows[:3] == [
            (0, 0.0, 2.0, "used"), (1, 0.0, 4.5, "late"), (2, 0.0, 4.5, "late"),
        ]  # fmt: skip
        assert [row[3] for row in rows[3:]] == ["used", "late", "late"]
        assert times == [4.0, 8.0]

    def test_those_beyond_the_cohort_slow_it_down(self):
        """Two of three are wanted; all three are sent for, and share the link until 4 s."""
        slower = {"ids": [0], "delay": {"name": "constant", "mean_s": 2.0}}
        clients = {"delay": FAST, "groups": [slower]}
        wanted = {"cohort": 2, "over_select": 1.5}
        rows, times = events(scenario(clients=clients, participation=wanted))
        # At 2 s clients 1 and 2 have 500 bytes left, and a third of the link each: 1.5 s more.
        assert times == [3.5]
        assert rows == [(0, 0.0, 4.0, "late"), (1, 0.0, 3.5, "used"), (2, 0.0, 3.5, "used")]

    def test_who_goes_away_occupies_the_link_until_then(self):
        """Client 0 leaves at 2 s, when 1 s of its upload has passed; two others share the rest."""
        turns = {"name": "cyclic", "groups": 3, "period_s": 2.0}
        away = {"ids": [0], "availability": turns}
        rows, times = events(scenario(clients={"delay": FAST, "groups": [away]}))
        assert rows[0] == (0, 0.0, 2.0, "dropped")
        left = 1000 - 1000 / 3
        assert times == [pytest.approx(2.0 + 2 * left / 1000, rel=1e-15)]

    def test_a_broken_connection_breaks_off_its_transfer(self):
        """It breaks at a share of the time that the task takes alone, here before 2 s."""
        lost = {"ids": [0], "network": {"loss": 1.0}}
        rows, _ = events(scenario(clients={"delay": FAST, "groups": [lost]}))
        assert rows[0][3] == "dropped"
        cut_s = rows[0][2]
        assert 0 < cut_s < 2
        sent = max(cut_s - 1.0, 0.0) / 3  # of each, in models
        assert rows[1][2] == pytest.approx(max(cut_s, 1.0) + 2 * (1 - sent), rel=1e-12)

    def test_a_poll_shares_the_link_as_well(self):
        """Four candidates upload 8 bytes each, then two of them 1,000."""
        select = {"name": "power-of-d", "d": 4}
        made = scenario(4, participation={"cohort": 2, "select": select}, clients={"delay": {
            "name": "constant", "mean_s": 0.0}})  # fmt: skip
        assert events(made)[1] == [pytest.approx(4 * 8 / 1000 + 2.0, rel=1e-14)]

    def test_a_pooled_baseline_has_no_transfers(self):
        made = scenario(algorithm="centralised")
        made["problem"]["weighting"] = "uniform"
        assert events(made)[1] == [1.0]

    def test_the_link_alone_can_end_a_run(self):
        free = {"delay": {"name": "constant", "mean_s": 0.0}}
        made = scenario(clients=free, stop={"time_s": 2.0})
        del made["rounds"]
        assert api.prepare(api.read(made)).runs
        made["server"] = {}
        with pytest.raises(ScenarioError, match="its clock stands still"):
            api.prepare(api.read(made))

    def test_work_that_is_cut_short_is_refused(self):
        made = scenario(participation={"deadline_s": 9.0, "late": "partial"})
        with pytest.raises(
            ScenarioError, match=r"^participation.late: .* shares its bandwidth .* use drop"
        ):
            api.prepare(api.read(made))

    def test_crashes_delay_the_upload_and_who_gives_up_sends_nothing(self):
        """Client 0 gives up during its second of computing; the others share the link for 2 s."""
        crash = {"ids": [0], "crash": {"probability": 1.0}}
        rows, times = events(scenario(clients={"delay": FAST, "groups": [crash]}))
        assert [row[3] for row in rows] == ["dropped", "used", "used"]
        assert 0 < rows[0][2] < 1
        assert times == [3.0]


def simulated(made, population, horizon_s):  # noqa: C901 - one loop, to be read downwards
    """Return the works (client, start, end, status) of a method that dispatches everybody at once.

    A simulation of the fluid kind: at every instant all rates are computed anew.
    """
    count, wait = population.count, made["participation"].get("timeout_s", INF)
    steps = made["algorithms"][0]["local"]["steps"]
    latency, *mbps = (values.tolist() for values in population.links(np.arange(count)))
    room = [made["server"].get(way, INF) * 125e3 for way in ("downloads_mbps", "uploads_mbps")]
    size, now, done, tasks = 8.0 * FEATURES, 0.0, [], [None] * count
    numbers = [0] * count
    while now < horizon_s:
        for k in range(count):
            if tasks[k] is None:
                numbers[k] += 1
                pace = population.seconds_per_step([k], numbers[k], 0)[0]
                alone = 2 * latency[k] + steps * pace + sum(size / (m[k] * 125e3) for m in mbps)
                cut = now + population.lost([k], numbers[k], 0)[0] * alone
                tasks[k] = {"start": now, "leg": 0, "left": size, "until": INF, "cut": cut,
                            "busy": latency[k] + steps * pace + latency[k]}  # fmt: skip
        rates = {}
        for leg in (0, 1):
            sharing = [k for k in range(count) if tasks[k]["leg"] == leg and tasks[k]["left"] > 0]
            caps = {k: mbps[leg][k] * 125e3 for k in sharing}
            level, free = room[leg], dict(caps)
            while free and not math.isinf(room[leg]):
                level = (room[leg] - sum(caps[k] for k in caps if k not in free)) / len(free)
                slow = [k for k in free if caps[k] < level]
                if not slow:
                    break
                for k in slow:
                    del free[k]
            rates |= {k: caps[k] if k not in free else min(level, caps[k], 1e15) for k in sharing}
        ends = {k: now + tasks[k]["left"] / r for k, r in rates.items()}
        stops = [min(w["cut"], w["start"] + wait, w["until"]) for w in tasks]
        then = min([*ends.values(), *stops])
        for k, task in enumerate(tasks):
            if k in rates:
                task["left"] -= (then - now) * rates[k]
                if ends[k] <= then * (1 + 1e-13):
                    task["left"] = 0.0
                    if task["leg"] == 0:
                        task["leg"], task["until"] = None, then + task["busy"]
                    else:
                        done.append((k, task["start"], then, "used"))
                        tasks[k] = None
                        continue
            if then >= task["until"]:
                task["leg"], task["left"], task["until"] = 1, size, INF
            elif then >= min(task["cut"], task["start"] + wait):
                status = "dropped" if task["cut"] <= task["start"] + wait else "late"
                done.append((k, task["start"], then, status))
                tasks[k] = None
        now = then
    return done


def drawn(rng):
    """Return a random asynchronous scenario in which all clients are always at work."""
    count = int(rng.integers(1, 7))
    server = {"uploads_mbps": float(rng.choice([0.004, 0.01, 0.03]))}
    if rng.random() < 0.5:
        server["downloads_mbps"] = float(rng.choice([0.006, 0.02]))
    networks = [{"latency_s": 0.25}, {"up_mbps": 0.005, "down_mbps": 0.02},
                {"up_mbps": 0.011, "loss": 0.3}]  # fmt: skip
    groups = [{"ids": [k], "network": networks[int(rng.integers(3))]}
              for k in range(count) if rng.random() < 0.7]  # fmt: skip
    law = {"name": str(rng.choice(["exponential", "lognormal"])), "mean_s": 0.7}
    made = scenario(
        count, "fedasync", rounds=5 * count, seeds=[int(rng.integers(1000))], server=server,
        clients={"delay": law, "groups": groups},
        participation={"timeout_s": float(rng.choice([4.0, 9.0]))} if rng.random() < 0.5 else {},
    )  # fmt: skip
    made["algorithms"][0]["local"]["steps"] = int(rng.integers(1, 4))
    return made


class TestAskingAgain:
    """participation.timeout_s, with retries."""

    SLOW = {"ids": [1], "delay": {"name": "constant", "mean_s": 1.5}}  # noqa: RUF012

    def test_all_at_once_all_are_timed_out_and_none_ever_arrives(self):
        """Three models need until 4 s; at 3 s each has sent two thirds, and begins anew."""
        rows, times = events(scenario(participation={"timeout_s": 3.0, "retries": 1}))
        assert rows == [(k, t, t + 3.0, "late") for t in (0.0, 3.0) for k in range(3)]
        assert times == [6.0]

    def test_what_is_timed_out_leaves_the_link(self):
        """Client 0 sends alone from 1 s, client 1 too from 1.5 s, both at half the rate.

        Client 0 is done at 2.5 s. There client 1 is timed out; it computes anew until 4 s, and has
        the link for itself.
        """
        made = scenario(2, clients={"delay": FAST, "groups": [self.SLOW]})
        rows, times = events(made | {"participation": {"timeout_s": 2.5, "retries": 1}})
        assert rows == [
            (0, 0.0, 2.5, "used"), (1, 0.0, 2.5, "late"), (1, 2.5, 5.0, "used"),
        ]  # fmt: skip
        assert times == [5.0]

    def test_at_the_deadline_and_after_the_first_replies_all_is_broken_off(self):
        """Client 0 is done at 2.5 s as above; the server wants one reply, or waits until 2 s.

        Client 1, which nobody waits for then, would have been done at 3 s: at 2.5 s it has 500
        bytes left, and the link for itself.
        """
        made = scenario(2, clients={"delay": FAST, "groups": [self.SLOW]})
        wants = {"cohort": 1, "over_select": 2.0, "retries": 3}
        assert events(made | {"participation": wants}) == (
            [(0, 0.0, 2.5, "used"), (1, 0.0, 3.0, "late")], [2.5]
        )  # fmt: skip
        waits = {"deadline_s": 2.0, "retries": 3}
        assert events(made | {"participation": waits}) == (
            [(0, 0.0, 2.5, "late"), (1, 0.0, 3.0, "late")], [2.0]
        )  # fmt: skip

    def test_with_room_for_all_attempts_are_those_without_a_server(self):
        law = {"delay": {"name": "exponential", "mean_s": 1.0}}
        groups = [{"ids": [k], "network": {"up_mbps": 0.008 * k, "loss": 0.2}} for k in (1, 2)]
        kinds = set()
        for seed in range(8):
            how = {"timeout_s": 2.5, "retries": 2, "cohort": 4, "over_select": 1.25}
            made = scenario(
                6, rounds=3, seeds=[seed], clients=law | {"groups": groups}, participation=how
            )
            wide, alone = made | {"server": {"uploads_mbps": 1e9}}, made | {"server": {}}
            (rows, times), (wanted, wanted_times) = events(wide), events(alone)
            np.testing.assert_allclose(times, wanted_times, rtol=1e-9)
            assert [(row[0], row[3]) for row in rows] == [(row[0], row[3]) for row in wanted]
            for row, other in zip(rows, wanted, strict=True):
                if row[3] != "late":  # what is under way at the end is broken off there
                    np.testing.assert_allclose(row[1:3], other[1:3], rtol=1e-9)
                kinds.add(row[3])
        assert kinds == {"used", "late", "dropped"}

    def test_time_outs_that_nobody_misses_change_nothing(self):
        law = {"delay": {"name": "exponential", "mean_s": 1.0}}
        made = scenario(5, rounds=3, clients=law)
        assert events(made) == events(made | {"participation": {"timeout_s": 1e6, "retries": 2}})


class TestAsynchronous:
    def test_uploads_share_the_link(self):
        """All send from 1 s to 4 s; the last two compute again until 5 s, and send until 7 s.

        Client 0 starts anew at 4 s, as the others do.
        """
        rows, times = events(scenario(algorithm="fedasync", rounds=6))
        assert rows == [(k, t, t + 4.0, "used") for t in (0.0, 4.0) for k in range(3)]
        assert times == [4.0] * 3 + [8.0] * 3

    def test_who_is_timed_out_leaves_the_link(self):
        """Client 0 computes for 1 s, client 1 for 2; at 2 s client 0 is sent home.

        Client 1 has the link to itself for half a second, and then shares nothing: it is timed out
        too. From 4 s on they send again, with the same result; nobody ever sends 1,000 bytes.
        """
        slow = {"ids": [1], "delay": {"name": "constant", "mean_s": 1.5}}
        made = scenario(2, "fedasync", clients={"delay": FAST, "groups": [slow]}, rounds=1)
        rows, times = events(made | {"participation": {"timeout_s": 2.0}})
        assert rows == [(k, t, t + 2.0, "late") for t in (0.0, 2.0) for k in range(2)]
        assert times == [4.0]

    def test_agrees_with_another_simulation(self):
        rng, kinds, tasks = np.random.default_rng(2), set(), 0
        for _ in range(30):
            made = drawn(rng)
            plan = api.prepare(api.read(made))
            rows, times = events(made)
            wanted = simulated(made, plan.runs[0].federation.population, times[-1])
            wanted = sorted(row for row in wanted if row[2] < times[-1] * (1 - 1e-9))
            found = sorted(row for row in rows if row[2] < times[-1] * (1 - 1e-9))
            assert [(k, word) for k, _, _, word in found] == [(k, w) for k, _, _, w in wanted]
            for column in (1, 2):
                found_s, wanted_s = ([row[column] for row in of] for of in (found, wanted))
                np.testing.assert_allclose(found_s, wanted_s, rtol=1e-9, atol=1e-9)
            kinds |= {row[3] for row in rows}
            tasks += len(found)
        assert kinds == {"used", "late", "dropped"}
        assert tasks > 300

    def test_a_resumed_run_goes_on_with_its_transfers(self):
        rng = np.random.default_rng(3)
        for _ in range(6):
            made = drawn(rng)
            assert events(made) == events(made, flights=True)

    def test_a_link_with_room_for_all_changes_nothing(self):
        rng = np.random.default_rng(4)
        for _ in range(6):
            made = drawn(rng)
            alone, wide = made | {"server": {}}, made | {"server": {"uploads_mbps": 1e9}}
            (rows, times), (wide_rows, wide_times) = events(alone), events(wide)
            np.testing.assert_allclose(times, wide_times, rtol=1e-9)
            assert [row[3] for row in rows] == [row[3] for row in wide_rows]
