"""Memories: FedAvg with one full step is EF, EF21 or DIANA as their papers have them."""

import numpy as np
import pytest

from rayfed import testing
from rayfed.channel import Draws, RandK
from rayfed.core.rng import Key
from tests.fakes.stepping import step

SIZES = np.array([3, 5, 8, 10, 14])
ROUNDS, LR, P = 12, 0.15, 6
RNG = np.random.default_rng(2)
X = RNG.standard_normal((SIZES.sum(), P))
Y = RNG.standard_normal(SIZES.sum())
OF = np.arange(len(SIZES)).repeat(SIZES)


def scenario(codec, **changes):
    return {
        "name": "memory", "seeds": [7], "rounds": ROUNDS, "dtype": "float64",
        "problem": {
            "name": "least-squares", "intercept": False, "init": "normal",
            "dataset": {"name": "arrays", "data": {"X": X, "y": Y, "client": OF}},
        },
        "participation": {"select": "all"},
        "uplink": [codec],
        "algorithms": [{"name": "fedavg", "local": {"steps": 1, "batch": "full", "lr": LR}}],
    } | changes  # fmt: skip


def loop_of(made):
    return testing.loop(made)


def walked(made, rounds=ROUNDS):
    """Return the models of all rounds, and who took part in each."""
    loop = loop_of(made)
    state, _ = loop.start()
    models, cohorts = [state.state["x"]], []
    for _ in range(rounds):
        state, _, events = step(loop, state)
        models.append(state.state["x"])
        cohorts.append(events[-1]["client"])
    return np.array(models), cohorts, state


def gradient(i, x):
    A, b = X[i == OF], Y[i == OF]
    return A.T @ (A @ x - b) / len(b)


def top(v, k=2):
    """The k largest coordinates, by sorting."""
    out = np.zeros_like(v)
    for j in sorted(range(len(v)), key=lambda j: (-abs(v[j]), j))[:k]:
        out[j] = v[j]
    return out


def drawn(v, i, t, k=2):
    draws = Draws(Key(7, "uplink/delta"), np.array([i]), t + 1, 0, t + 1)
    at = draws.choice(P, k)[0]
    out = np.zeros_like(v)
    out[at] = P / k * v[at]
    return out


def error_feedback(x, cohorts, w):
    e = np.zeros((len(SIZES), P))
    for S in cohorts:
        step = np.zeros(P)
        for i in S:
            p = e[i] + LR * gradient(i, x)
            e[i] = p - top(p)
            step += w[i] * top(p) / w[S].sum()
        x = x - step
        yield x


def ef21(x, cohorts, w, full):
    """EF21-PP: those who are not there keep their g_i."""
    g_i, known, g = np.zeros((len(SIZES), P)), set(), np.zeros(P)
    for S in cohorts:
        for i in S:
            c = gradient(i, x) - g_i[i]
            c = c if full and i not in known else top(c)
            g_i[i], g = g_i[i] + c, g + w[i] * c
            known.add(i)
        x = x - LR * g
        yield x


def diana(x, cohorts, w, alpha):
    h_i, h = np.zeros((len(SIZES), P)), np.zeros(P)
    for t, S in enumerate(cohorts):
        mean, moved = np.zeros(P), np.zeros(P)
        for i in S:
            C = drawn(gradient(i, x) - h_i[i], i, t)
            h_i[i] = h_i[i] + alpha * C
            mean, moved = mean + w[i] * C / w[S].sum(), moved + w[i] * C
        x = x - LR * (h + mean)
        h = h + alpha * moved
        yield x


PLAIN = {
    "error-feedback": ({"name": "top-k", "k": 2, "memory": "error-feedback"}, error_feedback, ()),
    "ef21": ({"name": "top-k", "k": 2, "memory": {"name": "ef21", "start": "full"}}, ef21, (True,)),
    "ef21 coded": (
        {"name": "top-k", "k": 2, "memory": {"name": "ef21", "start": "coded"}}, ef21, (False,)
    ),
    "diana": ({"name": "rand-k", "k": 2, "memory": {"name": "diana", "alpha": 0.3}}, diana, (0.3,)),
}  # fmt: skip


