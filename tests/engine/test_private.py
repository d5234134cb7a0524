"""Private runs: what is clipped, divided, noised and counted, and what is refused."""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import ClassVar

import numpy as np
import pytest
from scipy.special import ndtr

import rayfed
from rayfed import api, testing
from rayfed.algorithms import Algorithm, FedAvg
from rayfed.channel import Draws
from rayfed.channel.privacy import epsilon
from rayfed.cli.forecasts import server_sees, spent, traffic
from rayfed.core.errors import RunFailed, ScenarioError
from rayfed.core.needs import MEAN
from rayfed.core.rng import Key
from rayfed.engine.tasks import USED, columns_of
from rayfed.messages import Ask, Reply, Upload
from rayfed.study.forecast.channel import _UNITS
from rayfed.testing import tiny_run
from rayfed.testing.toy import toy_scenario
from tests.fakes.stepping import step

pytestmark = [
    pytest.mark.guard,
    pytest.mark.skipif(find_spec("dp_accounting") is None, reason="needs dp-accounting"),
]

CLIP = {"name": "clip", "norm": 2.0}
PRIVACY = {"noise": 0.5, "delta": 1e-5, "accountant": "rdp"}
POISSON = {"cohort": 4, "select": "poisson"}


@dataclass(frozen=True, kw_only=True)
class Watched(Algorithm):
    """Client i sends (3 (i + 1), 4 (i + 1)); the server keeps the mean and what else it got."""

    name: ClassVar[str] = "watched"
    needs: ClassVar = Algorithm.needs - {MEAN}

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
    return testing.loop(toy_scenario(algorithm, **settings | changes))


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


@dataclass(frozen=True, kw_only=True)
class Broken(Watched):
    """Client 2 sends an infinite number, client 5 one that is none."""

    name: ClassVar[str] = "broken"

    def pair(self, clients, x):
        upload = super().pair(clients, x)
        upload.values["v"][clients.ids == 2, 0] = np.inf
        upload.values["v"][clients.ids == 5, 1] = np.nan
        return upload


FINE = {"name": "secure-sum", "range": 16.0, "bits": 48, "threshold": 0.1}
FOLLOWS = {"name": "clip", "norm": {"start": 2.0, "quantile": 0.5}}


@pytest.mark.parametrize("uplink", [[CLIP], [FOLLOWS], [CLIP, FINE]])
def test_an_upload_that_is_not_finite_changes_no_sum(uplink):
    """No clip bounds it, so that the noise would hide nothing of this client."""
    changes = {"uplink": uplink, "participation": {"cohort": 8, "select": "poisson"}}
    broken, whole = loop_of(Broken(weights="uniform"), **changes), loop_of(**changes)
    found, _, _ = broken.step(broken.start()[0])
    expected, _, _ = whole.step(whole.start()[0])
    lost = 2 * np.array([1.2, 1.6]) / 8
    atol = 1e-9 if FINE in uplink else 0
    np.testing.assert_allclose(found.state["got"], expected.state["got"] - lost, atol=atol)


def test_what_a_codec_keeps_of_an_upload_that_is_not_finite_is_what_it_kept_before():
    """Otherwise the client would send zeros from then on."""
    sgd = {"name": "power-sgd", "rank": 1}
    problem = {"name": "mlp", "hidden": [4], "dataset": "mushroom"}
    run = loop_of(FedAvg(weights="uniform"), uplink=[sgd, CLIP], problem=problem).run
    uplink, ids = run.uplink(), np.arange(3)
    ((name, n),) = uplink.up.items()
    v = np.random.default_rng(0).normal(size=(3, n)).astype(uplink.dtype)
    kept = {key: row[None].repeat(3, axis=0) for key, row in uplink.initial.items()}
    assert kept

    def sent(rows, kept):
        return uplink.sent({name: rows}, kept, Draws(uplink.key, ids), np.zeros(3, bool))

    whole, after = sent(v, kept)
    broken = v.copy()
    broken[1, 0] = np.nan
    found, now = sent(broken, kept)
    assert not found[name][1].any()
    np.testing.assert_array_equal(found[name][[0, 2]], whole[name][[0, 2]])
    for key, rows in now.items():
        np.testing.assert_array_equal(rows[1], kept[key][1])
        np.testing.assert_array_equal(rows[[0, 2]], after[key][[0, 2]])
    np.testing.assert_array_equal(sent(v, now)[0][name][1], whole[name][1])


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
    assert private.deviation(2.0) == 0.5 * 2.0 / 4
    many = replace(private, key=Key(3, "privacy"))
    ask = Ask("pair", send={}, up={"v": 10_000})
    drawn = many.reply(ask, None, 7, 0, {})[0].mean["v"]
    assert drawn.std() == pytest.approx(0.25, rel=0.03)  # four deviations of 10,000 draws
    assert abs(drawn.mean()) < 0.01
    other = many.reply(ask, None, 8, 0, {})[0].mean["v"]
    assert abs(np.corrcoef(drawn, other)[0, 1]) < 0.04
    ones = Reply([3], [1.0], {"v": np.ones(10_000)}, {"loss": [0.1]}, [5], mean_weight=0.7)
    again = many.reply(ask, ones, 7, 0, {})[0]
    np.testing.assert_allclose(again.mean["v"], drawn + 1, rtol=1e-12)
    rest = (len(again.ids), len(again.weights), len(again.steps), again.each, again.mean_weight)
    assert rest == (0, 0, 0, {}, 1.0)  # rows that clients have by now are theirs to tell


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


