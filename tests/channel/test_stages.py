"""Clipping, and secure sums as a model: fixed point, masks, bytes, turns, rounds that are lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import rayfed
from rayfed import api
from rayfed.channel import Clip, Draws, SecureSum
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key
from rayfed.engine.loop import Loop
from rayfed.executors.serial import SerialExecutor

LOCAL = {"steps": 5, "batch": 4, "lr": 0.1}
SECURE = {"name": "secure-sum", "range": 8.0, "bits": 32}
ROWS = arrays.arrays(np.float64, (3, 4), elements=st.floats(-100, 100))


@given(a=ROWS, b=ROWS, norm=st.floats(0.1, 50))
def test_the_whole_upload_is_clipped_and_short_ones_stay_as_they_are(a, b, norm):
    found = Clip(norm=norm).applied({"a": a, "b": b})
    length = np.sqrt((a**2).sum(axis=1) + (b**2).sum(axis=1))
    after = np.sqrt((found["a"] ** 2).sum(axis=1) + (found["b"] ** 2).sum(axis=1))
    assert (after <= norm * (1 + 1e-12)).all()
    for k in range(3):
        if length[k] <= norm * (1 - 1e-12):
            np.testing.assert_array_equal(found["a"][k], a[k])
        else:
            tiny = np.finfo(float).tiny  # below it numbers have fewer digits
            np.testing.assert_allclose(found["b"][k], b[k] * (norm / length[k]), 1e-9, tiny)


def test_masks_cancel_to_the_same_integers_with_and_without_dropouts():
    """Pairwise masks of keyed generators; those of who is gone are taken out by the shares."""
    secure, rng = SecureSum(range=4.0, bits=32), np.random.default_rng(0)
    v, ids, n, ring = rng.standard_normal((6, 9)), np.arange(6), 9, 1 << 32
    unit = secure.unit(6)
    plain = secure.fixed(v, np.full(6, 1 / unit), Draws(Key(0, "uplink"), ids)) % ring

    def mask(i, j):
        seed = Key(0, "masks").generator(min(i, j), max(i, j))
        return (1 if i < j else -1) * seed.integers(0, ring, n)

    def own(i):
        return Key(0, "own masks").generator(i).integers(0, ring, n)

    sent = [plain[i] + own(i) + sum(mask(i, j) for j in range(6) if j != i) for i in range(6)]
    for gone in ((), (2,), (0, 5)):
        there = [i for i in range(6) if i not in gone]
        total = sum(sent[i] % ring for i in there)
        total -= sum(own(i) for i in there)
        total -= sum(mask(i, j) for i in there for j in gone)
        np.testing.assert_array_equal(total % ring, plain[there].sum(axis=0) % ring)
        found, wrapped = secure.opened(total % ring, unit)
        assert wrapped == (total % ring >= ring // 2).sum()  # the model is given true sums
        np.testing.assert_allclose(found, v[there].sum(axis=0), atol=len(there) * unit)


def test_rounding_is_unbiased_and_what_is_too_large_wraps_around():
    secure = SecureSum(range=1.0, bits=8)
    unit, many = secure.unit(4), 20_000
    assert unit == 4 / 128
    draws = Draws(Key(0, "uplink"), np.arange(many))
    found = secure.fixed(np.full((many, 1), 0.01), np.full(many, 1 / unit), draws)
    assert set(found.ravel().tolist()) == {0, 1}
    assert found.mean() == pytest.approx(0.01 / unit, abs=6 * 0.5 / np.sqrt(many))
    total, wrapped = secure.opened(np.array([127, 128, -128, -129]), 1.0)
    assert total.tolist() == [127, -128, -128, 127]
    assert wrapped == 2


def scenario(mixed, uplink, **changes):
    made = mixed(rounds=5, uplink=uplink, algorithms=[{"name": "fedavg", "local": LOCAL}])
    made["clients"] = {"count": 6, "network": {"latency_s": 0.5}}
    made["participation"] = {"select": "all"}
    return made | changes


def walked(made):
    plan = api.prepare(api.read(made))
    run, executor = plan.runs[0], SerialExecutor(plan.tables)
    executor.open(run.folder, run.setup())
    loop = Loop(run, executor)
    state, _ = loop.start()
    rows, models = [], [state.state["x"]]
    for _ in range(5):
        state, row, _ = loop.step(state)
        rows.append(row)
        models.append(state.state["x"])
    return rows, models


def test_a_run_is_the_plain_one_to_the_rounding(mixed):
    rows, models = walked(scenario(mixed, [SECURE]))
    bare, plain = walked(scenario(mixed, []))
    unit = SecureSum(range=8.0, bits=32).unit(6)
    # a round rounds the mean by at most a unit; local steps pass differences on
    np.testing.assert_allclose(models[1], plain[1], atol=unit)
    np.testing.assert_allclose(models[-1], plain[-1], atol=5 * 2 * unit)
    assert {row["wrapped"] for row in rows} == {0.0}
    assert "wrapped" not in bare[0]
    # 5 others: public keys and shares down; 18 numbers of 32 bits, own keys and shares up
    assert rows[0]["bytes_up"] == 6 * (18 * 4 + 2 * 32 + 5 * (80 + 32))
    assert rows[0]["bytes_down"] == 6 * (18 * 8 + 5 * (2 * 32 + 80))
    assert rows[0]["time_s"] - bare[0]["time_s"] == pytest.approx(3 * 2 * 0.5)


@pytest.mark.parametrize(
    "memory", [{"name": "ef21", "start": "coded"}, {"name": "diana", "alpha": 0.1}]
)
def test_memories_at_the_server_take_secure_sums_too(mixed, memory):
    unbiased = memory["name"] == "diana"
    codec = {"name": "rand-k", "k": 9, "shared": True, "unbiased": unbiased, "memory": memory}
    rows, models = walked(scenario(mixed, [codec, SECURE | {"bits": 40}]))
    _, plain = walked(scenario(mixed, [codec]))
    np.testing.assert_allclose(models[-1], plain[-1], atol=1e-7)
    assert np.abs(models[-1] - models[0]).max() > 1e-2
    assert rows[0]["wrapped"] == 0


def test_a_narrow_range_wraps_around_and_says_so(mixed):
    rows, models = walked(scenario(mixed, [SECURE | {"range": 1e-3}]))
    assert max(row["wrapped"] for row in rows) > 0
    assert np.abs(np.diff(models, axis=0)).max() <= 8e-3 + 1e-9


def test_masked_vectors_are_dense_but_for_codecs_with_the_same_coordinates(mixed):
    beside = 2 * 32 + 5 * (80 + 32)
    for codec, size in (
        ({"name": "top-k", "k": 2}, 18 * 4),
        ({"name": "rand-k", "k": 2, "shared": True}, 2 * 4 + 8),
    ):
        rows, _ = walked(scenario(mixed, [codec, {"name": "clip", "norm": 0.5}, SECURE]))
        assert rows[0]["bytes_up"] == 6 * (size + beside)


def test_a_round_of_which_too_few_survive_is_lost(mixed):
    made = scenario(mixed, [SECURE | {"threshold": 0.9}])
    made["clients"] |= {"delay": {"name": "exponential", "mean_s": 1.0}}
    made["participation"] |= {"deadline_s": 11.0}
    rows, models = walked(made)
    lost = [row["participants"] == 0 for row in rows]
    assert True in lost
    assert False in lost
    for k, gone in enumerate(lost):
        assert gone == (models[k] == models[k + 1]).all()
        assert rows[k]["participants"] in (0, 6)


def test_readers_are_warned_of_it(mixed, tmp_path):
    made = scenario(mixed, [SECURE | {"range": 1e-3}])
    found = rayfed.run(made, out=tmp_path / "out", page=False, watch=False)
    assert any("wrapped around, in " in text for text in found.warnings)
    wide = rayfed.run(scenario(mixed, [SECURE]), out=tmp_path / "wide", page=False, watch=False)
    assert not any("wrapped around" in text for text in wide.warnings)


REFUSED = [
    ([SECURE, "natural"], {}, "found 'natural' after 'secure-sum'"),
    ([{"name": "clip", "norm": 1}, "natural"], {}, "found 'natural' after 'clip'"),
    ([{"name": "top-k", "k": 2, "memory": "error-feedback"}, {"name": "clip", "norm": 1}], {},
     "'error-feedback' needs uploads that are not clipped, but 'clip' clips them"),
    ([SECURE], {"algorithms": [{"name": "fedexp", "local": LOCAL}]}, "scalars, in the clear"),
    ([SECURE], {"algorithms": [{"name": "fedasync", "local": LOCAL}]}, "hides single vectors"),
    ([SECURE], {"algorithms": [{"name": "fedbuff", "buffer": 1, "local": LOCAL}]}, "single reply"),
    ([{"name": "top-k", "k": 2, "memory": "ef21+"}, SECURE], {}, "hides single vectors"),
    ([{"name": "top-k", "k": 2, "memory": "ef21"}, SECURE], {}, "first vectors as they are"),
    ([SECURE], {"participation": {"cohort": 3, "deadline_s": 9, "late": "stale"}}, "late: stale"),
    ([SECURE], {"participation": {"cohort": 2, "select": "oort"}}, "'oort' makes"),
    ([SECURE], {"participation": {"cohort": 1}}, "'fedavg' updates after a single reply"),
]  # fmt: skip


@pytest.mark.parametrize(("uplink", "changes", "message"), REFUSED)
def test_what_does_not_go_together_is_one_sentence(mixed, uplink, changes, message):
    with pytest.raises(ScenarioError, match=message):
        api.prepare(api.read(scenario(mixed, uplink, **changes)))


@pytest.mark.parametrize(("threshold", "count", "needed"), [
    (0.56, 25, 14), (0.28, 25, 7), (0.56, 50, 28), (0.28, 75, 21), (0.07, 100, 7), (0.57, 25, 15),
])  # fmt: skip
def test_a_threshold_that_is_whole_clients_is_not_rounded_up(mixed, threshold, count, needed):
    """As many survive as are needed, or one fewer; the others are silent."""
    secure = SECURE | {"threshold": threshold}
    for survive in (needed, needed - 1):
        silent = {"name": "silent", "count": count - survive}
        made = mixed(rounds=1, uplink=[secure], participation={"select": "all"})
        made["clients"] = {"count": count, "faults": [silent]}
        rows, _ = walked(made)
        assert rows[0]["participants"] == (survive if survive == needed else 0)
        (run,) = api.prepare(api.read(made)).runs
        assert run.uplink().survivors == needed


def test_over_selection_that_would_lose_every_sum_is_refused(mixed):
    """Of 10 clients who are asked for 7 replies 0.7 reply; of 11 too few."""
    made = mixed(rounds=1, uplink=[SECURE])
    made["clients"] = {"count": 20}
    made["participation"] = {"cohort": 7, "over_select": 10 / 7}
    rows, _ = walked(made)
    assert rows[0]["participants"] == 7
    made["participation"]["over_select"] = 1.5
    with pytest.raises(
        ScenarioError, match="uses 7 of 11 replies, less than secure-sum's threshol"
    ):
        api.prepare(api.read(made))
