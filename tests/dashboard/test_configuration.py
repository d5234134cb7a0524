"""Panels of the user's configuration."""

import pytest

from rayfed.core.errors import ScenarioError
from rayfed.dashboard.configuration import FILE, find, folder
from rayfed.report.panels import base

PANEL = """
from rayfed.report.panels.base import Panel


class Reach(Panel):
    name = "{0}"
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "rayfed").mkdir(parents=True)
    return tmp_path / "config" / "rayfed"


def test_the_folder_is_that_of_the_user(home, monkeypatch):
    assert folder() == home
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(folder()) == "/home/somebody/.config/rayfed"


def test_configured_panels_are_among_the_others(home):
    assert find() == base.find()
    (home / "dash_mine.py").write_text(PANEL.format("reach"))
    (home / FILE).write_text("panels: [dash_mine:Reach]\n")
    found = find()
    assert {panel.name for panel in found} - {panel.name for panel in base.find()} == {"reach"}


def test_modules_of_other_folders_are_not_imported(home, tmp_path, monkeypatch):
    """Also of the current one, which may be anybody's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dash_theirs.py").write_text("raise SystemExit('imported')")
    (home / FILE).write_text("panels: [dash_theirs:Reach]\n")
    with pytest.raises(ScenarioError, match="found 'dash_theirs:Reach'; give module:Class of a"):
        find()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("panels: mine:Panel", "found other content"),
        ("[mine:Panel]", "found other content"),
        ("panels: []\nviews: {}", "found other content"),
        ("panels: [3]", "found '3'; give module:Class"),
        ("panels: [../mine:Panel]", "give module:Class of a module in"),
        ("panels: [headline]", "give module:Class of a module in"),
        ("panels: [", "is not valid YAML"),
    ],
)
def test_another_configuration_is_refused(home, text, found):
    (home / FILE).write_text(text)
    with pytest.raises(ScenarioError, match=found):
        find()
