"""Any question may be asked in any order, at any time: the answers stay, and nothing changes."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rayfed.core.plugins import find
from rayfed.testing.checks import availability, delays, mobilities, topologies, walks
from rayfed.testing.examples import COUNT, examples

any_folder = [HealthCheck.function_scoped_fixture]  # examples may share it
some = settings(max_examples=25, deadline=None, suppress_health_check=any_folder)
few = settings(some, max_examples=8)
seconds = st.floats(0, 1e7)
rounds = st.integers(1, 5000)


def each(kind):
    return pytest.mark.parametrize("cls", find(kind).values(), ids=find(kind))


@each("delays")
@some
@given(u=st.lists(st.floats(1e-12, 1 - 1e-12), min_size=1, max_size=40))
def test_delays(cls, u, tmp_path):
    for delay in examples(cls, tmp_path):
        delays.check_pure(delay, u)


@each("availability")
@some
@given(questions=st.lists(st.tuples(seconds, rounds), min_size=1, max_size=8))
def test_availability(cls, questions, tmp_path):
    for value in examples(cls, tmp_path):
        availability.check_pure(value, questions)


@each("availability")
@some
@given(time_s=seconds, round=rounds)
def test_availability_changes_when_it_says(cls, time_s, round, tmp_path):
    for value in examples(cls, tmp_path):
        availability.require_announced_changes(value, time_s, round)


@each("mobilities")
@some
@given(times=st.lists(st.floats(0, 3000), min_size=1, max_size=5))
def test_mobilities(cls, times, tmp_path):
    for mobility in examples(cls, tmp_path):
        mobilities.check_pure(mobility, times)


@each("topologies")
@few
@given(moments=st.lists(st.tuples(st.integers(1, 200), st.floats(0, 2000)), min_size=1, max_size=4))
def test_topologies(cls, moments, tmp_path):
    for topology in topologies.variants(cls, tmp_path):
        topologies.check_pure(topology, moments)


@each("walks")
@some
@given(questions=st.lists(st.tuples(st.integers(0, COUNT - 1), rounds), min_size=1, max_size=20))
def test_walks(cls, questions, tmp_path):
    for walk in walks.variants(cls, tmp_path):
        walks.check_pure(walk, questions)
