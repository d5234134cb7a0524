"""Traces of intervals: against a search through the file, repetition, dealing, and wrong files."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rayfed import api
from rayfed.core.errors import ScenarioError
from rayfed.population import AvailabilityTrace, PopulationInfo
from rayfed.population.availability.trace import alternating
from rayfed.testing.checks.availability import require_announced_changes

INTERVALS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 19), st.integers(1, 9)), min_size=1, max_size=8
)


def written(folder, text):
    file = folder / "trace.csv"
    file.write_text(text)
    return str(file)


@settings(max_examples=60, deadline=None)
@given(INTERVALS, st.sampled_from([None, 28, 40]), st.integers(0, 27), st.integers(0, 200))
def test_who_is_there_and_until_when_by_a_search_through_the_list(rows, repeat, shift, t):
    """All numbers are whole, so that changes come on whole seconds."""
    device, start, length = (np.array(part) for part in zip(*rows, strict=True))
    shift = shift if repeat else 0
    table = alternating(device, start * 1.0, (start + length) * 1.0, repeat)

    def there(which, now):
        local = (now - shift) % repeat if repeat else now
        return any(d == which and s <= local < s + n for d, s, n in rows)

    asked = np.arange(device.max() + 1)
    at = table.changes_until(asked, np.full(len(asked), float(shift)), float(t))
    change = table.time(asked, np.full(len(asked), float(shift)), at + 1)
    assert table.open_after(asked, at).tolist() == [there(d, t) for d in asked]
    horizon = range(t + 1, t + 2 * (repeat or 300))
    for which, found in zip(asked.tolist(), change.tolist(), strict=True):
        now = there(which, t)
        assert found == next((s for s in horizon if there(which, s) != now), np.inf)


def test_clients_of_the_file_and_the_others(tmp_path):
    trace = AvailabilityTrace(file=written(tmp_path, "client,start_s,end_s\n2,10,20\n0,0,5\n"))
    population, ids = PopulationInfo(5, 0), np.arange(5)
    assert np.flatnonzero(trace.available(ids, 12.0, 1, population)).tolist() == [2]
    assert trace.next_change(ids, 4.0, population).tolist() == [5.0, np.inf, 10.0, np.inf, np.inf]


def test_intervals_that_meet_over_the_end_of_the_trace_are_one(tmp_path):
    text = "client,start_s,end_s\n0,0,10\n0,90,100\n1,0,60\n1,60,100\n"
    trace, population = (
        AvailabilityTrace(file=written(tmp_path, text), repeat_s=100),
        PopulationInfo(2, 0),
    )
    assert trace.next_change(np.arange(2), 95.0, population).tolist() == [110.0, np.inf]
    assert trace.available(np.arange(2), 100.0, 1, population).all()


def test_devices_are_dealt_once_each_and_again_at_another_place(tmp_path):
    text = "device,start_s,end_s\n" + "".join(f"d{k},{k},{k + 1}\n" for k in range(10))
    few, many = PopulationInfo(10, 3), PopulationInfo(10_000, 3)
    trace = AvailabilityTrace(file=written(tmp_path, text), repeat_s=20)
    first = trace.next_change(np.arange(10), 0.0, few)
    there = trace.available(np.arange(10), 0.0, 1, few)
    assert sorted(first.tolist()) == [1, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert there.sum() == 1
    phase = trace.next_change(np.arange(10_000), 60.0, many)
    assert len(np.unique(phase)) > 9900
    on = int(trace.available(np.arange(10_000), 60.0, 1, many).sum())
    assert stats.binomtest(on, 10_000, 1 / 20).pvalue > 0.005


def test_shifts_may_be_multiples(tmp_path):
    text = "device,start_s,end_s\na,3,4\n"
    trace = AvailabilityTrace(file=written(tmp_path, text), repeat_s=20, shift_s=5)
    population = PopulationInfo(1000, 0)
    change = trace.next_change(np.arange(1000), 0.0, population)
    numbers = [int((change == s).sum()) for s in (3, 8, 13, 18)]
    assert sum(numbers) == 1000
    assert stats.chisquare(numbers).pvalue > 0.005


def test_multiples_of_more_than_half_the_trace_shift_too(tmp_path):
    text = "device,start_s,end_s\na,3,4\n"
    trace = AvailabilityTrace(file=written(tmp_path, text), repeat_s=20, shift_s=15)
    change = trace.next_change(np.arange(1000), 0.0, PopulationInfo(1000, 0))
    numbers = [int((change == s).sum()) for s in (3, 18)]
    assert sum(numbers) == 1000
    assert stats.chisquare(numbers).pvalue > 0.005


def test_phones_of_flash(traces):
    file = traces / "flash_availability_100.csv"
    table = pd.read_csv(file)
    population, ids = PopulationInfo(5000, 0), np.arange(5000)
    trace = AvailabilityTrace(file=str(file), repeat_s=864_000)
    share = (table["end_s"] - table["start_s"]).sum() / table["device"].nunique() / 864_000
    there = np.array([trace.available(ids, 86_400.7 * k, 1, population) for k in range(20)])
    assert there.mean() == pytest.approx(share, rel=0.1)
    known = table.groupby("device")["start_s"].count()
    alone = PopulationInfo(len(known), 0)
    changes = 0
    t = 0.0
    while t < 20_000 and changes < 100:
        t = float(trace.next_change(np.arange(len(known)), t, alone).min())
        changes += 1
    starts = table.loc[table["start_s"].between(0, 20_000), "start_s"]
    ends = table.loc[table["end_s"].between(0, 20_000), "end_s"]
    moments = np.unique(np.concatenate([starts, ends]))
    assert t in set(table["start_s"]) | set(table["end_s"])
    assert changes == min(100, int((moments > 0).sum()) + 1)


@settings(max_examples=4, deadline=None)
@given(st.floats(0, 1e6))
def test_changes_are_exact_where_the_trace_repeats_and_is_shifted(tmp_path_factory, time_s):
    file = written(tmp_path_factory.mktemp("trace"), "device,start_s,end_s\na,1.1,3.3\nb,0,5.7\n")
    require_announced_changes(AvailabilityTrace(file=file, repeat_s=7.7), time_s, 1)


def test_milliseconds(tmp_path):
    """The interval from 1.5 to 3 s."""
    trace = AvailabilityTrace(file=written(tmp_path, "client,start_ms,end_ms\n0,1500,3000\n"))
    alone, first = PopulationInfo(1, 0), np.array([0])
    assert [bool(trace.available(first, t, 1, alone)[0]) for t in (1.4, 1.5, 2.9, 3.0)] == [
        False, True, True, False,
    ]  # fmt: skip
    assert trace.next_change(first, 0.0, alone).tolist() == [1.5]


def test_a_trace_of_years_says_that_it_repeats(tmp_path):
    file = written(tmp_path, "client,start_s,end_s\n0,0,40000000\n")
    alone = PopulationInfo(1, 0)
    trace = AvailabilityTrace(file=file, repeat_s=50_000_000)
    assert trace.available(np.array([0]), 3.9e7, 1, alone).tolist() == [True]


WRONG = {
    "trace.csv: has the columns client, start_s; give client or device, start_s and end_s": (
        "client,start_s\n0,1\n",
        {},
    ),
    "trace.csv: row 2: the end, 5 s, is not after the start, 5 s; give the end": (
        "client,start_s,end_s\n0,1,2\n0,5,5\n",
        {},
    ),
    "trace.csv: row 1: start_s is '-1'": (
        "client,start_s,end_s\n0,-1,2\n",
        {},
    ),
    r"trace.csv: row 1: client is 0\.5": (
        "client,start_s,end_s\n0.5,1,2\n",
        {},
    ),
    "trace.csv: ends at 20 s, after repeat_s 10; give a longer": (
        "client,start_s,end_s\n0,1,20\n",
        {"repeat_s": 10},
    ),
    r"begins at 1\.7e\+09 s, which looks like seconds since 1970; subtract the time at which": (
        "client,start_s,end_s\n0,1700000000,1700000060\n",
        {},
    ),
    r"begins at 1\.7e\+12 s, which looks like milliseconds since 1970; subtract": (
        "client,start_s,end_s\n0,1700000000000,1700000060000\n",
        {"repeat_s": 86400},
    ),
    r"begins at 1\.7e\+09 s, which looks like seconds since 1970": (
        "client,start_ms,end_ms\n0,1700000000000,1700000060000\n",
        {},
    ),
    r"ends at 5\.184e\+08 s, after 16 years: are these milliseconds\? Call the columns start_ms": (
        "device,start_s,end_s\na,56808000,56818000\na,56844000,518400000\n",
        {},
    ),
    "after repeat_s 518400; give a longer repeat_s, or call the columns start_ms and end_ms": (
        "device,start_s,end_s\na,56808000,56818000\na,56844000,518400000\n",
        {"repeat_s": 518400},
    ),
    "trace.csv: has the columns start_s and start_ms; leave one out": (
        "client,start_s,start_ms,end_ms\n0,1,1,2\n",
        {},
    ),
    "found client 13": ("client,start_s,end_s\n13,1,2\n", {}),
    "trace.csv: row 2: device is empty": ("device,start_s,end_s\na,1,2\n,3,4\n", {}),
    "found 5; it goes with a longer repeat_s": ("client,start_s,end_s\n0,1,2\n", {"shift_s": 5}),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_files_are_one_line(tmp_path, mixed, message):
    text, more = WRONG[message]
    made = mixed()
    made["clients"]["availability"] = {"name": "trace", "file": written(tmp_path, text), **more}
    with pytest.raises(ScenarioError, match=message) as caught:
        api.read(made)
    assert caught.value.place.startswith("clients.availability.")