ADAPTIVE = {"name": "clip", "norm": {"start": 12.0, "quantile": 0.6, "noise": 0.7, "lr": 0.4}}


def drawn(loop, round, cohort=4):
    key = Key(loop.run.seed, "poisson")
    number = int(key.generator(round).binomial(8, cohort / 8))
    return np.sort(key.permutation(8, round=round)(np.arange(number)))


@pytest.mark.parametrize(("secure", "cohort"), [(False, 4), (True, 4), (False, 1)])
def test_an_adaptive_norm_is_that_of_a_plain_loop(secure, cohort):
    """Andrew et al. 2021, algorithm 1; lengths of uploads are 5, 10, ..., 40."""
    masked = [{"name": "secure-sum", "range": 64.0, "bits": 48, "threshold": 0.1}]
    who = {"cohort": cohort, "select": "poisson"}
    loop = loop_of(uplink=[ADAPTIVE, *masked * secure], participation=who)
    private = loop.run.private
    unit = loop.run.uplink().rounding
    assert (unit > 0) == secure
    multiplier = (0.5**-2 - ((0.5 + unit) / 0.7) ** 2) ** -0.5
    state, _ = loop.start()
    norm, norms, empty = 12.0, [], 0
    for round in range(1, 41):
        state, row, _ = loop.step(state)
        assert row["clip_norm"] == pytest.approx(norm, rel=1e-9 if secure else 1e-12)
        norms.append(norm)
        ids = drawn(loop, round, cohort)
        empty += not len(ids)
        i, length = ids + 1.0, 5 * (ids + 1.0)
        shrunk = np.minimum(1, norm / length)
        total = np.array([(3 * i * shrunk).sum(), (4 * i * shrunk).sum()])
        noise = private.key.sub("v").normals([0], 2, round=round)[0]
        noise *= multiplier * (norm + unit * np.sqrt(2))
        expected = (total + noise) / cohort
        np.testing.assert_allclose(state.state["got"], expected, rtol=1e-9 if secure else 1e-12)
        told = np.where(length <= norm, 0.5, -0.5).sum()
        told += 0.7 * private.key.sub("uplink.inside").normals([0], 1, round=round)[0, 0]
        norm *= np.exp(-0.4 * (told / cohort + 0.5 - 0.6))
    if cohort == 4:
        assert min(norms[20:]) > 15  # it left its start for the quantile, between 20 and 25
    else:
        assert 5 < empty < 25  # (7/8)^8 = 0.34 of 40, in which the noise alone moves the norm
    assert loop.exchange.private.norm(state.channel) == pytest.approx(norm, rel=1e-9)


def test_an_adaptive_norm_stays_where_no_secure_sum_wraps_around():
    """A quantile of 1 lets the norm grow to 40, the longest upload, where 16 is the range."""
    every = {"name": "clip", "norm": {"start": 12.0, "quantile": 1.0, "noise": 0.7, "lr": 1.0}}
    masked = {"name": "secure-sum", "range": 16.0, "bits": 16, "threshold": 0.1}
    loop = loop_of(uplink=[every, masked])
    room = loop.run.uplink().largest
    assert 15 < room < 16
    state, _ = loop.start()
    norms, wrapped = [], 0
    for _ in range(20):
        state, row, _ = loop.step(state)
        norms.append(row["clip_norm"])
        wrapped += row["wrapped"]
    assert max(norms) == room
    assert wrapped == 0


