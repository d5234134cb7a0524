"""Private runs: what is clipped, divided, noised and counted, and what is refused."""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import ClassVar

import numpy as np
import pytest

from rayfed import api
from rayfed.algorithms.base import Algorithm
from rayfed.channel.privacy import epsilon
from rayfed.core.errors import RunFailed, ScenarioError
from rayfed.core.rng import Key
from rayfed.engine.rounds import RoundLoop
from rayfed.executors.serial import SerialExecutor
from rayfed.messages import Ask, Reply, Upload
from rayfed.testing import tiny_run
from rayfed.testing.toy import toy_scenario

pytestmark = pytest.mark.skipif(find_spec("dp_accounting") is None, reason="needs rayfed[privacy]")
CLIP = {"name": "clip", "norm": 2.0}
PRIVACY = {"noise": 0.5, "delta": 1e-5, "accountant": "rdp"}
POISSON = {"cohort": 4, "select": "poisson"}


@dataclass(frozen=True, kw_only=True)
class Watched(Algorithm):
    """Client i sends (3 (i + 1), 4 (i + 1)); the server keeps the mean and what else it got."""

    name: ClassVar[str] = "watched"
    takes_estimates: ClassVar[bool] = True

    twice: bool = False

    def init(self, x0):
        return {"x": x0, "got": np.zeros(2), "known": np.zeros(3)}

    def pair(self, clients, x):
        i = clients.ids[:, None] + 1.0
        return Upload({"v": np.concatenate([3 * i, 4 * i], axis=1)}, loss=i[:, 0])

    def round(self, state):
        for _ in range(1 + self.twice):
            reply = yield Ask("pair", send={"x": state["x"]}, up={"v": 2})
        known = np.array([len(reply.ids), len(reply.weights), len(reply.each)], float)
        return {"x": state["x"], "got": reply.mean["v"], "known": known}, {}


def loop_of(algorithm=Watched(weights="uniform"), **changes):
    settings = {"uplink": [CLIP], "privacy": PRIVACY, "participation": POISSON, "rounds": 50}
    plan = api.prepare(api.read(toy_scenario(algorithm, **settings | changes)))
    executor = SerialExecutor(plan.tables)
    executor.open(plan.runs[0].folder, plan.runs[0].setup())
    return RoundLoop(plan.runs[0], executor)


def noise(loop, round):
    return 0.5 * 2 / 4 * loop.run.private.key.sub("v").normals([0], 2, round=round)[0]


def test_sums_of_clipped_uploads_are_divided_by_the_expected_cohort_and_noised():
    loop = loop_of()
    state, _ = loop.start()
    sizes = []
    for round in range(1, 21):
        state, row, _ = loop.step(state)
        sizes.append(row["participants"])
        expected = row["participants"] * np.array([1.2, 1.6]) / 4  # every upload is longer than 2
        np.testing.assert_allclose(state.state["got"], expected + noise(loop, round), rtol=1e-12)
        assert state.state["known"].tolist() == [0, 0, 0]
    assert min(sizes) < 4 < max(sizes)


def test_an_empty_cohort_is_a_round_with_noise_alone():
    loop = loop_of(participation={"cohort": 1, "select": "poisson"}, rounds=30)
    state, _ = loop.start()
    empty = 0
    for round in range(1, 31):
        before = state
        state, row, _ = loop.step(state)
        if not row["participants"]:
            empty += 1
            expected = 0.5 * 2 * loop.run.private.key.sub("v").normals([0], 2, round=round)[0]
            np.testing.assert_allclose(state.state["got"], expected, rtol=1e-12)
            assert state.time_s == before.time_s
    assert 2 < empty < 25  # (7/8)^8 = 0.34 of 30


def test_the_noise_has_the_stated_deviation():
    private = loop_of().run.private
    assert private.deviation == 0.5 * 2.0 / 4
    many = replace(private, key=Key(3, "privacy"))
    ask = Ask("pair", send={}, up={"v": 10_000})
    drawn = many.reply(ask, None, 7, 0).mean["v"]
    assert drawn.std() == pytest.approx(0.25, rel=0.03)  # four deviations of 10,000 draws
    assert abs(drawn.mean()) < 0.01
    other = many.reply(ask, None, 8, 0).mean["v"]
    assert abs(np.corrcoef(drawn, other)[0, 1]) < 0.04
    again = many.reply(ask, Reply([], [], {"v": np.ones(10_000)}, {}, []), 7, 0).mean["v"]
    np.testing.assert_allclose(again, drawn + 1, rtol=1e-12)


