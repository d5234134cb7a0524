"""Faults: what is sent instead, and by whom."""

from statistics import NormalDist

import numpy as np
import pytest

from rayfed.channel import (
    Alie,
    BitFlip,
    Draws,
    Ipm,
    LabelFlip,
    Mimic,
    Noise,
    NotANumber,
    Replay,
    Scale,
)
from rayfed.channel.faults import Knowledge
from rayfed.channel.faulty import faulty
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.population import ConstantDelay, Group, Population

V = np.array([[1.0, -2.0], [3.0, 0.5]])
NOTHING = V[:, :0]


def draws(ids=(0, 1), round=1):
    return Draws(Key(0, "x"), np.array(ids), round, 0, round)


def known(vectors, faulty=2, ids=None):
    v = np.asarray(vectors, dtype=float)
    ids = np.arange(len(v)) if ids is None else np.array(ids)
    return Knowledge(v.mean(0), (v * v).mean(0), len(v), faulty, v, ids)


def test_simple_faults_by_hand():
    assert BitFlip(count=1).sent(V, draws(), NOTHING, 1)[0].tolist() == [[-1, 2], [-3, -0.5]]
    tripled = Scale(count=1, factor=-3.0).sent(V, draws(), NOTHING, 1)[0]
    assert tripled.tolist() == [[-3, 6], [-9, -1.5]]
    assert np.isnan(NotANumber(count=1).sent(V, draws(), NOTHING, 1)[0]).all()


def test_noise_is_keyed_normal_and_has_the_stated_deviation():
    v = np.zeros((2, 20_000))
    noise = Noise(count=1, deviation=3.0).sent(v, draws(), NOTHING, 1)[0]
    again = Noise(count=1, deviation=3.0).sent(v, draws(), NOTHING, 1)[0]
    np.testing.assert_array_equal(noise, again)
    other = Noise(count=1, deviation=3.0).sent(v, draws(round=2), NOTHING, 1)[0]
    assert (noise != other).mean() > 0.99
    assert noise.std() == pytest.approx(3.0, rel=0.02)  # 40,000 draws: 0.35 % is one deviation
    assert abs(noise.mean()) < 0.06
    assert abs(np.corrcoef(noise)[0, 1]) < 0.03
    added = Noise(count=1, deviation=3.0).sent(v + 5, draws(), NOTHING, 1)[0]
    np.testing.assert_allclose(added, noise + 5, rtol=1e-12)
    alone = Noise(count=1, deviation=3.0, alone=True).sent(v + 5, draws(), NOTHING, 1)[0]
    np.testing.assert_array_equal(alone, noise)


def test_replay_sends_the_last_upload_from_before_it_began():
    fault, kept = Replay(count=1, start=3), np.full((2, 2), np.nan)
    for round in (1, 2):
        sent, kept = fault.sent(round * V, draws(), kept, round)
        np.testing.assert_array_equal(sent, round * V)
    for round in (3, 4):
        sent, kept = fault.sent(round * V, draws(), kept, round)
        np.testing.assert_array_equal(sent, 2 * V)
    kept[1] = np.nan  # a client that comes for the first time
    sent, kept = fault.sent(5 * V, draws(), kept, 5)
    np.testing.assert_array_equal(sent, [2 * V[0], 5 * V[1]])
    sent, kept = fault.sent(6 * V, draws(), kept, 6)
    np.testing.assert_array_equal(sent, [2 * V[0], 5 * V[1]])


def test_a_little_is_enough_is_mean_minus_z_deviations():
    v = [[0.0, 1.0], [2.0, 5.0], [4.0, 3.0]]  # deviations sqrt(8/3) of both
    found = Alie(count=1, z=1.5).sent(known(v), {})[0]
    np.testing.assert_allclose(found, [2 - 1.5 * np.sqrt(8 / 3), 3 - 1.5 * np.sqrt(8 / 3)])
    # n = 20 of which m = 5: s = 11 - 5 = 6 supporters, 9 of 15 are nearer
    many = np.random.default_rng(0).standard_normal((15, 3))
    found = Alie(count=1).sent(known(many, faulty=5), {})[0]
    z = NormalDist().inv_cdf(9 / 15)
    np.testing.assert_allclose(found, many.mean(0) - z * many.std(0), rtol=1e-12)


def test_inner_product_manipulation_turns_the_mean_round():
    found = Ipm(count=1, epsilon=0.5).sent(known([[2.0, 4.0], [4.0, 0.0]]), {})[0]
    assert found.tolist() == [-1.5, -1]


def test_mimic_learns_the_direction_of_most_variance_and_copies_one_client():
    rng = np.random.default_rng(1)
    along = np.array([3.0, 4.0]) / 5
    fault = Mimic(count=1, learning=30)
    state = fault.init(2, np.array([0.6, 0.3]))
    offsets = np.array([-2.0, -1.0, 0.0, 1.0, 5.0])
    for _ in range(40):
        v = offsets[:, None] * along + 0.1 * rng.standard_normal((5, 2))
        sent, state = fault.sent(known(v, ids=[2, 3, 5, 7, 11]), state)
    assert abs(state["z"] @ along) == pytest.approx(1, abs=1e-2)
    assert state["chosen"].tolist() == [11]
    np.testing.assert_array_equal(sent, v[4])
    sent, after = fault.sent(known(v[:4], ids=[2, 3, 5, 7]), state)  # it does not reply
    np.testing.assert_array_equal(sent, v[0])
    assert after["chosen"].tolist() == [11]


