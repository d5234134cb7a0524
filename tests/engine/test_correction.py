"""Weights that correct for who is there and who is drawn: unbiased, by enumeration."""

from itertools import product

import numpy as np
import pytest

import rayfed
from rayfed import api, testing
from rayfed.core.errors import ScenarioError
from rayfed.engine.correction import LONGEST, Correction
from rayfed.engine.loop import Loop
from rayfed.engine.state import RoundStats
from rayfed.executors.serial import SerialExecutor
from rayfed.selection import SelectionView
from rayfed.testing.studies import drive, stop_after

CHANCES = (0.9, 0.2, 0.5)


def scenario(mixed, participation, algorithm="fedavg"):
    made = mixed(rounds=8, algorithms=[{"name": algorithm, "local": {"steps": 2, "lr": 0.05}}])
    made["problem"]["dataset"]["samples"] = {"low": 4, "high": 40}
    groups = [
        {"ids": [i], "availability": {"name": "bernoulli", "p": p}} for i, p in enumerate(CHANCES)
    ]
    made["clients"] = {"count": 3, "groups": groups}
    return {**made, "participation": participation}


def run_of(made):
    plan = api.prepare(api.read(made))
    return plan, plan.runs[0]


def seen(run, there, wanted):
    mass = run.federation.views.training.shards.mass
    return SelectionView(3, 1, 0.0, wanted, 0, lambda ids: there[np.asarray(ids)], mass)


def subsets(there, wanted):
    """Each set of `wanted` clients among those that are there, all equally likely."""
    ids = np.flatnonzero(there)
    sets = {tuple(sorted(set(c))) for c in product(ids.tolist(), repeat=min(wanted, len(ids)))}
    return [np.array(c) for c in sets if len(c) == min(wanted, len(ids))]


@pytest.mark.parametrize("weights", ["size", "uniform"])
@pytest.mark.parametrize(("select", "wanted"), [("all", 3), ("uniform", 1), ("uniform", 2)])
def test_the_mean_of_all_estimates_is_the_mean_over_all_clients(mixed, select, wanted, weights):
    cohort = {} if select == "all" else {"cohort": wanted}
    made = scenario(mixed, {"select": select, **cohort, "correct": "known"})
    made["algorithms"][0]["weights"] = weights
    _, run = run_of(made)
    correction, values = Correction(run), np.array([3.0, -7.0, 11.0])
    expected = 0.0
    for there in map(np.array, product([False, True], repeat=3)):
        if not there.any():
            continue
        chance = np.prod(np.where(there, CHANCES, 1 - np.array(CHANCES)))
        cohorts = subsets(there, wanted)
        for ids in cohorts:
            one = np.ones(len(ids), dtype=int)
            found = correction.weights(seen(run, there, wanted), {}, {}, ids, one)
            expected += chance * float(found @ values[ids]) / correction.total / len(cohorts)
    sizes = run.federation.views.training.shards.sizes(np.arange(3))
    assert len(set(sizes.tolist())) == 3
    truth = np.average(values, weights=sizes if weights == "size" else None)
    assert expected == pytest.approx(truth, rel=1e-12)


def test_draws_by_size_with_replacement_are_unbiased_too(mixed):
    made = scenario(mixed, {"select": "weighted", "cohort": 2, "correct": "known"})
    _, run = run_of(made)
    correction, values = Correction(run), np.array([3.0, -7.0, 11.0])
    sizes = run.federation.views.training.shards.sizes(np.arange(3)).astype(float)
    expected = 0.0
    for there in map(np.array, product([False, True], repeat=3)):
        if not there.any():
            continue
        chance = np.prod(np.where(there, CHANCES, 1 - np.array(CHANCES)))
        q = np.where(there, sizes, 0) / sizes[there].sum()
        for drawn in product(np.flatnonzero(there).tolist(), repeat=2):
            ids, counts = np.unique(drawn, return_counts=True)
            found = correction.weights(seen(run, there, 2), {}, {}, ids, counts)
            expected += chance * np.prod(q[list(drawn)]) * (found @ values[ids]) / correction.total
    assert expected == pytest.approx(np.average(values, weights=sizes), rel=1e-12)


def test_a_reply_holds_the_weighted_sum_over_the_weight_of_all(mixed):
    """By hand: x <- x - sum_S n_i Delta_i / (p_i |S| / |A|) / n, where S is A here."""
    plan, run = run_of(scenario(mixed, {"select": "all", "correct": "known"}))
    loop = testing.loop(plan, run)
    sizes = run.federation.views.training.shards.sizes(np.arange(3))
    state, _ = loop.start()
    counted = 0
    for number in range(1, 9):
        there = np.flatnonzero(
            run.federation.population.available(np.arange(3), state.time_s, number)
        )
        sent = {}
        alone = Loop(run, loop.exchange.executor)
        ask = next(run.training.algorithm.round(state.state))
        for i in there.tolist():
            stats = RoundStats(number, state.time_s, state.time_s)
            sent[i] = alone.policy.cohorts.answer(ask, "algorithm", np.array([i]), stats).mean[
                "delta"
            ]
        after, row, _ = loop.step(state)
        change = sum(sizes[i] / CHANCES[i] * delta for i, delta in sent.items()) / sizes.sum()
        np.testing.assert_allclose(after.state["x"], state.state["x"] - change, rtol=1e-12)
        counted += row["participants"]
        state = after
    assert counted > 4


