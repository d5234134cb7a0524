"""Codecs: published bounds, bits against bytes, rows, and what is no ordinary number."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rayfed.channel import QSGD, Codec, Draws, Natural, PowerSGD, RandK, Sign, TopK
from rayfed.channel.layout import Layout
from rayfed.core.errors import ScenarioError
from rayfed.core.rng import Key

PACKED = [
    RandK(k=3), RandK(k=3, unbiased=False), RandK(share=0.4, shared=True), TopK(k=3), TopK(k=1),
    TopK(share=0.5), QSGD(levels=1), QSGD(levels=4), QSGD(levels=255), Natural(), Sign(),
]  # fmt: skip
TYPES = [np.float32, np.float64]


def draws(count, round=1):
    return Draws(Key(3, "uplink/delta"), 5 + 2 * np.arange(count), round, 0, round)


FEW = st.integers(1, 4)


def vectors(rows=FEW, dtype=np.float64):
    bounded = st.floats(-1e6, 1e6, width=8 * np.dtype(dtype).itemsize)
    shape = st.tuples(rows, st.integers(1, 9))
    return shape.flatmap(lambda found: arrays.arrays(dtype, found, elements=bounded))


@pytest.mark.parametrize("codec", PACKED, ids=str)
@pytest.mark.parametrize("dtype", TYPES)
@settings(max_examples=25)
@given(data=st.data())
def test_bits_are_those_of_packed_bytes_which_hold_all_that_is_decoded(codec, dtype, data):
    v = data.draw(vectors(rows=st.just(1), dtype=dtype))
    code = codec.pack(v, draws(1))
    assert len(code) == -(-codec.bits([v.shape[1:]], 8 * v.itemsize) // 8)
    decoded = codec.unpack(code, v.shape[1], dtype, draws(1))
    np.testing.assert_array_equal(decoded, codec.coded(v, draws(1)))
    assert decoded.dtype == dtype


@pytest.mark.parametrize("codec", [*PACKED, PowerSGD(rank=1)], ids=str)
@settings(max_examples=25)
@given(v=vectors())
def test_rows_alone_and_together_have_the_same_bits(codec, v):
    stack = v[:, :, None] * np.linspace(-1, 1, 5) if codec.matrices else v
    together = codec.coded(stack, draws(len(v)))
    for k in range(len(v)):
        one = Draws(Key(3, "uplink/delta"), 5 + 2 * np.arange(k, k + 1), 1, 0, 1)
        np.testing.assert_array_equal(codec.coded(stack[k : k + 1], one)[0], together[k])


@pytest.mark.parametrize("codec", [c for c in PACKED if c.unbiased and not c.by_round], ids=str)
@settings(max_examples=10)
@given(v=arrays.arrays(np.float64, (1, 5), elements=st.floats(0.01, 100) | st.just(-3.0)))
def test_unbiased_codecs_have_the_mean_v_and_the_published_variance(codec, v):
    count = 2000
    found = codec.coded(np.repeat(v, count, axis=0), draws(count))
    noise = 6 * found.std(axis=0) / math.sqrt(count)
    scale = np.abs(v).max()
    assert (np.abs(found.mean(axis=0) - v[0]) <= noise + 1e-3 * scale).all()
    p, square = v.shape[1], np.square(v).sum()
    omega = {
        "rand-k": lambda: p / min(p, codec.k) - 1,
        "qsgd": lambda: min(p / codec.levels**2, math.sqrt(p) / codec.levels),
        "natural": lambda: 1 / 8,
    }[codec.name]()
    errors = np.square(found - v).sum(axis=1)
    assert errors.mean() <= omega * square + 6 * errors.std() / math.sqrt(count) + 1e-9 * square
    assert codec.error((p,)) == pytest.approx(omega)


@settings(max_examples=50)
@given(v=vectors(), k=st.integers(1, 9))
def test_biased_codecs_contract(v, k):
    p, square = v.shape[1], np.square(v).sum(axis=1)
    k = min(k, p)
    slack = 1e-9 * square
    top = np.square(TopK(k=k).coded(v, draws(len(v))) - v).sum(axis=1)
    assert (top <= (1 - k / p) * square + slack).all()
    signs = np.square(Sign().coded(v, draws(len(v))) - v).sum(axis=1)
    exact = square - np.square(np.abs(v).sum(axis=1)) / p  # Karimireddy et al. 2019, Lemma 8
    np.testing.assert_allclose(signs, exact, rtol=1e-9, atol=1e-9 * (1 + square.max()))
    matrices = v[:, :, None] * np.linspace(-1, 2, 7)
    lost = np.square(PowerSGD(rank=1).coded(matrices, draws(len(v))) - matrices)
    assert (lost.sum(axis=(1, 2)) <= np.square(matrices).sum(axis=(1, 2)) * (1 + 1e-9)).all()


@settings(max_examples=50)
@given(v=arrays.arrays(np.float64, (3, 7), elements=st.integers(-2, 2)), k=st.integers(1, 7))
def test_top_k_takes_the_first_of_equal_coordinates(v, k):
    found = TopK(k=k).coded(v, draws(3))
    for row, sent in zip(v, found, strict=True):
        order = sorted(range(7), key=lambda j: (-abs(row[j]), j))[:k]
        wanted = [row[j] if j in order else 0 for j in range(7)]
        assert sent.tolist() == wanted


def test_coordinates_of_rand_k_are_drawn_uniformly_and_shared_ones_are_the_same_for_all():
    v = np.ones((6000, 5))
    sent = RandK(k=2).coded(v, draws(6000)) > 0
    assert (sent.sum(axis=1) == 2).all()
    assert np.abs(sent.mean(axis=0) - 0.4).max() < 6 * math.sqrt(0.24 / 6000)
    shared = [RandK(k=2, shared=True).coded(v[:3], draws(3, round)) for round in range(1, 40)]
    assert all((rows == rows[0]).all() for rows in shared)
    assert len({tuple(np.flatnonzero(rows[0])) for rows in shared}) > 5


@pytest.mark.parametrize("codec", PACKED, ids=str)
@pytest.mark.parametrize("dtype", TYPES)
def test_numbers_that_are_odd(codec, dtype):
    with np.errstate(all="ignore"):
        assert (codec.coded(np.zeros((2, 4), dtype), draws(2)) == 0).all()
        assert not np.isfinite(codec.coded(np.full((2, 4), np.nan, dtype), draws(2))).all()
        one = codec.coded(np.array([[2.0]], dtype), draws(1))
        assert one.shape == (1, 1)
        assert one[0, 0] == 2.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_does_not_stay_at_home(bad):
    v = np.array([[1.0, 5.0, bad, 2.0]])
    assert TopK(k=1).coded(v, draws(1))[0].tolist() == pytest.approx([0, 0, bad, 0], nan_ok=True)
    assert not np.isfinite(Natural().coded(v, draws(1))[0, 2])
    with np.errstate(all="ignore"):
        assert not np.isfinite(QSGD().coded(v, draws(1))).all()
        assert not np.isfinite(Sign().coded(v, draws(1))).all()


def test_natural_rounds_to_neighbouring_powers_of_two_also_at_the_ends_of_the_range():
    for dtype in TYPES:
        info = np.finfo(dtype)
        v = np.array([[3.0, -0.3, 1.0, info.smallest_subnormal, -info.smallest_normal]], dtype)
        found = Natural().coded(np.repeat(v, 50, axis=0), draws(50))
        below = np.ldexp(1.0, np.frexp(v)[1] - 1)
        for j in (0, 1, 2, 4):
            assert set(np.abs(found[:, j]).tolist()) <= {below[0, j], 2 * below[0, j]}
        assert set(found[:, 3].tolist()) <= {0.0, float(info.smallest_normal)}


@pytest.mark.parametrize(
    ("codec", "shapes", "number", "bits"),
    [
        (TopK(k=2), [(112,)], 64, 2 * (64 + 7)),  # ceil(log2 112) = 7
        (TopK(k=2, index_bits=False), [(112,)], 32, 64),
        (TopK(share=0.01), [(7850,)], 32, 78 * (32 + 13)),  # rounded: 78 of 7850
        (TopK(share=0.01), [(7,)], 32, 32 + 3),
        (TopK(k=9), [(7,)], 32, 7 * 32),
        (RandK(k=2), [(112,), (4,)], 32, 2 * (64 + 64)),
        (QSGD(levels=4), [(10,)], 32, 32 + 10 * (1 + 3)),
        (Natural(), [(10,)], 32, 90),
        (Natural(), [(10,)], 64, 120),
        (Sign(), [(10,)], 64, 74),
        (PowerSGD(rank=2), [(10, 4, 5), (10,), (2, 3)], 32, 32 * (2 * 30 + 10 + 6)),
    ],
)  # fmt: skip
def test_bits_worked_out_by_hand(codec, shapes, number, bits):
    assert codec.bits(shapes, number) == bits


def test_power_sgd_finds_matrices_of_low_rank_after_a_step_or_two():
    rng = np.random.default_rng(1)
    m = rng.standard_normal((1, 8, 2)) @ rng.standard_normal((1, 2, 6))
    codec = PowerSGD(rank=2)
    kept = {name: row[None] for name, row in codec.first((8, 6)).items()}
    found, kept = codec.stepped(m, draws(1), kept)
    np.testing.assert_allclose(found, m, atol=1e-12)
    assert kept["q"].shape == (1, 6, 2)


@dataclass(frozen=True, kw_only=True)
class Alternating(Codec):
    """A vector as it is and zeros in turn, for each client."""

    name: ClassVar[str] = "alternating"

    def first(self, shape):
        return {"sent": np.zeros(1)}

    def stepped(self, v, draw, state):
        return v * (state["sent"] == 0), {"sent": 1 - state["sent"]}


@pytest.mark.parametrize("by", ["all", "layer"])
def test_codecs_keep_their_state_in_one_piece_and_in_several(by):
    layout, codec = Layout(3, ((2,), (1,))), Alternating(by=by)
    v = np.ones((4, 3))
    kept = {name: np.repeat(row[None], 4, axis=0) for name, row in layout.first(codec, 3)}
    assert len(kept) == (1 if by == "all" else 2)
    for round in range(3):
        found, kept = layout.coded(codec, v, draws(4), kept)
        np.testing.assert_array_equal(found, v if round % 2 == 0 else 0 * v)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "k: is missing; give k or share"),
        ({"k": 2, "share": 0.5}, "k: found 2 and share 0.5; leave one of them out"),
    ],
)
def test_either_k_or_share(given, text):
    with pytest.raises(ScenarioError, match=text):
        TopK(**given)


@pytest.mark.parametrize(("share", "p", "k"), [(0.82, 75, 62), (0.58, 25, 14), (0.01, 10, 1)])
def test_a_share_of_the_coordinates_is_rounded_and_at_least_one(share, p, k):
    assert TopK(share=share).number((p,)) == k


def test_levels_of_qsgd_are_shares_of_the_norm():
    """||(3, -4)|| = 5: of two levels 3 and 4 are 1.2 and 1.6, rounded to 2.5 or 5."""
    decoded = QSGD(levels=2).coded(np.array([[3.0, -4.0]] * 400), draws(400))
    assert [np.unique(column).tolist() for column in decoded.T] == [[2.5, 5], [-5, -2.5]]
    up = (np.abs(decoded) == 5).mean(axis=0)
    assert (np.abs(up - [0.2, 0.6]) < 5 * np.sqrt([0.2 * 0.8 / 400, 0.6 * 0.4 / 400])).all()
