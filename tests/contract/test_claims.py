"""Every published study: its claims are about what its parts run and record."""

from functools import cache
from pathlib import Path

import pytest

from rayfed.reproduce import studies
from rayfed.study import expand

find = cache(studies.find)  # a second for the longest
FILES = sorted((Path(__file__).parents[2] / "scenarios").glob("*.claims.yaml"))


def test_there_are_some():
    assert FILES


@pytest.mark.parametrize("length", ["short", "full"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_claims_fit_their_scenarios(path, length):
    study = find(str(path), length)  # checks labels, settings, columns and rounds
    assert study.claims.claims
    for each in study.studies.values():
        assert expand(each)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_source_has_a_link(path):
    assert "https://" in find(str(path), "full").every.source