def test_a_faulty_client_says_what_it_said_before():
    """The last client sends its first upload again and again, and that this one was too long."""
    clients = {"count": 8, "faults": [{"name": "replay", "ids": [7]}]}
    adaptive = {"name": "clip", "norm": {"start": 12.0, "quantile": 1.0, "noise": 1.5, "lr": 1.0}}
    everyone = {"cohort": 8, "select": "poisson"}
    loop = loop_of(uplink=[adaptive], clients=clients, participation=everyone)
    private, length = loop.run.private, 5 * np.arange(1.0, 9.0)
    state, _ = loop.start()
    norms = [12.0]
    for round in range(1, 11):
        state, row, _ = loop.step(state)
        norm = norms[-1]
        assert row["clip_norm"] == pytest.approx(norm, rel=1e-12)
        sent = np.minimum(length, norm)
        sent[7] = 12
        noise = private.key.sub("v").normals([0], 2, round=round)[0]
        noise *= private.multiplier * norm
        expected = (sent.sum() * np.array([0.6, 0.8]) + noise) / 8
        np.testing.assert_allclose(state.state["got"], expected, rtol=1e-12)
        told = np.where(length[:7] <= norm, 0.5, -0.5).sum() - 0.5
        told += 1.5 * private.key.sub("uplink.inside").normals([0], 1, round=round)[0, 0]
        norms.append(norm * np.exp(1.0 - told / 8 - 0.5))
    assert max(norms) > 40  # its own upload would no longer be clipped


def test_a_count_and_vectors_spend_together_what_the_noise_says():
    """The multiplier of two queries in one is (z_1^-2 + z_2^-2)^-1/2; a count changes by 1/2."""
    private = loop_of(uplink=[ADAPTIVE]).run.private
    together = (private.multiplier**-2 + (0.7 / 0.5) ** -2) ** -0.5
    assert together == pytest.approx(0.5, rel=1e-12)
    assert private.epsilon(50) == epsilon(0.5, 0.5, 50, 1e-5, "rdp")
    plain = {"name": "clip", "norm": {"start": 1.0}}
    many = {"cohort": 40, "select": "poisson"}
    known = loop_of(uplink=[plain], participation=many, clients={"count": 80}).run.private
    assert known.counted_noise == 2  # a twentieth of the cohort


def test_an_adaptive_norm_is_downloaded_and_a_bit_is_uploaded():
    masked = {"name": "secure-sum", "range": 64.0, "bits": 24, "threshold": 0.1}
    for more, size in (([], 1), ([masked], 3)):  # a bit, or a masked number of 24
        rows = {}
        for name, clip in (("fixed", CLIP), ("adaptive", ADAPTIVE)):
            loop = loop_of(uplink=[clip, *more])
            state, _ = loop.start()
            _, rows[name], _ = loop.step(state)
        count = rows["fixed"]["participants"]
        assert rows["adaptive"]["bytes_down"] - rows["fixed"]["bytes_down"] == 8 * count > 0
        assert rows["adaptive"]["bytes_up"] - rows["fixed"]["bytes_up"] == size * count


def test_rounding_in_a_secure_sum_widens_the_clip():
    masked = {"name": "secure-sum", "range": 16.0, "bits": 16}
    private = loop_of(uplink=[CLIP, masked]).run.private
    unit = 16 * 2.0 ** (3 - 15)  # all eight clients may come
    assert private.rounding == (unit * np.sqrt(2), unit)
    assert private.deviation(2.0) == pytest.approx(0.5 * (2 + unit * np.sqrt(2)) / 4, rel=1e-12)
    adaptive = loop_of(uplink=[ADAPTIVE, masked]).run.private  # its count of halves is rounded, too
    multiplier = (0.5**-2 - ((0.5 + unit) / 0.7) ** 2) ** -0.5
    assert adaptive.multiplier == pytest.approx(multiplier, rel=1e-12)


def test_check_says_what_a_server_gets():
    masked = {"name": "secure-sum", "range": 16.0}
    uniform = Watched(weights="uniform")
    open_run = loop_of(uniform, privacy=None, uplink=[], participation={"cohort": 4}).run
    assert server_sees(open_run).startswith("means of vectors, and the scalars and weight of each")
    assert server_sees(
        loop_of(uniform, privacy=None, uplink=[masked], participation={"cohort": 4}).run
    ) == ("sums modulo a number, and the participants")
    assert server_sees(loop_of().run) == "means with noise, and no scalars"
    private = loop_of(uplink=[CLIP, masked]).run
    assert server_sees(private) == "sums modulo a number, then means with noise, and no scalars"
    rule = loop_of(
        uniform, privacy=None, uplink=[], aggregate="median", participation={"cohort": 4}
    )
    assert server_sees(rule.run) == "the vectors of single clients"
    # two numbers of 32 bits; 64 bytes of keys, and 80 and 32 of shares for each of three others
    assert traffic(private) == (
        "uploads 408 bytes a round: 8 of masked numbers in place of 16, and 400 of keys and shares"
    )


