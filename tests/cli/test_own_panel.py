"""A panel of the user's: a file in an empty folder, named on the command line."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rayfed
from tests.fakes.pages import body_of, data_of

PANEL = '''
from pathlib import Path

from markupsafe import Markup

from rayfed.report.panels.base import Panel, RunPanel, Section
from rayfed.report.figures.style import canvas

Path("imported").touch()


class Mine(Panel):
    """What I make of it."""

    name = "mine"
    section = Section.CLIENTS
    rank = -1

    def render(self):
        """Return how many runs there are."""
        return Markup("<h2 id='mine'>Mine: {} runs</h2>").format(len(self.results.runs_found))


class Steps(RunPanel):
    """The local steps of a run."""

    name = "steps"
    section = "Mine alone"

    def title(self, run):
        """Return how many there are."""
        return f"{run.name} took {run.rounds['local_steps'].sum():,} steps"

    def figure(self, run):
        """Return them by round."""
        figure = canvas(200)
        figure.add_scatter(x=run.rounds["round"].tolist(), y=run.rounds["local_steps"].tolist())
        return figure
'''
STUDY = {
    "problem": {"name": "least-squares", "dataset": {"name": "linear", "features": 3}},
    "algorithms": [{"name": "fedavg", "local": {"lr": 0.1}}],
    "clients": {"count": 3, "delay": {"name": "constant", "mean_s": 1}},
    "rounds": 2,
    "executor": "serial",
}


@pytest.fixture
def folder(tmp_path):
    rayfed.run(STUDY, out=tmp_path / "results" / "x", watch=False)
    (tmp_path / "mine.py").write_text(PANEL)
    return tmp_path


def command(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-P", "-m", "rayfed", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def written(folder):
    return (folder / "results" / "x" / "report.html").read_text("utf-8")


def test_a_panel_is_named_on_the_command_line(folder):
    before = body_of(written(folder))
    done = command(folder, "report", "results/x", "--panel", "mine:Mine", "--panel", "mine:Steps")
    assert done.returncode == 0, done.stderr
    page = written(folder)
    shown = body_of(page)
    # It stands first in its section, and nothing else of the page has changed.
    start = shown.index("<h2 id='mine'>Mine: 1 runs</h2>")
    assert shown.rindex("What did the clients do?", 0, start) < start < shown.index('id="timeline"')
    assert shown.index("Mine alone") < shown.index("What exactly was run?")
    for line in before.splitlines():
        assert line in shown
    steps = data_of(page)["panels"]["steps"]["runs"]
    assert re.fullmatch(r"fedavg took \d+ steps", steps[0]["title"])
    assert steps[0]["figure"]["data"][0]["x"] == [0, 1, 2]
    assert command(folder, "report", "results/x").returncode == 0
    assert body_of(written(folder)) == before


def test_reading_results_imports_no_panel(folder):
    results = folder / "results" / "x"
    (results / "mine.py").write_text(PANEL)
    note = json.loads((results / "fedavg-seed0" / "run.json").read_text())
    for settings in (note["scenario"], note["study"]):
        settings["panels"] = ["mine:Mine"]
    note.pop("digest", None)
    (results / "fedavg-seed0" / "run.json").write_text(json.dumps(note))
    scenario = results / "scenario.yaml"
    scenario.write_text(scenario.read_text() + "panels: ['mine:Mine']\n")
    assert command(folder, "report", "results/x").returncode == 0
    assert not (folder / "imported").exists()


@pytest.mark.parametrize(
    ("panel", "words"),
    [
        ("nothing:Here", "no module 'nothing'"),
        ("mine:Nothing", "has no 'Nothing'"),
        ("mine:Path", "is not a subclass of Panel"),
        ("os:system", "Python's own"),
        ("waste", "write module:Class"),
    ],
)
def test_a_wrong_name_is_one_line(folder, panel, words):
    before = written(folder)
    done = command(folder, "report", "results/x", "--panel", panel)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert written(folder) == before


def test_a_panel_is_checked_as_other_plugins_are(folder):
    done = command(folder, "test", "mine:Mine")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all checks passed" in done.stdout


def test_classes_are_given_in_python(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    from mine import Mine  # the file of this test

    page = rayfed.load(Path("results", "x")).report(panels=[Mine])
    assert "Mine: 1 runs" in page.read_text("utf-8")
    del sys.modules["mine"]
