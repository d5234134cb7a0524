"""Diurnal availability: windows by hand, and every change against a search along the clock."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.population import Cyclic, Diurnal, PopulationInfo
from rayfed.population.availability.diurnal import Zone

H = 3600.0
DAY = 24 * H
QUARTERS = st.integers(0, 96).map(lambda k: k / 4)
OFFSETS = st.integers(-48, 56).map(lambda k: k / 4)
ONE = PopulationInfo(count=1, seed=0)


def diurnals(hours, offsets):
    second = 1.01 / H
    windows = st.tuples(hours, hours).filter(lambda w: second < (w[1] - w[0]) % 24 < 24 - second)
    starts = hours.filter(lambda h: h < 24)
    return st.builds(
        lambda window, offset, start: Diurnal(
            zones=(offset,), from_h=window[0], to_h=window[1], start_utc_h=start
        ),
        windows,
        offsets,
        starts,
    )


def awake(diurnal, t, population=ONE):
    return diurnal.available(np.arange(population.count), t, 1, population).tolist()


def change(diurnal, t, population=ONE):
    return diurnal.next_change(np.arange(population.count), t, population)


def test_a_window_by_day_in_utc():
    noon = Diurnal(zones=(0.0,), from_h=9, to_h=17)
    assert [awake(noon, h * H) for h in (0, 8.99, 9, 16.99, 17, 33, 41)] == [
        [False], [False], [True], [True], [False], [True], [False],
    ]  # fmt: skip
    assert [float(change(noon, h * H)[0]) / H for h in (0, 9, 12, 17, 40)] == [9, 17, 17, 33, 41]


def test_a_window_spans_midnight():
    night = Diurnal(zones=(0.0,), from_h=22, to_h=6)
    assert [awake(night, h * H)[0] for h in (0, 5.99, 6, 21.99, 22, 24)] == [
        True, True, False, False, True, True,
    ]  # fmt: skip
    assert [float(change(night, h * H)[0]) / H for h in (0, 6, 23)] == [6, 22, 30]


def test_east_of_greenwich_the_day_begins_earlier():
    # 9:00 in Kathmandu is 3:15 UTC, in New York 14:00; the clock starts at 2:00 UTC
    office = Diurnal(zones=(5.75, -5.0), from_h=9, to_h=17, start_utc_h=2)
    population = PopulationInfo(count=2, seed=0)
    assert (change(office, 0.0, population) / H).tolist() == [1.25, 12.0]
    assert awake(office, 1.25 * H, population) == [True, False]
    assert awake(office, 12.0 * H, population) == [False, True]


def local_second(diurnal, t):
    return (t + (diurnal.start_utc_h + diurnal.zones[0]) * H) % DAY


@given(diurnals(QUARTERS, OFFSETS), st.integers(0, 10**7))
def test_who_is_awake_and_until_when_by_the_local_clock(diurnal, t):
    """All hours are quarters, so that the local clock is exact, and changes come on quarters."""
    length = (diurnal.to_h - diurnal.from_h) * H % DAY

    def there(now):
        return (local_second(diurnal, now) - diurnal.from_h * H) % DAY < length

    assert awake(diurnal, float(t)) == [there(t)]
    later = 900 * (t // 900 + 1)
    while there(later) == there(t):
        later += 900
    assert change(diurnal, float(t)).tolist() == [later]


@given(
    diurnals(st.floats(0, 24), st.floats(-12, 14)),
    st.floats(0, 1e8),
)
def test_a_change_is_exact_in_spite_of_rounding(diurnal, t):
    """Whoever jumps to a change finds it, one number before it nothing has changed yet."""
    later = float(change(diurnal, t)[0])
    assert later > t
    assert awake(diurnal, np.nextafter(later, 0.0)) == awake(diurnal, t)
    assert awake(diurnal, later) != awake(diurnal, t)


JITTERY = {"from_h": 8.0, "to_h": 20.0, "jitter_h": 3.0}


def test_jitter_moves_both_ends_of_a_window_uniformly():
    population, ids = PopulationInfo(3000, 0), np.arange(3000)
    day = Diurnal(**JITTERY)
    opens = day.next_change(ids, 2 * DAY, population) - 2 * DAY  # midnight: everybody sleeps
    closes = day.next_change(ids, 2 * DAY + 12 * H, population) - 2 * DAY
    tomorrow = day.next_change(ids, 3 * DAY, population) - 3 * DAY
    for moments, hour in ((opens, 8), (closes, 20), (tomorrow, 8)):
        spread = stats.uniform((hour - 3) * H, 6 * H)
        assert stats.kstest(moments, spread.cdf).pvalue > 0.005
    for one, other in ((opens, closes), (opens, tomorrow)):
        assert abs(stats.pearsonr(one, other).statistic) < 4 / np.sqrt(3000)


@settings(max_examples=40, deadline=None)
@given(diurnals(QUARTERS, OFFSETS), st.floats(0.0, 1.0), st.floats(0, 1e8))
def test_jittery_changes_alternate_and_are_exact(diurnal, share, t):
    length = (diurnal.to_h - diurnal.from_h) % 24
    jitter_h = share * (min(length, 24 - length) / 2 - 1 / H)
    jittery = replace(diurnal, jitter_h=jitter_h)
    later = float(change(jittery, t)[0])
    assert t < later <= t + DAY + 2 * jitter_h * H
    assert awake(jittery, np.nextafter(later, 0.0)) == awake(jittery, t) != awake(jittery, later)


def test_too_much_jitter_is_refused():
    with pytest.raises(ScenarioError, match="jitter_h: found 5; give less than 4, so that windows"):
        Diurnal(jitter_h=5)


def test_evenly_spaced_zones_take_turns_as_cyclic_groups_do():
    # the window of six hours opens at 0, 6, 12 and 18 UTC
    zones = Diurnal(zones=(0.0, -6.0, -12.0, 6.0), from_h=0, to_h=6)
    turns, population = Cyclic(groups=4, period_s=6 * H), PopulationInfo(count=4, seed=0)
    for t in np.arange(0.0, 2 * DAY, H / 2):
        assert (
            awake(zones, t, population) == turns.available(np.arange(4), t, 1, population).tolist()
        )
        np.testing.assert_array_equal(
            change(zones, t, population), turns.next_change(np.arange(4), t, population)
        )


def test_zones_have_their_shares_of_the_clients_and_the_seed_says_whom():
    zones = (Zone(utc_h=1, share=2), Zone(utc_h=9, share=1), Zone(utc_h=-8, share=1))
    ids = np.arange(1000)
    one, two = (Diurnal(zones=zones).utc_h(ids, PopulationInfo(1000, seed)) for seed in (0, 1))
    for offsets in (one, two):
        assert [int((offsets == h).sum()) for h in (1, 9, -8)] == [500, 250, 250]
    assert (one != two).any()
    some = np.array([17, 3, 999])
    np.testing.assert_array_equal(
        Diurnal(zones=zones).utc_h(some, PopulationInfo(1000, 0)), one[some]
    )


def test_a_plan_gives_the_offsets_and_the_clock_waits_for_the_night(mixed):
    made = mixed()
    made["clients"]["availability"] = {
        "name": "diurnal", "zones": [{"utc_h": 8, "share": 3}, {"utc_h": -4}], "from_h": 21,
    }  # fmt: skip
    (run,) = api.prepare(api.read(made)).runs
    everyone = np.arange(13)
    opening = run.federation.population.next_change(everyone, 0.0) / H
    # 21:00 at UTC+8 is 13:00 UTC; at UTC-4 it is 1:00 UTC, and 6:00 there 10:00 UTC
    assert sorted(opening.tolist()) == [1.0] * 3 + [13.0] * 10


WRONG = {
    "zones: found 2 numbers for 13 clients; give one for each": {"zones": [1, 2]},
    "zones: found both zones with shares and numbers": {"zones": [{"utc_h": 1}, 2]},
    r"zones: found \[\]; it should be a list of at least 1": {"zones": []},
    r"zones\.0: found 99": {"zones": [99]},
    r"zones\.1\.utc: unknown key 'utc'; did you mean 'utc_h'": {"zones": [{}, {"utc": 1}]},
    r"zones\.0\.share: found 0; it should be greater than 0": {"zones": [{"share": 0}]},
    "from_h 6 and to_h 6 are the same time of the day; change one, or use always": {"from_h": 6},
    "from_h 0 and to_h 24 are the same time of the day; change one, or use always": {
        "from_h": 0,
        "to_h": 24,
    },
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_settings_are_one_line(mixed, message):
    made = mixed()
    made["clients"]["availability"] = {"name": "diurnal", **WRONG[message]}
    with pytest.raises(ScenarioError, match=message) as caught:
        api.prepare(api.read(made))
    assert caught.value.place.startswith("clients.availability")
    assert "\n" not in str(caught.value)