def test_it_is_said_what_a_client_spends_that_is_away_in_some_rounds():
    cycles = {"name": "cyclic", "groups": 3, "rounds": 2}
    run = loop_of(clients={"count": 8, "availability": cycles}).run
    most = f"{epsilon(0.5, 0.5, 18, 1e-5, 'rdp'):.4g}"
    assert spent(run).endswith(
        f"every client is available in at most 18 of them, and spends at most {most}"
    )
    cycles = {"name": "cyclic", "groups": 3, "period_s": 2.0}
    timed = {"participation": {**POISSON, "deadline_s": 1.0}}
    assert "nobody" not in spent(loop_of(clients={"count": 8, "availability": cycles}, **timed).run)
    assert "nobody" not in spent(loop_of().run)
    by_time = [{"name": "slow", "ids": [7], "availability": {**cycles}}]
    by_round = {"name": "cyclic", "groups": 3, "rounds": 2}
    mixed = {"count": 8, "availability": by_round, "groups": by_time}
    assert "nobody" not in spent(loop_of(clients=mixed, **timed).run)


def test_who_is_drawn_does_not_change_who_comes_later():
    """One client is fast or slow; the others are available by the clock, in two groups."""
    rows = {}
    for seconds in (0.001, 60.0):
        clients = {
            "count": 40, "availability": {"name": "cyclic", "groups": 2, "period_s": 70},
            "delay": {"name": "constant", "mean_s": 0.001},
            "groups": [{"ids": [0], "delay": {"name": "constant", "mean_s": seconds}}],
        }  # fmt: skip
        participation = {"select": "poisson", "cohort": 6, "deadline_s": 30.0}
        loop = loop_of(clients=clients, participation=participation, rounds=12)
        state, _ = loop.start()
        rows[seconds] = found = []
        for _ in range(12):
            state, row, events = step(loop, state)
            ids = events[-1]["client"].tolist() if events else []
            found.append((row["time_s"], [i for i in ids if i]))
    assert rows[0.001] == rows[60.0]
    assert [time_s for time_s, _ in rows[60.0]] == [30.0 * k for k in range(1, 13)]
    assert len({tuple(ids) for _, ids in rows[60.0]}) > 6


@pytest.mark.parametrize("bits", [12, 16, 32])
def test_what_has_room_never_wraps_around(bits):
    """All eight clients, of whom four are expected, send the largest number that is let through."""
    masked = {"name": "secure-sum", "range": 4.0, "bits": bits}
    uplink = loop_of(uplink=[{"name": "clip", "norm": 0.5}, masked]).run.uplink()
    for value, wraps in ((uplink.largest, False), (-uplink.largest, False), (4.0, True)):
        draws = Draws(uplink.key, np.arange(8))
        fixed = uplink.fixed("v", np.full((8, 200), value), np.ones(8), "raw", draws)
        found, count = uplink.opened({"v": fixed.sum(axis=0)}, ())
        assert (count > 0) == wraps
        if not wraps:
            np.testing.assert_allclose(found["v"], 8 * value, atol=8 * uplink.rounding)


# -- noise in shares -----------------------------------------------------------------------------

SHARES = {**PRIVACY, "at": "clients"}
KEPT = {"name": "secure-sum", "range": 64.0, "bits": 32, "threshold": 0.6}  # 3 of 4


def shared_loop(**changes):
    settings = {"privacy": SHARES, "uplink": [CLIP, KEPT], "participation": {"cohort": 4}}
    return loop_of(**settings | changes)


@pytest.mark.parametrize("count", [3, 4, 8])
def test_shares_of_enough_clients_have_the_stated_variance(count):
    """The noise of 3 clients is that of the accountant; more of them add more."""
    uplink = shared_loop().run.uplink()
    assert uplink.survivors == 3
    draws = Draws(uplink.key, np.arange(count), draw=7)
    rows = np.zeros((count, 10_000), np.float32)
    fixed = uplink.fixed("v", rows, np.ones(count), "raw", draws)
    noise = uplink.opened({"v": fixed.sum(axis=0)}, ())[0]["v"]
    # three deviations of the deviation of 10,000 numbers
    assert noise.std() == pytest.approx(0.5 * 2 * np.sqrt(count / 3), rel=0.022)
    assert abs(noise.mean()) < 0.04 * noise.std()
    apart = np.corrcoef([*fixed, uplink.fixed("v", rows, np.ones(count), "raw", Draws(
        uplink.key, np.arange(count), draw=8))[0]])  # fmt: skip
    assert np.abs(apart - np.eye(count + 1)).max() < 0.05
    alone = uplink.fixed("v", rows[1:2], np.ones(1), "raw", draws.part(np.array([1])))
    np.testing.assert_array_equal(alone[0], fixed[1])


