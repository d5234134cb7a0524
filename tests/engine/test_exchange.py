"""The exchange of one Ask: what is weighed, counted and refused."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from rayfed import api
from rayfed.algorithms import Algorithm
from rayfed.core.errors import RunFailed
from rayfed.core.needs import VECTORS
from rayfed.engine.cohort import Cohorts
from rayfed.engine.exchange import Exchange, NobodyToAsk, NoReply, SentAsk
from rayfed.engine.state import RoundStats
from rayfed.engine.tasks import USED, Task, Tasks
from rayfed.executors.serial import SerialExecutor
from rayfed.messages import Ask, Upload


def policy_for(scenario):
    plan = api.prepare(api.read(scenario))
    (run,) = plan.runs
    executor = SerialExecutor(plan.tables)
    executor.open(run.folder, run.setup())
    return Cohorts(run, Exchange(run, executor))


def first_round():
    return RoundStats(1, 0.0, 0.0)


def trained(policy):
    """The first Ask of the policy's algorithm, and a function that answers it for some ids."""
    training = policy.run.training
    ask = next(training.algorithm.round(training.algorithm.init(training.x0)))

    def delta(*ids):
        return policy.answer(ask, "algorithm", np.array(ids), first_round()).mean["delta"]

    return ask, delta


def test_means_divide_once_by_the_sum_of_raw_weights(mixed):
    scenario = mixed(participation={"cohort": 13})
    scenario["problem"]["dataset"]["samples"] = {"low": 4, "high": 40}
    scenario["clients"] |= {"availability": "always", "groups": []}
    policy = policy_for(scenario)
    _, delta = trained(policy)
    sizes = policy.run.federation.views.training.shards.sizes(np.arange(13))
    assert len(set(sizes.tolist())) > 3
    expected = np.average([delta(i) for i in range(13)], axis=0, weights=sizes)
    np.testing.assert_allclose(delta(*range(13)), expected, rtol=1e-12)


def test_a_client_drawn_twice_counts_twice(mixed):
    _, delta = trained(policy_for(mixed()))
    np.testing.assert_allclose(delta(0, 0, 1), (2 * delta(0) + delta(1)) / 3, rtol=1e-12)


def test_an_exchange_is_counted_and_moves_the_clock(mixed):
    scenario = mixed(participation={"cohort": 13})
    scenario["clients"] = {
        "count": 13,
        "delay": {"name": "constant", "mean_s": 2.0},
        "network": {"down_mbps": 8.0},
    }
    policy = policy_for(scenario)
    ask, _ = trained(policy)
    stats = RoundStats(1, 100.0, 100.0)
    policy.answer(ask, "algorithm", np.array([4, 1, 4]), stats)
    model = policy.run.training.x0.nbytes
    assert stats.counts == {
        "participants": 2, "dropped": 0, "late": 0, "local_steps": 10,
        "bytes_down": 2 * model, "bytes_up": 2 * model, "bytes_wasted": 0,
    }  # fmt: skip
    assert stats.time_s == 100.0 + model * 1e-6 + 5 * 2.0  # a megabyte takes a second
    assert stats.ask == 1
    ((tasks, *_),) = stats.ended
    assert tasks.client.tolist() == [1, 4]
    assert tasks.status.tolist() == [USED, USED]
    assert tasks.start_s.tolist() == [100.0, 100.0]


def test_work_that_nobody_uses_is_counted_but_not_computed(mixed):
    policy = policy_for(mixed(participation={"cohort": 3, "deadline_s": 1e-6}))
    ask, _ = trained(policy)
    stats = first_round()
    policy.exchange.executor.exchange = lambda *_: pytest.fail("nobody should compute")
    with pytest.raises(NoReply):
        policy.answer(ask, "algorithm", np.arange(3), stats)
    assert (stats.counts["late"], stats.ask, stats.time_s) == (3, 1, 1e-6)
    counts = stats.counts  # the replies of late clients come, and nobody takes them
    assert counts["bytes_wasted"] == counts["bytes_down"] + counts["bytes_up"] > 0


def test_nobody_is_no_exchange(mixed):
    policy = policy_for(mixed())
    ask, _ = trained(policy)
    stats = first_round()
    with pytest.raises(NobodyToAsk):
        policy.answer(ask, "algorithm", np.empty(0, dtype=int), stats)
    assert not stats.ended


def test_a_draw_for_each_client_gives_what_the_client_gives_alone(mixed):
    scenario = mixed()
    scenario["clients"]["groups"] = []
    policy = policy_for(scenario)
    ask, _ = trained(policy)

    def deltas(ids, draw):
        blank = Task(*[0] * len(Task._fields))._replace(steps=5, version=2, weight=1.0, end_s=1.0)
        tasks = Tasks.of([blank._replace(client=i) for i in ids])
        vectors = Ask(ask.function, ask.send, ask.up, vectors=True)
        asked = SentAsk(vectors, "algorithm")
        request = policy.exchange.request(asked, tasks, draw, tasks.weight)
        return policy.exchange.compute(request, ask.send, "now").each["delta"]

    ids, draws = [0, 4, 5, 9], np.array([8, 3, 1, 8])
    together = deltas(ids, draws)
    for k, (i, draw) in enumerate(zip(ids, draws.tolist(), strict=True)):
        assert together[k].tobytes() == deltas([i], draw)[0].tobytes()
        assert together[k].tobytes() == deltas([i], np.array([draw]))[0].tobytes()
    assert (together != deltas(ids, 3)).any(axis=1).tolist() == [True, False, True, True]


@dataclass(frozen=True, kw_only=True)
class Curious(Algorithm):
    """Asks once for means alone, and then for what each client sent."""

    name: ClassVar[str] = "curious"
    needs: ClassVar = Algorithm.needs | {VECTORS}

    def twice(self, clients):
        return Upload({"ids": np.stack([clients.ids, clients.ids], axis=1).astype(float)})

    def round(self, state):
        yield Ask("twice", send={}, up={"ids": 2})
        return state, {}


@dataclass(frozen=True, kw_only=True)
class Secretive(Curious):
    """Does not say so."""

    name: ClassVar[str] = "secretive"
    needs: ClassVar = Algorithm.needs


def test_the_vectors_of_each_client_are_asked_for_and_declared(mixed):
    always = mixed()["clients"] | {"availability": "always"}
    ids, seen = np.array([2, 3]), []
    policy = policy_for(mixed(algorithms=[Curious()], clients=always))
    for vectors in (False, True):
        ask = Ask("twice", send={}, up={"ids": 2}, vectors=vectors)
        seen.append(policy.answer(ask, "algorithm", ids, first_round()))
    assert not seen[0].each
    assert seen[1].each["ids"].tolist() == [[2.0, 2.0], [3.0, 3.0]]
    np.testing.assert_array_equal(seen[0].mean["ids"], seen[1].mean["ids"])
    policy = policy_for(mixed(algorithms=[Secretive()], clients=always))
    with pytest.raises(RunFailed, match="'twice' asks for vectors; add VECTORS to `needs`"):
        policy.answer(ask, "algorithm", ids, first_round())


def test_a_client_half_that_does_not_exist_is_named(mixed):
    policy = policy_for(mixed(algorithms=[Curious()]))
    ask = Ask("thrice", send={}, up={"ids": 2})
    with pytest.raises(RunFailed, match="Curious has no method 'thrice', which its Ask names"):
        policy.answer(ask, "algorithm", np.array([2]), first_round())
