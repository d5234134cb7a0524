"""Power-of-choice by hand: who is asked, what it costs, who is kept."""

import itertools

import numpy as np
import pytest

import rayfed
from rayfed import api, testing
from rayfed.core.errors import ScenarioError
from rayfed.engine.state import RoundStats
from rayfed.selection import (
    AdaptivePowerOfD,
    CommunicationEfficient,
    ComputationEfficient,
    PowerOfD,
    SelectionView,
    UniformSelection,
)
from rayfed.selection.draws import distinct
from rayfed.testing import choose, reply
from tests.fakes.stepping import step

LOSS = np.array([0.5, 3.0, 1.0, 7.0, 2.0, 0.1, 4.0, 4.0])
MODEL = np.arange(3.0)


def seen(wanted=3, count=8, round=1):
    return SelectionView(
        count, round, 0.0, wanted, 0, lambda ids: ids >= 0, lambda ids: np.ones(len(ids)),
        x=MODEL, steps=lambda ids, rows: (ids + 1) / (rows or 1),
    )  # fmt: skip


def losses_of(ids, losses):
    return reply(ids=ids, each={"loss": np.asarray(losses, dtype=float)})


def polled(selection, view=None, losses=LOSS, answering=None):
    """Answer a poll; return its Ask, the ids that were chosen and the state."""

    def clients(ask):
        ids = ask.clients if answering is None else np.intersect1d(ask.clients, answering)
        return losses_of(ids, losses[ids])

    ids, state, (ask,) = choose(selection, view or seen(), replies=clients)
    return ask, ids, state


def unasked(selection, view, state=None):
    ids, state, _ = choose(selection, view, state)
    return ids, state


@pytest.mark.parametrize("towards", ["high", "low"])
def test_the_candidates_with_the_largest_losses_are_kept_or_the_smallest(towards):
    losses = LOSS + np.arange(8) * 1e-6  # no two are equal
    for round in range(1, 20):
        view = seen(round=round)
        ask, ids, _ = polled(PowerOfD(d=5, towards=towards), view, losses)
        assert ask.clients.tolist() == sorted(distinct(view, 5))
        ranked = sorted(ask.clients.tolist(), key=lambda i: losses[i], reverse=towards == "high")
        assert ids.tolist() == sorted(ranked[:3])


@pytest.mark.parametrize("rule", [PowerOfD, ComputationEfficient, CommunicationEfficient])
def test_the_first_cohort_may_be_drawn_uniformly_without_asking(rule):
    ids, _ = unasked(rule(d=8, first="draw"), seen(round=1))
    uniform, _ = unasked(UniformSelection(), seen(round=1))
    assert ids.tolist() == uniform.tolist()
    ask, _, _ = polled(PowerOfD(d=8, first="draw"), seen(round=2))
    assert len(ask.clients) == 8


def test_small_losses_leave_out_clients_with_wrong_labels(tmp_path):
    rules = [{"name": "power-of-d", "d": 12, "towards": side} for side in ("low", "high")]
    scenario = {
        "rounds": 20,
        "problem": {"name": "logistic-regression", "dataset": "mushroom", "test": 0.2},
        "partition": {"name": "iid", "flip": 0.3},
        "clients": {"count": 20},
        "participation": {"cohort": 4},
        "algorithms": [{"name": "fedavg", "local": {"steps": 5, "batch": 32, "lr": 0.3}}],
        "grid": {"participation.select": [{"name": "uniform"}, *rules]},
        "executor": "serial",
    }
    rows = rayfed.run(scenario, out=tmp_path / "out", page=False).rounds
    accuracy = rows[rows["round"] > 10].groupby("setting").accuracy.mean()
    high, low, uniform = accuracy.sort_index()
    assert low > uniform + 0.02
    assert uniform > high + 0.2


def test_a_candidate_downloads_the_model_and_tells_one_number():
    ask, _, _ = polled(PowerOfD(d=8))
    assert ask.clients.tolist() == list(range(8))
    assert ask.send["x"] is MODEL
    assert dict(ask.up) == {"loss": 1}
    assert ask.cost.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]  # all rows


def test_cpow_d_looks_at_a_minibatch():
    ask, _, _ = polled(ComputationEfficient(d=8, batch=4))
    assert ask.cost.tolist() == [0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2]


def test_equal_losses_keep_the_order_of_the_draws():
    for round in range(1, 10):
        view = seen(round=round)
        _, ids, _ = polled(PowerOfD(d=6), view, np.zeros(8))
        assert ids.tolist() == sorted(distinct(view, 6)[:3].tolist())