def direct_intervals(took_part, cutoff):
    """FedAU's weights (T,) of one client, round by round: Algorithm 2 as a plain loop."""
    mean, number, length, weights = 1.0, 0, 0, [1.0]
    for before in took_part[:-1]:
        length += 1
        if before or length == cutoff:
            mean = length if number == 0 else (number * mean + length) / (number + 1)
            number, length = number + 1, 0
        weights.append(mean)
    return weights


@pytest.mark.parametrize("chance", [0.005, 0.02, 0.1, 0.6, 1.0])
def test_intervals_are_those_of_a_plain_loop(mixed, chance):
    _, run = run_of(scenario(mixed, {"select": "all", "correct": "intervals"}))
    correction, rounds = Correction(run), 600
    took_part = np.random.default_rng(3).random((3, rounds)) < np.array([[chance], [0.3], [0.9]])
    expected = np.array([direct_intervals(row.tolist(), LONGEST) for row in took_part])
    sizes = run.federation.views.training.shards.sizes(np.arange(3))
    state = correction.init()
    for number in range(1, rounds + 1):
        ids = np.flatnonzero(took_part[:, number - 1])
        view = SelectionView(3, number, 0.0, 3, 0, lambda ids: ids >= 0, lambda ids: sizes[ids])
        found = correction.weights(view, {}, state, ids, np.ones(len(ids), dtype=int))
        np.testing.assert_allclose(found, sizes[ids] * expected[ids, number - 1], rtol=1e-12)
        state = correction.learn(state, ids, number)


def test_intervals_are_in_the_checkpoint(mixed, tmp_path):
    made = scenario(mixed, {"select": "uniform", "cohort": 2, "correct": "intervals"})
    made |= {"checkpoint": {"every_s": 0}, "executor": "serial"}
    plan = api.prepare(api.read(made))
    rayfed.run(made, out=tmp_path / "whole", page=False)
    stop_after(plan, tmp_path / "part", rounds=4)
    held = np.load(next((tmp_path / "part").glob("*/checkpoint/server-4.npz")))
    assert len(held["correction.client"]) > 0
    drive(plan, tmp_path / "part", resume=True)
    for one in (tmp_path / "whole").glob("*/model.npz"):
        two = tmp_path / "part" / one.parent.name / "model.npz"
        assert np.load(one)["x"].tobytes() == np.load(two)["x"].tobytes()


@pytest.mark.parametrize(
    ("kind", "changes", "algorithm", "found"),
    [
        ("known", {}, "fednova", "'fednova' needs the exact weighted mean"),
        (
            "known",
            {"late": "stale"},
            "fedavg",
            "needs replies of the current round alone, but late: stale",
        ),
        ("known", {"select": "power-of-d", "cohort": 1}, "fedavg", "give intervals"),
        ("known", {"select": "poisson", "cohort": 1}, "fedavg", "'poisson' makes the probability"),
        (
            "known",
            {"cohort": 1, "over_select": 2.0},
            "fedavg",
            "but over_select: 2.0 makes the probability",
        ),
        ("known", {"deadline_s": 9}, "fedavg", "but deadline_s: 9.0 makes the probability"),
        ("known", {"minimum": 2}, "fedavg", "but minimum: 2 makes the probability"),
        ("intervals", {}, "mifa", "'mifa' needs the exact weighted mean"),
    ],
)
def test_what_cannot_be_corrected_is_refused(mixed, kind, changes, algorithm, found):
    made = scenario(mixed, {"correct": kind, **changes}, algorithm)
    with pytest.raises(ScenarioError, match=found) as error:
        api.prepare(api.read(made))
    assert error.value.place == "participation.correct"


@pytest.mark.parametrize(
    "lossy", [{"network": {"loss": 0.1}}, {"crash": {"probability": 0.1, "restart_s": 2}}]
)
def test_known_chances_do_not_hold_where_replies_get_lost(mixed, lossy):
    made = scenario(mixed, {"correct": "known"})
    made["clients"] |= lossy
    with pytest.raises(ScenarioError, match="but loss of replies makes the probability"):
        api.prepare(api.read(made))


def test_clients_weigh_as_many_rows_as_they_have_in_the_round(mixed):
    """Clients 0 and 2 have no rows but one at first, and all of them from round 3."""
    made = scenario(mixed, {"select": "all", "correct": "known"})
    made["drift"] = {"name": "arriving", "at": 3, "clients": [0, 2]}
    _, run = run_of(made)
    exchange = Loop(run, SerialExecutor({})).exchange
    ids, whole = np.arange(3), run.federation.views.training.shards.at(9).sizes(np.arange(3))
    for round_number, sizes in ((1, np.where(ids == 1, whole, 1)), (3, whole)):
        exchange.look_at(round_number)
        view = SelectionView(3, round_number, 0.0, 3, 0, lambda ids: ids >= 0, lambda ids: ids * 0)
        found = exchange.correction.weights(view, {}, {}, ids, np.ones(3, dtype=int))
        np.testing.assert_allclose(found, sizes / np.array(CHANCES), rtol=1e-12)
        assert exchange.correction.total == sizes.sum()