@pytest.mark.parametrize(
    "change", [{"availability": {"name": "bernoulli", "p": 0.4}}, {"crash": {"probability": 0.3}}]
)
def test_sums_have_the_shares_of_those_that_came_and_fewer_release_nothing(change):
    """Of four that are asked, or of fewer that are there, three have to reply."""
    loop = shared_loop(clients={"count": 8, **change})
    uplink = loop.run.uplink()
    assert uplink.share == pytest.approx(0.5 * 2 / np.sqrt(3), rel=1e-6)  # wider by the rounding
    state, _ = loop.start()
    counts = []
    for round in range(1, 41):
        before = state
        state, row, ended = loop.step(state)
        counts.append(row["participants"])
        if not counts[-1]:
            np.testing.assert_array_equal(state.state["got"], before.state["got"])
            continue
        clients, status = columns_of([each.tasks for each in ended], "client", "status")
        ids = np.sort(clients[status == USED])
        assert len(ids) == counts[-1]
        own = Draws(uplink.key.sub("v/raw/noise"), ids, draw=round).normals(2)
        expected = (len(ids) * np.array([1.2, 1.6]) + uplink.share * own.sum(axis=0)) / 4
        np.testing.assert_allclose(state.state["got"], expected, atol=2 * uplink.rounding)
        assert state.state["known"].tolist() == [0, 0, 0]
    assert set(counts) == {0, 3, 4}


def test_shares_spend_what_the_noise_spends_without_sampling():
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    run, known = shared_loop().run, RdpAccountant()
    known.compose(dp_accounting.GaussianDpEvent(0.5), 50)
    assert run.private.epsilon(50) == pytest.approx(known.get_epsilon(1e-5), rel=1e-12)
    assert (
        "times the norm 2, in shares of 3 clients, without client sampling; 4 of 8 clients"
        in spent(run)
    )
    assert server_sees(run) == "noisy modular sums, and the participants"


def rounded(v, deviation):
    """The probabilities of floor(v + N(0, deviation^2) + U(0, 1)) at -60 to 60."""
    z = (np.arange(-61, 62) - v) / deviation
    once = deviation * (np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) + z * ndtr(z))
    return np.diff(once, n=2)


def test_rounded_shares_add_up_to_what_only_the_sum_of_uploads_decides():
    """So a sum of them is made of the sum with noise, of which the accountant knows."""
    for units, least, most in ((_UNITS, 0.0, 1e-13), (0.2, 0.05, 1.0)):
        apart = np.convolve(rounded(3.3, units), rounded(-1.6, units))
        one = np.convolve(rounded(1.7, units), rounded(0.0, units))
        assert apart.sum() == pytest.approx(1, rel=1e-12)
        assert least <= np.abs(apart - one).sum() < most


def test_a_sum_of_shares_has_room_for_the_noise():
    """All four clients send the norm 2 in one place, and 1 / sqrt(3) is the deviation of a share.

    The sum then has 8 beside noise of 2 / sqrt(3): eight deviations of that are 9.24, and so 4.31
    of a client.
    """
    with pytest.raises(ScenarioError, match="a sum may wrap around; give secure-sum a larger"):
        shared_loop(uplink=[CLIP, {**KEPT, "range": 4.30}])
    uplink = shared_loop(uplink=[CLIP, {**KEPT, "range": 4.32}]).run.uplink()
    draws = Draws(uplink.key, np.arange(4))
    for norm, wraps in ((2.0, False), (4.0, True)):
        fixed = uplink.fixed("v", np.full((4, 10_000), norm), np.ones(4), "raw", draws)
        assert (uplink.opened({"v": fixed.sum(axis=0)}, ())[1] > 0) == wraps


# -- trees -------------------------------------------------------------------------------------

TREE = {"name": "tree", "noise": 0.5, "delta": 1e-5, "separation": 4}


def summed(private, rounds, n=10_000):
    """The noise of the sum of the first rounds, after each; some have no reply."""
    ask, state, total, after = Ask("pair", {}, {"v": n}), private.init(), np.zeros(n), {}
    for round in rounds:
        reply, state = private.reply(ask, None, round, 0, state)
        total = total + reply.mean["v"]
        after[round] = total
    return after