def test_as_many_candidates_as_are_wanted_take_part_unasked():
    ids, _ = unasked(PowerOfD(d=3), seen())
    assert ids.tolist() == sorted(distinct(seen(), 3).tolist())


def test_only_who_answers_can_be_kept():
    _, ids, _ = polled(PowerOfD(d=8), answering=[0, 2, 5, 6])
    assert ids.tolist() == [0, 2, 6]


def test_twice_the_cohort_are_candidates_by_default():
    ask, _, _ = polled(PowerOfD(), seen(wanted=2))
    assert len(ask.clients) == 4
    assert PowerOfD().candidates(seen(wanted=6)) == 8


def test_rpow_d_asks_nobody_and_ranks_by_the_last_loss():
    selection = CommunicationEfficient(d=8)
    state = selection.init(8)
    state = selection.learn(state, losses_of([1, 4, 6], [9.0, 1.0, 5.0]))
    state = selection.learn(state, losses_of([0, 2, 3, 5, 6, 7], [2.0, 3.0, 4.0, 0.5, 8.0, 0.1]))
    assert state["client"].tolist() == list(range(8))
    assert state["loss"].tolist() == [2.0, 9.0, 3.0, 4.0, 1.0, 0.5, 8.0, 0.1]
    ids, after = unasked(selection, seen(), state)
    assert ids.tolist() == [1, 3, 6]
    assert after is state


@pytest.mark.parametrize("towards", ["high", "low"])
def test_rpow_d_takes_whom_it_never_saw_first(towards):
    selection = CommunicationEfficient(d=8, towards=towards)
    state = selection.learn(selection.init(8), losses_of([0, 1, 2, 4, 6, 7], [1e9] * 6))
    ids, _ = unasked(selection, seen(wanted=2), state)
    assert ids.tolist() == [3, 5]
    first, _ = unasked(selection, seen(wanted=2))
    assert first.tolist() == sorted(distinct(seen(), 8)[:2].tolist())


def test_adapow_d_halves_down_to_the_cohort():
    selection = AdaptivePowerOfD(halve_every=10)
    sizes = [selection.candidates(seen(3, 30, round)) for round in (1, 10, 11, 21, 31, 41, 999)]
    assert sizes == [30, 30, 15, 7, 3, 3, 3]
    half = AdaptivePowerOfD(d=10, halve_every=None, last=400)
    assert [half.candidates(seen(3, 30, round)) for round in (400, 401)] == [10, 3]


@pytest.mark.parametrize(("d", "cohort"), [(3, 4), (14, 4)])
def test_a_number_of_candidates_that_does_not_fit_is_one_clear_line(mixed, d, cohort):
    select = {"name": "power-of-d", "d": d}
    made = mixed(participation={"cohort": cohort, "select": select})
    with pytest.raises(ScenarioError, match=f"found {d} candidates for a cohort of 4 .* 4 to 13"):
        api.prepare(api.read(made))


def engine_for(made):
    return testing.loop(made)


def polling(mixed, select, batch=4):
    made = mixed(participation={"cohort": 2, "select": select})
    made["algorithms"] = [{"name": "fedavg", "local": {"steps": 5, "batch": batch, "lr": 0.1}}]
    made["clients"] = {"count": 6, "delay": {"name": "constant", "mean_s": 2.0}}
    made["problem"]["dataset"] |= {"samples": {"low": 5, "high": 30}}
    return made


def test_polls_cost_the_time_to_go_through_the_rows_and_the_bytes_of_a_model(mixed):
    engine = engine_for(polling(mixed, {"name": "power-of-d", "d": 6}))
    moment, _ = engine.start()
    _, row, (poll, training) = step(engine, moment)
    sizes = engine.run.federation.views.training.shards.sizes(np.arange(6))
    assert len(set(sizes.tolist())) > 2
    np.testing.assert_allclose(poll["compute_s"], 2.0 * sizes / 4)
    assert training["start_s"].tolist() == [poll["end_s"].max()] * 2
    p = moment.state["x"].nbytes
    assert row["bytes_down"] == 6 * p + 2 * p
    assert row["bytes_up"] == 6 * 8 + 2 * p
    assert (row["participants"], row["local_steps"]) == (2, 10)


def test_a_poll_tells_the_loss_of_each_candidate_and_the_largest_train(mixed):
    engine = engine_for(polling(mixed, {"name": "power-of-d", "d": 6}))
    moment, _ = engine.start()
    moment, _, _ = engine.step(moment)  # at a zero model all losses are equal
    each = engine.measures.each(moment.state["x"], np.arange(6), "now")["loss"]
    _, _, (poll, training) = step(engine, moment)
    np.testing.assert_allclose(poll["loss"], each, rtol=1e-13)
    assert training["client"].tolist() == sorted(np.argsort(each)[-2:].tolist())