def test_the_first_direction_by_hand():
    fault = Mimic(count=1)
    state = {"z": np.array([1.0, 0.0]), "mu": np.zeros(2), "t": np.zeros(1), "chosen": -np.ones(1)}
    v = [[1.0, 1.0], [-1.0, -1.0], [0.0, 3.0]]  # mean (0, 1); apart (1, 0), (-1, -2), (0, 2)
    _, after = fault.sent(known(v), state)
    # c = 1 (1, 0) - 1 (-1, -2) + 0 = (2, 2); t = 0 leaves c / ||c||
    np.testing.assert_allclose(after["z"], [np.sqrt(0.5)] * 2, rtol=1e-14)
    np.testing.assert_allclose(after["mu"], [0, 1])
    assert after["chosen"].tolist() == [2]


def population(count=10, groups=()):
    names = ("a", "b") if count == 2 else ()
    return Population(count, 0, ConstantDelay(), groups=groups, names=names)


def test_nobody_has_two_faults_and_named_ones_come_first():
    faults = (BitFlip(count=3), NotANumber(ids=(1, 4)), Scale(fraction=0.4))
    found = faulty(faults, population())
    assert [len(each.clients) for each in found] == [3, 2, 2]  # 0.4 of the five that are left
    assert found[1].clients.tolist() == [1, 4]
    together = np.concatenate([each.clients for each in found])
    assert len(set(together.tolist())) == 7
    again = faulty(faults, population())
    assert [each.clients.tolist() for each in again] == [each.clients.tolist() for each in found]
    assert [each.number for each in found] == [0, 1, 2]


@pytest.mark.parametrize(
    ("faults", "place"),
    [
        ((Scale(fraction=0.02),), "clients.faults.0.fraction"),
        ((BitFlip(fraction=1.0), Scale(fraction=0.5)), "clients.faults.1.fraction"),
        ((BitFlip(ids=(1, 3)), Scale(group="phones")), "clients.faults.1.group"),
    ],
)
def test_a_fault_that_nobody_has_is_refused(faults, place):
    phones = (Group(ids=(1, 3), name="phones"),)
    with pytest.raises(ScenarioError, match="clients without a fault") as error:
        faulty(faults, population(groups=phones))
    assert error.value.place == place


def test_a_group_or_some_of_it():
    phones = (Group(ids=(1, 3, 5, 7), name="phones"),)
    (whole,) = faulty((BitFlip(group="phones"),), population(groups=phones))
    assert whole.clients.tolist() == [1, 3, 5, 7]
    (half,) = faulty((BitFlip(group="phones", fraction=0.5),), population(groups=phones))
    assert len(half.clients) == 2
    assert set(half.clients.tolist()) < {1, 3, 5, 7}


def test_a_fault_begins_in_its_round():
    (each,) = faulty((BitFlip(ids=(1,), start=3),), population())
    ids = np.array([0, 1])
    assert [each.among(ids, round).tolist() for round in (2, 3)] == [[False, False], [False, True]]
    assert each.among(ids).tolist() == [False, True]


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ((BitFlip(ids=(10,)),), "clients.faults.0.ids: found 10, but there are 10 clients"),
        ((BitFlip(ids=(1,)), Scale(ids=(1, 2))), "clients.faults.1.ids: names a client that has"),
        ((BitFlip(count=11),), "clients.faults.0.count: found 11, but 10 clients are left"),
        ((BitFlip(group="phones"),), "clients.faults.0.group: found 'phones'; the groups are none"),
        ((BitFlip(ids=("a",)),), "clients.faults.0: found 'a', but the data do not name"),
    ],
)
def test_who_cannot_be_faulty_is_one_line(faults, message):
    with pytest.raises(ScenarioError) as error:
        faulty(faults, population())
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("cls", "settings", "message"),
    [
        (BitFlip, {}, "found no faulty clients; give count, for example"),
        (BitFlip, {"ids": (1,), "count": 2}, "give one of ids, count, fraction and group"),
        (BitFlip, {"ids": (1,), "group": "a"}, "give one of ids, count, fraction and group"),
        (LabelFlip, {"count": 1, "start": 2}, "start: labels are wrong in all rounds"),
        (LabelFlip, {"count": 1, "end": 2}, "start: labels are wrong in all rounds"),
        (BitFlip, {"count": 1, "start": 3, "end": 2}, "end: found 2, before start, 3"),
    ],
)
def test_settings_that_do_not_go_together(cls, settings, message):
    with pytest.raises(ScenarioError, match=message):
        cls(**settings)


@pytest.mark.parametrize(("share", "count", "chosen"), [(0.82, 75, 62), (0.58, 25, 14)])
def test_halves_of_clients_are_rounded_to_even(share, count, chosen):
    assert BitFlip(fraction=share).chosen(count) == chosen