@pytest.mark.parametrize("cohort", [None, 2])
@pytest.mark.parametrize("weights", ["size", "uniform"])
@pytest.mark.parametrize("name", PLAIN)
def test_one_full_step_is_the_method_of_the_paper(name, weights, cohort):
    codec, plain, settings = PLAIN[name]
    made = scenario(codec)
    made["algorithms"][0]["weights"] = weights
    if cohort:
        made["participation"] = {"cohort": cohort}
    models, cohorts, _ = walked(made)
    w = SIZES / SIZES.sum() if weights == "size" else np.full(len(SIZES), 1 / len(SIZES))
    wanted = list(plain(models[0], cohorts, w, *settings))
    assert len({tuple(S) for S in cohorts}) == 1 if cohort is None else True
    np.testing.assert_allclose(models[1:], wanted, rtol=1e-12, atol=1e-12)


def test_ef21_plus_takes_what_is_nearer():
    codec = {"name": "top-k", "k": 2, "memory": {"name": "ef21+", "start": "coded"}}
    made, lr = scenario(codec), 0.9  # so that gradients turn round
    made["algorithms"][0]["local"]["lr"] = lr
    models, cohorts, _ = walked(made)
    x, w, g_i, kinds = models[0], SIZES / SIZES.sum(), np.zeros((len(SIZES), P)), set()
    for S, found in zip(cohorts, models[1:], strict=True):
        for i in S:
            v = gradient(i, x)
            ways = [g_i[i] + top(v - g_i[i]), top(v)]
            nearer = int(np.argmin([np.sum((way - v) ** 2) for way in ways]))
            kinds.add(nearer)
            g_i[i] = ways[nearer]
        x = x - lr * w @ g_i
        np.testing.assert_allclose(found, x, rtol=1e-12, atol=1e-12)
    assert kinds == {0, 1}


def optimum():
    A = X / np.sqrt(len(X))
    return np.linalg.solve(A.T @ A, A.T @ Y / np.sqrt(len(X)))


EXACT = [PLAIN["ef21"][0], PLAIN["ef21 coded"][0], PLAIN["diana"][0]]


@pytest.mark.slow
@pytest.mark.parametrize("codec", EXACT, ids=["ef21", "ef21 coded", "diana"])
@pytest.mark.parametrize(
    "changes",
    [
        {"participation": {"cohort": 2}},
        {"participation": {"cohort": 3, "deadline_s": 2.0, "late": "stale"}},
        {
            "algorithms": [
                {
                    "name": "fedbuff", "buffer": 2, "weights": "size",
                    "local": {"steps": 1, "batch": "full", "lr": 0.1},
                }
            ]
        },
    ],
    ids=["cohorts", "stale", "buffers"],
)  # fmt: skip
def test_changing_cohorts_and_late_replies_end_at_the_optimum(codec, changes):
    made = scenario(codec, **changes)
    if "algorithms" not in changes:
        made["algorithms"][0]["local"]["lr"] = 0.1
    made["clients"] = {"delay": {"name": "exponential", "mean_s": 1.0}}
    rounds = 900
    loop = loop_of(made | {"rounds": rounds})
    state, _ = loop.start()
    late = False
    for _ in range(rounds):
        state, row, _ = loop.step(state)
        late |= row.get("staleness_max", 0) > 0
    assert late == ("cohorts" not in str(changes) and "cohort': 2" not in str(changes))
    np.testing.assert_allclose(state.state["x"], optimum(), atol=1e-10)


def test_rand_k_codec_is_the_one_of_the_plain_loop():
    v = RNG.standard_normal((1, P))
    draws = Draws(Key(7, "uplink/delta"), np.array([3]), 5, 0, 5)
    np.testing.assert_array_equal(RandK(k=2).coded(v, draws)[0], drawn(v[0], 3, 4))