def test_a_minibatch_of_all_rows_is_the_loss_itself(mixed):
    engine = engine_for(polling(mixed, {"name": "cpow-d", "d": 6, "batch": 100}))
    moment, _ = engine.start()
    moment, _, _ = engine.step(moment)
    each = engine.measures.each(moment.state["x"], np.arange(6), "now")["loss"]
    _, _, (poll, _) = step(engine, moment)
    np.testing.assert_allclose(poll["loss"], each, rtol=1e-12)
    np.testing.assert_allclose(
        poll["compute_s"], 2.0 * engine.exchange.counter.reading(poll["client"])
    )


def test_rpow_d_hears_the_mean_loss_of_the_local_steps_for_eight_bytes(mixed):
    engine = engine_for(polling(mixed, {"name": "rpow-d", "d": 6}))
    moment, _ = engine.start()
    moment, row, (training,) = step(engine, moment)
    p = moment.state["x"].nbytes
    assert (row["bytes_down"], row["bytes_up"]) == (2 * p, 2 * (p + 8))
    assert moment.selection["client"].tolist() == training["client"].tolist()
    np.testing.assert_array_equal(moment.selection["loss"], training["loss"])
    for _ in range(2):  # six clients in three rounds: whom it never saw comes first
        moment, _, _ = engine.step(moment)
    assert moment.selection["client"].tolist() == list(range(6))


def test_participants_count_alike_however_large_they_are(mixed):
    engine = engine_for(polling(mixed, {"name": "power-of-d", "d": 2}))
    moment, _ = engine.start()
    ask = next(engine.run.training.algorithm.round(moment.state))

    def delta(*ids):
        return engine.policy.cohorts.answer(
            ask, "algorithm", np.array(ids), RoundStats(1, 0.0, 0.0)
        ).mean["delta"]

    sizes = engine.run.federation.views.training.shards.sizes(np.arange(2))
    assert sizes[0] != sizes[1]
    np.testing.assert_allclose(delta(0, 1), (delta(0) + delta(1)) / 2, rtol=1e-12)


def chance_of_order(order, mass):
    """Return the probability that clients are drawn in this order, without replacement."""
    left, chance = mass.sum(), 1.0
    for client in order:
        chance *= mass[client] / left
        left -= mass[client]
    return chance


@pytest.mark.parametrize("towards", ["high", "low"])
def test_expected_shares_are_those_of_every_order_that_candidates_can_be_drawn_in(towards):
    mass, losses = np.array([5.0, 1.0, 2.0, 4.0, 3.0]), np.array([0.1, 9.0, 3.0, 2.0, 5.0])
    exact = np.zeros(5)
    for order in itertools.permutations(range(5), 3):
        ranked = sorted(order, key=lambda i: losses[i], reverse=towards == "high")
        exact[ranked[:2]] += chance_of_order(order, mass) / 2
    view = SelectionView(5, 7, 0.0, 2, 0, lambda ids: ids >= 0, lambda ids: mass[ids])
    draws = 40_000
    shares = PowerOfD(d=3, towards=towards).expected_shares(view, {}, losses, draws)
    assert shares.sum() == pytest.approx(1)
    assert shares == pytest.approx(exact, abs=4 * 0.5 / np.sqrt(2 * draws))
    everyone = PowerOfD(d=5, towards=towards).expected_shares(view, {}, losses, 1)
    assert np.flatnonzero(everyone).tolist() == ([1, 4] if towards == "high" else [0, 3])


def test_expected_shares_of_variants_go_by_what_they_rank_by():
    mass, losses = np.ones(8), LOSS
    view = SelectionView(8, 2, 0.0, 2, 0, lambda ids: ids != 3, lambda ids: mass[ids])
    assert ComputationEfficient(d=8).expected_shares(view, {}, losses, 3) is None
    table = {"client": np.array([0, 1, 2, 4, 5, 7]), "loss": np.array([9, 1, 1, 1, 1, 8.0])}
    shares = CommunicationEfficient(d=7).expected_shares(view, table, losses, 3)
    assert np.flatnonzero(shares).tolist() == [0, 6]  # 6 is unknown, 3 is away, 0 has 9
    first = SelectionView(8, 1, 0.0, 2, 0, lambda ids: ids < 4, lambda ids: mass[ids])
    shares = PowerOfD(d=4, first="draw").expected_shares(first, {}, losses, 3)
    assert shares.tolist() == [0.25] * 4 + [0.0] * 4
    fewer = AdaptivePowerOfD(d=8, last=0).expected_shares(view, {}, losses, 3)
    assert np.count_nonzero(fewer) <= 6
    assert fewer[3] == 0