def test_sums_over_rounds_have_the_noise_of_the_nodes_that_make_them_up():
    private = loop_of(privacy=TREE, participation={"cohort": 4}).run.private
    after = summed(private, range(1, 11))
    nodes = [1, 1, 2, 1, 2, 2, 3, 2, 3, 3]  # of trees of four rounds; those that are over stay
    for round, count in enumerate(nodes, 1):
        assert after[round].std() == pytest.approx(0.25 * np.sqrt(count), rel=0.03)
    for one, other, shared in ((1, 2, 0), (2, 3, 1), (3, 4, 0), (4, 7, 1), (6, 7, 2), (8, 9, 2)):
        found = np.mean(after[one] * after[other]) / 0.25**2
        assert found == pytest.approx(shared, abs=0.09), (one, other)
    some = summed(private, [1, 3, 4, 6, 10])
    for round, noise in some.items():  # rounds without a reply change nothing
        left = after[round] if round < 5 else after[round] - after[8 if round > 8 else 4]
        left = left + (some[4] if round > 4 else 0) + (some[6] - some[4] if round > 8 else 0)
        np.testing.assert_allclose(noise, left, atol=1e-12)


def test_trees_that_end_before_clients_come_back_begin_anew():
    """Trees of three rounds, none of which comes to a node of four; clients rest for five."""
    apart = {**TREE, "separation": 5, "restart": 3}
    private = loop_of(privacy=apart, participation={"cohort": 4}).run.private
    after = summed(private, range(1, 8))
    for round, count in enumerate([1, 1, 2, 3, 3, 4, 5], 1):
        assert after[round].std() == pytest.approx(0.25 * np.sqrt(count), rel=0.03)
    for one, other, shared in ((1, 3, 0), (2, 3, 1), (3, 4, 2), (4, 5, 2), (6, 7, 4)):
        found = np.mean(after[one] * after[other]) / 0.25**2
        assert found == pytest.approx(shared, abs=0.13), (one, other)


@pytest.mark.parametrize("count", [8, 3])
def test_no_client_takes_part_again_before_its_separation_is_over(tmp_path, count):
    """Of 8 clients others are waited for; of 3 all rest in some rounds, which then pass."""
    changes = {"uplink": [CLIP], "privacy": TREE, "rounds": 40}
    phones = {"count": count, "availability": {"name": "cyclic", "groups": 2, "period_s": 25.0}}
    who = {"clients": phones, "participation": {"cohort": 2}}
    found = tiny_run(tmp_path, FEDAVG, **changes, **who)
    used = found.events[found.events.status == "used"]
    gaps = used.sort_values("round").groupby("client")["round"].diff().dropna()
    assert gaps.min() == 4
    rounds = found.rounds
    assert rounds["round"].max() == 40
    assert (rounds.participants[1:] == 0).any() == (count == 3)


