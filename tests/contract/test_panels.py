"""What every panel of the page must keep, of whatever the search finds."""

from collections import Counter

import pytest

from rayfed.core.plugins import declared, find
from rayfed.report.panels import base
from rayfed.report.panels.base import Section
from rayfed.testing.checks import Skipped, checks

ALL = [
    pytest.param(cls, check, id=f"{name}-{label.removeprefix('check_')}")
    for name, cls in find("panels").items()
    for label, check in checks("panels").items()
]


@pytest.mark.parametrize(("cls", "check"), ALL)
def test_panel(cls, check, tmp_path):
    try:
        check(cls, tmp_path)
    except Skipped as reason:
        pytest.skip(str(reason))


def test_places_are_declared_and_of_one_panel_each():
    places = Counter((panel.section, panel.rank) for panel in base.find())
    assert set(places.values()) == {1}
    assert {panel.section for panel in base.find()} == set(Section)


def test_names_are_known_without_an_import():
    assert declared("panels") == tuple(find("panels"))