def test_a_second_ask_is_not_counted_and_so_refused():
    loop = loop_of(Watched(weights="uniform", twice=True))
    state, _ = loop.start()
    with pytest.raises(RunFailed, match="privacy counts one Ask in a round, and 'pair' is another"):
        loop.step(state)


def test_epsilon_is_a_column_of_evaluated_rows(tmp_path):
    algorithm = {"name": "fedavg", "weights": "uniform"}
    changes = {"uplink": [CLIP], "privacy": PRIVACY, "participation": POISSON}
    found = tiny_run(tmp_path, algorithm, "centralised", **changes).rounds
    mine = found[found.label == "fedavg"].set_index("round")["epsilon"]
    assert mine[0] == 0
    assert mine[5] == epsilon(0.5, 0.5, 5, 1e-5, "rdp")
    assert mine[10] == epsilon(0.5, 0.5, 10, 1e-5, "rdp")
    assert mine.drop([0, 5, 10]).isna().all()


@pytest.mark.slow
def test_noise_is_solved_for_all_rounds():
    wanted = {"epsilon": 3.0, "delta": 1e-5, "accountant": "rdp"}
    private = loop_of(privacy=wanted).run.private
    assert 2.99 < private.epsilon(50) <= 3.0


FEDAVG = {"name": "fedavg", "weights": "uniform"}


@pytest.mark.parametrize(
    ("algorithm", "changes", "message"),
    [
        (FEDAVG, {"participation": {"cohort": 4}}, "give participation.select: poisson"),
        ("fedavg", {}, "clients count alike; give weights: uniform"),
        (FEDAVG, {"uplink": []}, "nothing bounds an upload; end the uplink with {name: clip"),
        (FEDAVG, {"uplink": [CLIP, {"name": "rand-k", "k": 1}]}, "uplink: "),
        (FEDAVG, {"uplink": [{"name": "top-k", "k": 1, "memory": "error-feedback"}, CLIP]},
         "'error-feedback' notes what is sent, which 'clip' changes"),
        ({"name": "scaffold", "weights": "uniform"}, {}, "clients of 'scaffold' remember earlier"),
        (FEDAVG, {"participation": {**POISSON, "over_select": 1.5}}, "over_select lets one client"),
        (FEDAVG, {"participation": {**POISSON, "retries": 1, "timeout_s": 9.0}}, "retries ask"),
        (FEDAVG, {"participation": {**POISSON, "minimum": 2}}, "minimum lets the others wait"),
        (FEDAVG, {"participation": {**POISSON, "late": "stale", "deadline_s": 9.0}},
         "late: stale uses a client in rounds in which it was not drawn"),
        (FEDAVG, {"aggregate": "median"}, "a robust rule does not divide by the expected cohort"),
        ({"name": "fedbuff", "weights": "uniform"}, {"participation": {}},
         "'fedbuff' has no rounds, and sampling is of rounds"),
        ({"name": "fedexp", "weights": "uniform"}, {}, "a noised mean alone"),
        (FEDAVG, {"privacy": {**PRIVACY, "epsilon": 1.0}}, "give noise or epsilon, one of them"),
    ],
)  # fmt: skip
def test_what_would_make_epsilon_untrue_is_one_line(algorithm, changes, message):
    settings = {"uplink": [CLIP], "privacy": PRIVACY, "participation": POISSON, **changes}
    with pytest.raises(ScenarioError) as error:
        api.prepare(api.read(toy_scenario(algorithm, **settings)))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_availability_that_depends_on_data_is_refused():
    by = {"count": 8, "availability": {"name": "bernoulli", "p": {"by": "rows"}}}
    settings = {"uplink": [CLIP], "privacy": PRIVACY, "participation": POISSON}
    with pytest.raises(ScenarioError, match="depends on the clients' data"):
        api.prepare(api.read(toy_scenario(FEDAVG, clients=by, **settings)))