@pytest.mark.parametrize(("restart", "nodes"), [(4, 3), (3, 2)])
def test_a_tree_spends_what_the_library_says_of_its_nodes(restart, nodes):
    """A client is in 3 nodes of a tree of 4 rounds, in 2 of one of 3, and in ceil(50 / 6) trees."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    apart = {**TREE, "separation": 6, "restart": restart}
    private = loop_of(privacy=apart, participation={"cohort": 4}).run.private
    known = RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_SPECIAL)
    known.compose(dp_accounting.GaussianDpEvent(0.5), nodes * 9)
    assert private.epsilon(50) == pytest.approx(known.get_epsilon(1e-5), rel=1e-12)
    assert private.epsilon(0) == 0
    assert private.epsilon(1) < private.epsilon(2) <= private.epsilon(restart) == private.epsilon(6)
    assert private.epsilon(6) < private.epsilon(7)


@pytest.mark.slow
def test_the_noise_of_a_tree_is_solved_for():
    wanted = {"name": "tree", "epsilon": 3.0, "delta": 1e-5, "separation": 8}
    private = loop_of(privacy=wanted, participation={}).run.private
    assert 2.99 < private.epsilon(50) <= 3.0
    assert private.cohort == 8


MASKED = [CLIP, {"name": "secure-sum", "range": 4.0}]
HOURS = {"name": "cyclic", "groups": 2, "period_s": 20.0}
POWER = {"cohort": 2, "select": {"name": "power-of-d", "d": 4}}
FEDAVG = {"name": "fedavg", "weights": "uniform"}


@pytest.mark.parametrize(
    ("algorithm", "changes", "message"),
    [
        (FEDAVG, {"participation": {"cohort": 4}}, "give participation.select: poisson"),
        ("fedavg", {}, "privacy needs clients that count alike"),
        (FEDAVG, {"uplink": []}, "nothing bounds an upload; end the uplink with {name: clip"),
        (FEDAVG, {"uplink": [CLIP, {"name": "rand-k", "k": 1}]}, "uplink: "),
        (FEDAVG, {"uplink": [{"name": "top-k", "k": 1, "memory": "error-feedback"}, CLIP]},
         "'error-feedback' needs uploads that are not clipped"),
        ({"name": "scaffold", "weights": "uniform"}, {}, "'scaffold' needs the exact"),
        (FEDAVG, {"participation": {**POISSON, "over_select": 1.5}},
         "over_select: 1.5 needs cohorts of a known size, but 'poisson'"),
        (FEDAVG, {"participation": {**POISSON, "retries": 1, "timeout_s": 9.0}}, "retries: 1 lets"),
        (FEDAVG, {"participation": {**POISSON, "minimum": 2}}, "minimum: 2 lets clients affect"),
        (FEDAVG, {"participation": {**POISSON, "late": "stale", "deadline_s": 9.0}},
         "privacy needs replies of the current round alone"),
        (FEDAVG, {"aggregate": "median"}, "privacy needs sums over the clients' vectors, but"),
        ({"name": "fedbuff", "weights": "uniform"}, {"participation": {}},
         "privacy needs rounds, but 'fedbuff'"),
        ({"name": "fedexp", "weights": "uniform"}, {}, "but privacy replaces that mean"),
        (FEDAVG, {"privacy": {**PRIVACY, "epsilon": 1.0}}, "give noise or epsilon, one of them"),
        (FEDAVG, {"uplink": [ADAPTIVE], "privacy": None}, "is for private runs; give a number"),
        (FEDAVG, {"uplink": [{"name": "clip", "norm": {"start": 1.0}}]},
         "spends more with noise 0.2; with noise 0.5 on all, give norm.noise above 0.25"),
        (FEDAVG, {"uplink": [CLIP, {"name": "secure-sum", "range": 2.0}]},
         "noise does not hide that a sum of numbers of 2 wraps around; give secure-sum a larger"),
        (FEDAVG, {"uplink": [CLIP, {"name": "secure-sum", "range": 4.0, "bits": 8}],
                  "clients": {"count": 40}}, "wraps around"),
        (FEDAVG, {"uplink": [{"name": "clip", "norm": {"start": 1.0, "quantile": 2}}]}, "quantile"),
        (FEDAVG, {"privacy": {**PRIVACY, "name": "three"}}, "found 'three'; give tree, or no name"),
        (FEDAVG, {"privacy": TREE}, "privacy needs cohorts of a known size, but 'poisson'"),
        (FEDAVG, {"privacy": TREE, "uplink": [ADAPTIVE], "participation": {}},
         "privacy needs a norm that does not change, but 'clip' follows"),
        (FEDAVG, {"privacy": TREE, "participation": POWER},
         "but 'power-of-d' depends on the clients' data or draws clients twice"),
        (FEDAVG, {"privacy": {**TREE, "restart": 5}, "participation": {}},
         "a client may be in a tree of 5 rounds twice; give at most separation, 4"),
        (FEDAVG, {"privacy": {**TREE, "accountant": "pld"}, "participation": {}}, "accountant"),
        (FEDAVG, {"privacy": SHARES, "uplink": [CLIP, KEPT]},
         "privacy needs cohorts of a known size, but 'poisson'"),
        (FEDAVG, {"privacy": SHARES, "participation": {}},
         "a client's own noise does not hide its upload; end the uplink with secure-sum"),
        (FEDAVG, {"privacy": SHARES, "uplink": [ADAPTIVE, KEPT], "participation": {}},
         "privacy needs a norm that does not change, but 'clip' follows"),
        (FEDAVG, {"privacy": SHARES, "uplink": [CLIP, KEPT], "participation": {},
                  "clients": {"count": 8, "faults": [{"name": "scale", "ids": [3]}]}},
         "privacy needs noise of every client, but 'scale' leaves its noise out"),
        (FEDAVG, {"uplink": MASKED, "clients": {"count": 8, "faults": [
            {"name": "not-a-number", "ids": [3]}]}}, "privacy needs uploads that a clip bounds"),
        (FEDAVG, {"privacy": TREE, "uplink": MASKED, "participation": {}, "clients": {
            "count": 8, "faults": [{"name": "scale", "ids": [3]}]}},
         "privacy needs uploads that a clip bounds"),
        (FEDAVG, {"privacy": SHARES, "uplink": [CLIP, {**KEPT, "bits": 8}], "participation": {}},
         "units of a sum, and 5 are needed; give secure-sum more bits"),
        (FEDAVG, {"privacy": {**TREE, "at": "clients"}, "participation": {}}, "privacy.at: "),
        (FEDAVG, {"clients": {"count": 8, "faults": [{"name": "ipm", "count": 2}]}},
         "'ipm' lets clients affect one another"),
        (FEDAVG, {"server": {"uploads_mbps": 1.0}, "participation": {**POISSON, "deadline_s": 9.0}},
         "the server lets clients affect one another"),
        (FEDAVG, {"uplink": MASKED, "participation": {**POISSON, "deadline_s": 9.0}},
         "one client decides whether a secure sum of all others is lost; let no reply fail, or "
         "give secure-sum a threshold of at most 0.12"),
        (FEDAVG, {"uplink": MASKED, "clients": {"count": 8, "crash": {"probability": 0.1}}},
         "one client decides whether"),
        (FEDAVG, {"uplink": MASKED, "clients": {"count": 8, "network": {"loss": 0.1}}},
         "one client decides whether"),
        (FEDAVG, {"uplink": MASKED, "clients": {"count": 8, "availability": HOURS},
                  "participation": {**POISSON, "deadline_s": 9.0}}, "one client decides whether"),
        (FEDAVG, {"clients": {"count": 8, "availability": HOURS}},
         "a round that lasts as long as its clients take, where others come and go, lets clients "
         "affect one another; give 'fedavg' participation.deadline_s: all rounds then last so lon"),
        (FEDAVG, {"uplink": MASKED, "clients": {"count": 8, "faults": [
            {"name": "silent", "ids": [3]}]}}, "one client decides whether"),
        (FEDAVG, {"stop": {"loss": 0.0}},
         "stop.loss: 'fedavg' is private, and 'loss' has no noise: epsilon would be larger; give"),
        (FEDAVG, {"stop": {"time_s": 9.0}}, "stop.time_s: 'fedavg' is private"),
        (FEDAVG, {"stop": {"client_updates": 9}}, "stop.client_updates: 'fedavg' is private"),
        (FEDAVG, {"stop": {"loss_change": 0.1}, "privacy": TREE, "participation": {}},
         "stop.loss_change: 'fedavg' is private"),
        (FEDAVG, {"stop": {"metrics": {"objective_gradient_norm": 0.1}}, "privacy": TREE,
                  "participation": {}, "evaluate": {"measures": ["gradient"]}},
         "stop.metrics: 'fedavg' is private"),
    ],
)  # fmt: skip
def test_what_would_make_epsilon_untrue_is_one_line(algorithm, changes, message):
    settings = {"uplink": [CLIP], "privacy": PRIVACY, "participation": POISSON, **changes}
    with pytest.raises(ScenarioError) as error:
        api.prepare(api.read(toy_scenario(algorithm, **settings)))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("threshold", "changes"),
    [
        (0.7, {}),  # no reply fails
        (0.7, {"clients": {"count": 8, "availability": {"name": "bernoulli", "p": 0.5}}}),
        (0.125, {"participation": {**POISSON, "deadline_s": 9.0}}),  # one is enough
        (0.7, {"privacy": TREE, "participation": {"deadline_s": 9.0}}),  # an upload may be zeros
    ],
)
def test_secure_sums_that_no_single_client_loses_are_private(threshold, changes):
    masked = {"name": "secure-sum", "range": 4.0, "threshold": threshold}
    settings = {"uplink": [CLIP, masked], "privacy": PRIVACY, "participation": POISSON, **changes}
    (run,) = api.prepare(api.read(toy_scenario(FEDAVG, **settings))).runs
    assert run.private is not None


@pytest.mark.parametrize(
    ("stop", "changes"),
    [
        ({"model_change": 0.1}, {}),
        ({"model_change": 0.1, "time_s": 9.0, "client_updates": 9},
         {"privacy": TREE, "participation": {}}),
    ],
)  # fmt: skip
def test_rules_with_noise_or_without_data_may_end_private_runs(stop, changes):
    settings = {"uplink": [CLIP], "privacy": PRIVACY, "participation": POISSON, **changes}
    (run,) = api.prepare(api.read(toy_scenario(FEDAVG, stop=stop, **settings))).runs
    assert run.private is not None


def test_a_loop_decides_nothing_in_private_runs(tmp_path):
    settings = {"uplink": [CLIP], "privacy": PRIVACY, "participation": POISSON}
    scenario = toy_scenario(FEDAVG, **settings, executor="serial")
    rows = rayfed.iterate(scenario, out=tmp_path / "out", page=False)
    row = next(rows)
    with pytest.raises(ScenarioError, match=r"stop: 'fedavg' is private.*; give rounds"):
        row.stop()
    with pytest.raises(ScenarioError, match=r"change: 'fedavg' is private.*; give control"):
        row.change(lr=0.01)
    rows.close()


def test_availability_that_depends_on_data_is_refused():
    by = {"count": 8, "availability": {"name": "bernoulli", "p": {"by": "rows"}}}
    settings = {"uplink": [CLIP], "privacy": PRIVACY, "participation": POISSON}
    with pytest.raises(ScenarioError, match="depends on the clients' data"):
        api.prepare(api.read(toy_scenario(FEDAVG, clients=by, **settings)))
